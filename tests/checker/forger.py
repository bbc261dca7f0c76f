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

from featureprism.checker import (
    cells,
    certificate,
    curves,
    deep,
    ellipsoids,
    exact,
    layers,
    lines,
    power_bounds,
    quadratic,
    slopes,
    verify,
)
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Model, Scores
from featureprism.checker.proofs import Proof
from featureprism.checker.quadratic import QuadraticScores
from featureprism.models.activations import of_layers_named
from featureprism.models.model import as_model
from featureprism.models.scores import ScoreNet
from featureprism.networks import PowerReLU, ReLU
from featureprism.verify.deep.methods import norm_certificates
from featureprism.verify.one_layer.certify import _completed
from featureprism.verify.query import Limits, Query
from featureprism.verify.slopes import _Search

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
                z = [dot(w, h) + Fraction(float(o)) for w, o in zip(W, b, strict=True)]
                if model.activation == "relu":
                    h = [max(t, Fraction(0)) for t in z]
                else:  # off by less than 1e-60
                    h = [sum(exact.activation(model.activation, t)) / 2 for t in z]
            W, b = model.weights[-1], model.biases[-1]
            return dot(W[0], h) - dot(W[1], h) + Fraction(float(b[0])) - Fraction(float(b[1]))
    raise AssertionError(model)


def flips(model: Model, x: np.ndarray, delta: np.ndarray) -> bool:
    """Whether class 1 wins or ties at x + δ, exactly."""
    return (
        exact_margin(model, [Fraction(float(u)) + Fraction(float(v)) for u, v in zip(x, delta, strict=True)])
        <= 0
    )


def drawn_model(kind: str, rng: np.random.Generator, farthest: int = 60) -> Model:
    """Two classes in three dimensions; of one hidden layer each neuron at its own scale, which its votes undo.

    Beyond about 2^300 the checker refuses the weights with a ValueError.
    """
    draw = rng.normal
    if kind == "linear":
        k = int(rng.integers(-farthest, farthest + 1)) if rng.integers(2) else 0
        return LinearScores(np.ldexp(draw(size=(2, 3)), k), np.ldexp(draw(size=2), k))
    if kind == "quadratic":
        A = draw(size=(2, 3, 3))
        return QuadraticScores(A + A.transpose(0, 2, 1), draw(size=(2, 3)), 3 * draw(size=2))
    if kind == "smooth":
        shapes = ((6, 3), (5, 6), (2, 5))
        parts = tuple(draw(size=s) for s in shapes), tuple(draw(size=s[0]) for s in shapes)
        return Layers(*parts, str(rng.choice(["tanh", "gelu", "silu"])))
    if kind == "layers":
        shapes = ((6, 3), (5, 6), (2, 5))
        k = rng.integers(-farthest, farthest + 1, size=2) * rng.integers(2)
        down, last = (int(-k[0]), int(k[0] - k[1]), int(k[1])), (int(-k[0]), int(-k[1]), 0)
        weights = tuple(np.ldexp(draw(size=s), e) for s, e in zip(shapes, down, strict=True))
        return Layers(
            weights, tuple(np.ldexp(draw(size=s[0]), e) for s, e in zip(shapes, last, strict=True)), "relu"
        )
    p, W, V, b = float(kind), draw(size=(6, 3)), draw(size=(6, 2)), draw(size=6)
    if rng.integers(2):
        k = rng.integers(-farthest, farthest + 1, size=(6, 1))
        W, V, b = np.ldexp(W, k), np.ldexp(V, -int(p) * k), np.ldexp(b, k[:, 0])
    return Scores(W, b, V, draw(size=2), p)


def margins(model: Model, z: np.ndarray) -> np.ndarray:
    """(n,) f_0 - f_1 at points (n, d), in floats."""
    match model:
        case LinearScores():
            scores = z @ model.V.T + model.c
        case QuadraticScores():
            scores = z @ model.V.T + model.c - 0.5 * np.einsum("ni,kij,nj->nk", z, model.A, z)
        case Scores():
            scores = np.maximum(z @ model.W.T + model.b, 0) ** model.p @ model.V + model.c
        case Layers():
            phi = of_layers_named(model.activation)
            for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
                z = phi.value(torch.from_numpy(z @ W.T + b)).numpy()
            scores = z @ model.weights[-1].T + model.biases[-1]
        case _:
            raise AssertionError(model)
    return scores[:, 0] - scores[:, 1]


