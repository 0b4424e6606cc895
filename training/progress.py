"""What a person sees of a training while it runs, and the history it leaves."""

import csv
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def progress(epochs: int, done: int, rank: int) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """A bar with remaining time on a terminal, one plain line per epoch (at most about 20 in all) elsewhere.

    Yields a function that takes each epoch's row of the history; processes other than the first say nothing.
    """
    if rank:
        yield lambda row: None
        return
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.progress import Progress, TimeElapsedColumn, TimeRemainingColumn

        with Progress(*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn()) as bar:
            task = bar.add_task("training", total=epochs, completed=done)
            yield lambda row: bar.update(task, advance=1, description=f"total {row['total']:.4f}")
        return
    begun, every = time.monotonic(), max(1, epochs // 20)

    def line(row: Mapping[str, float]) -> None:
        epoch = int(row["epoch"])
        if epoch % every and epoch != epochs and math.isfinite(row["total"]):
            return
        left = (time.monotonic() - begun) / (epoch - done) * (epochs - epoch)
        rest = " ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in ("epoch", "seconds"))
        print(f"epoch {epoch}/{epochs} {rest} left {left:.0f} s", flush=True)

    yield line


def history_csv(history: list[dict[str, float]]) -> str:
    """The history as CSV text; floats are written so that reading them gives the same bits."""
    columns = list(dict.fromkeys(name for row in history for name in row)) or ["epoch"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows([{name: repr(value) for name, value in row.items()} for row in history])
    return text.getvalue()
