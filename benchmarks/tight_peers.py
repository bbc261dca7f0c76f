"""Tools people use, asked about the same points in the same process: attacks of foolbox, AutoAttack, bounds of auto_LiRPA."""

import logging
import math
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism import RadiusBracket
from featureprism.models import as_model, read_model
from featureprism.networks import ReLU, ScoreNet

HALVINGS = 8  # of the radius that a verifier at one radius proves
PEER_POINTS = 6  # at most, of peers that cost seconds a point
DENSE = {
    "sparse_features_alpha": False,
    "sparse_spec_alpha": False,
}  # slopes of auto_LiRPA: sparse ones fail in its release 0.3
FAR = 10  # times the largest coordinate: bounds of attacks that want some where there are none
BEYOND = 1.01  # times our median length: where AutoAttack is asked on rows of radii


def foolbox_says(
    model: Any, x: Any, bracket: RadiusBracket, norm: float, domain: tuple[float, float] | None
) -> str:
    """How much longer its best minimal attack's witnesses are than ours; points that it does not flip are counted."""
    if not find_spec("foolbox"):
        return "foolbox is not installed"
    fb: Any = import_module("foolbox")
    net = read_model(model, probe=x).net
    points = torch.as_tensor(x).double()
    attacked, predicted = torch.from_numpy(bracket.attacked), torch.as_tensor(bracket.predicted)
    right = attacked > 0
    points, labels, ours = points[right], predicted[right], attacked[right]
    bound = FAR * float(points.abs().max())
    name, attack = (
        ("DDN", fb.attacks.DDNAttack(steps=300))
        if norm == 2
        else ("FMN", fb.attacks.LInfFMNAttack(steps=300))
    )
    began = time.process_time()
    moved = attack(
        fb.PyTorchModel(net.eval(), bounds=domain or (-bound, bound)), points, labels, epsilons=None
    )[1]
    seconds = (time.process_time() - began) / len(points)
    with torch.no_grad():
        flips = net(moved).argmax(dim=1) != labels
    length = torch.linalg.vector_norm(moved - points, ord=norm, dim=1)
    longer = (torch.where(flips, length, torch.full_like(length, inf)) / ours).median() - 1
    return f"foolbox {name} {float(longer):+.1%}, {seconds:.2f} s"


class _Unit(nn.Module):
    """A network behind images of [0, 1], in single precision, as AutoAttack wants them: z ↦ net(low + (high - low) z)."""

    def __init__(self, net: nn.Module, low: float, high: float):
        super().__init__()
        self.net, self.low, self.high = net, low, high

    def forward(self, z: Tensor) -> Tensor:
        """Scores of images."""
        return self.net(self.low + (self.high - self.low) * z.flatten(1).double()).float()


def autoattack_says(
    model: Any,
    x: Any,
    bracket: RadiusBracket,
    norm: float,
    at: float | None,
    domain: tuple[float, float] | None,
) -> str:
    """How many points it flips at one radius and how many we do; the radius is a little above our median where none is asked."""
    if not find_spec("pyautoattack"):
        return "AutoAttack is not installed"
    rows = np.flatnonzero(bracket.attacked > 0)[:PEER_POINTS]
    points, ours = torch.as_tensor(x).double()[rows], bracket.attacked[rows]
    assert bracket.predicted is not None
    labels = torch.from_numpy(bracket.predicted[rows])
    eps = BEYOND * float(np.median(ours)) if at is None else at
    bound = FAR * float(points.abs().max())
    low, high = (-bound, bound) if domain is None else domain
    side = math.isqrt(points.shape[1])
    images = ((points - low) / (high - low)).reshape(len(points), 1, -1, side).float()
    net = _Unit(read_model(model, probe=x).net.eval(), low, high)
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    attack = import_module("pyautoattack").AutoAttack(
        net, norm="L2" if norm == 2 else "Linf", eps=eps / (high - low), seed=0
    )
    began = time.process_time()
    moved = attack.run_standard_evaluation(images, labels, batch_size=len(images))[0]
    seconds = (time.process_time() - began) / len(images)
    with torch.no_grad():
        flips = net(moved).argmax(dim=1) != labels
    n = len(labels)
    return f"AutoAttack flips {int(flips.sum())} of {n} at {eps:.3g}, we {int((ours <= eps).sum())}, {seconds:.2f} s"


def lirpa_says(model: Any, x: Any, bracket: RadiusBracket, norm: float, at: float | None) -> str:
    """What CROWN with optimised slopes proves of ReLU layers, without the box: the gap of its radius, or its share at one radius."""
    if not find_spec("auto_LiRPA"):
        return "auto_LiRPA is not installed"
    net = _plain(read_model(model, probe=x).net)
    if net is None:
        return ""
    asked = bracket.attacked > (at or 0)
    rows = np.flatnonzero(asked & (np.isfinite(bracket.attacked) | (at is not None)))[:PEER_POINTS]
    points = torch.as_tensor(x).float()[rows]
    assert bracket.predicted is not None
    began = time.process_time()
    proves = [
        _alpha_crown(net, p[None], int(k), norm) for p, k in zip(points, bracket.predicted[rows], strict=True)
    ]
    if at is not None:
        share = sum(prove(at) for prove in proves) / len(proves)
        said = f"verifies {share:.0%} of what stands"
    else:
        ours = bracket.attacked[rows].tolist()
        gaps = [1 - _halved(prove, r) / r for prove, r in zip(proves, ours, strict=True)]
        said = f"gap {np.median(gaps):.0%}"
    return f"auto_LiRPA α-CROWN {said}, {(time.process_time() - began) / len(points):.2f} s"


def _alpha_crown(net: nn.Module, x: Tensor, own: int, norm: float) -> Callable[[float], bool]:
    """Whether it proves that no rival of the class `own` wins within a radius."""
    lirpa: Any = import_module("auto_LiRPA")
    perturbations: Any = import_module("auto_LiRPA.perturbations")
    one = torch.eye(net(x).shape[1])
    margins = (one[own] - one[torch.arange(len(one)) != own])[None]

    def prove(eps: float) -> bool:
        point = lirpa.BoundedTensor(x, perturbations.PerturbationLpNorm(norm=norm, eps=eps))
        bounded = lirpa.BoundedModule(
            net, x, bound_opts=DENSE
        )  # a new one: slopes remember which neurons were unstable
        bound = bounded.compute_bounds(x=(point,), C=margins, method="CROWN-Optimized", bound_upper=False)[0]
        return bool((bound > 0).all())

    return prove


def _halved(prove: Callable[[float], bool], high: float) -> float:
    """The largest radius below `high` that is proven."""
    low = 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if prove(middle) else (low, middle)
    return low


def _plain(net: nn.Module) -> nn.Sequential | None:
    """The layers as torch's own; None where they are not ReLU layers."""
    if isinstance(net, ScoreNet) and isinstance(net.activation, ReLU):
        weights, biases = (net.W, net.V.T), (net.b, net.c)
    elif (
        (found := as_model(net)) is not None
        and (model := found.layers) is not None
        and model.activation == "relu"
    ):
        weights, biases = ([torch.from_numpy(v) for v in part] for part in (model.weights, model.biases))
    else:
        return None
    layers: list[nn.Module] = []
    for W, b in zip(weights, biases, strict=True):
        layer = nn.Linear(W.shape[1], W.shape[0])
        layer.weight.data, layer.bias.data = W.detach().float().contiguous(), b.detach().float()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).requires_grad_(False)
