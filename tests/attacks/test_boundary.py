"""Shortest flips: the multipliers against SciPy, the convex-concave steps against convex problems they must solve exactly."""

import torch
from scipy.optimize import minimize

from featureprism.attacks.boundary import convex_concave, least_distance, slide
from featureprism.networks import ReLU, Tanh, TwoLayerNet


def test_least_distance_meets_the_optimality_conditions(generator):
    A = torch.randn(30, 4, 6, generator=generator).double()
    o = torch.randn(30, 4, generator=generator).double()
    gram = A @ A.transpose(1, 2)
    multipliers = least_distance(gram, o, torch.zeros(30, 4).double(), sweeps=2400)
    delta = -(multipliers.unsqueeze(1) @ A).squeeze(1)
    cuts = (A @ delta.unsqueeze(-1)).squeeze(-1) + o
    assert float(cuts.max()) < 1e-6  # feasible
    assert float((multipliers * cuts).abs().max()) < 1e-6  # complementary


def test_convex_concave_solves_a_convex_problem_to_the_end(generator):
    # all of y f but one linear neuron is convex: then the procedure has no concave part to linearise wrongly
    W = torch.randn(7, 5, generator=generator).double()
    own = torch.rand(6, generator=generator).double() + 0.3
    shift = torch.randn(7, generator=generator).double()
    W[6], shift[6] = W[6], 40.0  # always on: N is linear where we are
    net = TwoLayerNet(W, torch.cat([own, torch.tensor([-0.1]).double()]), shift, activation=ReLU())
    x, y = 3 * torch.randn(20, 5, generator=generator).double(), torch.ones(20).double()
    with torch.no_grad():
        x = x[net(x) > 0.3]
    y = y[: len(x)]
    assert len(x) >= 4
    far = torch.randn(400, len(x), 5, generator=generator).double() * 12
    with torch.no_grad():
        flips = torch.stack([net(x + f) <= 0 for f in far])
    usable = flips.any(dim=0)
    x, y = x[usable], y[usable]
    start = torch.stack([far[int(flips[:, i].nonzero()[0, 0]), i] for i in usable.nonzero()[:, 0]])
    found = convex_concave(net, x, y, start)
    for i in range(len(x)):
        values = lambda d, i=i: float(net(x[i : i + 1] + torch.as_tensor(d).unsqueeze(0)).detach())  # noqa: E731
        best = minimize(
            lambda d: d @ d,
            start[i].numpy(),
            constraints={"type": "ineq", "fun": lambda d, v=values: -v(d)},
            method="SLSQP",
            options={"maxiter": 500},
        )
        if best.success and values(best.x) <= 1e-7:
            assert float(found[i].norm()) <= best.fun**0.5 * (1 + 1e-3)


def test_steps_never_lengthen_and_always_flip(generator):
    for activation in (ReLU(), Tanh()):
        net = TwoLayerNet(
            torch.randn(9, 4, generator=generator).double(),
            torch.randn(9, generator=generator).double(),
            activation=activation,
        )
        x = torch.randn(50, 4, generator=generator).double()
        with torch.no_grad():
            y = torch.where(net(x) >= 0, 1.0, -1.0).double()
            start = 3 * torch.randn(50, 4, generator=generator).double()
            flips = y * net(x + start) <= 0
        x, y, start = x[flips], y[flips], start[flips]
        for step in (slide, convex_concave):
            found = step(net, x, y, start)
            assert bool((found.norm(dim=1) <= start.norm(dim=1) * (1 + 1e-12)).all())
            with torch.no_grad():
                assert bool((y * net(x + found) <= 0).all())
