"""Brackets of random networks of every kind against the truth: certified ≤ truth ≤ attacked, always."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from asking import asked
from nearest_flips import Add, Affine, Keep, Pieces, hinge, nearest_flip, scip, solved_radius
from torch import nn

from featureprism.models.scores import LinearScores, QuadraticScores, ScoreNet
from featureprism.networks import MLP, PolynomialReLU, PowerReLU, ReLU, TwoLayerNet

NUM_NETWORKS = 200  # of each kind, norm and bounds
ROUNDING = 1e-6  # of the truth by linear programmes and least distances
SOLVER = 1e-3  # of SCIP: its gap, and constraints that it holds up to 1e-6
BRANCHES = 24
CASES = [(2.0, None), (2.0, (0.0, 1.0)), (math.inf, None), (math.inf, (0.0, 1.0))]


@dataclass(frozen=True, eq=False)
class Example:
    """A network, and how its truth is found: steps that are linear in pieces, or margins before every other class for SCIP."""

    net: Any
    dim: int
    steps: list | None = None
    margins: Callable[[np.ndarray, int], list] | None = None
    one_output: bool = False


def linear(rng: np.random.Generator, d: int, h: int) -> tuple[nn.Linear, Affine]:
    W, b = rng.normal(size=(h, d)) / d**0.5, 0.5 * rng.normal(size=h)
    layer = nn.Linear(d, h).double()
    layer.weight.data, layer.bias.data = torch.from_numpy(W), torch.from_numpy(b)
    return layer, Affine(W, b)


def balanced(example: Example, rng: np.random.Generator) -> Example:
    """The same with scores that nearly tie in the middle of the box, so that there are flips; layers and steps share their arrays."""
    assert example.steps is not None
    with torch.no_grad():
        scores = example.net(torch.full((1, example.dim), 0.5).double())[0].numpy()
    example.steps[-1].b[:] -= scores - 0.1 * rng.normal(size=len(scores))
    return example


def sizes(rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(2, 5)), int(rng.integers(2, 5))  # inputs and classes


def sequential(depth: int, make: Callable[[np.random.Generator], tuple[nn.Module, Pieces]]) -> Callable:
    def example(rng: np.random.Generator) -> Example:
        d, k = sizes(rng)
        widths = [d, *rng.integers(2, 6 if depth < 3 else 4, size=depth).tolist()]
        modules, steps = [], []
        for a, b in pairwise(widths):
            layer, affine = linear(rng, a, b)
            activation, pieces = make(rng)
            modules += [layer, activation]
            steps += [affine, pieces]
        layer, affine = linear(rng, widths[-1], k)
        return balanced(Example(nn.Sequential(*modules, layer), d, [*steps, affine]), rng)

    return example


def leaky(rng: np.random.Generator) -> tuple[nn.Module, Pieces]:
    slope = float(rng.choice([0.01, 0.1, 0.3]))
    return nn.LeakyReLU(slope), Pieces("leaky", slope)


class Residual(nn.Module):
    """c(h + relu(b(h))), h = relu(a(x))."""

    def __init__(self, a: nn.Module, b: nn.Module, c: nn.Module) -> None:
        super().__init__()
        self.a, self.b, self.c = a, b, c

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.a(x))
        return self.c(h + torch.relu(self.b(h)))


def residual(rng: np.random.Generator) -> Example:
    (d, k), h = sizes(rng), int(rng.integers(2, 5))
    (a, first), (b, second), (c, last) = linear(rng, d, h), linear(rng, h, h), linear(rng, h, k)
    relu = Pieces("relu")
    return balanced(Example(Residual(a, b, c), d, [first, relu, Keep(), second, relu, Add(), last]), rng)


def convolution(rng: np.random.Generator) -> Example:
    """One channel of 3 × 3 pixels, 2 × 2 windows."""
    conv = nn.Conv2d(1, int(rng.integers(1, 3)), 2, stride=int(rng.integers(1, 3))).double()
    for parameter in conv.parameters():
        parameter.data = torch.from_numpy(rng.normal(size=tuple(parameter.shape)))
    image, zero = torch.eye(9).double().view(9, 1, 3, 3), torch.zeros(1, 1, 3, 3).double()
    with torch.no_grad():
        offset = conv(zero).flatten()
        W = (conv(image).flatten(1) - offset).T.numpy()
    layer, last = linear(rng, len(W), int(rng.integers(2, 4)))
    net = nn.Sequential(nn.Unflatten(1, (1, 3, 3)), conv, nn.ReLU(), nn.Flatten(), layer)
    return balanced(Example(net, 9, [Affine(W, offset.numpy()), Pieces("relu"), last]), rng)


def linear_scores(rng: np.random.Generator) -> Example:
    d, k = sizes(rng)
    layer, affine = linear(rng, d, k)
    return Example(LinearScores(layer.weight.data, layer.bias.data), d, [affine])


def one_output(rng: np.random.Generator) -> Example:
    """Σ_j a_j [⟨w_j, x⟩ + b_j]₊, as scores (0, f)."""
    d, h = int(rng.integers(2, 5)), int(rng.integers(2, 7))
    W, a, b = rng.normal(size=(h, d)), rng.normal(size=h), rng.normal(size=h)
    net = TwoLayerNet(*(torch.from_numpy(v) for v in (W, a, b)), activation=ReLU())
    last = Affine(np.stack([0 * a, a]), np.zeros(2))
    return Example(net, d, [Affine(W, b), Pieces("relu"), last], one_output=True)


def one_output_deep(rng: np.random.Generator) -> Example:
    """Two hidden layers without biases."""
    d, g, h = (int(v) for v in rng.integers(2, 5, size=3))
    weights = [rng.normal(size=shape) for shape in ((g, d), (h, g), (1, h))]
    relu, last = Pieces("relu"), np.concatenate([0 * weights[2], weights[2]])
    steps = [
        Affine(weights[0], np.zeros(g)),
        relu,
        Affine(weights[1], np.zeros(h)),
        relu,
        Affine(last, np.zeros(2)),
    ]
    return Example(MLP([torch.from_numpy(W) for W in weights]), d, steps, one_output=True)


def powers(p: int, normalised: bool) -> Callable[[np.random.Generator], Example]:
    """Powers of one hidden layer: k scores, or one output with neurons divided by ‖w‖^(p-1)."""

    def example(rng: np.random.Generator) -> Example:
        (d, k), h = (2, 2 if normalised else 3), int(rng.integers(2, 4))
        W, b, V = rng.normal(size=(h, d)), 0.5 * rng.normal(size=h), rng.normal(size=(h, k))
        c = 0.3 * rng.normal(size=k)
        if normalised:
            V, c = np.stack([0 * V[:, 0], V[:, 0]], axis=1), 0 * c
            net = TwoLayerNet(
                *(torch.from_numpy(v) for v in (W, V[:, 1].copy(), b)), activation=PolynomialReLU(p)
            )
            V = V / np.linalg.norm(W, axis=1)[:, None] ** (p - 1)
        else:
            net = ScoreNet(*(torch.from_numpy(v) for v in (W, V, b, c)), activation=PowerReLU(p))

        def margins(x: np.ndarray, label: int) -> list:
            def against(target: int) -> Callable:
                def margin(model: Any, delta: list) -> Any:
                    total = float(c[label] - c[target])
                    for w, t, v in zip(W, W @ x + b, V, strict=True):
                        size = abs(t) + REACH * np.abs(w).sum()
                        h = hinge(
                            model, t + scip.quicksum(wi * di for wi, di in zip(w, delta, strict=True)), size
                        )
                        total += float(v[label] - v[target]) * h**p
                    return total

                return margin

            return [against(target) for target in range(k) if target != label]

        return Example(net, d, margins=margins, one_output=normalised)

    return example


def quadratic(rng: np.random.Generator) -> Example:
    d, k = 2, 3
    A = rng.normal(size=(k, d, d))
    A, V, c = A + A.transpose(0, 2, 1), rng.normal(size=(k, d)), rng.normal(size=k)
    net = QuadraticScores(*(torch.from_numpy(v) for v in (A, V, c)))
    with torch.no_grad():  # xᵀAx or ½xᵀAx, as the network has it
        factor = float(net(torch.ones(1, d).double())[0, 0] - V[0].sum() - c[0]) / A[0].sum()

    def margins(x: np.ndarray, label: int) -> list:
        def against(target: int) -> Callable:
            M, v, e = factor * (A[label] - A[target]), V[label] - V[target], c[label] - c[target]

            def margin(_: Any, delta: list) -> Any:
                z = [xi + di for xi, di in zip(x.tolist(), delta, strict=True)]
                square = scip.quicksum(M[i, j] * z[i] * z[j] for i in range(d) for j in range(d))
                return square + scip.quicksum(vi * zi for vi, zi in zip(v, z, strict=True)) + e

            return margin

        return [against(target) for target in range(k) if target != label]

    return Example(net, d, margins=margins)


REACH = 4.0
RELU = lambda _: (nn.ReLU(), Pieces("relu"))  # noqa: E731
HARDTANH = lambda _: (nn.Hardtanh(), Pieces("hardtanh"))  # noqa: E731
KINDS: dict[str, Callable[[np.random.Generator], Example]] = {
    "relu, 1 layer": sequential(1, RELU),
    "relu, 2 layers": sequential(2, RELU),
    "relu, 3 layers": sequential(3, RELU),
    "leaky, 1 layer": sequential(1, leaky),
    "leaky, 2 layers": sequential(2, leaky),
    "hardtanh, 1 layer": sequential(1, HARDTANH),
    "hardtanh, 2 layers": sequential(2, HARDTANH),
    "residual": residual,
    "convolution": convolution,
    "linear": linear_scores,
    "one output, 1 layer": one_output,
    "one output, 2 layers": one_output_deep,
    "powers, p = 2": powers(2, normalised=False),
    "powers, p = 3": powers(3, normalised=False),
    "pReLU, p = 2": powers(2, normalised=True),
    "pReLU, p = 3": powers(3, normalised=True),
    "quadratic": quadratic,
}


def labelled(example: Example, x: torch.Tensor) -> tuple[int, Any]:
    """The class of a point, and as a label."""
    with torch.no_grad():
        scores = example.net(x)
    if example.one_output:
        positive = int(scores[0] > 0)
        return positive, torch.tensor([2.0 * positive - 1]).double()
    return int(scores.argmax()), scores.argmax(dim=1)


def asked_once(
    kind: str, seed: int, norm: float, bounds: tuple[float, float] | None
) -> tuple[str, float, float]:
    """What is wrong with the bracket of one random network (nothing), certified ÷ truth and attacked ÷ truth."""
    rng = np.random.default_rng((seed, list(KINDS).index(kind)))
    example = KINDS[kind](rng)
    x = torch.from_numpy(rng.uniform(size=(1, example.dim)))
    label, given = labelled(example, x)
    bracket = asked(example.net, x, given, norm=norm, bounds=bounds, branches=BRANCHES, max_radius=REACH)
    certified, attacked = float(bracket.certified[0]), float(bracket.attacked[0])
    if example.steps is not None:
        truth = nearest_flip(example.steps, x[0].numpy(), label, norm, bounds)
        least, most, tolerance = truth, truth, ROUNDING
    else:
        assert example.margins is not None
        least, found = solved_radius(example.margins(x[0].numpy(), label), x[0].numpy(), norm, bounds, REACH)
        flips = [v for v in found if labelled(example, x + torch.from_numpy(v * (1 + 1e-4)))[0] != label]
        most = min((float(np.linalg.norm(v, ord=norm)) * (1 + 1e-4) for v in flips), default=math.inf)
        tolerance = SOLVER
    trouble = ""
    if certified > most * (1 + tolerance) + 1e-9:
        trouble = f"certified {certified} beyond {most}"
    if attacked < least * (1 - tolerance) - 1e-6:
        trouble = f"attacked {attacked} below {least}"
    scale = most if math.isfinite(most) else attacked
    return trouble, certified / scale if scale else 1.0, attacked / scale if scale else 1.0


@pytest.mark.parametrize("kind", list(KINDS)[::3])
def test_the_truth_lies_in_the_bracket(kind):
    case = CASES[list(KINDS).index(kind) % len(CASES)]
    assert asked_once(kind, 0, *case)[0] == ""


def check_many(kind, norm, bounds, num):
    answers = [asked_once(kind, seed, norm, bounds) for seed in range(num)]
    low, high = (np.array([answer[k] for answer in answers]) for k in (1, 2))
    print(
        f"\n{kind}, norm {norm:g}, bounds {bounds}: {len(answers)} networks, "
        f"{sum(bool(a[0]) for a in answers)} wrong, closed {np.mean(low >= 0.989 * high):.3f}, "
        f"attacked ÷ truth median {np.nanmedian(high):.5f}, worst {np.nanmax(high[np.isfinite(high)]):.5f}"
    )
    assert [f"seed {seed}: {a[0]}" for seed, a in enumerate(answers) if a[0]] == []


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "bounds"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_lies_in_the_brackets_of_ten_networks(kind, norm, bounds):
    check_many(kind, norm, bounds, 10)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("norm", "bounds"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_lies_in_the_brackets_of_two_hundred_networks(kind, norm, bounds):
    check_many(kind, norm, bounds, NUM_NETWORKS)
