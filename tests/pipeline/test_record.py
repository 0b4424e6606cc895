"""How stages write and read files, and how they end when a machine fails them."""

import errno
import json
import os

import pytest

from pipeline import record
from pipeline.record import (
    Damaged,
    StageError,
    read_json,
    read_records,
    run_stage,
    sha256,
    verified,
    whole,
    write_json,
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "No space left on device; free space on that disk, then run the same command again"),
        (errno.EROFS, "Read-only file system; the disk can only be read; give another folder: --config results="),
        (errno.EACCES, "Permission denied; change its permissions"),
        (errno.EMFILE, "Too many open files; too many files are open; raise the limit with `ulimit -n`"),
        (errno.ENXIO, "No such device or address; mend that, then run the same command again"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line_and_leaves_what_was_there(tmp_path, monkeypatch, number, cure):
    path = tmp_path / "table.csv"
    path.write_text("before")

    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(record.os, "fsync", fails)
    with pytest.raises(StageError) as problem, whole(path, "w") as file:
        file.write("after")
    assert str(problem.value).startswith(f"{path}: cannot be written: {cure}")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"table.csv": "before"}


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "results").write_text("a file where a folder should be")
    with (
        pytest.raises(StageError, match=r"results/a/table\.csv: cannot be written: "),
        whole(tmp_path / "results/a/table.csv"),
    ):
        pass


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (StageError("a sentence"), "error: a sentence\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), "error: /x/y: No space left on device; free space"),
        (OSError(errno.EIO, "Input/output error"), "error: input or output: Input/output error; the disk does not"),
        (MemoryError(), "error: not enough memory: give the job more (mem_mb)"),
        (RuntimeError("unable to write to\nshared memory"), "error: workers that decode images ran out of memory"),
        (RuntimeError("DataLoader worker (pid 7) is killed"), "error: workers that decode images ran out of memory"),
    ],
)
def test_what_a_user_can_mend_ends_a_stage_in_one_line(problem, said, capsys):
    def main():
        raise problem

    with pytest.raises(SystemExit) as ended:
        run_stage(main)
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.startswith(said)
    assert told.count("\n") == 1


def test_a_bug_keeps_its_traceback():
    def main():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_stage(main)


def test_what_is_read_is_what_was_written(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"weights")
    assert verified(path, {"files": {"model.pt": sha256(path)}}) == path
    for held in ({}, {"files": {}}, {"files": {"other.pt": sha256(path)}}, {"files": {"model.pt": "0" * 64}}):
        with pytest.raises(Damaged, match=r"model\.pt: sha256 \w{12} found, .* in the record of its stage"):
            verified(path, held)
    path.unlink()
    with pytest.raises(Damaged, match=r"model\.pt: not found; run the stage that writes it"):
        verified(path, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ('{"ACC": NaN}', "NaN is no number that a stage writes"),
        ('{"ACC": Infinity}', "Infinity is no number that a stage writes"),
        ("\udcff", "not valid JSON"),
    ],
)
def test_a_broken_json_file_is_named_with_its_cure(tmp_path, text, message):
    path = tmp_path / "metrics.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(StageError, match=rf"metrics\.json: .*{message}.*; delete it and run its stage again"):
        read_json(path)


def test_one_changed_digit_of_what_a_stage_wrote_is_an_error(tmp_path):
    path, value = tmp_path / "card.json", {"classes": 10, "mean": [0.3]}
    write_json(path, value)
    assert read_json(path) == value
    for old, new in (("0.3", "0.7"), ("10", "11"), ("mean", "meam")):
        write_json(path, value)
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(Damaged, match=r"card\.json: its content is not what was written; delete it and run its"):
            read_json(path)
    path.write_text(json.dumps(value))  # by hand
    assert read_json(path) == value


def test_records_of_another_stage_are_named(tmp_path):
    path = tmp_path / "features.json"
    write_json(path, {"records": {"prepare": {}, "train": {}}})
    assert list(read_records(path, "train")) == ["prepare", "train"]
    with pytest.raises(StageError, match=r"features\.json: no record of stage embed, only of prepare, train: .*delete"):
        read_records(path, "train", "embed")


@pytest.mark.parametrize("stored", [[], {}, {"records": []}, {"records": {"train": 1}}])
def test_a_file_without_records_is_named(tmp_path, stored):
    path = tmp_path / "train.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(StageError, match=r"train\.json: no records of stages in it"):
        read_records(path)
