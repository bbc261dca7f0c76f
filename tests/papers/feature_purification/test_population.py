"""The population dynamics: limits in closed form, its own law in full vectors, and the item at a small size."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from featureprism.papers.feature_purification import population_dynamics as dynamics
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.population import POPULATION
from papers.feature_purification.sizes import small

TINY = small(POPULATION, {"points": 200, "test_points": 200})
DIM, K = 60, 9.0
MODEL = dynamics.PopulationModel(float(DIM), K, 0.15 / math.sqrt(K), 0.05, 0.1 / DIM, copies=2)


def points(num=400, seed=0):
    """Points as full vectors, and the counts that describe them."""
    generator = np.random.default_rng(seed)
    size = generator.choice([0.0, 1.0, K**-0.5], p=[1 - 1 / DIM - K / DIM, 1 / DIM, K / DIM], size=(num, DIM))
    x = size * generator.choice([-1.0, 1.0], size=(num, DIM))
    x = x[np.abs(x.sum(axis=1)) > 1e-9]
    total = tuple((np.abs(x) == level).sum(axis=1).astype(float) for level in MODEL.levels)
    signed = tuple(
        (x == level).sum(axis=1) - (x == -level).sum(axis=1).astype(float) for level in MODEL.levels
    )
    return x, dynamics.Counts(total, signed, np.sign(x.sum(axis=1)))


def full_network(x, neuron):
    """f and the gates of every neuron by matrices: w_j = αe_j + βΣe_j'."""
    W = np.full((DIM, DIM), neuron.beta)
    np.fill_diagonal(W, neuron.alpha)
    u, b, s = x @ W, MODEL.bias, MODEL.smoothing

    def relu(t):
        return t * norm.cdf(t / s) + s * norm.pdf(t / s)

    gates = norm.cdf((u - b) / s) + norm.cdf((-u - b) / s)
    return MODEL.copies * (relu(u - b) - relu(-u - b)).sum(axis=1), gates, W


def spread(shift, x):
    """A shift by kinds of coordinates as full vectors."""
    delta = np.zeros_like(x)
    for v, up, down in zip(MODEL.levels, shift.up, shift.down, strict=True):
        delta += np.where(x == v, up[:, None], 0) + np.where(x == -v, down[:, None], 0)
    return delta + np.where(x == 0, shift.zero[:, None], 0)


@pytest.mark.parametrize("beta", [0.0, 0.08, -0.03])
def test_counts_give_the_network_its_gradient_and_its_training_step(beta):
    neuron = dynamics.Neuron(0.7, beta)
    x, counts = points()
    f, gates, W = full_network(x, neuron)
    now = dynamics.forward(MODEL, neuron, counts, dynamics.no_shift(counts))
    assert now.output == pytest.approx(f)
    gradient = MODEL.copies * gates @ W
    shift = dynamics.fast_gradient(MODEL, neuron, counts, 0.2)
    step = -0.2 * counts.y[:, None] * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    assert spread(shift, x) == pytest.approx(step)
    moved = dynamics.forward(MODEL, neuron, counts, shift)
    f, gates, _ = full_network(x + step, neuron)
    assert moved.output == pytest.approx(f)
    pulls = (counts.y * expit(-counts.y * f))[:, None]
    whole = gates.T @ (pulls * (x + step)) / len(x)  # the gradient of one neuron of each feature
    after = dynamics._pulls(MODEL, neuron, counts, 0.2)
    assert after.alpha == pytest.approx(np.diag(whole).mean())
    assert after.beta == pytest.approx((whole.sum() - np.trace(whole)) / (DIM * (DIM - 1)))


def test_attacks_stay_in_their_ball_and_are_no_weaker_than_their_start():
    neuron, (x, counts) = dynamics.Neuron(0.7, 0.1), points()
    along = dynamics.universal(MODEL, counts, 0.3)
    assert np.linalg.norm(spread(along, x), axis=1) == pytest.approx(0.3)
    attack = dynamics.projected_gradient(MODEL, neuron, counts, 0.3, along)
    assert (dynamics.norm_of(MODEL, counts, attack.parts) <= 0.3 + 1e-9).all()
    before, after = (
        (counts.y * dynamics.forward(MODEL, neuron, counts, shift).output).mean() for shift in (along, attack)
    )
    assert after < before


