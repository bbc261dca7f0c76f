"""Radii of a program that computes in float32: the class must win by more than all rounding errors of the region."""

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from math import frexp, inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism._progress import Progress, no_progress
from featureprism.brackets import NOT_CERTIFIED, RadiusBracket
from featureprism.checker import models as canonical
from featureprism.checker.float32 import float32_layers, float32_margin
from featureprism.checker.models import demanding
from featureprism.models.model import Model, of_weights
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet
from featureprism.verify.attack import default_reach
from featureprism.verify.driver import MISCLASSIFIED, bracket_points
from featureprism.verify.query import REACH_MARGIN, Budget, Query

OURS = (LinearScores, ScoreNet, LayeredScores)
IDLE = (nn.Identity, nn.Dropout, nn.Flatten)  # steps that compute nothing
FIRST = 0.2  # of the seconds: to learn how far the regions reach
ALONG = np.concatenate([np.linspace(0, 1, 65), 1 + np.geomspace(1e-7, 1e-2, 11)])  # of a flip in real numbers
TOO_ROUGH = f"{NOT_CERTIFIED}: rounding errors in float32 may be larger than the margin"


class Program(nn.Module):
    """The given model in float32; gives a score for each class."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    @classmethod
    def of(cls, given: Any, read: Model) -> "Program":
        """Refuses what is not computed layer after layer, as the weights that proofs are about are."""
        if read.weights is None:
            raise ValueError(f"Proofs about float32 need layers of weights. {read.reason}".strip())
        layers = float32_layers(read.weights)
        is_file = isinstance(given, str | Path) and Path(given).suffix.lower() == ".npz"
        if is_file or isinstance(given, OURS):
            return cls(copy.deepcopy(read.net).float().eval())
        if not isinstance(given, nn.Module):
            raise ValueError(
                'arithmetic="float32" takes a torch module of linear layers and ReLU, a network of this library, or an .npz file; '
                f"not {Path(given).suffix or given if isinstance(given, str | Path) else type(given).__name__}."
            )
        its_layers = _plain_layers(given)
        if len(its_layers[0][-1]) == 1:  # one output f: the scores 0 and f
            its_layers = tuple([*part[:-1], np.concatenate([0 * part[-1], part[-1]])] for part in its_layers)
        same = all(
            len(a) == len(b) and all(map(np.array_equal, a, b))
            for a, b in zip(its_layers, layers, strict=True)
        )
        if not same:
            raise ValueError(
                'arithmetic="float32" needs linear layers with one ReLU between each two of them.'
            )
        return cls(copy.deepcopy(given).eval())

    @torch.no_grad()
    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of points in float32."""
        value = self.net(z).reshape(len(z), -1)
        return torch.cat([torch.zeros_like(value), value], dim=1) if value.shape[1] == 1 else value


