"""Our flips against those of foolbox and of projected gradient descent, on networks of others; lengths as ratios, point by point.

The networks are those of the folder `outside` of the data: VNN-COMP's mnistfc 256x2, the pReLU network (p = 1) of Min & Vidal
(ICML 2024) and SDP-CROWN's mnist_mlp. Where the folder or foolbox is missing nothing is measured.
"""

import gzip
import os
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
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.timing import line
from featureprism import Budget, robust_radius
from featureprism._threads import one_thread
from featureprism.commands.common import DATA
from featureprism.models import read_model
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU

POINTS = 16
PGD_RESTARTS, PGD_STEPS = 10, 100
SHORTER = 0.98  # of our flip: where projected gradient descent is asked
FREE = 20.0  # foolbox wants bounds where there are none


def mnistfc(folder: Path) -> Any:
    """VNN-COMP 2021, two hidden layers of 256."""
    packed = folder / "vnncomp" / "mnistfc" / "mnist-net_256x2.onnx.gz"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "net.onnx"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return read_model(str(path), probe=np.zeros((1, 784))).net


def prelu(folder: Path) -> Any:
    """Min & Vidal, p = 1: one hidden layer of 500."""
    stored = np.load(folder / "prelu_icml24" / "p1.npz")
    W, V, c, centre = (torch.from_numpy(stored[k]).double() for k in ("W", "V", "c", "center"))
    return ScoreNet(W, V.T.contiguous(), -W @ centre.flatten(), c, activation=ReLU())


def sdp_crown(folder: Path) -> Any:
    """SDP-CROWN's MNIST network, two hidden layers of 100."""
    stored = np.load(folder / "sdp_crown" / "mnist_mlp.npz")
    layers: list[nn.Module] = []
    for i in (1, 3, 5):
        W, b = (torch.from_numpy(stored[f"{i}.{k}"]).double() for k in ("weight", "bias"))
        layer = nn.Linear(W.shape[1], W.shape[0]).double()
        layer.weight.data, layer.bias.data = W, b
        layers += [layer, nn.ReLU()]
    return read_model(nn.Sequential(*layers[:-1]), probe=np.zeros((1, 784))).net


NETWORKS: dict[str, Callable[[Path], Any]] = {
    "mnistfc 256x2": mnistfc,
    "pReLU p = 1": prelu,
    "mnist_mlp": sdp_crown,
}


def _length(net: Any, x: Tensor, own: Tensor, moved: Tensor, norm: float) -> Tensor:
    """The norm of each perturbation that flips in float64, inf for the others."""
    with torch.no_grad():
        flips = net(moved).argmax(dim=1) != own
    return torch.where(flips, torch.linalg.vector_norm(moved - x, ord=norm, dim=1), inf)


def foolbox_lengths(
    net: Any, x: Tensor, own: Tensor, norm: float, domain: tuple[float, float] | None
) -> Tensor:
    """The shortest flips of foolbox's minimum-norm attacks: FMN with 300 and 1000 steps, DDN for ℓ2."""
    fb: Any = import_module("foolbox")
    model = fb.PyTorchModel(net.eval(), bounds=domain or (-FREE, FREE))
    attacks = [fb.attacks.LInfFMNAttack(steps=s) for s in (300, 1000)]
    if norm == 2:
        attacks = [fb.attacks.L2FMNAttack(steps=300), fb.attacks.DDNAttack(steps=300)]
    lengths = [_length(net, x, own, one(model, x, own, epsilons=None)[1], norm) for one in attacks]
    return torch.stack(lengths).amin(dim=0)


def _dlr(scores: Tensor, own: Tensor, target: Tensor) -> Tensor:
    """Targeted difference of logits ratio (Croce & Hein, ICML 2020)."""
    ordered = scores.sort(dim=1, descending=True).values
    scale = ordered[:, 0] - (ordered[:, 2] + ordered[:, 3]) / 2
    difference = scores.gather(1, own[:, None]) - scores.gather(1, target[:, None])
    return -difference[:, 0] / scale.clamp_min(1e-12)


