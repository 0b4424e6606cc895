"""Two processes of one gloo group, without their start-up (tests/warm.py): what a test of torch.distributed runs on.

python -m tests.ranks MODULE FUNCTION RANK PORT FOLDER   is one of them
"""

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import torch.distributed as dist

from tests.conftest import ROOT, Project

RANKS = 2


def together(work, folder: Path) -> None:
    """Call `work(rank, folder)`, a function of a test module, in every rank; AssertionError where one of them fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["python", "-m", "tests.ranks", work.__module__, work.__name__]
    environment = Project(ROOT).environment({"OMP_NUM_THREADS": "1"})
    ranks = [
        subprocess.Popen([*words, str(rank), str(port), str(folder)], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
        for rank in range(RANKS)
    ]
    try:
        said = [rank.communicate(timeout=180)[1].decode() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * RANKS, "\n".join(said)


def main() -> None:
    module, function, rank, port, folder = sys.argv[1:]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    work = getattr(importlib.import_module(module), function)
    dist.init_process_group("gloo", rank=int(rank), world_size=RANKS)
    try:
        work(int(rank), Path(folder))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
