"""InstDisc (NPID): every image is a class of its own, and the memory of its embedding stands for the class's weights.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination" (CVPR 2018, arXiv 1805.01978).
"""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import projection
from methods.blocks.memory_bank import Instances, MemoryBank
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    temperature: float  # tau
    bank_momentum: float  # m of the bank
    form: Literal["softmax", "nce"]  # cross-entropy (eq. 2), or each row told from noise (eq. 7)
    negatives: int | None  # m, rows drawn for each image; null: all rows of the bank
    constant: float  # of the normaliser Z of `nce`: 1 is the first batch's for good


class InstDisc(Method):
    """z = nrm(g(f(x))) of one view; which training row is it, among those of the bank (eqs. 2 and 7)?"""

    terms = ("instance",)
    views = 1

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = projection(backbone.width, [settings.embedding], batch_norm=False)
        self.bank = MemoryBank(data.rows, settings.embedding, settings.bank_momentum)
        self.instances = Instances(settings.form, settings.temperature, settings.constant)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = self.embed(batch.views[0])
        others = self.bank.draw(len(z), self.settings.negatives)
        self.bank.hold(batch.index, z)
        return {"instance": self.instances(z, self.bank.vectors, batch.index, others)}

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit z [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def after_step(self) -> None:
        self.bank.after_step()

    def chance(self, batch_size: int) -> dict[str, float]:
        value = self.instances.chance(self.data.rows, self.settings.negatives)
        return {} if value is None else {"instance": value}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


METHOD = InstDisc
