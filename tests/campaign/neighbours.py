"""Two runs at once: in one checkout, in two on one results folder, and a dry run beside a run."""

import time
from pathlib import Path

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import QUIET, RESULTS, TABLE, Running, Site, line


def _under_way(setting: Setting) -> tuple[Site, Running]:
    """A run that has some seconds of work left."""
    site = Site.copy(setting.finished, setting.folder)
    site.without("untrained", "mixem")
    running = site.start(*QUIET)
    running.until("Job stats")
    time.sleep(0.5)
    return site, running


def _ended(running: Running, site: Site, setting: Setting) -> None:
    """The first run ends as if it had been alone."""
    said = running.wait()
    require(running.process.returncode == 0, f"the first run: {running.process.returncode}: {said[-1500:]}")
    site.require_table(Site(setting.finished).table())


def _refused(setting: Setting, site: Site, running: Running, status: int, said: str, told: str) -> Outcome:
    """The second run ended with `status`, and with a line like `told`, during the first, which then ends well."""
    require(running.process.poll() is None, "the first run was over too soon, so the case shows nothing")
    require(status != 0, "a second run went on beside the first")
    _ended(running, site, setting)
    outcome = Outcome(f"the second: exit status {status}; the first: the same table")
    outcome.tell(line(said, told))
    return outcome


def twice(setting: Setting) -> Outcome:
    """The same command twice in one checkout."""
    site, running = _under_way(setting)
    status, said = site.make(*QUIET)
    return _refused(setting, site, running, status, said, "Directory cannot be locked|LockException|is locked")


def two_checkouts(setting: Setting) -> Outcome:
    """A second checkout wants the results folder of the first."""
    site, running = _under_way(setting)
    second = Site.copy(setting.finished, setting.folder / "second", results=False)
    status, said = second.make("--config", "track=false", f"results={site.results}", target=str(site.root / TABLE))
    return _refused(setting, site, running, status, said, "in use by the checkout")


def dry_run(setting: Setting) -> Outcome:
    """A dry run with other seeds during a run: it writes nothing that the run reads."""
    site, running = _under_way(setting)
    said = site.made("--dry-run", "--config", "track=false", "seeds=[0,1]")
    require(running.process.poll() is None, "the run was over too soon, so the case shows nothing")
    require("seed=1" in said, "the dry run planned no other seed")
    _ended(running, site, setting)
    plans = [path.name for path in Path(site.results, ".plan").glob("table2-*.json")]
    require(len(plans) == 1, f"plans of {RESULTS}: {plans}")
    outcome = Outcome("the dry run showed its jobs, the run ended with its own table and one plan")
    outcome.tell(line(said, "This was a dry-run"))
    return outcome


CASES = [
    Case("same-command-twice", "the same command while it runs", twice),
    Case("two-checkouts", "--config results=... of another checkout that is at work", two_checkouts),
    Case("dry-run-beside-a-run", "--dry-run --config seeds=[0,1] during a run", dry_run),
]