def test_the_pure_network_has_the_accuracy_of_the_limit():
    """At d = 10²⁰ a pure network has P(sign(A + G)(A + (1 - t)G) > ρ) in closed form."""
    for ratio, radius in ((0.5, 0.335), (0.1, 0.1)):
        k = 1e8
        model = dynamics.PopulationModel(1e20, k, ratio / math.sqrt(k), 1e-3 * ratio / math.sqrt(k), 0.0, 1.0)
        counts = dynamics.draw_counts(model, 40_000, np.random.default_rng(1))
        measured = dynamics.accuracies(model, dynamics.Neuron(1.0, 0.0), counts, radius / math.sqrt(k))
        assert measured.clean == pytest.approx(theory.pure_accuracy(ratio), abs=0.01)
        assert measured.worst == pytest.approx(theory.pure_accuracy(ratio, radius), abs=0.012)


def test_backward_euler_agrees_with_small_explicit_steps():
    model = dynamics.PopulationModel(1e6, 250.0, 0.15 / math.sqrt(250), 0.0005, 1e-7, 3.0)
    start, radius, time = dynamics.Neuron(0.65, 250.0 / 1e6 * 0.65), 0.15 / math.sqrt(250), 3e5
    ends = []
    for follow, steps in ((dynamics.descend, 400), (dynamics.adversarial_flow, 40)):
        path = follow(
            model,
            start,
            [time / steps] * steps,
            generator=np.random.default_rng(0),
            num_points=3000,
            radius=radius,
        )
        ends.append(path[-1].beta / start.beta)
    assert 0 < ends[0] < 0.8
    assert ends[1] == pytest.approx(ends[0], abs=0.05)


def test_neurons_as_vectors():
    first, second = dynamics.Neuron(0.6, 0.1), dynamics.Neuron(0.5, 0.0)
    v, w = np.array([0.6, 0.1, 0.1, 0.1]), np.array([0.5, 0.0, 0.0, 0.0])
    assert first.norm(4) == pytest.approx(np.linalg.norm(v))
    assert first.purity(4) == pytest.approx(0.6 / np.linalg.norm(v))
    assert second.drift_from(first, 4) == pytest.approx(((v - w) ** 2).sum() / (v**2).sum())
    assert first.cosine_with(second, 4) == pytest.approx(v @ w / np.linalg.norm(v) / np.linalg.norm(w))
    assert dynamics.pure(first) == dynamics.Neuron(0.6, 0.0)


@pytest.mark.parametrize("kind", [0, 1])
def test_differences_between_neurons_grow_at_the_rates_of_the_second_variation(kind):
    """Beside them: second differences of the mean loss of full matrices, along mixtures that differ and along single entries."""
    neuron, generator = dynamics.Neuron(0.8, 0.06), np.random.default_rng(5)
    x, counts = points(4000)
    W = full_network(x[:1], neuron)[2]

    def loss(weights):
        values = dynamics._value(x @ weights.T, MODEL)
        return np.logaddexp(0, -counts.y * MODEL.copies * values.sum(axis=1)).mean()

    middle, curvatures = loss(W), []
    for _ in range(10):
        along = generator.standard_normal((DIM, DIM) if kind else (DIM, 1)) * np.ones((DIM, DIM))
        along -= along.mean(axis=0)
        along -= kind * along.mean(axis=1, keepdims=True)
        along *= 0.02 / np.linalg.norm(along)
        curvatures.append((loss(W + along) + loss(W - along) - 2 * middle) / 0.02**2)
    expected = -DIM * np.mean(curvatures) / MODEL.copies - 0.1 * (1 + neuron.norm(DIM))
    assert dynamics.spread_rates(MODEL, neuron, counts)[kind] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("scaled_bias", "grows"), [(0.15, True), (0.4, False)])
def test_mixtures_that_open_closed_neurons_let_differences_grow(scaled_bias, grows):
    """d = 400, k = d^0.3999: a network leaves the two numbers at b√k = 0.15 and follows them at 0.4 (`demonstration`)."""
    k, generator = 400**0.3999, np.random.default_rng(0)
    bias = scaled_bias / k**0.5
    model = dynamics.PopulationModel(400.0, k, bias, 0.05 * bias, 0.07 / 400, copies=1.0)
    path = dynamics.descend(
        model, dynamics.Neuron(0.75, 0.0), [24.0] * 150, generator=generator, num_points=1000
    )
    rates = dynamics.spread_rates(model, path[-1], dynamics.draw_counts(model, 20_000, generator))
    assert (max(rates) > 0) == grows
