"""Forged proofs, each claiming more than an exact witness allows, and the guard without which each forger would get through.

Weights are drawn at many scales; parameters are mutated, or climb against the checker's own verdict. The witness is exact: margins are
computed with fractions.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import featureprism as fp
from featureprism.checker import (
    cells,
    certificate,
    deep,
    layers,
    lines,
    power_bounds,
    quadratic,
    verify,
)
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Model, Scores
from featureprism.checker.proofs import Proof
from featureprism.checker.quadratic import QuadraticScores
from featureprism.networks import LayeredScores, PowerReLU, ReLU, ScoreNet
from featureprism.networks import LinearScores as LinearNet
from featureprism.networks import QuadraticScores as QuadraticNet
from featureprism.verify.api import canonical_of
from featureprism.verify.deep.prove import norm_certificates
from featureprism.verify.one_layer.certify import _completed
from featureprism.verify.one_layer.form import scores_form as form_of

BEYOND = 1.001  # times the witness: what is claimed
BOX = (-3.0, 3.0)
STEPS = 40  # of a climb


@dataclass(frozen=True, eq=False)
class Case:
    """A model, a point of class 0, a genuine certificate against class 1, and a perturbation that flips exactly."""

    model: Model
    x: np.ndarray
    certificate: Certificate
    delta: np.ndarray

    @property
    def claim(self) -> float:
        """A radius beyond the witness."""
        return BEYOND * float(np.linalg.norm(self.delta, ord=self.certificate.norm))

    def accepts(self, forged: Certificate) -> bool:
        """Whether the checker accepts a certificate that claims this."""
        forged = replace(
            forged, radius=self.claim, reach=max(forged.reach, self.claim) if forged.reach else 0.0
        )
        proof = Proof(0, 0, 1, forged)
        return bool(
            verify.verified_radii(self.model, self.x[None], np.array([0]), [proof], forged.norm)[0] > 0
        )


def exact_margin(model: Model, point: list[Fraction]) -> Fraction:
    """f_0 - f_1, without a rounding."""

    def dot(a: Any, b: Any) -> Fraction:
        return sum((Fraction(float(u)) * v for u, v in zip(a, b, strict=True)), Fraction(0))

    match model:
        case LinearScores():
            return (
                dot(model.V[0], point) - dot(model.V[1], point) + Fraction(model.c[0]) - Fraction(model.c[1])
            )
        case QuadraticScores():
            curved = [dot(A_row, point) for A_row in model.A[0]], [dot(A_row, point) for A_row in model.A[1]]
            squares = [sum(u * v for u, v in zip(part, point, strict=True)) / 2 for part in curved]
            linear = (
                dot(model.V[0], point) - dot(model.V[1], point) + Fraction(model.c[0]) - Fraction(model.c[1])
            )
            return linear - squares[0] + squares[1]
        case Scores():
            t = [
                max(dot(w, point) + Fraction(float(b)), Fraction(0))
                for w, b in zip(model.W, model.b, strict=True)
            ]
            powers = [v ** int(model.p) for v in t]
            return (
                dot(model.V[:, 0], powers)
                - dot(model.V[:, 1], powers)
                + Fraction(model.c[0])
                - Fraction(model.c[1])
            )
        case Layers():
            h = point
            for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
                h = [max(dot(w, h) + Fraction(float(o)), Fraction(0)) for w, o in zip(W, b, strict=True)]
            W, b = model.weights[-1], model.biases[-1]
            return dot(W[0], h) - dot(W[1], h) + Fraction(float(b[0])) - Fraction(float(b[1]))
    raise AssertionError(model)


def flips(model: Model, x: np.ndarray, delta: np.ndarray) -> bool:
    """Whether class 1 wins or ties at x + δ, exactly."""
    return (
        exact_margin(model, [Fraction(float(u)) + Fraction(float(v)) for u, v in zip(x, delta, strict=True)])
        <= 0
    )


def drawn_net(kind: str, rng: np.random.Generator) -> torch.nn.Module:
    """Two classes in three dimensions."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    if kind == "linear":
        return LinearNet(draw(2, 3), draw(2))
    if kind == "quadratic":
        A = draw(2, 3, 3)
        return QuadraticNet(A + A.transpose(1, 2), draw(2, 3), 3 * draw(2))
    if kind == "layers":
        return LayeredScores([draw(6, 3), draw(5, 6), draw(2, 5)], [draw(6), draw(5), draw(2)], ReLU())
    p = float(kind)
    return ScoreNet(draw(6, 3), draw(6, 2), draw(6), draw(2), activation=ReLU() if p == 1 else PowerReLU(p))


