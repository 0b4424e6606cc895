"""Stages that fail: one that raises, one that diverges, one seed of two. Only their own cells may suffer."""

import csv
from pathlib import Path

import yaml

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import QUIET, RESULTS, TABLE, Site, line
from tests.conftest import SMOKE
from training.seeds import derive

METHOD = "methods/mixem.py"
RAISING = "raise RuntimeError('made to fail')"
SHORT = {
    "title": "Short", "metrics": ["ACC"],
    "rows": [{"label": "pixels", "recipe": "pixels", "assigner": "kmeans_raw"},
             {"label": "supervised", "recipe": "supervised", "assigner": "argmax"}],
}  # fmt: skip


def _made_to_raise(path: Path, function: str, statement: str) -> str:
    """Put a statement at the beginning of a function of a file; returns the text before."""
    text = path.read_text(encoding="utf-8")
    place = text.index(":\n", text.index(f"    def {function}(")) + 2
    path.write_text(f"{text[:place]}        {statement}\n{text[place:]}", encoding="utf-8")
    return text


def _cells(path: Path) -> dict[str, dict[str, str]]:
    """Label -> row of a table."""
    with open(path, encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def _require_others(site: Site, setting: Setting, path: Path, failed: str) -> str:
    """Every row that is not of the failed recipe is as in an unbroken run; the notes of the failed one."""
    found, unbroken = _cells(path), _cells(setting.finished / TABLE)
    require(found.keys() == unbroken.keys(), f"{path.name} has rows {list(found)}")
    notes = ""
    for label, row in found.items():
        if row["recipe"] == failed:
            require(row["digits (200) ACC"] == "", f"{label} has a value although its run failed")
            notes = row["notes"]
        else:
            for column in ("digits (200) ACC", "digits (200) NMI", "digits (200) ARI"):
                require(row[column] == unbroken[label][column], f"{label}: {column} is {row[column]}")
    return notes


def raising(setting: Setting) -> Outcome:
    """A method raises; then it is mended."""
    site = Site.copy(setting.finished, setting.folder)
    method = site.root / METHOD
    text = _made_to_raise(method, "losses", RAISING)
    page = site.results / "report" / "index.html"
    status, said = site.make(*QUIET, target=f"{RESULTS}/report/index.html", traceback=True)
    require(status != 0, "a failed stage did not fail the run")
    outcome = Outcome()
    outcome.tell(line(said, "RuntimeError: made to fail"))
    partial = site.results / "table2.partial.csv"
    outcome.tell(f"notes of {partial.name}: {_require_others(site, setting, partial, 'mixem')}")
    failed = page.with_suffix(".partial.html")
    require("made to fail" in failed.read_text(encoding="utf-8"), f"{failed.name} does not say what failed")
    method.write_text(text, encoding="utf-8")
    site.made(*QUIET, target=f"{RESULTS}/report/index.html")
    site.require_table(Site(setting.finished).table())
    require(not partial.exists(), f"{partial.name} stayed beside the whole table")
    require(page.exists() and not failed.exists(), f"{failed.name} stayed beside the whole page")
    outcome.seen = f"exit status {status}, every other cell in {partial.name}; mended: the same table"
    return outcome


def diverging(setting: Setting) -> Outcome:
    """A learning rate of a million: a result of its own, not a failed run."""
    site = Site.copy(setting.finished, setting.folder)
    suite = yaml.safe_load((site.root / SMOKE).read_text(encoding="utf-8"))
    suite["overrides"]["mixem"]["optimiser"] = {"lr": 1e6}
    (site.root / SMOKE).write_text(yaml.safe_dump(suite), encoding="utf-8")
    said = site.made(*QUIET)
    notes = _require_others(site, setting, site.root / TABLE, "mixem")
    outcome = Outcome("exit status 0, every other cell as before, the diverged one empty")
    outcome.tell(line(said, "warning: .*diverged"))
    outcome.tell(f"notes of table2.csv: {notes}")
    return outcome


def one_seed(setting: Setting) -> Outcome:
    """One seed of two fails: the other seed's mean is there, and the cause."""
    site = Site.copy(setting.finished, setting.folder)
    (site.root / "config/tables/short.yaml").write_text(yaml.safe_dump(SHORT), encoding="utf-8")
    # The weights of each seed are drawn from a stream of their own, which is how a method can tell seeds apart.
    guard = f"if __import__('torch').initial_seed() == {derive(1, 'weights')}: {RAISING}"
    _made_to_raise(site.root / "methods/supervised.py", "__init__", guard)
    words = ("--config", "track=false", "tables=[short]", "seeds=[0,1]")
    status, said = site.make(*words, target=f"{RESULTS}/short.csv", traceback=True)
    require(status != 0, "a failed seed did not fail the run")
    require(not (site.results / "short.csv").exists(), "a table that misses a seed has the name of a whole one")
    rows = _cells(site.results / "short.partial.csv")
    seeds = {label: row["digits (200) ACC n"] for label, row in rows.items()}
    require(seeds == {"pixels": "2", "supervised": "1"}, f"seeds behind the cells: {seeds}")
    outcome = Outcome(f"exit status {status}; short.partial.csv: both seeds of pixels, one of supervised")
    outcome.tell(line(said, "RuntimeError: made to fail"))
    outcome.tell(f"notes of short.partial.csv: {rows['supervised']['notes']}")
    return outcome


CASES = [
    Case("stage-raises", f"{METHOD} raises in training", raising),
    Case("stage-diverges", "mixem with a learning rate of a million", diverging),
    Case("one-seed-fails", "seed 1 of supervised raises, seed 0 does not", one_seed),
]
