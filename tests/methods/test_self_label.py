import torch

from methods.blocks.self_label import SelfLabelling, self_label_loss

WEAK = torch.tensor([[9.0, 0, 0], [0, 9.0, 0], [0.1, 0, 0]])
STRONG = torch.tensor([[1.0, 0, 0], [0, 0, 1.0], [0, 0, 0]])


def test_the_block_labels_confident_rows_only():
    labelling = SelfLabelling(3, 0.9, balance=False)
    loss = labelling(WEAK, STRONG)
    expected, _ = self_label_loss(STRONG, torch.tensor([0, 1, 0]), torch.tensor([True, True, False]), balance=False)
    torch.testing.assert_close(loss, expected)
    assert labelling.statistics() == {"confident": 2 / 3, "empty_steps": 0, "missing_classes": 1}


def test_steps_without_a_label_are_counted_and_statistics_start_anew():
    labelling = SelfLabelling(3, 0.9, balance=True)
    assert labelling(torch.zeros(4, 3), torch.zeros(4, 3)) == 0
    assert labelling(torch.zeros(4, 3), torch.zeros(4, 3)) == 0
    assert labelling.statistics() == {"confident": 0, "empty_steps": 2, "missing_classes": 3}
    assert labelling.statistics()["empty_steps"] == 0


def test_no_gradient_reaches_the_labels():
    weak, strong = WEAK.clone().requires_grad_(), STRONG.clone().requires_grad_()
    SelfLabelling(3, 0.9, balance=True)(weak, strong).backward()
    assert weak.grad is None
    assert strong.grad.abs().sum() > 0
