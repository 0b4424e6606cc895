"""All mutants by name, of every module of_*.py beside this one."""

import importlib
from pathlib import Path

from tests.named import gathered

PARTS = sorted(path.stem for path in Path(__file__).parent.glob("of_*.py"))
MUTANTS = gathered(*(importlib.import_module(f"tests.mutants.{part}").MUTANTS for part in PARTS))
