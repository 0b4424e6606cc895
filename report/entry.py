"""What MLflow is told of one finished run: parameters, tags, curves, a few numbers, and when all that was.

MLflow draws a chart for every metric, so only these are metrics: the columns of history.csv, a point for each epoch;
the numbers that the suite's tables show; and beside them ACC, NMI and ARI of one assigner, by which runs can be sorted
whatever clusters them. All that was measured is in the files that go with the run.
"""

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.provenance import fingerprint
from report.contents import Contents

LAYOUT = 2  # of what is mirrored: runs of another one are mirrored anew
SORTED = ("ACC", "NMI", "ARI")
OF_MACHINE = ("seconds", "images_per_s")  # MLflow shows what begins with system/ apart from losses
Point = tuple[str, float, int, int]  # name, value, epoch, milliseconds


@dataclass(frozen=True)
class Entry:
    """One run as MLflow holds it; `shown`: key of each result that a table shows -> its metrics, first row first."""

    contents: Contents
    run: Mapping[str, Any]  # dataset, protocol, recipe, seed

    @property
    def shown(self) -> Mapping[str, list[str]]:
        """Result, as `clustering/kmeans` or `linear` -> the metrics that tables show of it."""
        return self.run["shown"]

    @property
    def state(self) -> str:
        """A hash of all that is mirrored."""
        return fingerprint(layout=LAYOUT, contents=self.contents.state, shown=[*self.shown.items()])

    @property
    def assigner(self) -> str | None:
        """The assigner whose ACC, NMI and ARI stand without a prefix: the first that the suite's tables ask for."""
        return next((key.partition("/")[2] for key in self.shown if key.startswith("clustering/")), None)

    @property
    def ended(self) -> int:
        """When the training ended, in milliseconds."""
        return milliseconds(self.contents.ended)

    @property
    def started(self) -> int:
        """When it began; of one that was interrupted, as if it had not been."""
        seconds = self.contents.records["train"].get("seconds", 0.0)
        return self.ended - round(1000 * max(seconds, sum(map(_seconds, self.contents.history))))

    @property
    def evaluated(self) -> int:
        """When the last of its results was there."""
        return max([self.ended, *(self._when(key) for key in self.contents.results)])

    def params(self) -> dict[str, str]:
        """Recipe and protocol as the training had them."""
        train = self.contents.records["train"]
        settings = {name: train["settings"][name] for name in ("recipe", "protocol")} | {"seed": train["seed"]}
        settings |= {
            "base_seed": train.get("base_seed"),
            "data": self.contents.records["prepare"]["settings"]["name"],
        }
        return {allowed(name): str(value)[:6000] for name, value in _flat(settings)}

    def tags(self) -> dict[str, str]:
        """By which runs are found and grouped, and where a number is not finite."""
        train = self.contents.records["train"]
        tags = {name: str(self.run[name]) for name in ("dataset", "protocol", "recipe", "seed")}
        tags |= {"status": train["status"], "device": train["device"], "code": train["code"]}
        if self.assigner:
            tags["assigner"] = self.assigner
        if train["git"]:
            tags["mlflow.source.git.commit"] = train["git"]["commit"]
        return tags | {allowed(name): text[:5000] for name, text in self._not_finite().items()}

    def points(self) -> Iterator[Point]:
        """Every finite metric."""
        yield from ((allowed(name), *rest) for name, *rest in self._all() if math.isfinite(rest[0]))  # type: ignore[misc]

    def _all(self) -> Iterator[Point]:
        left = sum(map(_seconds, self.contents.history))
        for row in self.contents.history:
            left -= _seconds(row)
            epoch, at = int(row["epoch"]), self.ended - round(1000 * left)
            for name, value in row.items():
                if name != "epoch":
                    yield f"{'system' if name in OF_MACHINE else 'train'}/{name}", value, epoch, at
        for key, result in self.contents.results.items():
            for name in self.shown.get(key.removesuffix("/seen"), ()):
                if isinstance(result.get(name), int | float):
                    yield f"{key}/{name}", float(result[name]), 0, self._when(key)
        key = f"clustering/{self.assigner}"
        for name in SORTED:
            if isinstance(value := self.contents.results.get(key, {}).get(name), int | float):
                yield name, float(value), 0, self._when(key)

    def _when(self, key: str) -> int:
        """When a result was there; of one that does not say, when the training ended."""
        key = key.removesuffix("/seen")
        stage = f"score/{key.removeprefix('clustering/')}" if key.startswith("clustering/") else f"probe/{key}"
        try:
            return milliseconds(datetime.datetime.fromisoformat(self.contents.records[stage]["ended"]))
        except (KeyError, TypeError, ValueError):
            return self.ended

    def _not_finite(self) -> dict[str, str]:
        """Tag -> where a number is inf or nan: a store turns inf into 1.8e308 and refuses or loses nan."""
        found: dict[str, list[str]] = {}
        for name, value, epoch, _ in self._all():
            if not math.isfinite(value):
                found.setdefault(f"{name} not finite", []).append(f"{value} in epoch {epoch}")
        for key, result in self.contents.results.items():
            if result.get("undefined"):
                found[f"{key} not finite"] = list(result["undefined"])
        return {name: ", ".join(texts) for name, texts in found.items()}


def _seconds(row: Mapping[str, float]) -> float:
    """What an epoch took, as far as history.csv says so."""
    seconds = row.get("seconds", 0.0)
    return seconds if math.isfinite(seconds) else 0.0


def milliseconds(time: datetime.datetime) -> int:
    """Since 1970, as MLflow counts."""
    return int(time.timestamp() * 1000)


def allowed(name: str) -> str:
    """A name that MLflow takes: of the marks that ours have, it refuses "@"."""
    return name.replace("@", " at ")


def _flat(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    found = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", value))
    return found
