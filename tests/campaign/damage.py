"""Files that were cut off, lost a bit, or belong to another run: refused by path with the cure, or made anew."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import RUNS
from tests.campaign.stages import Finished

RUN, OTHER = f"{RUNS}/simclr_base/seed0", f"{RUNS}/simclr/seed0"
CURE = re.compile(r"\b(delete|again|anew|prepare|ask snakemake)\b")
FEATURES = ("mine simclr_base", "assign simclr_base", "evaluate simclr_base")


@dataclass(frozen=True)
class Kind:
    """A kind of file: its `path` below the results folder, one of the same kind, and the stages that read it.

    `flips`: how many of its bits are flipped, each for itself. `costs`: whether damage costs a table its cell, and is
    told as a warning, instead of ending the stage.
    """

    name: str
    path: str
    other: str
    readers: tuple[str, ...]
    flips: int = 3
    costs: bool = False


KINDS = [
    Kind("card.json", "data/digits_200/card.json", f"{RUN}/train.json",
         ("embed simclr_base", *FEATURES, "train simclr_base"), 12),
    Kind("images.npy", "data/digits_200/images.npy", "data/digits_200/labels.npy",
         ("embed simclr_base", "train simclr_base")),
    Kind("labels.npy", "data/digits_200/labels.npy", "data/digits_200/images.npy", ("embed simclr_base", *FEATURES)),
    Kind("model.pt", f"{RUN}/model.pt", f"{OTHER}/model.pt", ("embed simclr_base", "train mixem")),
    Kind("train.json", f"{RUN}/train.json", f"{OTHER}/train.json", ("embed simclr_base", "train mixem"), 12),
    Kind("features.npz", f"{RUN}/features.npz", f"{OTHER}/features.npz", FEATURES),
    Kind("features.json", f"{RUN}/features.json", f"{OTHER}/features.json", FEATURES, 12),
    Kind("clusters.npz", f"{RUN}/clusters/kmeans.npz", f"{OTHER}/clusters/kmeans.npz", ("evaluate simclr_base",)),
    Kind("clusters.json", f"{RUN}/clusters/kmeans.json", f"{OTHER}/clusters/kmeans.json",
         ("evaluate simclr_base",), 12),
    Kind("neighbours.npz", f"{RUN}/neighbours/z-20-train+test.npz", f"{RUN}/features.npz", ("train scan",)),
    Kind("neighbours.json", f"{RUN}/neighbours/z-20-train+test.json", f"{RUN}/features.json", ("train scan",), 12),
    Kind("metrics", f"{RUN}/metrics/clustering/kmeans.json", f"{OTHER}/metrics/clustering/kmeans.json",
         ("tabulate ",), 12, costs=True),
    Kind("history.csv", f"{RUN}/history.csv", f"{OTHER}/history.csv", ("plot digits_history",)),
    Kind("snapshots.npz", f"{RUN}/snapshots.npz", f"{RUN}/clusters/kmeans.npz", ("plot digits_history",)),
    Kind("plan", ".plan/", f"{RUN}/metrics.json", ("tabulate ",), 12),
]  # fmt: skip


def cut(path: Path, chance: random.Random) -> None:
    """Cut off at a random place, as by a full disk."""
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def flip(path: Path, chance: random.Random) -> None:
    """Flip one random bit."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


class Damage:
    """One kind of file in a copy of finished results, damaged and put back again and again."""

    def __init__(self, kind: Kind, truth: Path, folder: Path, chance: random.Random):
        self.kind, self.truth, self.folder, self.chance = kind, truth, folder, chance
        self.results = folder / "results/smoke"
        shutil.copytree(truth, self.results, symlinks=True, ignore=shutil.ignore_patterns("ml*", "logs"))
        self.path = self.results / kind.path
        if kind.path.endswith("/"):
            self.path = next(self.path.glob("table2-*.json"))
        self.outcome, self.refused, self.anew = Outcome(), 0, 0

    def swap(self, path: Path, _: random.Random) -> None:
        """Another file of the kind."""
        shutil.copy(self.truth / self.kind.other, path)

    def ways(self) -> Iterator[Callable[[Path, random.Random], None]]:
        yield from (cut, self.swap, *[flip] * self.kind.flips)

    def all(self) -> Outcome:
        content = self.path.read_bytes()
        for number, way in enumerate(self.ways()):
            way(self.path, self.chance)
            for reader in self.kind.readers:
                self.read(reader, f"{way.__name__} {number}")
            self.path.write_bytes(content)
        self.outcome.seen = f"{self.refused} times refused, {self.anew} times made with the same bits"
        return self.outcome

    def read(self, reader: str, what: str) -> None:
        """A reader of the damaged file refuses it, or makes the same as ever."""
        out = self.folder / "out"
        finished = Finished(self.results, self.truth, out)
        if out.is_dir():
            shutil.rmtree(out)
        ended = finished.run(reader)
        where = f"{self.kind.name}, {what}, read by {reader.strip()}"
        told = ended.refusal
        if self.kind.costs and ended.status == 0:
            told = next((text for text in ended.said.splitlines() if text.startswith("warning: ")), "")
        if ended.status:
            require(bool(told), f"{where}: no one line: {ended.said[-600:]}")
        if told:
            require(self.path.parent.as_posix() in told or self.kind.costs, f"{where}: the path is not named: {told}")
            require(bool(CURE.search(ended.said)), f"{where}: no cure is named: {told}")
            self.outcome.tell(told.replace(f"{self.folder}/", ""))
            self.refused += 1
        else:
            wrong = list(finished.differences(reader))
            require(not wrong, f"{where}: exit status 0, but {', '.join(wrong)}")
            self.anew += 1


def _case(kind: Kind) -> Case:
    def happens(setting: Setting) -> Outcome:
        outcome = Damage(kind, setting.finished / "results/smoke", setting.folder, setting.chance).all()
        outcome.told = dict(list(outcome.told.items())[:3])
        return outcome

    return Case(f"damaged-{kind.name}", f"cut off, of another run, {kind.flips} flipped bits: {kind.path}", happens)


CASES = [_case(kind) for kind in KINDS]
