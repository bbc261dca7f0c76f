"""Tools people use, asked about the same points in the same process: attacks of foolbox, bounds of auto_LiRPA."""

import time
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from featureprism import RadiusBracket
from featureprism.certificates import opened
from featureprism.certificates.deep import as_layers
from featureprism.networks import ReLU, ScoreNet

HALVINGS = 8  # of the radius that a verifier at one radius proves


def foolbox_says(model: Any, x: Any, bracket: RadiusBracket, norm: float) -> str:
    """How much longer its best minimal attack's witnesses are than ours; points that it does not flip are counted."""
    if not find_spec("foolbox"):
        return "foolbox is not installed"
    fb: Any = import_module("foolbox")
    net = opened(model, probe=x).net
    points = torch.as_tensor(x).double()
    right = bracket.attacked > 0
    assert bracket.predicted is not None
    points, labels, ours = points[right], bracket.predicted[right], bracket.attacked[right]
    bound = 10 * float(points.abs().max())
    name, attack = (
        ("DDN", fb.attacks.DDNAttack(steps=300))
        if norm == 2
        else ("FMN", fb.attacks.LInfFMNAttack(steps=300))
    )
    began = time.process_time()
    moved = attack(fb.PyTorchModel(net.eval(), bounds=(-bound, bound)), points, labels, epsilons=None)[1]
    seconds = (time.process_time() - began) / len(points)
    with torch.no_grad():
        flips = net(moved).argmax(dim=1) != labels
    length = torch.linalg.vector_norm(moved - points, ord=norm, dim=1)
    longer = (torch.where(flips, length, torch.full_like(length, inf)) / ours).median() - 1
    return f"foolbox {name} {float(longer):+.1%}, {seconds:.2f} s"


def lirpa_says(model: Any, x: Any, bracket: RadiusBracket, norm: float) -> str:
    """The median gap of the radius that CROWN with optimised slopes proves, found by halving; ReLU layers only."""
    if not find_spec("auto_LiRPA"):
        return "auto_LiRPA is not installed"
    net = _plain(opened(model, probe=x).net)
    if net is None:
        return ""
    right = (bracket.attacked > 0) & torch.isfinite(bracket.attacked)
    points = torch.as_tensor(x).float()[right]
    assert bracket.predicted is not None
    began = time.process_time()
    proven = _halved(net, points, bracket.predicted[right], bracket.attacked[right].float(), norm)
    seconds = (time.process_time() - began) / len(points)
    gap = (1 - proven / bracket.attacked[right]).median()
    return f"auto_LiRPA α-CROWN gap {float(gap):.0%}, {seconds:.2f} s"


def _halved(net: nn.Module, x: Tensor, own: Tensor, attacked: Tensor, norm: float) -> Tensor:
    lirpa: Any = import_module("auto_LiRPA")
    perturbations: Any = import_module("auto_LiRPA.perturbations")
    k = net(x[:1]).shape[1]
    result = torch.zeros(len(x))
    for i in range(len(x)):
        bounded = lirpa.BoundedModule(net, x[i : i + 1])
        others = [r for r in range(k) if r != int(own[i])]
        margins = (torch.eye(k)[own[i]] - torch.eye(k)[others])[None]
        low, high = 0.0, float(attacked[i])
        for _ in range(HALVINGS):
            eps = 0.5 * (low + high)
            ball = perturbations.PerturbationLpNorm(norm=norm, eps=eps)
            point = lirpa.BoundedTensor(x[i : i + 1], ball)
            bound = bounded.compute_bounds(x=(point,), C=margins, method="alpha-CROWN", bound_upper=False)[0]
            low, high = (eps, high) if bool((bound > 0).all()) else (low, eps)
        result[i] = low
    return result


def _plain(net: nn.Module) -> nn.Sequential | None:
    """The layers as torch's own; None where they are not ReLU layers."""
    if isinstance(net, ScoreNet) and isinstance(net.activation, ReLU):
        weights, biases = (net.W, net.V.T), (net.b, net.c)
    elif (model := as_layers(net)) is not None and model.activation == "relu":
        weights, biases = ([torch.from_numpy(v) for v in part] for part in (model.weights, model.biases))
    else:
        return None
    layers: list[nn.Module] = []
    for W, b in zip(weights, biases, strict=True):
        layer = nn.Linear(W.shape[1], W.shape[0])
        layer.weight.data, layer.bias.data = W.detach().float().contiguous(), b.detach().float()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).requires_grad_(False)
