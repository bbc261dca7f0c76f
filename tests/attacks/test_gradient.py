from functools import partial
from math import inf

import pytest
import torch

from featureprism.attacks import Along, AtRandom, Towards, fgm, pgd, strongest_of, structured_starts
from featureprism.attacks.gradient import AttackOutcome, verified
from featureprism.geometry import LpBall
from featureprism.networks import (
    MLP,
    BayesClassifier,
    LinearClassifier,
    PolynomialClassifier,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Tanh,
    gaussian_start,
)
from featureprism.networks.initial import gaussian_mlp
from featureprism.networks.reference import NearestCluster
from featureprism.seeds import generator_for


def networks(clusters):
    g = generator_for("networks", 0)
    mu, labels = clusters.mu, clusters.labels
    return {
        "linear": LinearClassifier(labels @ mu),
        "relu": gaussian_start(8, 60, 1.0, ReLU(), generator=g),
        "prelu": gaussian_start(8, 60, 1.0, PolynomialReLU(3.0), generator=g),
        "power": gaussian_start(8, 60, 1.0, PowerReLU(2.5), generator=g),
        "tanh": gaussian_start(8, 60, 1.0, Tanh(), generator=g),
        "mlp": gaussian_mlp(60, 8, 3, 1.4, generator=g),
        "bayes": BayesClassifier(mu, labels, clusters.noise_std),
        "nearest": NearestCluster(mu, labels),
        "polynomial": PolynomialClassifier(mu, labels, 3.0),
        "any module": torch.nn.Sequential(
            torch.nn.Linear(60, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1), torch.nn.Flatten(0)
        ),
    }


def attacks(clusters):
    starts = structured_starts(LinearClassifier(clusters.mu[0]), clusters.mu, clusters.labels)
    random = AtRandom(2, generator_for("starts", 0))
    return {
        "fgm": fgm,
        "pgd": partial(pgd, steps=10),
        "pgd from starts": partial(pgd, starts=(*starts, random), steps=10),
        "both": strongest_of(fgm, partial(pgd, starts=starts, steps=5)),
    }


NAMES = ["linear", "relu", "prelu", "power", "tanh", "mlp", "bayes", "nearest", "polynomial", "any module"]


@pytest.mark.parametrize("p", [2, inf])
@pytest.mark.parametrize("attack", ["fgm", "pgd", "pgd from starts", "both"])
@pytest.mark.parametrize("name", NAMES)
def test_every_witness_lies_in_its_ball_and_flips(name, attack, p, clusters, test_set):
    net, ball = networks(clusters)[name], LpBall(p, 0.4 if p == 2 else 0.08)
    outcome = attacks(clusters)[attack](net, test_set.x, test_set.y, ball)
    assert bool((ball.norm(outcome.delta) <= ball.eps * (1 + 1e-9)).all())
    with torch.no_grad():
        flipped = test_set.y * net.double()(test_set.x + outcome.delta) <= 0
    assert torch.equal(flipped, outcome.flipped)
    assert 0 <= outcome.zero_gradient_share <= 1


@pytest.mark.parametrize(("p", "dual"), [(2, 2), (inf, 1)])
def test_fgm_and_pgd_are_exact_on_a_linear_classifier(p, dual, clusters, test_set):
    net = LinearClassifier(clusters.labels @ clusters.mu)
    margin = (test_set.y * net(test_set.x)).detach()
    worst = 0.9 * margin / torch.linalg.vector_norm(net.w.detach(), ord=dual)
    for attack in (fgm, partial(pgd, steps=10)):
        for share, flips in ((0.99, False), (1.01, True)):
            outcome = attack(net, test_set.x, test_set.y, LpBall(p, share * worst / 0.9))
            assert bool((outcome.flipped == flips).all())


def test_more_radius_never_saves_a_point(clusters, test_set):
    net = gaussian_start(8, 60, 1.0, PolynomialReLU(3.0), generator=generator_for("networks", 0))
    starts = structured_starts(net, clusters.mu, clusters.labels)
    shares = [
        float(pgd(net, test_set.x, test_set.y, LpBall(2, e), starts=starts).flipped.double().mean())
        for e in (0, 0.1, 0.3, 1)
    ]
    assert shares == sorted(shares)


def test_the_span_loses_nothing(test_set):
    # hiding `input_directions` sends the same attack through all 60 dimensions
    net = gaussian_start(8, 60, 1.0, Tanh(), generator=generator_for("networks", 0))
    inside = pgd(net, test_set.x, test_set.y, LpBall(2, 0.2), steps=15)
    outside = pgd(torch.nn.Sequential(net), test_set.x, test_set.y, LpBall(2, 0.2), steps=15)
    torch.testing.assert_close(inside.delta, outside.delta, atol=1e-9, rtol=0)


def test_an_attack_that_leaves_its_ball_is_an_error(clusters, test_set):
    net = LinearClassifier(clusters.mu[0])
    with pytest.raises(RuntimeError, match="left its ball"):
        verified(net, test_set.x, test_set.y, LpBall(2, 0.1), torch.ones_like(test_set.x), 0.0)


def test_strongest_of_keeps_whatever_flips(test_set):
    n = len(test_set.x)
    odd = torch.arange(n) % 2 == 1

    def only(mask):
        return lambda _net, x, _y, _ball: AttackOutcome(torch.zeros_like(x) + mask.unsqueeze(1), mask, 0.0)

    outcome = strongest_of(only(odd), only(~odd))(
        MLP([torch.ones(1, 60)]), test_set.x, test_set.y, LpBall(2, 1.0)
    )
    assert bool(outcome.flipped.all())
    assert torch.equal(outcome.delta[:, 0], torch.ones(n).double())


def test_starts_point_where_they_say(clusters, test_set):
    ball = LpBall(2, 0.5)
    deltas = Towards(clusters.mu, clusters.labels).deltas(test_set.x, test_set.y, ball)
    assert deltas.shape == (3, len(test_set.x), 60)
    torch.testing.assert_close(ball.norm(deltas), torch.full(deltas.shape[:2], 0.5, dtype=torch.float64))
    positive = int((test_set.y > 0).nonzero()[0])
    towards = clusters.mu[3] - test_set.x[positive]
    torch.testing.assert_close(deltas[0, positive], 0.5 * towards / towards.norm())
    along = Along(clusters.mu[0]).deltas(test_set.x, test_set.y, ball)
    torch.testing.assert_close(along[0], -0.5 * test_set.y.unsqueeze(1) * clusters.mu[0])


def test_bad_input_is_refused(clusters, test_set):
    net = LinearClassifier(clusters.mu[0])
    with pytest.raises(ValueError, match="Labels"):
        fgm(net, test_set.x, test_set.y + 1, LpBall(2, 0.1))
    with pytest.raises(ValueError, match="at least 0"):
        pgd(net, test_set.x, test_set.y, LpBall(2, -0.1))
