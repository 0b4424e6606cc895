"""One list of dependencies: environment.yml, its lock with hashes, conda's constraints, and what is installed agree."""

import importlib.metadata
import re

import yaml

from tests.conftest import ROOT


def pins(lines):
    found = {}
    for line in lines:
        if match := re.match(r"([A-Za-z0-9_.-]+)(\[[a-z,]+\])?==([^ ;]+)( ; (.*))?$", line.strip()):
            if "win32" in (match[5] or ""):
                continue
            found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), []).append(match[3])
    return found


def test_environment_lock_and_installation_agree():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip[0] == "-c constraints.txt"
    lock = pins((ROOT / "constraints.txt").read_text().splitlines())
    wanted = pins(pip)
    assert len(wanted) > 15
    for name, versions in wanted.items():
        assert versions == lock[name], name
    names = {re.sub(r"[-_.]+", "-", re.split(r"[=\[<>]", line)[0]).lower() for line in pip if not line.startswith("-c")}
    assert names <= set(lock)
    for name in names:
        assert importlib.metadata.version(name) in lock[name], name


def test_the_lock_has_a_hash_for_every_package_and_the_constraints_are_the_lock():
    """With one hash in the file pip demands hashes of all; in a constraints file it does not take them."""
    packages = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert [package.splitlines()[0].removesuffix(" \\") for package in packages] == constraints
