"""Image classifiers of the papers, small and without torchvision: ResNets, wide ResNets, AlexNet, MLP."""

import re
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


def _wide(channels: float) -> int:
    """The nearest multiple of 8, at least 8: what convolutions on a CPU are good at."""
    return max(8, 8 * round(channels / 8))


def _conv(width_in: int, width: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(width_in, width, 3, stride, 1, bias=False)


class Spread(nn.Module):
    """Pixels from [0, 1] to [-2, 2]: about mean 0 and variance 1, as the code behind the paper feeds its networks."""

    def forward(self, x: Tensor) -> Tensor:
        """4 x - 2."""
        return 4 * x - 2


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
        stem: int | None = None,
    ) -> None:
        super().__init__()
        stem = widths[0] if stem is None else stem
        blocks, width_in = [], stem
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(Block(width_in, width, stride, before=before))
                width_in = width
        gate = [nn.BatchNorm2d(width_in if before else stem), nn.ReLU()]
        parts = [*blocks, *gate] if before else [*gate, *blocks]
        self.features = nn.Sequential(_conv(channels, stem), *parts)
        self.head = nn.Linear(width_in, num_classes)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        return self.head(self.features(x).mean(dim=(2, 3)))


class WideResNet(nn.Module):
    """Pre-activation wide ResNet of depth 6n + 4: three stages of n blocks, 16k, 32k and 64k channels.

    Depth 34 has 1 + 6 · 5 = 31 convolutions of 3 × 3, the "ResNet-34 with 31 convolutional layers" of feature-purification,
    Section 8.2 (the other three are 1 × 1, on shortcuts). Source: Zagoruyko & Komodakis 2016.
    """

    def __init__(self, channels: int, num_classes: int, depth: int, widen: int, factor: float = 1.0) -> None:
        super().__init__()
        stages = [_wide(factor * widen * width) for width in (16, 32, 64)]
        blocks = (depth - 4) // 6
        self.spread = Spread()
        self.net = ResNet(channels, num_classes, stages, (blocks,) * 3, before=True, stem=_wide(factor * 16))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        return self.net(self.spread(x))


class AlexNet(nn.Module):
    """AlexNet for small images: five convolutions, the first of 64 filters of 11 × 11 whatever the width, and one linear layer."""

    def __init__(self, channels: int, num_classes: int, factor: float = 1.0) -> None:
        super().__init__()
        first, *widths = 64, *(_wide(factor * width) for width in (192, 384, 256, 256))
        b, c, d, e = widths
        self.features = nn.Sequential(
            Spread(),
            nn.Conv2d(channels, first, 11, 4, 5),
            nn.ReLU(),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(first, b, 5, 1, 2),
            nn.ReLU(),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Conv2d(b, c, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(c, d, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(d, e, 3, 1, 1),
            nn.ReLU(),
            nn.MaxPool2d(2, 2, ceil_mode=True),
        )
        self.head = nn.Linear(e, num_classes)

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
    "wrn-10-1",
    "wrn-16-1",
    "wrn-16-4",
    "wrn-34-4",
    "wrn-28-10",
)
DEPTHS = {"10": (1, 1, 1, 1), "18": (2, 2, 2, 2), "34": (3, 4, 6, 3)}  # blocks in each stage of a ResNet
WIDE = re.compile(r"wrn-(\d+)-(\d+)")  # depth and widening


def image_network(
    name: str,
    shape: tuple[int, int, int],
    num_classes: int,
    *,
    factor: float = 1.0,
    generator: torch.Generator,
) -> nn.Module:
    """One of ARCHITECTURES, or any wrn-D-K with D = 6n + 4, for images of a shape (c, h, w); `factor` times as wide.

    resnet-10/18/34 and their pre-activation kin: widths 64, 128, 256, 512. wrn-34-4 stands for the ResNet-34 of
    feature-purification and wrn-16-4 for its ResNet-16: the paper says how deep they are and not how wide; 4 is our
    choice. Sources: feature-averaging, Section 6; feature-purification, Section 8. Weights come from the generator: N(0, 2/fan-in);
    AlexNet's N(0, 1/(3 fan-in)), the variance that torch gives by itself.
    """
    net = _built(name, shape, num_classes, factor)
    he_start(net, gain=1 / 3 if name == "alexnet" else 2.0, generator=generator)
    return net


def _built(name: str, shape: tuple[int, int, int], num_classes: int, factor: float) -> nn.Module:
    """The network with weights as torch draws them."""
    channels, height, width = shape
    if wide := WIDE.fullmatch(name):
        depth, widen = int(wide[1]), int(wide[2])
        if depth < 10 or (depth - 4) % 6 or widen < 1:
            raise ValueError(f"A wide ResNet has depth 6n + 4 (10, 16, 22, 28, 34, …), got {name!r}.")
        return WideResNet(channels, num_classes, depth, widen, factor)
    if name not in ARCHITECTURES:
        raise ValueError(f"Unknown network {name!r}; choose one of {', '.join(ARCHITECTURES)}.")
    if name == "mlp":
        return ImageMLP(channels * height * width, num_classes, max(1, round(256 * factor)))
    if name == "alexnet":
        return AlexNet(channels, num_classes, factor)
    widths = [_wide(factor * w) for w in (64, 128, 256, 512)]
    return ResNet(channels, num_classes, widths, DEPTHS[name[-2:]], before=name.startswith("preact"))


def home_of(net: nn.Module) -> torch.device:
    """The device that a network lives on."""
    return next((weight.device for weight in net.parameters()), torch.device("cpu"))


def channels_last(net: nn.Module) -> nn.Module:
    """The same network, its filters laid out channels last, in place: a fifth faster on CPUs."""
    for weight in net.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return net


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
