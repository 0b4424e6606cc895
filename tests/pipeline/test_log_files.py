import os

import pytest

from pipeline.log_files import LONGEST, last_epoch, last_line, last_lines, notes
from training.progress import progress


@pytest.fixture
def log(tmp_path):
    return tmp_path / "a.log"


def test_what_a_training_prints_is_read(log, capsys):
    """Both ends of one line: the stage that prints it, and the live line that reads it."""
    with progress(40, 0, 0) as tell:
        for epoch in range(1, 7):
            tell({"epoch": epoch, "total": -3.25 + epoch, "contrast": 1.5, "seconds": 9.0})
    log.write_text(capsys.readouterr().out)
    written = log.stat().st_mtime
    told = last_epoch(log, since=written - 1, now=written)
    assert (told.done, told.epochs, told.loss) == (6, 40, "2.75")


def test_an_epoch_counts_down_between_two_lines(log):
    log.write_text("epoch 5/20 total 1.5 lr 0.1 left 30 s\nepoch 10/20 total 0.5 lr 0.1 left 20 s\n")
    os.utime(log, (1000, 1000))
    told = last_epoch(log, since=1000, now=1004)
    assert (told.done, told.loss, told.left, told.each) == (10, "0.5", 16, 2)
    assert last_epoch(log, since=1000, now=9999).left == 0
    assert last_epoch(log, since=1001, now=1004) is None  # what an earlier run left there


@pytest.mark.parametrize("text", ["", "starting\n", "epoch 1/2 lr 3\n", "\x00\xff epoch"])
def test_a_log_without_epochs_tells_of_none(log, text):
    log.write_text(text)
    assert last_epoch(log, since=0, now=1) is None
    assert last_epoch(log.with_name("missing"), since=0, now=1) is None


def test_the_last_epoch_has_no_next(log):
    log.write_text("epoch 2/2 total nan left 0 s\n")
    told = last_epoch(log, since=0, now=1)
    assert (told.loss, told.each) == ("nan", None)


def test_last_lines_are_those_that_say_something(log):
    log.write_text("one\n\n\x1b[31mtwo\x1b[0m\n" + "x" * 1000 + "\n   \n")
    assert last_lines(log, 2) == ["two", "x" * 1000]  # a command may stand there
    assert last_line(log) == "x" * LONGEST + "..."
    assert last_lines(log.with_name("missing"), 2) == []
    log.write_text(" \n")
    assert "killed" in last_line(log)


def test_notes_are_warnings_or_all(log):
    log.write_text("reading\nwarning: it collapsed\n\ndone, no warning: here\n")
    assert notes(log, everything=False) == ["warning: it collapsed"]
    assert notes(log, everything=True) == ["reading", "warning: it collapsed", "done, no warning: here"]
    assert notes("", everything=True) == notes(log.with_name("missing"), everything=False) == []
