"""Universal directions against the closed form, transfer, and curves that cannot rise."""

import math

import pytest
import torch

from featureprism.attacks import (
    Along,
    along,
    flip_rate,
    flipping_norm,
    universal_direction,
)
from featureprism.attacks.universal import transfer, universal_shift
from featureprism.data import orthogonal_clusters, sample
from featureprism.geometry import LpBall
from featureprism.models.scores import LinearScores
from featureprism.networks import LinearClassifier, ReLU, TwoLayerNet
from featureprism.seeds import generator_for


@pytest.fixture
def averaging():
    """f_FA, which one direction breaks at √(d/k), on 200 points."""
    clusters = orthogonal_clusters(300, 5, 5, 1.0, generator=generator_for("centres", 1))
    plus, minus = clusters.mu[:5].sum(dim=0), clusters.mu[5:].sum(dim=0)
    net = TwoLayerNet(torch.stack([plus, minus]), torch.tensor([1.0, -1.0]).double(), activation=ReLU())
    return net, sample(clusters, 200, generator=generator_for("points", 1)), clusters


def test_the_universal_direction_of_a_linear_classifier_is_its_weight(generator):
    w = torch.randn(30, generator=generator).double()
    x = torch.randn(50, 30, generator=generator).double()
    net = LinearClassifier(w)
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    u = universal_direction(net, x, y, 0.5)
    torch.testing.assert_close(u, w / w.norm(), atol=1e-6, rtol=0)


def test_one_direction_breaks_feature_averaging_a_little_beyond_its_radius(averaging):
    net, points, clusters = averaging
    radius = math.sqrt(300 / 10)
    u = universal_direction(net, points.x, points.y, 1.5 * radius)
    cosine = float(u @ (clusters.labels @ clusters.mu)) / math.sqrt(10 * 300)
    assert cosine > 0.99
    fresh = sample(clusters, 200, generator=generator_for("fresh", 1))
    delta = Along(u).deltas(fresh.x, fresh.y, LpBall(2, 1.5 * radius))[0]
    outcome = transfer(delta, net, fresh.x, fresh.y, LpBall(2, 1.5 * radius))
    assert float(outcome.flipped.double().mean()) > 0.99
    short = transfer(0.4 * delta, net, fresh.x, fresh.y, LpBall(2, 1.5 * radius))
    assert float(short.flipped.double().mean()) < 0.1


def test_one_shift_fools_all_classes_but_the_one_it_goes_to_at_its_closed_form():
    """k unit vectors, each of its own class: u ∝ e_j - mean of the others moves all of them to class j at √((k-1)/k)."""
    k = 4
    x, own = torch.eye(k).double(), torch.arange(k)
    scores = LinearScores(torch.eye(k).double(), torch.zeros(k).double())
    needed = math.sqrt((k - 1) / k)
    for eps, fooled in ((1.01 * needed, (k - 1) / k), (0.5 * needed, 0.0)):
        moved = scores(x + eps * universal_shift(scores, x, own, eps)).argmax(dim=1)
        assert float((moved != own).double().mean()) == fooled
    with pytest.raises(ValueError, match="must be positive"):
        universal_shift(scores, x, own, 0.0)


def test_perturbations_outside_their_ball_are_no_result(averaging):
    net, points, _ = averaging
    with pytest.raises(RuntimeError, match="left its ball"):
        transfer(torch.ones_like(points.x), net, points.x, points.y, LpBall(2, 0.1))


def test_flipping_norm_of_a_linear_classifier_is_a_quantile(generator):
    """f = ⟨w, x⟩: x flips along w at y⟨w, x⟩/‖w‖, so the norm that flips a share is a quantile of the margins."""
    w = torch.randn(5, generator=generator).double()
    x = torch.randn(101, 5, generator=generator).double()
    y = torch.where(x @ w > 0, 1.0, -1.0).double()
    net = LinearClassifier(w, 0.0)
    margins = (y * (x @ w) / w.norm()).sort().values
    for share, place in ((0.5, 50), (0.99, 99)):
        assert flipping_norm(net, x, y, 3 * w, share) == pytest.approx(float(margins[place]), rel=1e-5)
    assert flip_rate(net, x, y, float(margins[50]) * (1 + 1e-9) * w / w.norm()) == pytest.approx(51 / 101)
    assert flipping_norm(net, x, y, -w) == float("inf")


def test_a_fixed_direction_moves_every_point_against_its_label(generator):
    w, u = torch.randn(6, generator=generator).double(), torch.randn(6, generator=generator).double()
    x = torch.randn(8, 6, generator=generator).double()
    y = torch.sign(torch.randn(8, generator=generator).double())
    net = LinearClassifier(w)
    for p in (2, math.inf):
        outcome = along(u)(net, x, y, LpBall(p, 0.3))
        step = u / u.norm() if p == 2 else u.sign()
        assert torch.allclose(outcome.delta, -0.3 * y.unsqueeze(1) * step)
        assert torch.equal(outcome.flipped, (y * net(x) - 0.3 * (w @ step) <= 0).detach())
