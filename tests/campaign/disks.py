"""Disks that are full, or that can only be read, under the results folder."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

from tests.campaign.case import Case, Outcome, Setting, Skipped, require
from tests.campaign.site import QUIET, RESULTS, Site, line

ENOUGH = "size=500m"
FULL = r"error: .*No space left on device; free space"
READ_ONLY = r"Read-only file system; the disk can only be read; give another folder"


@contextlib.contextmanager
def disk(site: Site, options: str) -> Iterator[None]:
    """A small disk of its own in the place of the results folder, which stays below as it is."""
    site.results.mkdir(parents=True, exist_ok=True)
    done = _mount("-t", "tmpfs", "-o", options, "tmpfs", str(site.results))
    if done.returncode:
        raise Skipped(f"mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(site.results)], check=False)


def again(site: Site, options: str) -> None:
    """Change the disk while it is in use."""
    done = _mount("-o", f"remount,{options}", str(site.results))
    require(done.returncode == 0, f"mount: {done.stderr.strip()}")


def _mount(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise Skipped(f"mount: {problem}") from None


def full(setting: Setting, room: int) -> Outcome:
    """`room` KiB are left on the disk for what is missing of a suite; then there is more of it."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder, results=False)
    with disk(site, ENOUGH):
        _finished_on_it(site, setting)
        site.without("mixem")
        used = shutil.disk_usage(site.results).used // 1024
        again(site, f"size={used + room}k")
        status, said = site.make(*QUIET)
        require(status != 0, "a run on a full disk ended as if it had written everything")
        outcome = Outcome(f"exit status {status}; after `mount -o remount,{ENOUGH}` the same command made the table")
        outcome.tell(line(said, FULL))
        left = [str(path) for path in site.results.rglob("*.part")]
        require(not left, f"left behind: {left}")
        again(site, ENOUGH)
        site.made(*QUIET)
        site.require_table(expected)
    return outcome


def full_from_the_start(setting: Setting) -> Outcome:
    """No room for anything: the run ends before its first stage, or with it."""
    site = Site.copy(setting.finished, setting.folder, results=False)
    with disk(site, "size=8k"):
        status, said = site.make(*QUIET)
    require(status != 0, "a run on a full disk ended as if it had written everything")
    outcome = Outcome(f"exit status {status}")
    outcome.tell(line(said, "No space left on device; free space"))
    return outcome


def _finished_on_it(site: Site, setting: Setting) -> None:
    """Put finished results on the disk, and Snakemake's notes of them where those belong."""
    shutil.copytree(setting.finished / RESULTS, site.results, dirs_exist_ok=True, symlinks=True)
    shutil.copytree(setting.finished / ".snakemake", site.root / ".snakemake", dirs_exist_ok=True)


def read_only(setting: Setting) -> Outcome:
    """A finished suite on a disk that can only be read has nothing to do; a table that is missing cannot be made."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder, results=False)
    with disk(site, ENOUGH):
        _finished_on_it(site, setting)
        again(site, "ro")
        require("Nothing to be done" in site.made(*QUIET), "a finished suite was not left alone")
        again(site, "rw")
        site.without_table()
        again(site, "ro")
        status, said = site.make(*QUIET)
        require(status != 0, "a run that could not write ended well")
        outcome = Outcome(f"finished: nothing to be done; without its table: exit status {status}, made once writable")
        outcome.tell(line(said, READ_ONLY))
        again(site, "rw")
        site.made(*QUIET)
        site.require_table(expected)
    return outcome


CASES = [
    Case("disk-full-at-once", "no room for anything on the disk of the results", full_from_the_start),
    Case("disk-full", "no byte is left on the disk of the results", lambda setting: full(setting, 0)),
    Case("disk-full-in-training", "100 KiB are left, too few for a model", lambda setting: full(setting, 100)),
    Case("disk-read-only", "results on a disk that can only be read", read_only),
]