def at_scale(net: torch.nn.Module, rng: np.random.Generator) -> torch.nn.Module:
    """One hidden layer with each neuron multiplied, and its votes divided, by a power of two: the same function."""
    if isinstance(net, ScoreNet) and rng.integers(2):
        k = rng.integers(-60, 60, size=(len(net.W), 1))
        W, V, b = (t.detach().numpy() for t in (net.W, net.V, net.b))
        p = int(net.activation.p)
        parts = np.ldexp(W, k), np.ldexp(V, -p * k), np.ldexp(b, k[:, 0])
        W, V, b = (torch.from_numpy(part) for part in parts)
        return ScoreNet(W, V, b, net.c.detach(), activation=net.activation)
    return net


def cases(seeds: range, kinds: tuple[str, ...], **options: Any) -> Iterator[Case]:
    """Models whose class 0 is ahead at a point, with what is proven of it and a witness."""
    for seed in seeds:
        rng = np.random.default_rng((seed, 35))
        net = at_scale(drawn_net(str(rng.choice(kinds)), rng), rng)
        x = torch.from_numpy(rng.normal(size=(40, 3)))
        with torch.no_grad():
            ahead = x[net(x).argmax(dim=1) == 0][:1]
        if not len(ahead):
            continue
        bracket = fp.robust_radius(net, ahead, [0], budget=fp.Budget(branches=6), **options)
        found = bracket.certificates[0].get(1)
        assert bracket.witness is not None
        model, point, delta = canonical_of(net), ahead[0].numpy(), bracket.witness[0] * (1 + 1e-9)
        if (
            found is not None
            and found.radius > 0
            and np.isfinite(float(bracket.attacked[0]))
            and flips(model, point, delta)
        ):
            case = Case(model, point, found, delta)
            if isinstance(net, ScoreNet):
                for kind in kinds_of(found):
                    yield replace(case, certificate=wide(case, net, kind, rng))
            else:
                yield case


def kinds_of(found: Certificate) -> tuple[str, ...]:
    """The kinds of certificates that speak of the same norm and bounds."""
    if found.norm == 2 and found.domain == EVERYWHERE:
        return ("crown", "cells")
    return ("crown", "lines", "ellipsoid") if found.norm == np.inf else ("ellipsoid",)


def wide(case: Case, net: ScoreNet, kind: str, rng: np.random.Generator) -> Certificate:
    """A certificate with one leaf about a region that holds the witness: genuine, so it proves less; of many the best multiplier."""
    form = form_of(net)
    assert form is not None
    pair, x = form.of_pair(0, 1), torch.from_numpy(case.x)
    claim = replace(case.certificate, kind=kind, reach=1.02 * case.claim, radius=0.0, tree={})
    weights = 1 + rng.exponential(size=3) if kind == "ellipsoid" else None
    found = []
    for tau in np.geomspace(1e-3, 1e3, 13) if kind in ("cells", "ellipsoid") else (1.0,):

        def leaf(problem: Any, tau: float = float(tau)) -> dict[str, Any]:
            c, names = problem.c.mid, ("low", "high", "centre", "kappa", "nu_floor", "nu_ceiling")
            line = np.where(c > 0, 1.0, 0.0) if form.p == 1 else np.maximum(c, 0.0)
            return {"tau": tau, "line": line} | {name: np.zeros(len(c)) for name in names}

        found.append(_completed(claim, pair, x, 1.0, leaf, weights))
    return max(found, key=lambda one: one.radius)


