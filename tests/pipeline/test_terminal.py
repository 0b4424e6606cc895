"""The live line on a terminal as the system has them."""

import fcntl
import os
import pty
import struct
import termios

import pytest

from pipeline import live
from pipeline.live import CLEAR
from tests.pipeline.fake_run import message, run_of, shower, starts


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_the_line_fits_a_real_terminal(tmp_path, monkeypatch, columns):
    monkeypatch.setattr(live, "TICK", 0.01)
    monkeypatch.setattr(live, "watch", lambda dag, rules: run_of(tmp_path))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        handler = shower(tmp_path, "live", stream)
        for record in (message("Job stats:", "run_info"), starts(1)):
            handler.handle(record)
        shown = ""
        while shown.count(CLEAR) < 3:
            shown += os.read(ours, 65536).decode()
        handler.over.set()
        lines = shown.partition("\r\n")[2].split(CLEAR)[1:-1]
        assert lines
        assert all(0 < len(line) < columns and "\n" not in line for line in lines)
        assert ("train 0/2" in lines[0]) == (columns > 20)
        handler.run = None
        handler.close()
    os.close(ours)
