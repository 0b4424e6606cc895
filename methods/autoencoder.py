"""Autoencoder: the pretraining of the deep-clustering family (DEC, IDEC, N2D, DCRL).

Plain or denoising, trained end to end, after a greedy layer-wise start where the recipe asks for one (stacked denoising
autoencoder: Vincent et al., JMLR 2010, as DEC, arXiv 1511.06335, sec. 3.4, uses it).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.reconstruction import reconstruction
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    noise: float  # standard deviation of Gaussian noise on the input
    layerwise_epochs: int  # epochs that each layer is trained alone, first; 0: end to end from the start
    dropout: float  # of each layer's input and code in layer-wise training


class AutoEncoder(Method):
    """Mean squared error of the clean input, reconstructed from the (noisy) input: z = f(x + noise), x' = g(z)."""

    terms = ("reconstruction",)
    views = 0
    drop_last = False
    inherits = ("backbone", "decoder")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.decoder = backbone.mirror()
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))

    def before_epoch(self, context: Context) -> None:
        self.epoch.fill_(context.epoch)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x = batch.views[0].flatten(1)
        layers = [layer for layer in self.backbone.layers if isinstance(layer, nn.Linear)]
        alone = self.settings.layerwise_epochs
        if alone and (number := int(self.epoch) // alone) < len(layers):
            return {"reconstruction": self._layer_loss(x, layers, number)}
        noise = self.settings.noise
        noisy = x + noise * torch.randn_like(x) if noise else x
        return {"reconstruction": reconstruction(self.decoder(self.backbone(noisy)), x)}

    def _layer_loss(self, x: Tensor, layers: list[nn.Linear], number: int) -> Tensor:
        """Denoising autoencoder of layer `number` alone, on the output of the layers below."""
        with torch.no_grad():
            for layer in layers[:number]:
                x = layer(x).relu()
        down = [layer for layer in self.decoder if isinstance(layer, nn.Linear)][len(layers) - 1 - number]
        code = layers[number](F.dropout(x, self.settings.dropout))
        if number < len(layers) - 1:
            code = code.relu()
        back = down(F.dropout(code, self.settings.dropout))
        return reconstruction(back.relu() if number else back, x)  # the first layer rebuilds the data: linear

    def features(self, x: Tensor) -> dict[str, Tensor]:
        return {"h": self.backbone(x)}


METHOD = AutoEncoder