def witness(
    model: Model, x: np.ndarray, norm: float, box: tuple[float, float] | None, rng: np.random.Generator
) -> np.ndarray | None:
    """A short perturbation after which class 1 wins: rays in many directions, then in directions near the best."""
    best, length = None, 8.0
    for rounds in range(4):
        near = rng.normal(size=(200, len(x)))
        if best is not None:
            near = best / np.linalg.norm(best) + 0.3 ** (rounds + 1) * near
        rays = near / np.linalg.norm(near, ord=norm, axis=1, keepdims=True)
        steps = length * np.linspace(0.02, 1.0, 50)
        delta = steps[:, None, None] * rays
        flipped = margins(model, (x + delta).reshape(-1, len(x))).reshape(50, -1) < 0
        if box is not None:
            flipped &= ((x + delta >= box[0]) & (x + delta <= box[1])).all(axis=2)
        if flipped.any():
            first, ray = (part[0] for part in np.nonzero(flipped))
            best, length = delta[first, ray], float(steps[first])
    return best


def cases(
    seeds: range,
    kinds: tuple[str, ...],
    norm: float = 2,
    box: tuple[float, float] | None = None,
    farthest: int = 60,
) -> Iterator[Case]:
    """Models whose class 0 is ahead at a point, with a genuine certificate of each kind, and a witness."""
    for seed in seeds:
        rng = np.random.default_rng((seed, 35))
        try:
            with np.errstate(all="ignore"):
                model = drawn_model(str(rng.choice(kinds)), rng, farthest)
        except ValueError:  # weights beyond what the checker takes
            continue
        x = rng.normal(size=(40, 3))
        with np.errstate(all="ignore"):
            ahead = x[margins(model, x) > 0][:1]
            delta = witness(model, ahead[0], norm, box, rng) if len(ahead) else None
        if delta is None or not flips(model, ahead[0], delta):
            continue
        domain = EVERYWHERE if box is None else box
        case = Case(model, ahead[0], Certificate(0.0, "closed form", norm, domain=domain), delta)
        match model:
            case Scores():
                for kind in kinds_of(case.certificate):
                    yield replace(case, certificate=wide(case, kind, rng))
            case Layers():
                if model.activation == "relu" and norm != 1:
                    yield replace(case, certificate=replace(case.certificate, kind="deep"))
                else:
                    yield replace(case, certificate=relaxed(case))
            case QuadraticScores():
                best = model.nearest(case.x[None], 0, 1).multiplier
                yield replace(case, certificate=replace(case.certificate, tree={"numbers": best}))
            case _:
                yield case


def kinds_of(found: Certificate) -> tuple[str, ...]:
    """The kinds of certificates that speak of the same norm and bounds."""
    if found.norm == 2 and found.domain == EVERYWHERE:
        return ("crown", "cells")
    return ("crown", "lines", "ellipsoid") if found.norm == np.inf else ("ellipsoid",)


def wide(case: Case, kind: str, rng: np.random.Generator) -> Certificate:
    """A certificate with one leaf about a region that holds the witness: genuine, so it proves less; of many the best multiplier."""
    m, x = case.model, torch.from_numpy(case.x)
    assert isinstance(m, Scores)
    W, V, b, c = (torch.from_numpy(part) for part in (m.W, m.V, m.b, m.c))
    form = as_model(ScoreNet(W, V, b, c, activation=ReLU() if m.p == 1 else PowerReLU(m.p))).one_layer
    pair = form.of_pair(0, 1)
    claim = replace(case.certificate, kind=kind, reach=1.02 * case.claim, radius=0.0, tree={})
    weights = 1 + rng.exponential(size=3) if kind == "ellipsoid" else None
    found = []
    for tau in np.geomspace(1e-3, 1e3, 7) if kind in ("cells", "ellipsoid") else (1.0,):

        def leaf(problem: Any, tau: float = float(tau)) -> dict[str, Any]:
            c, names = problem.c.mid, ("low", "high", "centre", "kappa", "nu_floor", "nu_ceiling")
            line = np.where(c > 0, 1.0, 0.0) if form.p == 1 else np.maximum(c, 0.0)
            return {"tau": tau, "line": line} | {name: np.zeros(len(c)) for name in names}

        found.append(_completed(claim, pair, x, 1.0, leaf, weights))
    return max(found, key=lambda one: one.radius)


