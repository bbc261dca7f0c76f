"""Image classifiers of the papers, small and without torchvision: ResNets, wide ResNets, AlexNet, MLP."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


def _wide(channels: float) -> int:
    """The nearest multiple of 8, at least 8: what convolutions on a CPU are good at."""
    return max(8, 8 * round(channels / 8))


def _conv(width_in: int, width: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(width_in, width, 3, stride, 1, bias=False)


class Block(nn.Module):
    """Two 3 × 3 convolutions around a shortcut; with `before` normalisation and ReLU come before each convolution."""

    def __init__(self, width_in: int, width: int, stride: int, *, before: bool) -> None:
        super().__init__()
        same = stride == 1 and width_in == width
        self.shortcut = nn.Identity() if same else nn.Conv2d(width_in, width, 1, stride, bias=False)
        first, second = _conv(width_in, width, stride), _conv(width, width)
        norm, relu = nn.BatchNorm2d, nn.ReLU
        if before:
            self.body = nn.Sequential(norm(width_in), relu(), first, norm(width), relu(), second)
        else:
            self.body = nn.Sequential(first, norm(width), relu(), second, norm(width))
        self.last = nn.Identity() if before else relu()

    def forward(self, x: Tensor) -> Tensor:
        """x plus what the convolutions add."""
        return self.last(self.shortcut(x) + self.body(x))


class ResNet(nn.Module):
    """A residual network for small images: one 3 × 3 convolution, stages of blocks that halve the picture, average, linear."""

    def __init__(
        self,
        channels: int,
        num_classes: int,
        widths: Sequence[int],
        depths: Sequence[int],
        *,
        before: bool = False,
    ) -> None:
        super().__init__()
        blocks, width_in = [], widths[0]
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(Block(width_in, width, stride, before=before))
                width_in = width
        gate = [nn.BatchNorm2d(width_in if before else widths[0]), nn.ReLU()]
        parts = [*blocks, *gate] if before else [*gate, *blocks]
        self.features = nn.Sequential(_conv(channels, widths[0]), *parts)
        self.head = nn.Linear(width_in, num_classes)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        return self.head(self.features(x).mean(dim=(2, 3)))


class AlexNet(nn.Module):
    """AlexNet for small images: an 11 × 11 first layer, always of 64 filters, three more convolutions, one linear layer."""

    def __init__(self, channels: int, num_classes: int, factor: float = 1.0) -> None:
        super().__init__()
        a, b, c = 64, _wide(factor * 192), _wide(factor * 384)
        self.features = nn.Sequential(
            nn.Conv2d(channels, a, 11, 4, 5),
            nn.ReLU(),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(a, b, 5, 1, 2),
            nn.ReLU(),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(b, c, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(c, c, 3, 1, 1),
            nn.ReLU(),
        )
        self.head = nn.Linear(c, num_classes)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        return self.head(self.features(x).mean(dim=(2, 3)))


class ImageMLP(nn.Module):
    """Flattened pixels through two hidden ReLU layers."""

    def __init__(self, pixels: int, num_classes: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(pixels, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, num_classes),
        )

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        return self.layers(x)


ARCHITECTURES = (
    "mlp",
    "alexnet",
    "resnet-10",
    "resnet-18",
    "resnet-34",
    "preact-resnet-10",
    "preact-resnet-18",
    "preact-resnet-34",
    "wrn-28-10",
)


def image_network(
    name: str,
    shape: tuple[int, int, int],
    num_classes: int,
    *,
    factor: float = 1.0,
    generator: torch.Generator,
) -> nn.Module:
    """One of ARCHITECTURES for images of a shape (c, h, w), `factor` times as wide; weights from the generator.

    resnet-10/18/34 and their pre-activation kin: widths 64, 128, 256, 512; wrn-28-10: 160, 320, 640. Sources: feature-averaging,
    Section 6; feature-purification, Section 8. Weights are N(0, 2/fan-in); AlexNet's N(0, 1/(3 fan-in)), the variance that torch
    gives by itself and the code behind the paper uses.
    """
    channels, height, width = shape
    depths = {"10": (1, 1, 1, 1), "18": (2, 2, 2, 2), "34": (3, 4, 6, 3)}
    if name not in ARCHITECTURES:
        raise ValueError(f"Unknown network {name!r}; choose one of {', '.join(ARCHITECTURES)}.")
    if name == "mlp":
        net: nn.Module = ImageMLP(channels * height * width, num_classes, max(1, round(256 * factor)))
    elif name == "alexnet":
        net = AlexNet(channels, num_classes, factor)
    elif name == "wrn-28-10":
        widths = [_wide(factor * w) for w in (160, 320, 640)]
        net = ResNet(channels, num_classes, widths, (4, 4, 4), before=True)
    else:
        widths = [_wide(factor * w) for w in (64, 128, 256, 512)]
        net = ResNet(channels, num_classes, widths, depths[name[-2:]], before=name.startswith("preact"))
    he_start(net, gain=1 / 3 if name == "alexnet" else 2.0, generator=generator)
    return net


def home_of(net: nn.Module) -> torch.device:
    """The device that a network lives on."""
    return next((weight.device for weight in net.parameters()), torch.device("cpu"))


def conv_layers(net: nn.Module) -> list[nn.Conv2d]:
    """The convolutions in the order of the forward pass, without those of shortcuts (1 × 1)."""
    return [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size != (1, 1)]


@torch.no_grad()
def he_start(net: nn.Module, *, gain: float = 2.0, generator: torch.Generator) -> None:
    """Every convolution and linear layer N(0, gain/fan-in), biases 0; all else as built."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
            layer.weight.copy_((gain / fan_in) ** 0.5 * torch.randn(layer.weight.shape, generator=generator))
            if layer.bias is not None:
                layer.bias.zero_()


def restart_from(net: nn.Module, layer: int, *, generator: torch.Generator) -> nn.Module:
    """Freeze everything before the convolution number `layer` (from 1) and draw the rest anew, in place."""
    first = conv_layers(net)[layer - 1]
    reached = False
    for module in net.modules():
        reached = reached or module is first
        if next(module.children(), None) is not None:
            continue
        for weight in module.parameters():
            weight.requires_grad_(reached)
        if reached and isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif reached:
            he_start(module, generator=generator)
    return net
