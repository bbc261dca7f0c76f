"""Our flips against those of foolbox and of AutoAttack's gradient attacks, point by point, as ratios of lengths.

`TUNED` are the networks on which the attack's settings were chosen; `HELD_OUT` were only measured: two networks of others and four
that are trained here (scikit-learn's digits and breast cancer). Where the folder `outside` of the data or foolbox is missing nothing
is measured. `python -m benchmarks.attacks NAME...` measures some networks alone.
"""

import gzip
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks import outside
from benchmarks.timing import line
from featureprism import Budget, robust_radius
from featureprism._threads import one_thread
from featureprism.models import read_model

POINTS = 16
RESTARTS, STEPS = 5, 100  # of APGD, for each loss and target
SHORTER = 0.98  # of our flip: where APGD is asked
FREE = 20.0  # foolbox wants bounds where there are none

Bounds = tuple[float, float] | None
Task = tuple[Any, Tensor, Tensor, tuple[Bounds, ...]]  # scores, points, classes, bounds


def _on_mnist(net: Any) -> Task:
    _, x, y = outside.mnist_mlp()
    return net, torch.from_numpy(x), torch.from_numpy(y), (None, (0.0, 1.0))


def _mnistfc(name: str) -> Task:
    packed = outside.folder() / "vnncomp" / "mnistfc" / f"mnist-net_{name}.onnx.gz"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "net.onnx"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return _on_mnist(read_model(str(path), probe=np.zeros((1, 784))).net)


def _convsmall() -> Task:
    net, x, y = outside.convsmall()
    flat = nn.Sequential(nn.Unflatten(1, (3, 32, 32)), net)
    return flat, torch.from_numpy(x).flatten(1), torch.from_numpy(y), (None,)


def _trained(net: nn.Module, x: np.ndarray, y: np.ndarray, bounds: tuple[Bounds, ...], seed: int) -> Task:
    """Adam on two thirds of the points; the others are attacked."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    points, labels = torch.from_numpy(x).double()[order], torch.from_numpy(y).long()[order]
    part = 2 * len(x) // 3
    for parameter in net.double().parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).double()
        parameter.data *= (2 / max(1, parameter[0].numel())) ** 0.5 if parameter.ndim > 1 else 0.1
    step = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(400):
        chosen = torch.randint(0, part, (128,), generator=generator)
        step.zero_grad()
        cross_entropy(net(points[chosen]), labels[chosen]).backward()
        step.step()
    return net, points[part:], labels[part:], bounds


def _digits(net: nn.Module, seed: int) -> Task:
    X, y = (np.asarray(part) for part in load_digits(return_X_y=True))
    return _trained(net, X / 16, y, (None, (0.0, 1.0)), seed)


def _breast_cancer(seed: int) -> Task:
    X, y = (np.asarray(part) for part in load_breast_cancer(return_X_y=True))
    net = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
    low, high = X.min(axis=0), X.max(axis=0)
    return _trained(net, (X - low) / (high - low), y, (None, (0.0, 1.0)), seed)


def _cnn() -> nn.Module:
    convolutions = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *convolutions, nn.Flatten(), nn.Linear(72, 10))


def _leaky() -> nn.Module:
    hidden = [nn.Linear(64, 48), nn.LeakyReLU(0.1), nn.Linear(48, 32), nn.LeakyReLU(0.1)]
    return nn.Sequential(*hidden, nn.Linear(32, 10))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


TUNED: dict[str, Callable[[], Task]] = {
    "mnistfc 256x2": lambda: _mnistfc("256x2"),
    "mnist_mlp": lambda: _on_mnist(outside.mnist_mlp()[0].double()),
}
HELD_OUT: dict[str, Callable[[], Task]] = {
    "pReLU p = 1": lambda: _on_mnist(outside.prelu()[0]),
    "mnistfc 256x4": lambda: _mnistfc("256x4"),
    "ConvSmall": _convsmall,
    "digits MLP": lambda: _digits(_mlp(), 1),
    "digits LeakyReLU": lambda: _digits(_leaky(), 2),
    "digits CNN": lambda: _digits(_cnn(), 3),
    "breast cancer": lambda: _breast_cancer(4),
}


def _lengths(net: Any, x: Tensor, label: Tensor, moved: Tensor) -> Tensor:
    """The ℓ∞ norm of each perturbation that flips in float64, inf for the others."""
    with torch.no_grad():
        flips = net(moved).argmax(dim=1) != label
    return torch.where(flips, (moved - x).abs().amax(dim=1), inf)


def foolbox_lengths(net: Any, x: Tensor, label: Tensor, bounds: Bounds) -> Tensor:
    """The shortest flips of foolbox's fast minimum-norm attack (FMN) with 300 and with 1000 steps."""
    fb: Any = import_module("foolbox")
    model = fb.PyTorchModel(net.eval(), bounds=bounds or (-FREE, FREE))
    moved = [fb.attacks.LInfFMNAttack(steps=s)(model, x, label, epsilons=None)[1] for s in (300, 1000)]
    return torch.stack([_lengths(net, x, label, one) for one in moved]).amin(dim=0)


def _dlr(scores: Tensor, label: Tensor, target: Tensor) -> Tensor:
    """Targeted difference of logits ratio (Croce & Hein, ICML 2020); with fewer than four classes the plain difference."""
    difference = scores.gather(1, target[:, None]) - scores.gather(1, label[:, None])
    if scores.shape[1] < 4:
        return difference[:, 0]
    ordered = scores.sort(dim=1, descending=True).values
    scale = ordered[:, 0] - (ordered[:, 2] + ordered[:, 3]) / 2
    return difference[:, 0] / scale.clamp_min(1e-12)


