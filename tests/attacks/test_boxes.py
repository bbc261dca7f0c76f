"""Attacks and brackets inside a box: perturbed points keep their coordinates in [lo, hi]."""

import math

import numpy as np
import pytest
import torch
from asking import asked
from scipy.optimize import minimize
from torch import nn

import featureprism as fp
from featureprism.attacks import minimal_radius
from featureprism.attacks.gradient import descend
from featureprism.cli import main
from featureprism.geometry import Box, LpBall
from featureprism.networks import ReLU, TwoLayerNet

DOMAIN = (-0.3, 0.9)
EFFORT = {"branches": 4, "bounds": DOMAIN}


def points_in(domain, shape, generator):
    low, high = domain
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


def test_the_box_holds_after_rounding_at_every_scale(generator):
    for _ in range(50):
        low, width = torch.randn(2, generator=generator, dtype=torch.float64).tolist()
        domain = (low, low + abs(width) * 10 ** float(torch.randn(1, generator=generator)))
        x = points_in(domain, (40, 5), generator).clamp(*domain)
        box = Box.around(x, domain)
        assert box is not None
        for corner in (box.low, box.high):
            assert bool(((x + corner >= domain[0]) & (x + corner <= domain[1])).all())


@pytest.mark.parametrize("norm", [2, math.inf])
def test_projection_and_steepest_solve_their_problems_in_a_box(norm, generator):
    x = points_in(DOMAIN, (12, 4), generator)
    ball = LpBall(norm, 0.35, Box.around(x, DOMAIN))
    v = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    assert ball.box is not None
    for i in range(12):
        bounds = list(zip(ball.box.low[i].tolist(), ball.box.high[i].tolist(), strict=True))
        if norm == math.inf:
            bounds = [(max(a, -0.35), min(b, 0.35)) for a, b in bounds]
        inside = {"type": "ineq", "fun": lambda d: 0.35**2 - d @ d}
        held = [inside] if norm == 2 else []
        near = minimize(
            lambda d, i=i: ((d - v[i].numpy()) ** 2).sum(),
            np.zeros(4),
            bounds=bounds,
            constraints=held,
            options={"ftol": 1e-12},  # the default of older releases is too coarse
        )
        np.testing.assert_allclose(ball.project(v)[i].numpy(), near.x, atol=1e-4)
        far = minimize(lambda d, i=i: -(d @ v[i].numpy()), np.zeros(4), bounds=bounds, constraints=held)
        assert float(ball.steepest(v)[i] @ v[i]) == pytest.approx(-far.fun, abs=1e-5)


@pytest.mark.parametrize("norm", [2, math.inf])
def test_the_attack_on_a_linear_network_is_exact_in_a_box(norm, generator):
    """min ‖δ‖ s.t. ⟨v, x + δ⟩ ≤ 0 in the box, against a general solver."""
    v = torch.randn(4, generator=generator, dtype=torch.float64)
    net = nn.Linear(4, 2, bias=True).double()
    with torch.no_grad():
        net.weight.copy_(torch.stack([torch.zeros_like(v), v]))
        net.bias.copy_(torch.tensor([0.0, 0.1]))
    x = points_in(DOMAIN, (20, 4), generator)
    y = (x @ v + 0.1 > 0).long()
    bracket = asked(net, x, y, norm=norm, **EFFORT)
    plain = asked(net, x, y, norm=norm)
    assert bracket.witness is not None
    assert bool((bracket.attacked >= plain.certified).all())
    for i in range(20):
        sign = 1 if y[i] else -1
        bounds = [(DOMAIN[0] - c, DOMAIN[1] - c) for c in x[i].tolist()] + [(0, 10)]
        size = (lambda d: d[:4] @ d[:4]) if norm == 2 else (lambda d: d[4])
        held = [
            {"type": "ineq", "fun": lambda d, i=i, s=sign: -s * (v.numpy() @ (x[i].numpy() + d[:4]) + 0.1)}
        ]
        held += [
            {"type": "ineq", "fun": lambda d: d[4] - d[:4]},
            {"type": "ineq", "fun": lambda d: d[4] + d[:4]},
        ]
        best = minimize(size, np.zeros(5), bounds=bounds, constraints=held, options={"maxiter": 300})
        if best.success:
            exact = math.sqrt(best.fun) if norm == 2 else best.fun
            assert float(bracket.attacked[i]) == pytest.approx(exact, rel=2e-3, abs=1e-6)


def two_layer(generator) -> TwoLayerNet:
    W, a, b = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((6, 3), (6,), (6,)))
    return TwoLayerNet(W, a, b, activation=ReLU())


