"""Own data as people have them, and a description of them in this process."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline import catalogue
from pipeline.plan import Plan
from pipeline.record import Record, run_stage
from preparation import describe
from preparation.prepared import Prepared, open_prepared, write_prepared
from preparation.readers import read

KINDS = ("crow", "owl")


@dataclass
class Described:
    """What a description wrote below `own`."""

    own: Path
    screen: str

    def file(self, path):
        return catalogue.read_yaml(self.own / f"{path}.yaml")

    def files(self):
        return sorted(str(path.relative_to(self.own)) for path in self.own.rglob("*") if path.is_file())

    def plan(self, name):
        """Every entry that the suite names is checked against its schema."""
        default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
        return Plan(default | self.file(f"suites/{name}"))

    def prepared(self, name, out) -> Prepared:
        """The data set through stage prepare's reader and checks."""
        spec, root = catalogue.entry("data set", name), Path(self.file(f"suites/{name}")["data_root"])
        raw, record = read(spec, root, False), Record("prepare", ("preparation.prepare",), {}, {})
        write_prepared(out, name, spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root,
                       raw.class_names)  # fmt: skip
        return open_prepared(out)


def run(monkeypatch, capsys, tmp_path, *words, rate=100_000) -> Described:
    """Describe, as the command line does, at a speed that is given; SystemExit for what is refused."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    monkeypatch.delenv("BENCH_DATA_ROOT", raising=False)
    speed = [] if rate is None else ["--rows-per-second", str(rate)]
    monkeypatch.setattr(sys, "argv", ["describe", *map(str, words), *speed, "--cores", "2"])
    run_stage(describe.main)
    return Described(tmp_path / "own", capsys.readouterr().out)


def picture(path, number=0, size=(12, 10), mode="RGB"):
    """A file of noise; `size` is width and height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = len(mode)
    noise = np.random.default_rng(number).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    Image.fromarray(noise[..., 0] if channels == 1 else noise).save(path)


def pictures(folder, classes=KINDS, count=15, **how):
    for place, name in enumerate(classes):
        for number in range(count):
            picture(folder / name / f"{number:02}.png", 100 * place + number, **how)


def table(path, separator=",", header=True, rows=40):
    """A table of two measures and the kind of a bird."""
    values = np.random.default_rng(0).normal(size=(rows, 2))
    lines = [separator.join((f"{a:.4f}", f"{b:.4f}", KINDS[row % 2])) for row, (a, b) in enumerate(values)]
    path.write_text("\n".join([separator.join(("wing", "beak", "kind"))] * header + lines) + "\n")
    return values