def leaves_of(tree: dict) -> list[dict]:
    return (
        [leaf for side in ("below", "above") for leaf in leaves_of(tree[side])] if "cut" in tree else [tree]
    )


def changed_leaves(case: Case, change: Callable[[dict], None]) -> Certificate:
    tree = deepcopy(case.certificate.tree)
    for leaf in leaves_of(tree):
        change(leaf)
    return replace(case.certificate, tree=tree)


def steep(case: Case, rng: np.random.Generator) -> Certificate:
    """Slopes between 1 and 2 below ReLU."""
    votes = case.certificate.tree["votes"]

    def change(leaf: dict) -> None:
        slope = rng.uniform(1.0, 2.0)
        leaf["line"] = np.where((votes > 0) & (leaf["high"] > 0), slope, leaf["line"])

    return changed_leaves(case, change)


def bent(case: Case, rng: np.random.Generator) -> Certificate:
    """Chords above opposing neurons that bend below them."""

    def change(leaf: dict) -> None:
        leaf["centre"] = 0 * leaf["centre"]
        width = np.maximum(leaf["high"] - leaf["low"], 1e-9)
        leaf["kappa"] = leaf["kappa"] + 4 * rng.exponential(size=len(width)) / width

    return changed_leaves(case, change)


def narrow(case: Case, rng: np.random.Generator) -> Certificate:
    """Bounds of neurons that do not hold."""

    def change(leaf: dict) -> None:
        middle, share = (leaf["low"] + leaf["high"]) / 2, rng.uniform(0, 0.7)
        leaf["low"], leaf["high"] = (middle + share * (leaf[side] - middle) for side in ("low", "high"))

    return changed_leaves(case, change)


def bribed(case: Case, rng: np.random.Generator) -> Certificate:
    """Votes above the weights."""
    votes = case.certificate.tree["votes"]
    more = np.where(votes > 0, votes * (1 + 100 * rng.exponential()), votes * rng.uniform(0, 0.1))
    return replace(case.certificate, tree=case.certificate.tree | {"votes": more})


def climbing(case: Case, rng: np.random.Generator) -> Certificate:
    """Parameters that climb against the checker's own verdict, from genuine ones: those that verify more are kept."""
    best, score = case.certificate, 0.0
    for _ in range(STEPS):
        tree = deepcopy(best.tree)
        for leaf in leaves_of(tree):
            for name in [key for key, value in leaf.items() if isinstance(value, np.ndarray)]:
                leaf[name] = leaf[name] * (
                    1 + 0.3 * rng.normal(size=len(leaf[name])) * (rng.random(len(leaf[name])) < 0.3)
                )
        trial = replace(best, tree=tree)
        found = verify.verified_radius(case.model, case.x, Proof(0, 0, 1, trial))
        if found >= score:
            best, score = trial, found
    return best


def concave(case: Case, rng: np.random.Generator) -> Certificate:
    """A multiplier of quadratic scores beyond convexity."""
    return replace(
        case.certificate, tree={"numbers": case.certificate.tree["numbers"] * (1 + 10 * rng.exponential())}
    )


def short(case: Case, rng: np.random.Generator) -> Certificate:
    """Norms of layers that are too small."""
    assert isinstance(case.model, Layers)
    (honest,) = norm_certificates(case.model, case.x[None], [0], [1], case.certificate.norm)
    return replace(honest, tree={"numbers": honest.tree["numbers"] * rng.uniform(1e-4, 0.3)})


def blind(case: Case, rng: np.random.Generator) -> Certificate:
    """Bounds by which neurons of layers are off, or hardly move."""
    assert isinstance(case.model, Layers)
    H = sum(case.model.widths)
    low, high = -rng.exponential(size=H) - 1, rng.choice([-0.5, 1e-3]) * np.ones(H)
    tree = {"block": np.concatenate([low, high])}
    return replace(case.certificate, kind="deep", reach=case.claim, tree=tree)


def boastful(case: Case, _rng: np.random.Generator) -> Certificate:
    """Nothing but a larger claim."""
    return case.certificate


