"""All cases by name."""

from tests.campaign import damage, disks, kills, tracker
from tests.campaign.case import gathered

CASES = gathered(kills.CASES, disks.CASES, damage.CASES, tracker.CASES)
