"""Random models of every kind in one to three dimensions, questions about them, and the brute force that answers."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from featureprism.attacks import AttackedRadius
from featureprism.attacks.minimum_norm import Flips
from featureprism.checker.certificate import EVERYWHERE
from featureprism.checker.proofs import Proof, proof_arrays, tree_proofs
from featureprism.geometry import Box
from featureprism.models.scores import LayeredScores, LinearScores, QuadraticScores, ScoreNet
from featureprism.networks import (
    MLP,
    BinaryReadout,
    PolynomialClassifier,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Tanh,
    TwoLayerNet,
)
from featureprism.networks.grouped import GroupedNet
from featureprism.networks.reference import NearestCluster

DOMAIN = (-1.5, 1.5)
REACH = 4.0
POWERS = (1.0, 1.0, 1.0, 1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 4.2, 6.0, 10.0)
RAYS, SHARES = 48, np.geomspace(1.0, 0.02, 32)  # of the reach, where flips on rays are looked for
HALVINGS = 20
DRAWN = 8  # points, of which one or two are asked about
TRIALS, KEPT, CHILDREN, ROUNDS = 1024, 6, 16, 20  # of brute force
FARTHEST = 1e6  # that is looked
INSIDE = 1 - 1e-9  # of a radius: flips at the radius itself are none below it


@dataclass(frozen=True, eq=False)
class Question:
    """A model, one or two points with the classes it takes them for, a norm, and maybe a box."""

    kind: str
    net: Any
    x: Tensor
    labels: Tensor
    norm: float
    domain: tuple[float, float] | None

    def margin(self, x: Tensor) -> Tensor:
        """The least margin before any rival; rows belong to the points in turn."""
        with torch.no_grad():
            out = self.net(x)
        own = self.labels.repeat(len(x) // len(self.labels))
        if out.ndim == 1:
            return own * out
        ahead = out.gather(1, own.unsqueeze(1)).squeeze(1)
        return ahead - out.scatter(1, own.unsqueeze(1), -torch.inf).amax(dim=1)


def draw(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape))


def one_output(rng: np.random.Generator, dim: int) -> nn.Module:
    """Up to six neurons of any power, some of them zero, parallel, opposite or without a vote."""
    h, p = int(rng.integers(1, 7)), float(rng.choice(POWERS))
    W, a, b = draw(rng, h, dim), draw(rng, h), draw(rng, h)
    if h > 1:
        twin = int(rng.integers(8))
        W[1] = (2 * W[0], W[0], -W[0], 0 * W[0], *[W[1]] * 4)[twin]
        a[-1] *= float(rng.random() > 0.1)
    activation = ReLU() if p == 1 else PolynomialReLU(p) if rng.integers(2) else PowerReLU(p)
    return TwoLayerNet(W, a, b if rng.integers(4) else None, activation=activation)


def many_classes(rng: np.random.Generator, dim: int) -> nn.Module:
    h, k, p = int(rng.integers(1, 7)), int(rng.integers(2, 5)), float(rng.choice(POWERS))
    b, c = draw(rng, h), 0.5 * draw(rng, k)
    activation = ReLU() if p == 1 else PowerReLU(p)
    return ScoreNet(draw(rng, h, dim), draw(rng, h, k), b, c * float(rng.integers(2)), activation=activation)


def several_layers(rng: np.random.Generator, dim: int) -> nn.Module:
    """Two or three hidden layers of ReLU, with one output or several classes; some of tanh."""
    depth, k = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    widths = [dim, *rng.integers(2, 8, size=depth).tolist(), k]
    weights = [1.5 * draw(rng, o, i) / math.sqrt(i) for i, o in itertools.pairwise(widths)]
    if k == 1:
        return MLP(weights)
    biases = [rng.random() * draw(rng, o) for o in widths[1:]]
    return LayeredScores(weights, biases, ReLU() if rng.random() < 0.85 else Tanh())


def read_out(rng: np.random.Generator, dim: int) -> nn.Module:
    k = int(rng.integers(2, 5))
    signs = torch.ones(k, dtype=torch.float64)
    signs[int(rng.integers(1, k)) :] = -1
    net = GroupedNet(draw(rng, k, int(rng.integers(1, 4)), dim))
    return BinaryReadout(net, signs, str(rng.choice(["log-sum-exp", "max"])))


def closed_form(rng: np.random.Generator, dim: int) -> nn.Module:
    kind, k = int(rng.integers(4)), int(rng.integers(2, 5))
    if kind == 0:
        return LinearScores(draw(rng, k, dim), draw(rng, k))
    if kind == 1 or dim == 1:
        A = draw(rng, k, dim, dim)
        return QuadraticScores(A + A.mT, draw(rng, k, dim), draw(rng, k))
    centres = torch.linalg.qr(draw(rng, dim, dim))[0].contiguous()
    signs = torch.tensor([1.0, -1.0, 1.0 if rng.integers(2) else -1.0]).double()[:dim]
    return NearestCluster(centres, signs) if kind == 2 else PolynomialClassifier(centres, signs, 3.0)


KINDS = (  # of twenty
    *[one_output] * 9,
    *[many_classes] * 4,
    *[several_layers] * 5,
    read_out,
    closed_form,
)


def question(seed: int) -> Question:
    """The seed's own model: all kinds, both norms, with and without a box, in turn."""
    rng = np.random.default_rng((seed, 5))
    kind = KINDS[seed % len(KINDS)]
    turn = seed // len(KINDS)
    dim = int(rng.choice([1, 2, 2, 3]))
    net = kind(rng, dim)
    x = torch.from_numpy(rng.uniform(*DOMAIN, size=(DRAWN, dim)))
    with torch.no_grad():
        out = net(x)
    labels = torch.where(out >= 0, 1.0, -1.0).double() if out.ndim == 1 else out.argmax(dim=1)
    norm = (2.0, math.inf)[turn % 2] if kind is not read_out else 2.0  # these have no other proofs
    domain = DOMAIN if turn // 2 % 2 else None
    every = Question(kind.__name__, net, x, labels, norm, domain)
    # ties are no one's class
    right = (every.margin(x) > 0).double().argsort(descending=True, stable=True)
    asked = right[: 1 if turn % 5 else 2]
    return replace(every, x=x[asked], labels=labels[asked])


