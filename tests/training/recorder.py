"""A method that writes down every call of the loop."""

import torch
from torch import nn

from methods.method import DataFacts, Method

SEED, ROWS, STEPS = 7, 12, 3


class Trunk(nn.Module):
    width = 3

    def __init__(self):
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        return self.layer(self.norm(x.flatten(1)))


class Recorder(Method):
    """Two terms, each of which reaches one part alone; `calls` holds (what, where, a number drawn there)."""

    terms = ("trunk", "head")
    views = 1
    may_be_empty = True
    empty_steps: tuple[int, ...] = ()
    ends_after: int | None = None

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(Trunk(), DataFacts(3, (2, 2, 1), ROWS))
        self.head = nn.Linear(4, 1)
        self.register_buffer("ended", torch.zeros((), dtype=torch.long))
        self.calls, self.place = [], None

    def note(self, what, where=None):
        self.calls.append((what, where, float(torch.rand(()))))

    def before_epoch(self, context):
        self.note("before_epoch", context.epoch)
        self.eval()  # as methods do that embed the whole set; the loop trains all the same

    def before_step(self, context):
        self.place = context.step
        self.note("before_step", context.step)

    def losses(self, batch):
        assert self.training
        self.note("losses", tuple(batch.index.tolist()))
        x = batch.views[0]
        return {"trunk": self.backbone(x).square().sum(), "head": self.head(x.flatten(1)).square().sum()}

    def empty(self):
        return self.place in self.empty_steps

    def after_step(self):
        self.note("after_step")

    def after_epoch(self, context):
        self.ended += 1
        self.note("after_epoch", context.epoch)

    @property
    def finished(self):
        return int(self.ended) == self.ends_after

    def statistics(self):
        self.note("statistics")
        return {}

    def chance(self, batch_size):
        self.note("chance")
        return {}
