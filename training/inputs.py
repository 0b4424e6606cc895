"""What a training reads before anything is built: data, recipe, rows, the base's model, mined neighbours."""

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pipeline.catalogue import entry_or_json
from pipeline.data_files import DataFiles, named_files
from pipeline.recipes import resolve_or_json, splits_read
from pipeline.record import StageError, read_records
from preparation.prepared import Prepared, check_made_from, open_prepared
from training.mine import read_neighbours
from training.weights import read_model


@dataclass
class Inputs:
    """Everything that is read, checked against what the recipe asks for, and the fingerprints of what it came from."""

    data: Prepared
    recipe: dict[str, Any]
    splits: dict[str, Any]  # the part of the protocol that training reads
    rows: np.ndarray  # [N] of the data set: the rows that train
    base: dict[str, Any] | None  # the base's model.pt, with its seed
    fingerprints: dict[str, str] = field(default_factory=dict)  # input -> fingerprint of the stage that made it
    neighbours: Tensor | None = None  # [N, k + 1]
    watched: tuple[np.ndarray, Tensor] | None = None  # scored rows, and their neighbours

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the stage's record."""
        return {"recipe": self.recipe, "protocol": self.splits}


def read_inputs(arguments: argparse.Namespace) -> Inputs:
    """Read what the command line of stage `train` names; StageError for what is missing or of other data."""
    data = open_prepared(arguments.data)
    recipe = resolve_or_json(arguments.recipe, data.card["name"])
    protocol_name, protocol = entry_or_json("protocol", arguments.protocol)
    splits = splits_read(recipe, protocol_name, protocol)
    rows = data.rows(splits["train"])
    if "labels" in recipe:
        rows = labelled_rows(data, rows, recipe["labels"])
    base = read_base(recipe, arguments.base, data)
    inputs = Inputs(data, recipe, splits, rows, base, {"data": data.card["record"]["fingerprint"]})
    if base:
        inputs.fingerprints["base"] = base["fingerprint"]
    files = DataFiles(None)
    named = named_files(recipe, os.environ.get("BENCH_DATA_ROOT"), os.environ.get("BENCH_WEIGHTS_ROOT"))
    inputs.fingerprints |= {use: files.file(path) for use, path in named.items()}
    for option, path, wanted in (
        ("neighbours", arguments.neighbours, "neighbours" in recipe),
        ("watched", arguments.watched, "score" in splits),
    ):
        if wanted != bool(path):
            raise StageError(
                f"recipe {recipe['name']!r} {'needs' if wanted else 'uses no'} {option}: "
                f"{'give their file as' if wanted else 'leave out'} --{option}"
            )
    if arguments.neighbours:
        inputs.neighbours, inputs.fingerprints["neighbours"] = read_neighbours(arguments.neighbours, rows, data)
    if arguments.watched:
        scored = data.rows(splits["score"])
        near, inputs.fingerprints["watched"] = read_neighbours(arguments.watched, scored, data)
        inputs.watched = scored, near
    return inputs


def labelled_rows(data: Prepared, rows: np.ndarray, wanted: dict[str, Any]) -> np.ndarray:
    """The part of `rows` whose labels may be used: a share of each class, the same for every seed, or listed files."""
    if "list" in wanted:
        path = Path(os.environ.get("BENCH_DATA_ROOT", ""), wanted["list"])
        if not path.is_file() or data.root is None:
            raise StageError(f"labels.list: {path} must be a file, and the data set one of image files")
        names = set(path.read_text(encoding="utf-8").split())
        kept = [row for row in rows if Path(str(data.images[row])).name in names]
        if len(kept) != len(names):
            raise StageError(f"{path}: {len(names)} files named, {len(kept)} of them are in the training splits")
        return np.array(kept)
    generator = np.random.default_rng(0)
    shares = []
    for label in np.unique(data.labels[rows][data.labels[rows] >= 0]):
        members = generator.permutation(rows[data.labels[rows] == label])
        shares.append(members[: max(1, round(wanted["fraction"] * len(members)))])
    return np.sort(np.concatenate(shares))


def read_base(recipe: dict[str, Any], path: str | None, data: Prepared) -> dict[str, Any] | None:
    """The base model that the recipe starts from, with its seed, or None."""
    if recipe.get("base") is None:
        if path:
            raise StageError(f"recipe {recipe['name']!r} names no base, but --base {path} was given: leave it out")
        return None
    if not path:
        raise StageError(
            f"recipe {recipe['name']!r} starts from {recipe['base']['recipe']!r}: give its model as --base"
        )
    if not Path(path).is_file():
        raise StageError(f"{path}: base model not found; train {recipe['base']['recipe']!r} first")
    records = read_records(Path(path).with_name("train.json"), "prepare", "train")
    if records["prepare"]["settings"]["name"] == data.card["name"]:  # a base may have been trained on another data set
        check_made_from(data, records, path)
    record = records["train"]
    return read_model(path, record) | {"fingerprint": record["fingerprint"], "seed": record["seed"]}
