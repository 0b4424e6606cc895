"""Processes that commands start beside the pipeline's own, and how they end with them."""

import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.provenance import ROOT


def of_this_process() -> dict[str, str]:
    """Environment variables of a stage that this process starts: where its modules are, and whose end is its own."""
    return {
        # Stages are `python -m ...` from any working directory, here and on a cluster node.
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "BENCH_MAIN": f"{platform.node()}:{os.getpid()}",
    }


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: what was started is stopped, and temporary folders go."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
