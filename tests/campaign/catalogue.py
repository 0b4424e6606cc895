"""All cases by name, the quick ones first."""

from tests.campaign import changes, damage, disks, failures, kills, neighbours, tracker
from tests.campaign.case import gathered

CASES = gathered(damage.CASES, changes.CASES, neighbours.CASES, tracker.CASES, failures.CASES, disks.CASES, kills.CASES)
