"""Data sets and costs as the report page shows them: cards of prepared data, and the seconds that the results took."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pipeline.record import StageError, read_json
from pipeline.runs import Run
from report.causes import recorded
from report.page_tables import minute

LONGEST = 200  # characters of a note that are shown; a card may list its rows
STAGES = {"prepare": "prepare", "train": "train", "embed": "embed", "mine": "mine", "assign": "assign",
          "score": "evaluate", "probe": "evaluate"}  # fmt: skip
DATA = "(data sets)"  # the line of costs of what belongs to no recipe


@dataclass(frozen=True)
class Card:
    """One prepared data set; `problem` in place of all else where its card cannot be read or is of other data."""

    name: str
    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    splits: tuple[tuple[str, int], ...] = ()  # (name, rows)
    classes: tuple[tuple[str, tuple[int | str, ...]], ...] = ()  # (name of the class, rows in each split)
    problem: str = ""


@dataclass(frozen=True)
class Costs:
    """Seconds by recipe and stage, of all results that are as the plan expects them."""

    stages: list[str]
    rows: list[tuple[str, list[float | None], float, int]]  # (recipe, seconds by stage, their sum, models trained)
    left_out: int  # files whose records are missing or of something else

    @property
    def totals(self) -> list[float]:
        """By stage, then of all."""
        by_stage = [sum(row[1][column] or 0.0 for row in self.rows) for column in range(len(self.stages))]
        return [*by_stage, sum(by_stage)]


def cards(sources: Iterable[Mapping[str, str]]) -> list[Card]:
    """The card of every data set among the sources of a suite's results."""
    return [_card(source) for source in sources if source["stage"] == "prepare"]


def _card(source: Mapping[str, str]) -> Card:
    name = source["record"].split("/")[-2]
    try:
        card = read_json(source["record"])
        if card["record"]["fingerprint"] != source["fingerprint"]:
            return Card(name, problem="stale: prepared with other code, settings or files")
        return _shown(name, card)
    except StageError as problem:
        return Card(name, problem=str(problem))
    except (KeyError, TypeError, ValueError, AttributeError):
        return Card(name, problem=f"{source['record']}: no data card; delete it and run stage prepare again")


def _shown(name: str, card: Mapping[str, Any]) -> Card:
    record, counts = card["record"], card.get("counts") or {}
    splits = {split: end - begin for split, (begin, end) in card["splits"].items()}
    facts = {
        "source": card["source"],
        "shape": " × ".join(map(str, card["shape"])),
        "rows": f"{sum(splits.values()):,}",
        "classes": card["classes"],
        "normalisation": "; ".join(f"{key} {_text(value)}" for key, value in (card.get("normalisation") or {}).items()),
        "content": record.get("content"),
        "fingerprint": record["fingerprint"],
        "code": record.get("code"),
        "source files": record.get("sources"),
        "prepared, UTC": minute(record.get("ended", "")),
        **{f"sha256 of {file}": held for file, held in card.get("sha256", {}).items()},
        **{key.replace("_", " "): _text(value) for key, value in (card.get("notes") or {}).items()},
    }
    names = card.get("class_names") or ()
    by_class = zip_longest(*(counts.get(split) or () for split in splits), fillvalue="")
    classes = [(str(names[at]) if at < len(names) else str(at), tuple(each)) for at, each in enumerate(by_class)]
    said = tuple((key, str(value)) for key, value in facts.items() if value not in (None, ""))
    title = record.get("settings", {}).get("title", name)
    return Card(name, title, said, tuple(splits.items()), tuple(classes))


def _text(value: Any) -> str:
    """A value of a card; a long one is cut."""
    if isinstance(value, list):
        text = ", ".join(map(str, value))
        return text if len(text) <= LONGEST else f"{len(value):,} values: {text[:60]}..."
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def costs(sources: Iterable[Mapping[str, str]]) -> Costs:
    """What the results cost when they were made: each job of each run once, whoever started from it."""
    spent: dict[str, dict[str, float]] = {}
    trained: dict[str, int] = {}
    left_out = 0
    for source in sources:
        record = recorded(source)
        if record.get("fingerprint") != source["fingerprint"] or "seconds" not in record:
            left_out += 1
            continue
        stage = STAGES[source["stage"].partition("/")[0]]
        recipe = DATA if stage == "prepare" else Run.at(source["record"]).recipe
        by_stage = spent.setdefault(recipe, {})
        by_stage[stage] = by_stage.get(stage, 0.0) + record["seconds"]
        trained[recipe] = trained.get(recipe, 0) + (stage == "train")
    stages = [stage for stage in dict.fromkeys(STAGES.values()) if any(stage in found for found in spent.values())]
    rows = [
        (recipe, [found.get(stage) for stage in stages], sum(found.values()), trained[recipe])
        for recipe, found in spent.items()
    ]
    return Costs(stages, rows, left_out)
