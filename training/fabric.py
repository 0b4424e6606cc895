"""Lightning Fabric, as every other module takes it: imported without torchmetrics.

Fabric asks on import for the version of torchmetrics, which nothing here uses and which takes longer to import than
torch itself: it would double the start of every training stage.
"""

import sys

absent = "torchmetrics" not in sys.modules
if absent:
    sys.modules["torchmetrics"] = None  # type: ignore[assignment]  # Python's way to say: it cannot be imported
try:
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import LightningEnvironment
    from lightning_fabric.strategies import DDPStrategy
finally:
    if absent:
        del sys.modules["torchmetrics"]

__all__ = ["DDPStrategy", "Fabric", "LightningEnvironment"]