def relaxed(case: Case) -> Certificate:
    """A linear relaxation of the region that holds the witness, with genuine bounds."""
    found, model = case.certificate, case.model
    assert isinstance(model, Layers)
    bounds = None if found.domain == EVERYWHERE else found.domain
    search = _Search(model, case.x, 0, [1], Query(found.norm, bounds=bounds), Limits(0))
    chosen = search.started(case.claim)
    parts = [torch.cat([v.reshape(-1) for v in part]).numpy() for part in chosen.parts()]
    numbers = np.concatenate([*search.proven_bounds(case.claim, chosen), *parts])
    return replace(found, kind="relaxation", tree={"numbers": numbers})


def pinched(case: Case, rng: np.random.Generator) -> Certificate:
    """Bounds of a linear relaxation that are too narrow, and other slopes."""
    low, high, *parts = case.certificate.tree["numbers"].reshape(6, -1)
    middle, share = (low + high) / 2, rng.uniform(0, 0.5)
    parts = [part * (1 + 0.1 * rng.normal(size=len(part))) for part in parts]
    ends = [middle + share * (end - middle) for end in (low, high)]
    return replace(case.certificate, tree={"numbers": np.concatenate([*ends, *parts])})


def tilted(case: Case, rng: np.random.Generator) -> Certificate:
    """Slopes of lines of any size, one neuron's bounds turned round."""
    numbers = case.certificate.tree["numbers"].copy()
    H = len(numbers) // 6
    numbers[2 * H :] *= 1 + 10 ** rng.uniform(-2, 1) * rng.normal(size=4 * H)
    if rng.integers(2):
        j = int(rng.integers(H))
        numbers[[j, H + j]] = numbers[[H + j, j]]
    return replace(case.certificate, tree={"numbers": numbers})


def at_edge(case: Case, rng: np.random.Generator) -> Case:
    """The same function up to a power of two, through weights from denormal numbers to the edge of float64.

    A ValueError where the checker takes no such weights; weights that become denormal are rounded.
    """
    near, k, m = rng.integers(2), *(int(v) for v in rng.integers(-1060, 1000, size=2))
    if near:  # mostly what the checker takes
        k, m = (int(v) for v in rng.integers(-1060, 332, size=2))
    match case.model:
        case Scores(W=W, b=b, V=V, c=c, p=p):
            parts = np.ldexp(W, k), np.ldexp(b, k), np.ldexp(V, m), np.ldexp(c, m + int(p) * k)
            model: Model = Scores(*parts, p)
        case Layers(weights=weights, biases=biases):
            total = np.cumsum([k, -k, m])
            scaled = [np.ldexp(W, e) for W, e in zip(weights, (k, -k, m), strict=True)]
            model = Layers(
                tuple(scaled), tuple(np.ldexp(b, e) for b, e in zip(biases, total, strict=True)), "relu"
            )
        case LinearScores(V=V, c=c):
            model = LinearScores(np.ldexp(V, k), np.ldexp(c, k))
        case _:
            raise AssertionError(case.model)
    return replace(case, model=model)


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
        leaf["kappa"] = leaf["kappa"] + 10 ** rng.uniform(-2, 2, size=len(width)) / width
        leaf["tau"] *= 10 ** rng.uniform(-1, 1)

    return changed_leaves(case, change)


def narrow(case: Case, rng: np.random.Generator) -> Certificate:
    """Bounds of neurons that do not hold: narrower ones, or some by which opposing neurons are off."""
    opposing = case.certificate.tree["votes"] < 0

    def change(leaf: dict) -> None:
        middle, share = (leaf["low"] + leaf["high"]) / 2, rng.uniform(0, 0.7)
        low, high = (middle + share * (leaf[side] - middle) for side in ("low", "high"))
        if rng.integers(2):
            low, high = np.where(opposing, -2.0, low), np.where(opposing, -1.0, high)
            leaf["line"] = np.where(opposing, 0.0, rng.choice([0.0, 1.0]) * leaf["line"])
        leaf["low"], leaf["high"] = low, high

    return changed_leaves(case, change)


def bribed(case: Case, rng: np.random.Generator) -> Certificate:
    """Votes above the weights."""
    votes = case.certificate.tree["votes"]
    more = np.where(votes > 0, votes * (1 + 100 * rng.exponential()), votes * rng.uniform(0, 0.1))
    return replace(case.certificate, tree=case.certificate.tree | {"votes": more})