def deep(generator, last=3, activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    torch.manual_seed(int(torch.randint(10**6, (1,), generator=generator)))
    return nn.Sequential(
        nn.Linear(3, 5), activation(), nn.Linear(5, 4), activation(), nn.Linear(4, last)
    ).double()


MODELS = {
    "one output": two_layer,
    "one hidden layer": lambda _: nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3)).double(),
    "deep": deep,
    "tanh": lambda g: deep(g, activation=nn.Tanh),
    "called": lambda g: deep(g, activation=nn.Softplus),
    "linear": lambda _: nn.Linear(3, 3).double(),
}


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("kind", MODELS)
def test_witnesses_of_every_kind_of_model_stay_in_the_box_and_flip(kind, norm, generator):
    torch.manual_seed(3)
    net = MODELS[kind](generator)
    x = points_in(DOMAIN, (4, 3), generator)
    with torch.no_grad():
        out = net(x)
    y = (out > 0).long() if out.ndim == 1 else out.argmax(dim=1)
    bracket = asked(net, x, y, norm=norm, **EFFORT)
    assert bracket.witness is not None
    moved = x + bracket.witness
    assert bool(((moved >= DOMAIN[0]) & (moved <= DOMAIN[1])).all())
    flips = torch.isfinite(bracket.attacked)
    with torch.no_grad():
        after = net(moved)
    wrong = (
        (after > 0).long() != y
        if after.ndim == 1
        else after.gather(1, y[:, None])[:, 0] <= after.scatter(1, y[:, None], -math.inf).amax(dim=1)
    )
    assert bool(wrong[flips].all())
    grid = points_in(
        DOMAIN, (20000, 3), generator
    )  # no point of the box below the proven radius is another class
    with torch.no_grad():
        scores = net(grid)
    taken = (scores > 0).long() if scores.ndim == 1 else scores.argmax(dim=1)
    distance = torch.linalg.vector_norm(grid.unsqueeze(0) - x.unsqueeze(1), ord=norm, dim=2)
    nearest = torch.where(taken.unsqueeze(0) != y.unsqueeze(1), distance, math.inf).amin(dim=1)
    assert bool((bracket.certified <= nearest).all())


def test_points_outside_and_boxes_that_are_none_are_refused(generator):
    net, x = two_layer(generator), points_in(DOMAIN, (4, 3), generator)
    y = (net(x) > 0).long()
    with pytest.raises(ValueError, match="1 of 4 points lie outside"):
        asked(net, torch.cat([x[:3], x[3:] + 5]), y, bounds=DOMAIN)
    for domain in ((1.0, 0.0), (math.nan, 1.0)):
        with pytest.raises(ValueError, match="must be a pair"):
            minimal_radius(net, x, 2.0 * y - 1, starts=(), upper=1.0, domain=domain)


def test_the_command_line_takes_a_domain(tmp_path, generator, capsys):
    net, x = two_layer(generator), points_in(DOMAIN, (2, 3), generator)
    fp.networks.save_net(tmp_path / "net.npz", net)
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=np.where(net(x).detach().numpy() > 0, 1, -1))
    words = ["radius", str(tmp_path / "net.npz"), str(tmp_path / "data.npz"), "--out", str(tmp_path / "out")]
    assert main([*words, "--bounds", "-0.3", "0.9"]) == 0
    moved = x.numpy() + np.load(tmp_path / "out" / "witnesses.npz")["delta"]
    assert DOMAIN[0] <= moved.min()
    assert moved.max() <= DOMAIN[1]
    assert main([*words, "--bounds", "0", "0.01"]) == 2
    assert "outside the domain" in capsys.readouterr().err


@pytest.mark.parametrize("norm", [2, math.inf])
def test_descent_in_a_box_finds_the_corner_of_a_linear_margin(norm, generator):
    """From the sides of the box, where half of the directions are closed, PGD reaches the least value in ball and box."""
    v = torch.randn(6, generator=generator, dtype=torch.float64)
    net = TwoLayerNet(torch.stack([v, -v]), torch.tensor([1.0, -1.0]).double(), activation=ReLU())  # ⟨v, x⟩
    x = torch.randint(2, (10, 6), generator=generator).double()
    ball = LpBall(norm, 0.5, Box.around(x, (0.0, 1.0)))
    _, margin, _ = descend(net, x, torch.ones(10).double(), ball, (), 60)
    least = x @ v - (ball.steepest(-v.expand(10, 6)) * -v).sum(dim=1)
    torch.testing.assert_close(margin, least, atol=2e-2, rtol=0)
