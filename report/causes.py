"""Why a result is not there: which of the stages behind it ended without one, and the last words of its log."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.log_files import last_line
from pipeline.record import StageError, read_json


def undone(run: Mapping[str, Any]) -> list[dict[str, str]]:
    """The sources of a run's result (pipeline/sources.py) whose records are missing, unreadable or differ from the
    plan, upstream first.
    """
    return [source for source in run.get("sources", []) if recorded(source).get("fingerprint") != source["fingerprint"]]


def cause(run: Mapping[str, Any]) -> str:
    """In words, what kept a run from its result; empty where all that is to be made is there, but of something else.

    A job that fails leaves its log but none of its outputs; a job that never started leaves neither.
    """
    absent = [source for source in undone(run) if not Path(source["output"]).exists()]
    for source in absent:
        if Path(source["log"]).is_file():
            return f"stage {source['stage']} did not finish: {last_line(source['log'])} ({source['log']})"
    return f"stage {absent[0]['stage']} never started" if absent else ""


def recorded(source: Mapping[str, str]) -> Mapping[str, Any]:
    """The record of a source's stage, empty where none can be read."""
    try:
        stored = read_json(source["record"])
        # A data card holds one record, a run's files one for every stage.
        found = stored.get("records", {}).get(source["stage"]) or stored.get("record")
    except (StageError, AttributeError):
        return {}
    return found if isinstance(found, Mapping) else {}