def nothing(*_args: Any, **_options: Any) -> None:
    """A guard that is gone."""


def unposed(network: Any, x: np.ndarray, y: float, radius: float, votes: np.ndarray, _scale: int) -> Any:
    """The problem with votes that nobody compared."""
    from featureprism.checker.scaled import posed

    return replace(posed(network, x, y, radius), vote=votes)


def believed(
    model: Layers, _c: Any, _region: Any, _signs: Any, low: np.ndarray, high: np.ndarray
) -> list[Any]:
    """Stored bounds that nobody shows."""
    parts = (np.split(v, np.cumsum(model.widths)[:-1]) for v in (low, high))
    return [layers.Neurons(*pair) for pair in zip(*parts, strict=True)]


DUAL = quadratic._dual


def convex_by_word(margin: Any, *rest: Any) -> np.ndarray:
    """The bound of a function that nobody shows to be convex."""
    return DUAL(margin._replace(largest=-1e9), *rest)


@dataclass(frozen=True, eq=False)
class Forger:
    """How to forge, which models and options, and which guards (object, name, replacement) stand in the way."""

    forge: Callable[[Case, np.random.Generator], Certificate]
    kinds: tuple[str, ...]
    of: tuple[str, ...]  # kinds of certificates that it can forge
    guards: tuple[tuple[Any, str, Any], ...]
    options: tuple[dict[str, Any], ...] = ({},)

    @contextmanager
    def without_guards(self) -> Iterator[None]:
        """The checker without what stands in the way."""
        with ExitStack() as stack:
            for owner, name, replacement in self.guards:
                stack.enter_context(patch.object(owner, name, replacement))
            yield


ONE = ("cells", "crown", "lines", "ellipsoid")
BOTH = ({}, {"norm": np.inf}, {"domain": BOX}, {"norm": np.inf, "domain": BOX})
MALFORMED = ((cells, "_refuse_malformed_leaf", nothing),)
FORGERS = {
    "steep": Forger(steep, ("1",), ONE, MALFORMED, BOTH),
    "bent": Forger(
        bent,
        ("1", "2"),
        ("cells", "ellipsoid"),
        ((power_bounds, "end_curvature", lambda low, *_: low * 0 + np.inf),),
        BOTH,
    ),
    "narrow": Forger(
        narrow,
        ("1", "2", "3"),
        ONE,
        ((cells, "encloses", lambda *_: True), (lines, "encloses", lambda *_: True)),
        BOTH,
    ),
    "bribed": Forger(bribed, ("1", "2", "3"), (*ONE, "lipschitz"), ((certificate, "posed", unposed),), BOTH),
    "climbing": Forger(
        climbing,
        ("1", "2", "3"),
        ONE,
        (*MALFORMED, (cells, "encloses", lambda *_: True), (lines, "encloses", lambda *_: True)),
        BOTH,
    ),
    "concave": Forger(concave, ("quadratic",), ("closed form",), ((quadratic, "_dual", convex_by_word),)),
    "short": Forger(
        short,
        ("layers",),
        ("crown", "deep", "norm product"),
        ((deep, "_is_norm", lambda *_: True),),
        BOTH[:2],
    ),
    "blind": Forger(
        blind, ("layers",), ("crown", "deep", "norm product"), ((deep, "enclosed_neurons", believed),), BOTH
    ),
    "boastful": Forger(
        boastful,
        ("linear", "quadratic", "1", "2", "layers"),
        (*ONE, "closed form", "deep", "norm product"),
        ((verify, "verified_radius", lambda *_: np.inf),),
        BOTH,
    ),
}


def forged(name: str, seeds: range, repeats: int) -> Iterator[tuple[Case, Certificate]]:
    """Forged certificates of one forger, each with what it is about."""
    forger = FORGERS[name]
    for option in forger.options:
        for case in cases(seeds, forger.kinds, **option):
            if case.certificate.kind in forger.of:
                rng = np.random.default_rng(len(name))
                for _ in range(repeats):
                    yield case, forger.forge(case, rng)
