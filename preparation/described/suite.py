"""What a suite of a described data set asks for: rows of its table, protocol, and what it changes of the recipes."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pipeline import recipes
from pipeline.data_set import are_vectors, stays_files
from preparation.described.quick import SECOND_STAGE, Training

IMAGE_ROWS = [
    {"label": "Supervised (ceiling)", "recipe": "supervised", "assigner": "argmax", "control": True},
    {"label": "K-means on pixels", "recipe": "pixels", "assigner": "kmeans_raw", "control": True},
    {"label": "Untrained encoder + K-means (floor)", "recipe": "untrained", "assigner": "kmeans", "control": True},
    {"label": "Base SimCLR + K-means", "recipe": "simclr_base", "assigner": "kmeans"},
    {"label": "SimCLR + K-means", "recipe": "simclr", "assigner": "kmeans"},
    {"label": "MIX'EM + K-means", "recipe": "mixem", "assigner": "kmeans_components"},
    {"label": "MIX'EM max component", "recipe": "mixem", "assigner": "argmax"},
    {"label": "SCAN", "recipe": "scan", "assigner": "argmax"},
]
VECTOR_ROWS = [
    {"label": "K-means", "recipe": "pixels", "assigner": "kmeans_dec", "control": True},
    {"label": "Autoencoder + K-means", "recipe": "autoencoder", "assigner": "kmeans_dec"},
    {"label": "N2D", "recipe": "autoencoder", "assigner": "umap_gmm"},
    {"label": "DEC", "recipe": "dec", "assigner": "argmax"},
    {"label": "IDEC", "recipe": "idec", "assigner": "argmax"},
    {"label": "DCRL", "recipe": "dcrl", "assigner": "argmax"},
]
METRICS = ["ACC", "NMI", "ARI"]
WITHOUT_LABELS = ["occupied_clusters", "largest_share", "size_entropy"]
PIXELS = 1 << 30  # bytes of float32 that pixels may be as features
BATCHES = 4  # of an epoch, at least: with fewer rows batches are smaller
LEAST_BATCH = 8
# What a small network learns with where a family's ResNet is too slow: the ConvNet's optimiser of the grey families.
SMALL = {
    "network": {"backbone": "convnet", "widths": [16, 32, 64, 64], "pool_after": [0, 2]},
    "optimiser": {"lr": 1e-3},
}
SMALL_LARGE = {**SMALL, "network": {**SMALL["network"], "pool_after": [0, 1, 2]}}  # above 48 pixels
SMALL_BATCH = 128


def table_rows(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the table: the methods for this kind of data, and the controls that it allows."""
    if are_vectors(spec["shape"]):
        return VECTOR_ROWS
    pixels = sum(spec["splits"].values()) * int(np.prod(spec["shape"])) * 4
    left_out = {"supervised"} if list(spec["splits"]) == ["unlabeled"] else set()
    if stays_files(spec) or pixels > PIXELS:
        left_out.add("pixels")
    return [row for row in IMAGE_ROWS if row["recipe"] not in left_out]


def protocol(spec: Mapping[str, Any]) -> tuple[str, str]:
    """(name in config/protocols.yaml, why)."""
    splits = spec["splits"]
    if list(splits) == ["unlabeled"]:
        return "clusters", "no labels: clusters are counted and shown, not scored"
    if "unlabeled" in splits and not are_vectors(spec["shape"]):
        return "unlabeled", "train and unlabeled train, test is clustered and scored"
    if are_vectors(spec["shape"]):
        return "all", "as in the papers of the autoencoder family: everything trains and is scored"
    return "full", "as in MIX'EM's tables: images (not labels) of train and test train, test is clustered and scored"


def asked(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The recipes of a table's rows, each once. The bases are among them."""
    return list(dict.fromkeys(row["recipe"] for row in rows))


Overrides = dict[str, dict[str, Any]]


def overrides(name: str, spec: Mapping[str, Any], asked: list[str], rows: Mapping[str, int], small: bool) -> Overrides:
    """What every suite of the data set changes: bases of the same protocol, batches that fit the rows, with `small` the
    network that a CPU gets through.
    """
    changes: Overrides = {recipe: {} for recipe in asked}
    convnet = SMALL if max(spec["shape"][:2]) <= 48 else SMALL_LARGE
    for recipe, change in changes.items():
        plain = recipes.resolve(recipe, name)
        if (plain.get("base") or {"protocol": "same"})["protocol"] != "same" and list(spec["splits"]) != ["unlabeled"]:
            change["base"] = {"protocol": "same"}
        batch = plain["batch_size"]
        if small and plain["network"]["backbone"].startswith("resnet"):
            change |= convnet
            batch = min(batch, SMALL_BATCH)
        fits = 1 << (max(rows[recipe] // BATCHES, 1)).bit_length() - 1  # the largest power of two
        batch = min(batch, max(fits, LEAST_BATCH))
        if batch != plain["batch_size"] and plain["schedule"]["epochs"]:
            change["batch_size"] = batch
    return {recipe: change for recipe, change in changes.items() if change}


def training_rows(spec: Mapping[str, Any], asked: list[str], total: int | None = None) -> dict[str, int]:
    """Rows that each recipe trains on; of `total` rows in all where the suite takes a subset."""
    splits = spec["splits"]
    name = protocol(spec)[0]
    used = {"clusters": ["unlabeled"], "unlabeled": ["train", "unlabeled"], "full": ["train", "test"]}
    sizes = used.get(name, [split for split in splits if split != "unlabeled"])
    share = 1 if total is None else total / sum(splits.values())
    found = {recipe: round(sum(splits[split] for split in sizes) * share) for recipe in asked}
    if "supervised" in found:
        found["supervised"] = round(splits["train"] * share)
    return found


def trainings(name: str, asked: list[str], rows: Mapping[str, int]) -> dict[str, Training]:
    """What a suite trains, at the recipes' own length."""
    found = {}
    resolved = {recipe: recipes.resolve(recipe, name) for recipe in asked}
    longest = resolved.get("autoencoder", {}).get("schedule", {}).get("epochs")
    for recipe, plain in resolved.items():
        epochs = plain["schedule"]["epochs"]
        if not epochs:
            continue
        base = plain["base"]["recipe"] if plain.get("base") else None
        share = epochs / longest if longest else SECOND_STAGE if recipe != "simclr_base" else 1.0
        cost = 0.5 if recipe == "supervised" else 1.0  # one view in place of two
        found[recipe] = Training(epochs, rows[recipe], base, cost, share)
    return found


def shorter(name: str, epochs: Mapping[str, int]) -> Overrides:
    """Schedules of so many epochs; what a recipe counts in epochs keeps its share."""
    changes: Overrides = {}
    for recipe, wanted in epochs.items():
        plain = recipes.resolve(recipe, name)
        schedule, settings = plain["schedule"], plain["settings"]
        own = schedule["epochs"]
        if wanted == own:
            continue
        held = {"hold_epochs": round(schedule["hold_epochs"] * wanted / own)} if schedule.get("hold_epochs") else {}
        changes[recipe] = {"schedule": {"epochs": wanted, **held}}
        counted = {
            key: max(1, round(settings[key] * wanted / own))
            for key in ("start_epoch", "ramp_epochs")
            if key in settings
        }
        if counted:
            changes[recipe]["settings"] = counted
    return changes


def together(*several: Overrides) -> Overrides:
    """Changes laid one over the other, recipe by recipe."""
    merged: Overrides = {}
    for changes in several:
        for recipe, change in changes.items():
            merged[recipe] = {**merged.get(recipe, {}), **change}
    return merged