def negative(case: Case, rng: np.random.Generator) -> Certificate:
    """A negative multiplier of the margin, with lines far above the opposing neurons."""
    votes, claim = case.certificate.tree["votes"], -float(rng.exponential())

    def change(leaf: dict) -> None:
        leaf["tau"], leaf["line"] = claim, np.where(votes > 0, 0.0, rng.uniform(0, 0.2) * leaf["line"])

    return changed_leaves(case, change)


def rewarding(case: Case, rng: np.random.Generator) -> Certificate:
    """A cut that leaves nothing on one side, and a negative multiplier of it on the other."""
    tree = deepcopy(case.certificate.tree)
    beside = {name: tree.pop(name) for name in ("votes", "scale", "numbers") if name in tree}
    j = int(rng.integers(len(beside["votes"])))
    width = tree["high"][j] - tree["low"][j]
    if not width > 0:
        return case.certificate
    paid = np.zeros(len(beside["votes"]))
    paid[j] = -np.ldexp(1.0, int(rng.integers(20, 40))) * max(tree["tau"], 1.0)
    value = float(tree["low"][j] - rng.uniform(1, 3) * width)
    above = deepcopy(tree) | {"nu_floor": paid}
    cut = {"cut": j, "value": value, "below": deepcopy(tree), "above": above}
    return replace(case.certificate, tree=cut | beside)


def falling(case: Case, rng: np.random.Generator) -> Certificate:
    """Weights of an ellipsoid that are negative."""
    numbers = case.certificate.tree["numbers"].copy()
    d = len(numbers) // 2
    fallen = rng.permutation(d) < (d - 1 if case.certificate.norm == 2 else 1)
    size = (
        10 ** rng.uniform(1, 6) if case.certificate.norm == 2 else (d - 1) * (1 - 10 ** rng.uniform(-6, -1))
    )
    numbers[:d], numbers[d:] = np.where(fallen, -size, 1.0), 0.0
    tau = case.certificate.tree["tau"] * 10 ** rng.uniform(-3, 1)
    return replace(case.certificate, tree=case.certificate.tree | {"numbers": numbers, "tau": tau})


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
    if rng.integers(2):  # the first layer is off, so the second one does not move: those that help are on
        *_, offset, _ = case.model.biases
        helps = (case.model.weights[-1][0] - case.model.weights[-1][1]) * offset > 0
        low[-len(offset) :], high[-len(offset) :] = np.where(helps, 0.0, -2.0), np.where(helps, 1.0, -1.0)
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


def any_weights(tree: dict, problem: Any, _least: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights of an ellipsoid that nobody looks at."""
    d = problem.network.neurons.shape[1]
    return tree["numbers"][:d], tree["numbers"][d:]


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
BOTH = ({}, {"norm": np.inf}, {"box": BOX}, {"norm": np.inf, "box": BOX})
ALL_NORMS = ({"norm": 1}, {"norm": 1, "box": BOX}, *BOTH)
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
    "negative": Forger(negative, ("1", "2"), ("crown", "lines"), MALFORMED, BOTH),
    "rewarding": Forger(rewarding, ("1", "2"), ("lines", "cells"), MALFORMED, BOTH),
    "falling": Forger(
        falling,
        ("1", "2", "3"),
        ("ellipsoid",),
        ((ellipsoids, "_weights_and_middle", any_weights),),
        BOTH[1:],
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
    "pinched": Forger(
        pinched, ("smooth", "layers"), ("relaxation",), ((slopes, "_hold", lambda *_: True),), ALL_NORMS
    ),
    "tilted": Forger(
        tilted,
        ("smooth", "layers"),
        ("relaxation",),
        ((curves.Curve, "offset", lambda _curve, low, _high, _slope, side: 0 * low + 10 * side),),
        ALL_NORMS,
    ),
    "boastful": Forger(
        boastful,
        ("linear", "quadratic", "1", "2", "layers", "smooth"),
        (*ONE, "closed form", "deep", "norm product", "relaxation"),
        ((verify, "verified_radius", lambda *_: np.inf),),
        (*BOTH, *ALL_NORMS[:2], *({**option, "farthest": 300} for option in BOTH), {"farthest": 1100}),
    ),
}


def forged(name: str, seeds: range, repeats: int) -> Iterator[tuple[Case, Certificate]]:
    """Forged certificates of one forger, each with what it is about."""
    forger = FORGERS[name]
    for option in forger.options:
        for case in cases(seeds, forger.kinds, **option):
            if case.certificate.kind in forger.of:
                rng = np.random.default_rng(len(name))
                for _ in range(1 if forger.forge is boastful else repeats):
                    yield case, forger.forge(case, rng)
