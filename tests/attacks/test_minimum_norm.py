"""The minimum-norm attack against enumerated truth, against itself alone and in a batch, with and without a radius in question."""

import gzip
import math
import os
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch
from asking import asked
from scipy.optimize import linprog

from featureprism.attacks.minimum_norm import TargetMargins, minimum_norm
from featureprism.models import read_model
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU, TwoLayerNet

NEAR = 1.001  # times the truth
OUTSIDE = Path(os.environ.get("FEATUREPRISM_DATA", "")) / "outside"


def random_net(seed: int, dim: int, width: int, classes: int) -> ScoreNet:
    rng = np.random.default_rng(seed)
    shapes = (width, dim), (width, classes), (width,), (classes,)
    return ScoreNet(*(torch.from_numpy(rng.normal(size=s)) for s in shapes), activation=ReLU())


def deep_net(seed: int, widths: tuple[int, ...]) -> torch.nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for a, b in pairwise(widths):
        layer = torch.nn.Linear(a, b).double()
        layer.weight.data = torch.randn(b, a, generator=generator).double() / a**0.5
        layer.bias.data = torch.randn(b, generator=generator).double() / 4
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def points_of(net: torch.nn.Module, num: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(num, dim, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        return x, net(x).argmax(dim=1)


def enumerated(net: ScoreNet, x: np.ndarray, own: int, domain: tuple[float, float] | None) -> float:
    """The least ℓ∞ radius of a flip: a linear programme in (δ, r) for every activation pattern and every target."""
    W, b, V, c = (t.detach().numpy() for t in (net.W, net.b, net.V, net.c))
    t, d, best = W @ x + b, len(x), math.inf
    box = [(None, None)] * d if domain is None else [(domain[0] - v, domain[1] - v) for v in x]
    within = np.vstack([np.hstack([sign * np.eye(d), -np.ones((d, 1))]) for sign in (1, -1)])
    for pattern in product((0.0, 1.0), repeat=len(W)):
        s = np.array(pattern)
        side = (1 - 2 * s)[:, None] * W  # side δ ≤ (2s - 1) t
        for target in set(range(V.shape[1])) - {own}:
            v = s * (V[:, own] - V[:, target])
            rows = np.hstack([np.vstack([side, v @ W]), np.zeros((len(W) + 1, 1))])
            limits = np.append((2 * s - 1) * t, -(v @ t + c[own] - c[target]))
            found = linprog(
                np.append(np.zeros(d), 1.0),
                A_ub=np.vstack([rows, within]),
                b_ub=np.append(limits, np.zeros(2 * d)),
                bounds=[*box, (0, None)],
            )
            best = min(best, found.fun if found.status == 0 else math.inf)
    return best


@pytest.mark.parametrize("domain", [None, (0.0, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_linf_flips_are_as_short_as_the_enumerated_truth(seed, domain):
    net = random_net(seed, 4, 5, 3)
    x, own = points_of(net, 3, 4)
    bracket = asked(net, x, own, norm=math.inf, bounds=domain, branches=0)
    truth = [enumerated(net, point.numpy(), int(y), domain) for point, y in zip(x, own, strict=True)]
    for attacked, least in zip(bracket.attacked.tolist(), truth, strict=True):
        assert (1 - 1e-7) * least <= attacked <= NEAR * least  # both inf where no class can be reached


def test_the_gradient_of_margins_is_that_of_autograd():
    net = deep_net(0, (6, 8, 8, 4))
    x, own = points_of(net, 40, 6)
    target = (own + 1) % 4
    at = x.clone().requires_grad_()
    scores = net(at)
    margin = scores.gather(1, own[:, None]) - scores.gather(1, target[:, None])
    (gradient,) = torch.autograd.grad(margin.sum(), at)
    found = TargetMargins.of(net, own, target, 4, 32).input_gradient(x)
    torch.testing.assert_close(found[0], margin.detach()[:, 0])
    torch.testing.assert_close(found[1], gradient)


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("domain", [None, (0.0, 1.0)])
def test_a_row_does_not_depend_on_the_others(norm, domain):
    net = deep_net(0, (30, 20, 20, 3))
    x, own = points_of(net, 5, 30)

    def flips(rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        target = torch.stack([(own[rows] + k) % 3 for k in (1, 2)], dim=1).flatten()
        point = torch.arange(len(rows)).repeat_interleave(2)
        z, reach = x[rows][point], torch.full((len(point),), 4.0).double()
        found = minimum_norm(net, z, own[rows][point], target, point, norm=norm, domain=domain, reach=reach)
        return found.length, found.delta

    together = flips([0, 1, 2, 3, 4])
    for i in (0, 3):
        alone = flips([i])
        assert torch.equal(alone[0], together[0][2 * i : 2 * i + 2])
        assert torch.equal(alone[1], together[1][2 * i : 2 * i + 2])


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("kind", ["one layer", "several", "one output"])
def test_witnesses_alone_and_in_a_batch_are_the_same_bit_for_bit(norm, kind):
    if kind == "one output":
        rng = np.random.default_rng(0)
        net = TwoLayerNet(
            *(torch.from_numpy(rng.normal(size=s)) for s in ((16, 12), 16, 16)), activation=ReLU()
        )
        x = torch.from_numpy(rng.normal(size=(6, 12)))
        with torch.no_grad():
            own = torch.sign(net(x))
    else:
        net = random_net(0, 12, 16, 4) if kind == "one layer" else deep_net(1, (12, 16, 16, 4))
        x, own = points_of(net, 6, 12)
    options = {"norm": norm, "branches": 4}
    together = asked(net, x, own, **options)
    for i in (0, 4):
        alone = asked(net, x[i : i + 1], own[i : i + 1], **options)
        for name in ("attacked", "witness"):
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[i])
        # proofs of several points share iterations, and end a little earlier or later
        assert float(alone.certified[0]) == pytest.approx(float(together.certified[i]), rel=1e-4)


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("share", [0.7, 0.999, 1.001, 1.5])
def test_one_radius_is_the_same_attack_cut_off(norm, share):
    net = deep_net(2, (10, 12, 12, 3))
    x, own = points_of(net, 6, 10)
    options = {"norm": norm, "branches": 0}
    free = asked(net, x, own, **options).attacked
    eps = share * float(free.median())
    cut = asked(net, x, own, eps=eps, **options).attacked
    assert torch.equal(torch.isfinite(cut), free <= eps)
    assert bool((cut[torch.isfinite(cut)] <= eps).all())


def test_flips_are_strict_and_keep_to_the_domain():
    net = deep_net(3, (10, 12, 12, 4))
    x, own = points_of(net, 8, 10)
    bracket = asked(net, x, own, norm=math.inf, bounds=(0, 1), branches=0)
    found = torch.isfinite(bracket.attacked)
    moved = (x + bracket.witness)[found]
    assert bool(((moved >= 0) & (moved <= 1)).all())
    with torch.no_grad():
        assert bool((net(moved).argmax(dim=1) != own[found]).all())
    torch.testing.assert_close(bracket.witness[found].abs().amax(dim=1), bracket.attacked[found])


@pytest.mark.slow
@pytest.mark.skipif(not OUTSIDE.is_dir(), reason="the networks of others are not there")
def test_no_foolbox_flip_is_shorter_on_a_network_of_the_competition(tmp_path):
    foolbox = pytest.importorskip("foolbox")
    path = tmp_path / "net.onnx"
    packed = OUTSIDE / "vnncomp" / "mnistfc" / "mnist-net_256x2.onnx.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    net = read_model(str(path), probe=np.zeros((1, 784))).net
    x = torch.from_numpy(np.load(OUTSIDE / "sdp_crown" / "mnist_points.npz")["x"][:6].reshape(6, -1)).double()
    with torch.no_grad():
        own = net(x).argmax(dim=1)
    model = foolbox.PyTorchModel(net.eval(), bounds=(0, 1))
    moved = foolbox.attacks.LInfFMNAttack(steps=300)(model, x, own, epsilons=None)[1]
    with torch.no_grad():
        flipped = net(moved).argmax(dim=1) != own
    theirs = torch.where(flipped, (moved - x).abs().amax(dim=1), math.inf)
    ours = asked(net, x, own, norm=math.inf, bounds=(0, 1), branches=0)
    assert bool((ours.attacked <= 1.02 * theirs).all())


def test_a_region_where_two_scores_are_equal_counts_as_flipped():
    """f₀ = [x₁]₊ + [x₂]₊ is f₁ = 0, and never less, from (0, 0) on."""
    W, V, b, c = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.zeros(2), torch.zeros(2)
    net, x = (
        ScoreNet(*(t.double() for t in (W, V, b, c)), activation=ReLU()),
        torch.tensor([[1.0, 0.5]]).double(),
    )
    bracket = asked(net, x, torch.tensor([0]), norm=math.inf, branches=50)
    assert float(bracket.attacked[0]) == pytest.approx(1.0, rel=1e-4)
    assert float(bracket.certified[0]) >= 0.985
