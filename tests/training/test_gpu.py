"""CPU and GPU agree: run on CUDA machines, by hand or through benchmarks/gpu_check.py."""

import json

import pytest
import torch

from methods.blocks.contrast import nt_xent
from methods.method import Batch, DataFacts, build_method
from pipeline.provenance import canonical_json
from pipeline.recipes import resolve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def test_nt_xent_value_and_gradient():
    z = [torch.randn(64, 32, requires_grad=True) for _ in range(2)]
    there = [v.detach().cuda().requires_grad_() for v in z]
    here_loss, there_loss = nt_xent(*z, 0.1), nt_xent(*there, 0.1)
    here_loss.backward()
    there_loss.backward()
    assert there_loss.item() == pytest.approx(here_loss.item(), rel=1e-4)
    torch.testing.assert_close(there[0].grad.cpu(), z[0].grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["simclr_base", "mixem", "mixem-paper", "supervised"])
def test_methods_value_and_features(name):
    recipe = resolve(name, "digits")
    torch.manual_seed(0)
    method = build_method(recipe, DataFacts(10, (8, 8, 1), 64))
    views = [torch.randn(64, 1, 8, 8) for _ in range(max(1, method.views))]
    labels = torch.arange(64) % 10
    here = {k: v.item() for k, v in method(Batch(views, torch.arange(64), labels)).items()}
    method.cuda()
    there = method(Batch([view.cuda() for view in views], torch.arange(64).cuda(), labels.cuda()))
    assert {k: v.item() for k, v in there.items()} == pytest.approx(here, rel=1e-3, abs=1e-4)
    method.eval()
    on_gpu = {k: v.cpu() for k, v in method.features(views[0].cuda()).items()}
    for key, value in method.cpu().features(views[0]).items():
        torch.testing.assert_close(on_gpu[key], value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("precision", ["32", "auto"])
def test_a_stage_trains_and_embeds(precision, project, digits_200, tmp_path):
    changes = {"base": None, "batch_size": 64, "schedule": {"epochs": 3}, "precision": precision}
    recipe = canonical_json(resolve("mixem", "digits_200", {"*": changes}))
    words = ["--data", digits_200, "--recipe", recipe, "--protocol", "full", "--seed", 0, "--out", tmp_path]
    done = project.stage("training.train", *map(str, words), "--resume", str(tmp_path / "r"), "--device", "cuda")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert record["device"].startswith("cuda")
    assert record["status"] == "ok"
    model = str(tmp_path / "model.pt")
    done = project.stage(
        "training.embed", "--data", str(digits_200), "--model", model, "--out", str(tmp_path), "--device", "cuda"
    )
    assert done.returncode == 0, done.stderr
