import torch


def test_digests_see_weights_and_statistics():
    from methods.method import digest

    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    first = digest(module)
    assert first == digest(module)
    module[1].running_mean += 1e-6
    second = digest(module)
    assert second != first
    with torch.no_grad():
        module[0].weight[0, 0] += 1e-6
    assert digest(module) not in (first, second)
