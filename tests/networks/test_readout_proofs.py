"""Read-outs of k-class networks: proven radii against brute force in two dimensions, and proofs that are not proofs."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
import torch
from asking import asked
from asking import check_point as check

from featureprism.checker.readouts import posed_scores, proven_readout
from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import BinaryReadout
from featureprism.networks.constructions import shared_features_net
from featureprism.networks.grouped import GroupedNet
from featureprism.networks.reference import pooled_radius
from featureprism.seeds import generator_for

KINDS = ("log-sum-exp", "max")
ANGLES = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)[:-1]


def brute_force(net: BinaryReadout, x: torch.Tensor, y: float, reach: float) -> float:
    """The shortest flip on a polar grid: an upper bound of the radius, inf if there is none."""
    radii = torch.linspace(0, reach, 241, dtype=torch.float64)[1:]
    directions = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
    delta = (radii.reshape(-1, 1, 1) * directions).reshape(-1, 2)
    with torch.no_grad():
        flips = (y * net(x + delta) <= 0).reshape(len(radii), -1).any(dim=1)
    return float(radii[flips][0]) if bool(flips.any()) else math.inf


def random_net(seed: int, kind: str) -> tuple[BinaryReadout, torch.Tensor, torch.Tensor]:
    """A few classes in two dimensions at some scale, and right points."""
    g = torch.Generator().manual_seed(seed)
    k, h = 2 + seed % 4, 1 + seed % 3
    W = (
        torch.randn(k, 1, 2, generator=g).double()
        + (seed % 5) / 8 * torch.randn(k, h, 2, generator=g).double()
    )
    labels = torch.where(torch.arange(k) % 2 == 0, 1.0, -1.0).double()
    net = BinaryReadout(GroupedNet(W * 10.0 ** (seed % 3 - 1)), labels, kind)
    x = 4 * torch.randn(3, 2, generator=g).double()
    with torch.no_grad():
        y = torch.where(net(x) > 0, 1.0, -1.0).double()
    return net, x, y


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_flips_below_a_proven_radius(kind):
    check_soundness(kind, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_flips_below_many_proven_radii(kind):
    check_soundness(kind, range(2, 30))


def check_soundness(kind, seeds):
    shares = []
    for seed in seeds:
        net, x, y = random_net(seed, kind)
        x, y = x[:2], y[:2]
        found = asked(net, x, y, gap=0.02, branches=12)
        for i in range(len(x)):
            truth = brute_force(net, x[i], float(y[i]), 1.05 * min(float(found.attacked[i]), 40.0))
            assert float(found.certified[i]) <= truth
            claim = found.certificates[i]
            assert check(claim, net, x[i], float(y[i])) if claim else float(found.certified[i]) == 0
            if 0 < float(found.attacked[i]) < math.inf:
                shares.append(float(found.certified[i] / found.attacked[i]))
    assert (
        np.median(shares) > 0.6
    )  # scores of many classes in two dimensions depend on each other; see below for the usual case


@pytest.mark.parametrize("kind", KINDS)
def test_free_parameters_prove_little_but_nothing_false(kind):
    rng = np.random.default_rng(0)
    granted = []
    for seed in range(40):
        net, x, y = random_net(seed, kind)
        W, labels, point = net.net.W.detach().numpy(), net.labels.numpy(), x[0].numpy()
        own, rivals = int((labels == float(y[0])).sum()), int((labels != float(y[0])).sum())
        reach = 10 ** rng.uniform(-1, 1)

        def leaf(rival: int, own: int = own, scale: float = reach) -> dict:
            share = rng.dirichlet(np.ones(own)) * (1 - 1e-9)
            alpha = rng.normal(size=own + rival) * scale * rng.choice([0.01, 0.1, 1.0])
            return {
                "alpha": alpha,
                "tau": 10 ** rng.uniform(-3, 2),
                "share": share,
                "level": rng.uniform(0, 2),
            }

        def tree(rival: int, own: int = own, leaf=leaf) -> dict:
            cut = {"cut": own + int(rng.integers(rival)), "value": float(rng.normal())}
            return {**cut, "below": leaf(rival), "above": leaf(rival)}

        together = kind == "log-sum-exp" and seed % 8 < 4
        trees = [tree(rivals)] if together else [tree(1) for _ in range(rivals)]
        with np.errstate(all="ignore"):
            radius = proven_readout(W, labels, point, float(y[0]), kind, reach, trees)
        granted.append(radius)
        assert radius <= min(reach, brute_force(net, x[0], float(y[0]), reach))
    assert max(granted) > 0


def test_maxima_of_orthogonal_features_have_the_radius_of_the_nearest_cluster():
    """One unit neuron for each class, own scores positive: the pooled formula of the nearest-cluster rule."""
    d, labels = 6, torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]).double()
    net = BinaryReadout(GroupedNet(torch.eye(d).double().unsqueeze(1)), labels, "max")
    x = torch.tensor([[3.0, 2.5, 0.5, 0.2, 0.1, 0.3]]).double()
    found = asked(net, x, torch.ones(1).double(), gap=1e-3, branches=20)
    exact = float(pooled_radius(x[:, :3], torch.tensor([0.3]).double()))
    assert float(found.certified) <= exact <= float(found.attacked) * (1 + 1e-9)
    assert float(found.certified) > 0.998 * exact


def test_log_sum_exp_of_a_single_pair_is_linear():
    """One class a label, both active throughout: y f = ⟨w₊ - w₋, x⟩, radius f/‖w₊ - w₋‖."""
    W = torch.tensor([[[1.0, 0.3]], [[0.4, 1.0]]]).double()
    net = BinaryReadout(GroupedNet(W), torch.tensor([1.0, -1.0]).double())
    x = torch.tensor([[30.0, 20.0]]).double()
    found = asked(net, x, torch.ones(1).double(), gap=1e-4)
    w = W[0, 0] - W[1, 0]
    assert float(found.certified) == pytest.approx(float(x[0] @ w / w.norm()), rel=1e-3)


def test_score_bounds_enclose_what_neurons_do(generator):
    """f_l ≤ G_l(u_l) and f_j ≥ [u_j]₊ - η on random perturbations of a group that is not parallel."""
    W = torch.randn(4, 3, 5, generator=generator).double().numpy()
    x = torch.randn(5, generator=generator).double().numpy()
    scores = posed_scores(W, x, 0.7, 2, smooth=True)
    delta = torch.randn(4000, 5, generator=generator).double().numpy()
    delta *= (
        0.7 * np.random.default_rng(0).uniform(size=(4000, 1)) / np.linalg.norm(delta, axis=1, keepdims=True)
    )
    t = np.einsum("khd,nd->nkh", W, x + delta)
    u, f = t.mean(axis=2), np.maximum(t, 0).mean(axis=2)
    assert (u >= scores.low).all()
    assert (u <= scores.high).all()
    above = np.where(u >= scores.above, u + scores.slip, np.maximum(u, 0) + scores.lift)
    above = np.where(u <= -scores.below, 0.0, above)
    assert (f <= above + 1e-12).all()
    assert (f >= np.maximum(u, 0) - scores.slip - 1e-12).all()
    assert (scores.slip < 1e-12).all()
    moved = (u - scores.u0.mid) ** 2 @ scores.weight.mid
    assert (moved <= (delta**2).sum(axis=1) * (1 + 1e-9)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_malformed_proofs_prove_nothing(kind):
    net, x, y = random_net(7, kind)
    found = asked(net, x, y, gap=0.02, branches=16)
    (i, good) = next((i, c) for i, c in enumerate(found.certificates) if c.kind == "boxes")
    point, label = x[i], float(y[i])
    assert check(good, net, point, label)
    assert not check(replace(good, radius=1.01 * good.reach), net, point, label)
    assert not check(replace(good, norm=math.inf), net, point, label)

    def spoiled(**changes):
        trees = copy.deepcopy(good.tree["trees"])
        node = trees[0]
        while "cut" in node:
            node = node["below"]
        node.update(changes)
        return replace(good, tree={"trees": trees})

    own = int((net.labels == label).sum())
    wrong = [
        {"tau": -1.0},
        {"tau": math.nan},
        {"share": np.full(own, 2.0)},
        {"share": -np.ones(own)},
        {"alpha": np.zeros(1)},
        {"level": math.inf},
        {"cut": 99, "value": 0.0, "below": {}, "above": {}},
    ]
    for changes in wrong:
        assert not check(spoiled(**changes), net, point, label)
    assert not check(replace(good, tree={"trees": []}), net, point, label)
    assert not check(replace(good, tree={}), net, point, label)


@pytest.mark.parametrize(("kind", "h"), [("log-sum-exp", 1), ("log-sum-exp", 2), ("max", 2)])
def test_decoupled_features_are_proven_nearly_to_the_attack(kind, h, generator):
    """Networks as Theorem 4.7 has them: w_jr = λ μ_j/d and a little noise, λ = 5."""
    d, k = 300, 6
    mu = math.sqrt(d) * torch.linalg.qr(torch.randn(d, k, generator=generator).double()).Q.T
    W = (5 * mu / d).unsqueeze(1) + 0.002 * torch.randn(k, h, d, generator=generator).double()
    labels = torch.where(torch.arange(k) < 3, 1.0, -1.0).double()
    net = BinaryReadout(GroupedNet(W), labels, kind)
    x = mu[[0, 4]] + torch.randn(2, d, generator=generator).double()
    found = asked(net, x, labels[[0, 4]], gap=0.03, branches=60)
    assert float((found.certified / found.attacked).min()) > 0.96


def flips_of_maxima(V: np.ndarray, x: np.ndarray, own: np.ndarray, rival: int) -> Iterator[float]:
    """Lengths of the flips of max_own [u]₊ ≤ [u_rival]₊ where some own scores are the rival's; the least is the radius."""
    for some in chain.from_iterable(combinations(own, size) for size in range(1, len(own) + 1)):
        A = V[list(some)] - V[rival]  # A(x + δ) = 0
        delta = -np.linalg.pinv(A) @ (A @ x)
        u = V @ (x + delta)
        if u[rival] >= 0 and (u[own] <= u[rival] + 1e-9 * np.abs(u).max()).all():
            yield float(np.linalg.norm(delta))


@pytest.mark.parametrize(("positive", "negative"), [(4, 5), (3, 12)])
def test_shared_features_break_where_enumeration_says(positive, negative):
    """Scores are so large that log-sum-exp is a maximum up to ln r; its shortest flip is one of finitely many."""
    clusters = orthogonal_clusters(400, positive, negative, 1.0, generator=generator_for("centres", 3))
    points = sample(clusters, 6, generator=generator_for("test", 3))
    net = BinaryReadout(shared_features_net(clusters.mu, clusters.labels), clusters.labels)
    found = asked(net, points.x, points.y, branches=30)
    V, labels = net.net.W.detach().double().numpy()[:, 0], clusters.labels.numpy()
    for i, (x, y) in enumerate(zip(points.x.double().numpy(), points.y.numpy(), strict=True)):
        own, rivals = np.flatnonzero(labels == y), np.flatnonzero(labels != y)
        if len(own) > 5:
            continue  # too many subsets
        truth = min(chain.from_iterable(flips_of_maxima(V, x, own, int(r)) for r in rivals))
        assert float(found.certified[i]) <= truth * 1.001
        assert truth * 0.99 <= float(found.attacked[i]) <= truth * 1.001
        assert float(found.certified[i]) >= 0.96 * truth
