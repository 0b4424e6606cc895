"""All cases by name, the quick ones first."""

from tests.campaign import changes, damage, disks, failures, kills, neighbours, resumption, tracker
from tests.named import gathered

PARTS = (damage, resumption, changes, neighbours, tracker, failures, disks, kills)
CASES = gathered(*(part.CASES for part in PARTS))