def _plain_layers(module: nn.Module) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights and biases of linear layers with ReLU between them."""
    steps = [step for step in _steps(module) if type(step) not in IDLE]
    kinds = [type(step) for step in steps]
    linear = [step for step in steps if isinstance(step, nn.Linear)]
    if not linear or kinds != ([nn.Linear, nn.ReLU] * len(linear))[:-1]:
        raise ValueError(
            'arithmetic="float32" takes a Sequential of Linear layers with one ReLU between each two of them, got '
            + ", ".join(kind.__name__ for kind in kinds[:8])
            + "."
        )
    if other := {str(p.dtype) for p in module.parameters()} - {"torch.float32"}:
        raise ValueError(f'arithmetic="float32" takes a module in float32, got {", ".join(sorted(other))}.')
    weights = [layer.weight.detach().cpu().double().numpy() for layer in linear]
    biases = [
        np.zeros(len(W)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
        for W, layer in zip(weights, linear, strict=True)
    ]
    return weights, biases


def _steps(module: nn.Module) -> Iterator[nn.Module]:
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError('arithmetic="float32" takes modules without hooks.')
    if type(module) is nn.Sequential:
        for part in module:
            yield from _steps(part)
    else:
        yield module


def bracket_float32(
    given: Any,
    read: Model,
    x: Float[Tensor, "n d"],
    label: Int[Tensor, " n"],
    query: Query,
    budget: Budget,
    progress: Progress = no_progress,
) -> RadiusBracket:
    """Brackets of the program: proven for all real points of a region, rounded to float32, and witnessed by points that it flips.

    The region of each point reaches to its flip in real numbers. Margins are rounded up to powers of two, and points that share one
    are proven together, of a network whose true class scores so much less.
    """
    began = time.perf_counter()
    program, model = Program.of(given, read), read.checkable()
    x = x.double()
    in_reals = of_weights(model)
    towards = [np.zeros(tuple(x.shape))]
    first = 0.0
    if query.eps is None:
        first = FIRST
        real = bracket_points(in_reals, x, label, query, Budget(first * budget.seconds, 0))
        towards.append(np.asarray(real.witness))
        reach = _reaches(in_reals.net, x, query, real.attacked)
    else:
        reach = np.full(len(x), REACH_MARGIN * query.eps)
    margin = np.array(
        [_margin(model, x[i].numpy(), int(label[i]), reach[i], query) for i in range(len(x))], dtype=float
    )
    certified, method = np.zeros(len(x)), [TOO_ROUGH] * len(x)
    stopped = ["the rounding errors of the region are larger than the margin"] * len(x)
    certificates: list[dict[int, Any]] = [{} for _ in x]
    groups = sorted({(int(o), m) for o, m in zip(label.tolist(), margin.tolist(), strict=True) if m < inf})
    done = 0
    for true_class, wanted in groups:
        rows = np.flatnonzero((label.numpy() == true_class) & (margin == wanted))
        share = replace(budget, seconds=(1 - first) * budget.seconds * len(rows) / len(x))
        strict = of_weights(demanding(model, true_class, wanted))
        bracket = bracket_points(strict, x[rows], label[rows], query, share)
        towards[0][rows] = np.asarray(bracket.witness)
        for row, i in enumerate(rows.tolist()):
            if bracket.method[row] == MISCLASSIFIED:
                continue
            certified[i] = min(float(bracket.certified[row]), reach[i])
            method[i], stopped[i] = bracket.method[row], bracket.stopped_because[row]
            certificates[i] = {
                target: replace(one, radius=min(one.radius, float(reach[i])))
                for target, one in bracket.certificates[row].items()
            }
        done += len(rows)
        progress(done / len(x))
    attacked, witness, predicted, target = _witnessed(program, x, label, towards, query)
    for i in np.flatnonzero(attacked == 0):
        certified[i], method[i], stopped[i], certificates[i] = 0.0, MISCLASSIFIED, MISCLASSIFIED, {}
    progress(1.0)
    return RadiusBracket(
        certified,
        attacked,
        tuple(method),
        witness,
        tuple(certificates),
        seconds=(time.perf_counter() - began) / max(1, len(x)),
        label=label.numpy(),
        predicted=predicted,
        target=target,
        classes=read.classes,
        margin=np.where(certified > 0, margin, 0.0),
        stopped_because=tuple(stopped),
    )


def _reaches(net: nn.Module, x: Tensor, query: Query, attacked: np.ndarray) -> np.ndarray:
    """(n,) How far the region of each point reaches: to its flip in real numbers, or as far as one looks."""
    far = np.full(len(x), query.max_radius) if query.max_radius else default_reach(net, x, query.norm).numpy()
    return np.where(np.isfinite(attacked), (1 + 1e-9) * attacked, far)


def _margin(model: canonical.Model, x: np.ndarray, label: int, reach: float, query: Query) -> float:
    """A power of two above the rounding errors of a region; inf where they have no bound, or the point is wrong already."""
    if reach == 0:
        return inf
    try:
        bound = float32_margin(model, x, label, float(reach), query.norm, query.bounds or (-inf, inf))
    except ValueError:  # numbers that no bound holds for
        return inf
    return 2.0 ** frexp(bound * (1 + 2.0**-20))[1] if bound < 1e100 else inf


def _witnessed(
    program: Program, x: Tensor, label: Tensor, towards: list[np.ndarray], query: Query
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The shortest flips of the program on the way to these perturbations, and a little beyond: length, δ, class at x, class there."""
    length, delta = x.new_full((len(x),), inf), torch.zeros_like(x)
    lower, upper = query.bounds or (-inf, inf)
    at_point = program(x.float())
    predicted, target = at_point.argmax(dim=1), _best_other(at_point, label)
    for direction in towards:
        for share in ALONG.tolist():
            z = (x + share * torch.from_numpy(direction)).float()
            scores = program(z)
            other = _best_other(scores, label)
            rows = torch.arange(len(x))
            flips = ~(scores[rows, label] > scores[rows, other])
            step = z.double() - x if share else torch.zeros_like(x)
            size = torch.linalg.vector_norm(step, ord=query.norm, dim=1)
            allowed = (z.double() >= lower).all(dim=1) & (z.double() <= upper).all(dim=1) & (size > 0)
            if share == 0:  # the point itself, wherever it is rounded to
                allowed = torch.ones_like(flips)
            shorter = flips & allowed & (size <= (query.eps or inf)) & (size < length)
            length[shorter], delta[shorter], target[shorter] = size[shorter], step[shorter], other[shorter]
    return length.numpy(), delta.numpy(), predicted.numpy(), target.numpy()


def _best_other(scores: Tensor, label: Tensor) -> Tensor:
    return scores.scatter(1, label.unsqueeze(1), -inf).argmax(dim=1)
