"""Processes of the project without their start-up: one process has the large libraries loaded and is forked for each.

A stage imports libraries for seconds before its own first line, and tests start hundreds. So a `python` that they find
first on their path asks a server for a copy of itself, which runs `-m MODULE` in the caller's folder, environment and
files. Nothing of the project is loaded before the fork: every copy of the project runs its own code. Where no server
answers, and for anything but `-m`, it is the real Python. Signals reach the copy, and it dies with who asked for it.

python tests/warm.py SOCKET   serves until its standard input ends
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

# torch._dynamo comes with the first optimiser.
LIBRARIES = (
    "snakemake.cli", "jsonschema", "torch._dynamo", "lightning_fabric", "sklearn.cluster", "sklearn.linear_model",
)  # fmt: skip
CLIENT = r"""#!{python} -SE
import json, os, signal, socket, sys
def number(): return int.from_bytes(link.recv(8, socket.MSG_WAITALL), "big", signed=True)
if sys.argv[1:2] == ["-m"]:
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect({path!r})
    except OSError:
        os.execv({python!r}, [{python!r}, *sys.argv[1:]])
    asked = dict(words=sys.argv[2:], folder=os.getcwd(), environment=dict(os.environ), group=os.getpgrp())
    asked["python"] = {own!r}
    text = json.dumps(asked).encode()
    socket.send_fds(link, [len(text).to_bytes(8, "big")], [0, 1, 2])
    link.sendall(text)
    child = number()
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"):
        signal.signal(getattr(signal, name), lambda sent, _: os.kill(child, sent))
    status = number()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if status != -9 else None
        os.kill(os.getpid(), -status)
    os._exit(status)
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


def start(folder: Path) -> subprocess.Popen:
    """Start a server, and put the `python` that asks it into a folder. Until the server is ready it is the real one."""
    path = folder / "socket"
    (folder / "python").write_text(CLIENT.format(python=sys.executable, path=str(path), own=str(folder / "python")))
    (folder / "python").chmod(0o755)
    return subprocess.Popen([sys.executable, __file__, str(path)], stdin=subprocess.PIPE, cwd=folder)


def main() -> None:
    sys.modules["torchmetrics"] = None  # type: ignore[assignment]  # as training/fabric.py has it
    for name in LIBRARIES:
        importlib.import_module(name)
    del sys.modules["torchmetrics"]
    gc.freeze()  # so that a collection in a copy does not touch, and so double, what they share
    link, asked = _asked(sys.argv[1])
    _become(asked)
    link.close()
    sys.argv[:] = asked["words"]
    _leave(_status(asked["words"][0]))


def _status(module: str) -> int:
    """Run a module; its exit status, after what Python itself would print."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int) or end.code is None:
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _leave(status: int) -> None:
    """End as Python does, but leave what was loaded as it is: to take it apart alone would take a second."""
    threading._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


def _asked(path: str) -> tuple[socket.socket, dict]:
    """Serve; returns in each copy, with what was asked of it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            os._exit(0)
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return link, _copy(link)
        link.close()


def _copy(link: socket.socket) -> dict:
    """Fork once more: the copy returns with what was asked; who stays waits until it, or the caller, has ended."""
    size, files, _, _ = socket.recv_fds(link, 8, 3)
    text = link.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return json.loads(text)
    for file in (0, 1, 2, *files):
        os.close(file)
    link.sendall(child.to_bytes(8, "big"))
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, link], [], [])[0]:
        os.kill(child, signal.SIGKILL)  # who asked for it is gone
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        link.sendall(status.to_bytes(8, "big", signed=True))
    os._exit(0)


def _become(asked: dict) -> None:
    """Take the caller's place: folder, environment, process group, module path, number of threads, and `python`."""
    sys.executable = asked[
        "python"
    ]  # who starts jobs with it (Snakemake, two processes of a training) starts them warm
    with contextlib.suppress(OSError):  # another session's group cannot be joined
        os.setpgid(0, asked["group"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    more = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:] = [asked["folder"], *more, *sys.path[1:]]
    sys.stdin, sys.stdout, sys.stderr = (open(n, "w" if n else "r", 1, closefd=False) for n in range(3))  # noqa: SIM115
    if threads := os.environ.get("OMP_NUM_THREADS"):  # read by the libraries when they were loaded
        import threadpoolctl
        import torch

        torch.set_num_threads(int(threads))
        threadpoolctl.threadpool_limits(int(threads))


if __name__ == "__main__":
    main()
