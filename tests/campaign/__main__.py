"""What is lost, and what is a user told? Kills, full disks, damaged files and the like, on the smoke suite.

python -m tests.campaign [--seed N] [--only PATTERN] [--out report.md] [--finished FOLDER]

A line per case, and at the end `N held, M lost, K skipped`; the exit status is 1 where one lost anything or told
nothing. About 20 minutes on two quiet cores. The same seed gives the same moments and the same bits.
"""

import argparse
import fnmatch
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.campaign.case import Case, Lost, Outcome, Setting, Skipped
from tests.campaign.catalogue import CASES
from tests.campaign.site import QUIET, Site
from tests.conftest import copy_project


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments, bits and places")
    parser.add_argument("--only", default="*", help="names of cases, with * and ?")
    parser.add_argument("--out", help="report to write: a table in Markdown")
    parser.add_argument("--finished", help="folder of the unbroken run, kept and used again; by default made anew")
    given = parser.parse_args()
    chosen = [case for case in CASES.values() if fnmatch.fnmatch(case.name, given.only)]
    rows, begun = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign") as folder:
        finished = _finished(Path(given.finished or folder, "finished"))
        for number, case in enumerate(chosen):
            place = Path(folder, str(number))
            place.mkdir()
            rows.append(_held(case, Setting(place, finished, random.Random(f"{given.seed} {case.name}"))))
    counts = {verdict: sum(row[0] == verdict for row in rows) for verdict in ("held", "LOST", "skipped")}
    total = f"{counts['held']} held, {counts['LOST']} lost, {counts['skipped']} skipped"
    print(f"{total}, {round(time.monotonic() - begun)} s, seed {given.seed}")
    if given.out:
        Path(given.out).write_text(_report(rows, f"{total} (seed {given.seed})"), encoding="utf-8")
    return int(counts["LOST"] > 0 or not rows)


def _finished(root: Path) -> Path:
    """A copy of the project with a smoke suite that nothing broke."""
    if not root.is_dir():
        begun = time.monotonic()
        site = Site(copy_project(root).root)
        site.made(*QUIET)
        print(f"unbroken run: {round(time.monotonic() - begun)} s", flush=True)
    return root


def _held(case: Case, setting: Setting) -> tuple[str, Case, str, str, list[str]]:
    """(verdict, case, what was seen, what was lost, what was told); prints its line."""
    begun, outcome = time.monotonic(), Outcome()
    try:
        outcome = case.happens(setting)
        verdict, lost = "held", "nothing"
    except Skipped as reason:
        verdict, lost = "skipped", f"skipped: {reason}"
    except Lost as problem:
        verdict, lost = "LOST", str(problem)
    except Exception:  # a defect of the case itself must not end the others
        verdict, lost = "LOST", traceback.format_exc()
    told = [text.replace(f"{setting.folder / 'project'}{os.sep}", "") for text in outcome.told]
    seconds = round(time.monotonic() - begun)
    said = "; ".join([outcome.seen, *told]) if verdict == "held" else lost
    print(f"{verdict:<7}  {case.name}  {seconds} s  {said}", flush=True)
    return verdict, case, outcome.seen, lost, told


def _report(rows: list[tuple[str, Case, str, str, list[str]]], total: str) -> str:
    lines = ["| case | what happens | seen | lost | told |", "|---|---|---|---|---|"]
    for _, case, seen, lost, told in rows:
        lost = " ".join(lost.split())[-500:]
        cells = [case.name, case.what, seen, lost, "<br>".join(f"`{text}`" for text in told)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([f"# Campaign: {total}", "", *lines, ""])


if __name__ == "__main__":
    sys.exit(main())
