"""device=cuda on a machine without a GPU: known from the driver's files, before any job."""

import pytest

from pipeline import gpus, suites
from pipeline.plan import Plan
from pipeline.record import StageError


@pytest.mark.parametrize(
    ("device", "nodes", "visible", "refused"),
    [
        ("cuda", [], None, "this machine has no GPU"),
        ("cuda", ["nvidiactl"], None, "this machine has no GPU"),
        ("cuda", [], "0", "this machine has no GPU"),
        ("cuda", ["nvidia0"], "", "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        ("cuda", ["nvidia0"], "-1", "CUDA_VISIBLE_DEVICES='-1' hides every GPU"),
        ("cuda", ["nvidia0"], None, None),
        ("cuda", ["nvidia0", "nvidia1"], "1", None),
        ("cuda", ["dxg"], None, None),
        ("cuda", ["kfd"], None, None),
        ("auto", [], None, None),
        ("cpu", [], None, None),
    ],
)
def test_cuda_is_refused_where_there_surely_is_none(tmp_path, monkeypatch, device, nodes, visible, refused):
    for name in nodes:
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus, "NODES", str(tmp_path))
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    if refused is None:
        gpus.refuse_without(device)
    else:
        with pytest.raises(StageError, match=f"^device=cuda, but {refused}; ask for device=auto or device=cpu"):
            gpus.refuse_without(device)


def test_no_job_begins_here_without_the_gpu_that_is_asked_for(tmp_path, monkeypatch):
    """On a cluster the machine that submits may have none."""
    monkeypatch.setattr(gpus, "NODES", str(tmp_path))
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    given = {"device": "cuda", "results": str(tmp_path / "results")}
    plan = Plan(suites.configuration(suites.suite_file("smoke"), given))
    with pytest.raises(StageError, match=r"^device=cuda, but this machine has no GPU"):
        plan.begin(here=True)
    assert not (tmp_path / "results").exists()
    plan.begin(here=False)
    assert (tmp_path / "results/.lock").is_file()
