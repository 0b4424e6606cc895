"""torchvision's ResNet with the stem that small images need; a module of its own, since torchvision imports slowly."""

from typing import Literal

from torch import Tensor, nn
from torchvision.models import resnet

Stem = Literal["cifar", "stl_scan", "imagenet"]


class ResNet(nn.Module):
    """ResNet-18/34/50 without its classifier: [B, C, H, W] -> [B, 512 or 2048].

    Stems, with the side after them for 32 and 96 px: `cifar` 3x3 stride 1 without pooling (32, 96), `stl_scan` 3x3
    stride 1 and 2x2 max-pooling (17, 49; SCAN's for STL10), `imagenet` 7x7 stride 2 and 3x3 max-pooling (8, 24).
    The state dict has torchvision's names, so published weights load as they are.
    """

    def __init__(self, shape: tuple[int, int, int], depth: int, stem: Stem):
        super().__init__()
        net = getattr(resnet, f"resnet{depth}")()
        self.width = net.fc.in_features
        if stem != "imagenet" or shape[2] != 3:
            size, stride, padding = (7, 2, 3) if stem == "imagenet" else (3, 1, 1)
            net.conv1 = nn.Conv2d(shape[2], 64, size, stride, padding, bias=False)
            nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
        pools = {"cifar": nn.Identity(), "stl_scan": nn.MaxPool2d(2, 2, 1), "imagenet": net.maxpool}
        net.maxpool = pools[stem]
        for name, part in net.named_children():
            if name != "fc":
                self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.avgpool(x).flatten(1)