def apgd_lengths(net: Any, x: Tensor, label: Tensor, eps: Tensor, bounds: Bounds) -> Tensor:
    """ℓ∞ APGD (Croce & Hein, ICML 2020) at given radii, with the cross-entropy and with the DLR loss towards every other class."""
    num, num_classes = len(x), int(net(x[:1]).shape[1])
    generator = torch.Generator().manual_seed(0)
    x, label, eps = x.repeat(RESTARTS, 1), label.repeat(RESTARTS), eps.repeat(RESTARTS)
    shortest = torch.full_like(eps, inf)
    plain = lambda scores, y, _: cross_entropy(scores, y, reduction="none")  # noqa: E731
    for loss, shift in ((plain, 1), *((_dlr, k) for k in range(1, num_classes))):
        target = (label + shift) % num_classes
        found = _apgd(net, x, label, eps, bounds, lambda s, t=target, f=loss: f(s, label, t), generator)
        shortest = torch.minimum(shortest, found)
    return shortest.reshape(RESTARTS, num).amin(dim=0)


def _apgd(
    net: Any,
    x: Tensor,
    label: Tensor,
    eps: Tensor,
    bounds: Bounds,
    loss: Callable,
    generator: torch.Generator,
) -> Tensor:
    """One run of APGD for each row: momentum, and steps that are halved at checkpoints where the loss does not grow."""
    radius = torch.where(torch.isfinite(eps), eps, 0.0).unsqueeze(1)
    low, high = bounds or (-inf, inf)
    checkpoints, share, last = [0], 0.22, 0.0
    while round(share * STEPS) < STEPS:
        checkpoints.append(round(share * STEPS))
        last, share = share, share + max(share - last - 0.03, 0.06)

    def inside(moved: Tensor) -> Tensor:
        return (x + torch.minimum(torch.maximum(moved - x, -radius), radius)).clamp(low, high)

    def climbed(at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            z = at.detach().requires_grad_()
            scores = net(z)
            values = loss(scores)
            (slope,) = torch.autograd.grad(values.sum(), z)
        flips = scores.detach().argmax(dim=1) != label
        return values.detach(), slope, torch.where(flips, (at - x).abs().amax(dim=1), inf)

    noise = 2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1
    before = at = inside(x + radius * noise)
    value, slope, shortest = climbed(at)
    best, best_value, best_slope = at, value, slope
    size, grew, value_then, size_then = 2 * radius, torch.zeros_like(eps), value, 2 * radius
    for step in range(1, STEPS + 1):
        moved = inside(at + size * slope.sign())
        momentum = 0.75 if step > 1 else 1.0
        before, at = at, inside(at + momentum * (moved - at) + (1 - momentum) * (at - before))
        old = value
        value, slope, length = climbed(at)
        shortest, grew = torch.minimum(shortest, length), grew + (value > old)
        better = value > best_value
        best, best_slope = (torch.where(better[:, None], a, b) for a, b in ((at, best), (slope, best_slope)))
        best_value = torch.maximum(value, best_value)
        if step in checkpoints:
            since = step - checkpoints[checkpoints.index(step) - 1]
            stuck = (grew < 0.75 * since) | ((size == size_then)[:, 0] & (best_value <= value_then))
            value_then, size_then, grew = best_value, size, torch.zeros_like(grew)
            size = torch.where(stuck[:, None], size / 2, size)
            at, slope = (torch.where(stuck[:, None], a, b) for a, b in ((best, at), (best_slope, slope)))
            value = torch.where(stuck, best_value, value)
    return shortest


@one_thread()
def ratios(names: tuple[str, ...] = (*TUNED, *HELD_OUT)) -> Iterator[str]:
    """For each network, with and without bounds: median and largest ratio of our ℓ∞ length to the shortest of theirs."""
    if not find_spec("foolbox"):
        yield "attacks: foolbox is not there"
        return
    for name in names:
        net, x, label, cases = (TUNED | HELD_OUT)[name]()
        net, x = net.double().requires_grad_(False), x.double()
        right = torch.nonzero(net(x).argmax(dim=1) == label)[:POINTS, 0]
        x, label = x[right], label[right]
        for bounds in cases:
            began = time.process_time()
            ours = robust_radius(net, x, label, norm=inf, bounds=bounds, budget=Budget(branches=0)).attacked
            seconds, ours = (time.process_time() - began) / len(x), torch.from_numpy(ours)
            where = f"{name}, ℓ∞{'' if bounds is None else ' in [0, 1]'}"
            yield f"     {where}: {seconds:.2f} CPU s a point, proofs by norms and CROWN included"
            fmn = (ours / foolbox_lengths(net, x, label, bounds)).nan_to_num(1.0)  # 1: nobody flips it
            apgd = apgd_lengths(net, x, label, SHORTER * ours, bounds)
            yield line(f"{where}: our flip ÷ FMN's, median", float(fmn.median()), 1.0005)
            yield line(f"{where}: our flip ÷ FMN's, worst", float(fmn.max()), 1.02)
            flipped = int(torch.isfinite(apgd).sum())
            yield line(f"{where}: points of {len(x)} that APGD flips at 0.98 of our radius", flipped, 0)


if __name__ == "__main__":
    for text in ratios(tuple(sys.argv[1:]) or (*TUNED, *HELD_OUT)):
        print(text, flush=True)
