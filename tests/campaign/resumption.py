"""Resume state that was cut off, lost a bit, or belongs to another run: the same bits all the same."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.damage import cut, flip
from tests.campaign.site import line
from tests.campaign.stages import ENVIRONMENT, Finished
from training.checkpoint import ResumeState

RECIPE, OTHER = "simclr_base", "mixem"
FALLEN_BACK = "warning: .* cannot be read .*; falling back to the state before"


def damaged(setting: Setting) -> Outcome:
    """Both generations of a state, damaged alone and together; a training goes on from what is left."""
    truth, folder = setting.finished / "results/smoke", setting.folder
    results = folder / "results/smoke"
    shutil.copytree(truth, results, symlinks=True, ignore=shutil.ignore_patterns("ml*", "logs"))
    with mock.patch.dict(ENVIRONMENT, BENCH_CHECKPOINT_MINUTES="0"), mock.patch.object(ResumeState, "remove"):
        states = {recipe: _state(Finished(results, truth, folder / recipe), recipe) for recipe in (RECIPE, OTHER)}

    def swap(path: Path, _: object) -> None:
        shutil.copy(folder / "states" / states[OTHER] / path.name, path)

    shutil.copytree(results / ".resume", folder / "states")
    outcome, ways = Outcome(), 0
    damages: list[Callable] = [cut, swap, flip, flip, flip]
    for way in damages:
        for files in (["state.pt"], ["state.pt", "previous.pt"]):
            for file in files:
                way(results / ".resume" / states[RECIPE] / file, setting.chance)
            said = _trained(Finished(results, truth, folder / "out"), f"{way.__name__} of {' and '.join(files)}")
            require(("resuming at epoch" in said) == (len(files) == 1), f"resumed from damaged state: {said}")
            outcome.tell(line(said, FALLEN_BACK).replace(f"{folder}/", ""))
            shutil.copytree(folder / "states", results / ".resume", dirs_exist_ok=True)
            ways += 1
    outcome.told = dict(list(outcome.told.items())[:2])
    outcome.seen = f"{ways} times the same bits: from the state before, or from the beginning"
    return outcome


def _state(finished: Finished, recipe: str) -> str:
    """Train with state after every step and keep it; the name of its folder."""
    before = {path.name for path in (finished.results / ".resume").glob("*")}
    ended = finished.run(f"train {recipe}")
    require(ended.status == 0, f"train {recipe}: {ended.said}")
    (name,) = {path.name for path in (finished.results / ".resume").glob("*")} - before
    return name


def _trained(finished: Finished, what: str) -> str:
    """What the training said that found the state; its model is the true one."""
    ended = finished.run(f"train {RECIPE}")
    wrong = list(finished.differences(f"train {RECIPE}"))
    require(ended.status == 0 and not wrong, f"{what}: exit status {ended.status}, {', '.join(wrong)}: {ended.said}")
    return ended.said


CASES = [Case("damaged-state", "resume state: cut off, of another run, flipped bits", damaged)]