@dataclass(frozen=True, eq=False)
class LongWitnesses:
    """Stands in for the attack: a flip on one of many rays, up to `longer` times the shortest; 0: none at all.

    An attack that is nearly exact hides what is wrong with a proof: radii are proven up to the witness only. With this one, proofs
    are asked for more than there is.
    """

    rng: np.random.Generator
    longer: float

    @torch.no_grad()
    def __call__(self, net, x, y, *, starts, upper, norm=2, steps=0, rounds=0, domain=None) -> AttackedRadius:
        n, d = x.shape
        rays = torch.from_numpy(self.rng.normal(size=(RAYS, n, d)))
        upper = torch.as_tensor(upper, dtype=x.dtype).expand(n)
        rays = upper[:, None] * rays / torch.linalg.vector_norm(rays, ord=norm, dim=2, keepdim=True)

        def flips(shares: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
            deltas = within(shares.unsqueeze(-1) * rays, x, domain)
            margin = y.repeat(deltas[..., 0].numel() // n) * net((x + deltas).reshape(-1, d))
            return margin.reshape(deltas.shape[:-1]) <= 0, deltas

        shares = torch.from_numpy(SHARES).unsqueeze(1).expand(-1, n)
        hits, _ = flips(shares.unsqueeze(1), rays)  # (shares, rays, n)
        first = torch.where(hits, shares.unsqueeze(1), torch.inf).amin(dim=0)
        few = torch.isfinite(first) & (first <= self.longer * first.amin(dim=0))
        chosen = (few * torch.from_numpy(self.rng.random(few.shape))).argmax(dim=0), torch.arange(n)
        ray, high, found = rays[chosen], first[chosen].clamp_max(1.0), few[chosen]
        low = high * float(SHARES[1])
        for _ in range(HALVINGS):
            flip, _ = flips((low + high) / 2, ray)
            low, high = torch.where(flip, low, (low + high) / 2), torch.where(flip, (low + high) / 2, high)
        _, delta = flips(high, ray)
        radius = torch.where(found, torch.linalg.vector_norm(delta, ord=norm, dim=1), torch.inf)
        wrong = y * net(x) <= 0
        return AttackedRadius(
            torch.where(wrong, 0.0, radius), delta.masked_fill(wrong.unsqueeze(1), 0.0), 0.0, 0.0
        )


@contextmanager
def long_witnesses(rng: np.random.Generator, longer: float) -> Iterator[None]:
    """`LongWitnesses` in place of every attack, also of those that proofs help; one try at an ellipsoid."""
    stand_in, package = LongWitnesses(rng, longer), "featureprism.verify"

    def no_flips(_scores: Any, x: Tensor, *_: Any, **__: Any) -> Flips:
        return Flips(x.new_full((len(x),), torch.inf), torch.zeros_like(x), torch.zeros(len(x)).long())

    with (
        patch(f"{package}.attack.minimal_radius", stand_in),
        patch(f"{package}.attack.minimum_norm", no_flips),
        patch(f"{package}.driver.attack_from"),
        patch(f"{package}.one_layer.methods.FORCES", 1),
    ):
        yield


def within(deltas: Tensor, x: Tensor, domain: tuple[float, float] | None) -> Tensor:
    """Perturbations that leave every point in the domain, also after rounding."""
    box = Box.around(x, domain)
    return deltas if box is None else box.clip(deltas)


def worst_margins(q: Question, radius: Tensor, rng: np.random.Generator) -> Tensor:
    """The least margin found below a radius of each point: many perturbations, then ever smaller changes of the worst of them."""
    n, d = q.x.shape
    most = radius.clamp_max(FARTHEST).unsqueeze(1)

    def worst_of(deltas: Tensor) -> tuple[Tensor, Tensor]:
        if q.norm == 2:
            length = torch.linalg.vector_norm(deltas, dim=2, keepdim=True).clamp_min(1e-300)
            deltas = deltas * (INSIDE * most / length).clamp_max(1.0)
        else:
            deltas = torch.minimum(torch.maximum(deltas, -INSIDE * most), INSIDE * most)
        deltas = within(deltas, q.x, q.domain)
        margin = q.margin((q.x + deltas).reshape(-1, d)).reshape(-1, n)
        least = margin.topk(KEPT, dim=0, largest=False)
        return deltas[least.indices, torch.arange(n)], least.values[0]

    everywhere = most * torch.from_numpy(rng.uniform(-1.5, 1.5, size=(TRIALS, n, d)))
    origin = -q.x.unsqueeze(0)  # without biases it may be the only flip
    deltas, least = worst_of(torch.cat([origin, everywhere]))
    for size in np.geomspace(0.5, 1e-7, ROUNDS):
        steps = torch.from_numpy(rng.normal(size=(CHILDREN, 1, n, d)))
        near = (deltas + size * most * steps).reshape(-1, n, d)
        deltas, least = worst_of(torch.cat([deltas, near]))
    return least


def travelled(proofs: list[Proof], norm: float, bounds=EVERYWHERE) -> list[Proof]:
    """The same proofs, after they stood in arrays."""
    found = tree_proofs(proof_arrays(proofs), norm, bounds, 10**6)
    own = {proof.point: proof.own for proof in proofs}
    return [Proof(i, own[i], target, certificate) for i, target, certificate in found]