def descent_lengths(
    net: Any, x: Tensor, own: Tensor, eps: Tensor, domain: tuple[float, float] | None
) -> Tensor:
    """ℓ∞ projected gradient ascent of the cross-entropy and of the targeted DLR loss at given radii, random starts, momentum 0.75."""
    generator, num = torch.Generator().manual_seed(0), len(x)
    x, own, eps = x.repeat(PGD_RESTARTS, 1), own.repeat(PGD_RESTARTS), eps.repeat(PGD_RESTARTS)
    shortest = torch.full_like(eps, inf)
    radius = torch.where(torch.isfinite(eps), eps, 0.0).unsqueeze(1)
    low, high = domain or (-inf, inf)

    def inside(moved: Tensor) -> Tensor:
        return (x + torch.minimum(torch.maximum(moved - x, -radius), radius)).clamp(low, high)

    plain = (lambda s, y, _: cross_entropy(s, y, reduction="none"), 1)  # has no target
    for loss, shift in (plain, *((_dlr, k) for k in range(1, 10))):
        target = (own + shift) % 10
        noise = 2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1
        before = at = inside(x + radius * noise)
        for step in range(PGD_STEPS):
            with torch.enable_grad():
                z = at.detach().requires_grad_()
                scores = net(z)
                (slope,) = torch.autograd.grad(loss(scores, own, target).sum(), z)
            flips = scores.detach().argmax(dim=1) != own
            shortest = torch.where(flips, torch.minimum(shortest, (at - x).abs().amax(dim=1)), shortest)
            size = 2 * 0.5 ** (step // (PGD_STEPS // 6)) * radius
            moved = inside(at + size * slope.sign())
            before, at = at, inside(at + 0.75 * (moved - at) + 0.25 * (at - before))
    return shortest.reshape(PGD_RESTARTS, num).amin(dim=0)


@one_thread()
def ratios(num_points: int = POINTS) -> Iterator[str]:
    """For each network, with and without bounds of pixels: median and largest ratio of our length to the shortest of theirs."""
    folder = Path(os.environ.get(DATA, "")) / "outside"
    if not folder.is_dir() or not find_spec("foolbox"):
        yield "attacks: the folder of networks of others, or foolbox, is not there"
        return
    stored = np.load(folder / "sdp_crown" / "mnist_points.npz")
    images = torch.from_numpy(stored["x"].reshape(len(stored["x"]), -1)).double()
    labels = torch.from_numpy(stored["y"]).long()
    for name, read in NETWORKS.items():
        net = read(folder).requires_grad_(False)
        right = torch.nonzero(net(images).argmax(dim=1) == labels)[:num_points, 0]
        x, own = images[right], labels[right]
        for norm, domain in ((inf, None), (inf, (0.0, 1.0)), (2, None)):
            began = time.process_time()
            ours = robust_radius(net, x, own, norm=norm, bounds=domain, budget=Budget(branches=0)).attacked
            seconds, ours = (time.process_time() - began) / len(x), torch.from_numpy(ours)
            theirs = foolbox_lengths(net, x, own, norm, domain)
            if norm == inf:
                theirs = torch.minimum(theirs, descent_lengths(net, x, own, SHORTER * ours, domain))
            share = (ours / theirs).nan_to_num(1.0)  # nobody flips it
            where = f"{name}, ℓ{'∞' if norm == inf else '2'}{'' if domain is None else ' in [0, 1]'}"
            yield f"     {where}: {seconds:.2f} CPU s a point, proofs by norms and CROWN included"
            yield line(f"{where}: our flip ÷ the shortest of others, median", float(share.median()), 1.001)
            yield line(f"{where}: our flip ÷ the shortest of others, worst", float(share.max()), 1.02)
