from math import inf

import pytest
import torch

from featureprism.geometry import LpBall, row_norms, span_basis, unit_rows

BALLS = [LpBall(2, 0.7), LpBall(inf, 0.7), LpBall(2, torch.linspace(0.1, 2, 50, dtype=torch.float64))]


@pytest.mark.parametrize("ball", BALLS)
def test_projection_lands_in_the_ball_and_projecting_twice_is_once(ball, generator):
    delta = 3 * torch.randn(50, 6, generator=generator).double()
    once = ball.project(delta)
    assert bool((ball.norm(once) <= torch.as_tensor(ball.eps, dtype=torch.float64) + 1e-12).all())
    torch.testing.assert_close(ball.project(once), once)


@pytest.mark.parametrize("ball", BALLS[:2])
def test_projection_is_the_nearest_of_many_points_of_the_ball(ball, generator):
    delta = 2 * torch.randn(20, 3, generator=generator).double()
    others = ball.sample(5000, 3, generator=generator)
    nearest = (delta.unsqueeze(1) - others).norm(dim=2).amin(dim=1)
    assert bool(((delta - ball.project(delta)).norm(dim=1) <= nearest + 1e-12).all())


@pytest.mark.parametrize("ball", BALLS[:2])
def test_steepest_maximises_the_inner_product(ball, generator):
    gradient = torch.randn(20, 3, generator=generator).double()
    best = (gradient * ball.steepest(gradient)).sum(dim=1)
    tried = gradient @ ball.sample(5000, 3, generator=generator).T
    assert bool((best >= tried.amax(dim=1)).all())


def test_samples_are_uniform_in_radius(generator):
    # uniform in a ball of dimension d: P(‖x‖ ≤ r) = (r/eps)^d; on a cube each coordinate is uniform
    radius = LpBall(2, 2.0).sample(20000, 4, generator=generator).norm(dim=1)
    assert float((radius <= 1.6).double().mean()) == pytest.approx(0.8**4, abs=0.01)
    cube = LpBall(inf, 2.0).sample(20000, 3, generator=generator)
    assert float(cube.abs().max()) <= 2
    assert float((cube <= 1).double().mean()) == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize(("p", "eps"), [(1, 0.5), (2, -0.1), (2, float("nan")), (inf, float("inf"))])
def test_bad_balls_are_refused(p, eps):
    with pytest.raises(ValueError, match=r"must be"):
        LpBall(p, eps)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_norms_and_directions_survive_any_scale(scale):
    W = scale * torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(row_norms(W) / scale, torch.tensor([5.0, 0.0]).double())
    torch.testing.assert_close(unit_rows(W), torch.tensor([[0.6, 0.8], [0.0, 0.0]]).double())


def test_span_basis_is_orthonormal_and_keeps_every_product(generator):
    W = torch.randn(7, 30, generator=generator).double()
    W[3], W[5] = 2 * W[1], 0  # dependent and zero rows
    x = torch.randn(9, 30, generator=generator).double()
    Q = span_basis(W)
    torch.testing.assert_close(Q.T @ Q, torch.eye(Q.shape[1]).double())
    torch.testing.assert_close((x @ Q) @ (W @ Q).T, x @ W.T)
    assert span_basis(torch.randn(40, 30)).shape == (30, 30)
