"""Do the tests notice? Changes one line at a time in a copy of the project and runs the tests that must then fail.

python -m tests.mutants [--only PATTERN] [--jobs N]

A line per mutant, and at the end `N caught, M survived`; the exit status is 1 where one survived, or where a test fails
without any mutant. About half an hour on two quiet cores; no part of the tests themselves.
"""

import argparse
import fnmatch
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import ROOT, copy_project
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

LIMIT = 300  # seconds; a mutant that makes a test hang has been noticed too
FAILED, NO_TESTS = 1, 5  # pytest's exit statuses; others mean that pytest itself could not run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="names or files of mutants, with * and ?")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2)), help="mutants at a time")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS.values() if fnmatch.fnmatch(m.name, given.only) or fnmatch.fnmatch(m.file, given.only)]
    alive = [mutant for mutant in chosen if not mutant.equivalent]
    for mutant in chosen:
        if mutant.equivalent:
            print(f"equivalent  {mutant.name}  {mutant.file}: {mutant.equivalent}")
    with tempfile.TemporaryDirectory(prefix="mutants") as folder, ThreadPoolExecutor(given.jobs) as pool:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(given.jobs):
            copies.put(copy_project(Path(folder) / str(number)).root)
        shares = [_distinct(alive)[number :: given.jobs] for number in range(given.jobs)]
        broken = tuple(test for found in pool.map(lambda tests: _broken(copies, tests), shares) for test in found)
        for test in broken:
            print(f"warning: {test} fails without any mutant, so it catches none: mend it", file=sys.stderr, flush=True)
        caught = sum(pool.map(lambda mutant: _caught(copies, mutant, broken), alive))
    print(f"{caught} caught, {len(alive) - caught} survived")
    return int(caught < len(alive) or bool(broken))


def _distinct(alive: Iterable[Mutant]) -> list[str]:
    """Every test that a mutant names, once."""
    return list(dict.fromkeys(test for mutant in alive for test in mutant.tests))


def _broken(copies: "queue.Queue[Path]", tests: list[str]) -> list[str]:
    """Those of the tests, and of the files that cannot be collected, that fail as the project is."""
    copy = copies.get()
    try:
        _, output = _pytest(copy, tests, "--continue-on-collection-errors", limit=None)
    finally:
        copies.put(copy)
    return _failures(output)


def _caught(copies: "queue.Queue[Path]", mutant: Mutant, broken: tuple[str, ...]) -> bool:
    """Whether a test fails with the mutant in place; prints its line. The copy is as before afterwards."""
    copy, begun = copies.get(), time.monotonic()
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    try:
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.name}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        # A file that cannot even be collected has no `::`; every mutant would seem to be caught by it.
        without = [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in broken]
        status, output = _pytest(copy, [test for test in mutant.tests if test not in broken], "-x", *without)
    finally:
        path.write_text(text, encoding="utf-8")
        copies.put(copy)
    if status not in (0, FAILED, NO_TESTS):
        # Not even collected: the change broke an import, which no one would overlook.
        print(f"{mutant.name}: pytest ended with {status}\n{output[-2000:]}", file=sys.stderr)
    caught = status not in (0, None, NO_TESTS)
    first = next(iter(_failures(output)), "")
    seconds = round(time.monotonic() - begun)
    print(f"{'caught   ' if caught else 'SURVIVED '}  {mutant.name}  {mutant.file}  {seconds} s  {first}", flush=True)
    return caught


def _failures(output: str) -> list[str]:
    """The tests that pytest's summary names."""
    return [line.split(" ")[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def _pytest(copy: Path, tests: Iterable[str], *more: str, limit: int | None = LIMIT) -> tuple[int | None, str]:
    """(exit status, output) of those tests that exist; None where none exists."""
    there = [test for test in tests if (copy / test.partition("::")[0]).exists()]
    if not there:
        return None, ""
    # No bytecode: two mutants of one second and one size would look alike to Python's cache.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "SNAKEMAKE_"))}
    kept |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=no", *more, *there]
    try:
        done = subprocess.run(words, cwd=copy, env=kept, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return FAILED, f"FAILED after-{limit}-seconds"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    assert ROOT.joinpath("tests", "mutants").is_dir()
    sys.exit(main())
