"""The wings: folders in which every file is one algorithm, found by its name. There is no list of them anywhere else.

A file declares its settings in a `Settings` dataclass; what config/ says of an algorithm is checked against it here,
before any job starts and without importing the file.
"""

from pathlib import Path

from pipeline.catalogue import require
from pipeline.signatures import Signature, read_signature

ROOT = Path(__file__).resolve().parent.parent
# wing -> its folder; the figures' key in config is `kind`, the others' `algorithm`
FOLDERS = {
    "assigners": "evaluation/assigners",
    "probes": "evaluation/probes",
    "metrics": "evaluation/metrics",
    "figures": "report/figures",
}


def wing_names(wing: str) -> list[str]:
    """The algorithms of a wing, sorted."""
    return sorted(path.stem for path in (ROOT / FOLDERS[wing]).glob("*.py") if path.stem != "__init__")


def signature(wing: str, algorithm: str) -> Signature:
    """What the file of an algorithm declares. Raises ConfigError for an unknown one."""
    require(f"algorithm of {wing}", algorithm, wing_names(wing))
    return read_signature(ROOT / FOLDERS[wing] / f"{algorithm}.py")
