"""The bounds of the checker beside the truth: never on the wrong side of it, and close where they ought to be."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from featureprism.checker import cells, cheap, float32, quadratic, readouts
from featureprism.checker.enclosed import Enclosed, enclosed
from featureprism.checker.layers import Layers, Region, neuron_bounds, norms_above
from featureprism.checker.power_bounds import end_curvature, quadratic_above, quadratic_below
from featureprism.checker.scaled import Network

SEEDS = range(6)


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(array)


# --- roundings


def test_sizes_and_norms_are_rounded_up():
    rng = np.random.default_rng(0)
    mid, rad = rng.normal(size=500), np.abs(rng.normal(size=500))
    assert bool((exact(Enclosed(mid, rad).size) >= abs(exact(mid)) + exact(rad)).all())
    network = Network(
        rng.normal(size=(200, 3)), np.ones(200), np.zeros(200), 1.0, False, weights=np.array([1.0, 2.0, 3.0])
    )
    assert bool((exact(network.norm) ** 2 >= exact(network.squares.high)).all())
    plain = Network(rng.normal(size=(200, 3)), np.ones(200), np.zeros(200), 1.0, False)
    assert bool((exact(plain.norm) ** 2 >= exact(plain.squares.high)).all())


def test_a_sum_that_loses_its_small_terms_is_not_too_short():
    """Every eighth of 128 terms goes to one partial sum that begins with 1, and is less than half of its last digit."""
    v = np.zeros((1, 128))
    v[0, 8::8] = np.sqrt(0.49 * 2.0**-52)
    v[0, 0] = 1.0
    squares = (exact(v) ** 2).sum()
    for length in (readouts._length(enclosed(v)), norms_above(enclosed(v))):
        assert Fraction(float(length[0])) ** 2 >= squares


# --- curvature


def phi(t, p):
    return np.maximum(t, 0.0) ** p


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0, 4.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_quadratics_lie_on_their_side_of_a_neuron(p, seed):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=50)
    high = low + rng.exponential(size=50)
    c = np.abs(rng.normal(size=50))
    share = np.linspace(0, 1, 201)[:, None]
    t = low + share * (high - low)
    q0, q1, q2 = quadratic_below(c, low, high, p)
    below = q0.mid + q1.mid * t + 0.5 * q2 * t**2
    assert (below <= phi(t, p) + 1e-9 * (1 + np.abs(below))).all()
    chord = (phi(high, p) - phi(low, p)) / (high - low)
    for centre, kappa in ((c, 0 * c), (-c, 0 * c), (0 * c, end_curvature(low, high, p))):
        q0, q1, q2 = quadratic_above(chord, centre, kappa, low, high, p)
        above = q0.mid + q1.mid * t + 0.5 * q2 * t**2
        assert (above >= phi(t, p) - 1e-9 * (1 + np.abs(above))).all()
    far = end_curvature(low, high, p) * 1.01 + 1e-3
    assert np.isnan(quadratic_above(chord, 0 * c, far, low, high, p)[2][high > 0]).all()


def test_an_interval_without_length_bends_nothing():
    for p in (1.5, 3.0):
        assert end_curvature(np.array([-1.0]), np.array([-1.0]), p) == 0.0


def test_curvature_upwards_makes_up_for_curvature_downwards():
    """Two neurons of one direction: I - e₁wwᵀ alone is indefinite, with e₂ < 0 its least eigenvalue is ½."""
    gram = enclosed(np.ones((2, 2)))
    assert (
        0.1 <= cells._least_curvature(np.array([1.5, -1.0]), gram) <= 0.25
    )  # (1 - ¾)/2, by the Schur complement
    assert 0.2 <= cells._least_curvature(np.array([0.5, 0.0]), gram) <= 0.5
    assert cells._least_curvature(np.array([0.0, -1.0]), gram) == 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_eigenvalue_is_below_the_true_one(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(5, 5))
    S = A @ A.T / 5 + rng.uniform(-0.1, 0.5) * np.eye(5)
    truth = np.linalg.eigvalsh(S)[0]
    found = cells.least_eigenvalue(enclosed(S))
    assert found <= truth
    assert found >= min(1.0, 0.5 * truth) - 1e-9 if truth > 0 else True


# --- closed forms


@pytest.mark.parametrize("kind", ["log-sum-exp", "max"])
def test_a_read_out_of_two_neurons_has_a_closed_form(kind):
    """f = [⟨u, x⟩]₊ - [⟨v, x⟩]₊ has ‖∇f‖² ≤ ‖u‖² + ‖v‖² + 2[-⟨u, v⟩]₊."""
    labels, x = np.array([1.0, -1.0]), np.array([1.0, 0.0])
    across = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    against = np.array([[[1.0, 0.0]], [[-1.0, 0.0]]])
    alike = np.array([[[1.0, 0.0]], [[0.5, 0.0]]])
    for W, margin, squares in ((across, 1.0, 2.0), (against, 1.0, 4.0), (alike, 0.5, 1.25)):
        radius = cheap.readout_radius(W, labels, x, 1.0, kind)
        assert margin / squares**0.5 * (1 - 1e-9) <= radius <= margin / squares**0.5
        assert cheap.readout_radius(W, labels, x, -1.0, kind) == 0.0


def test_the_logarithm_of_a_sum_is_enclosed():
    for logits in (np.zeros(1), np.zeros(3), np.array([1.0, -2.0, 0.5]), np.full(1000, 3.0)):
        truth = logits.max() + np.log(np.exp(logits - logits.max()).sum())
        low, high = (cheap._log_sum_exp(logits, side) for side in (-1.0, 1.0))
        assert low < truth < high
        assert high - low <= 1e-10


def test_the_dual_of_a_plane_is_exact_from_any_start():
    """L(δ) = λ(g + ⟨s, δ⟩) + ‖δ‖² has the minimum λg - λ²‖s‖²/4, wherever the quadratic is written out."""
    model = quadratic.QuadraticScores(np.zeros((2, 2, 2)), np.array([[2.0, 1.0], [0.0, 0.0]]), np.zeros(2))
    margin, x = model.margin(0, 1), np.array([[1.0, 1.0]])
    at_x, slope = model._around(margin, x)
    for multiplier in (0.1, 0.5, 1.0):
        truth = multiplier * 3.0 - multiplier**2 * 5.0 / 4
        for delta in (np.zeros((1, 2)), np.array([[0.3, -2.0]])):
            found = quadratic._dual(margin, at_x, slope, np.array([multiplier]), delta)[0]
            assert truth - 1e-9 <= found <= truth


def test_the_mean_of_a_group_is_near_its_score():
    """Two neurons v ± d: where ⟨v, x⟩ is 0 and ⟨d, x⟩ is largest, the mean of both is half of that."""
    W = np.array([[[1.0, 1.0], [-1.0, 1.0]], [[0.5, 0.0], [0.5, 0.0]]])
    x, reach, rng = np.array([1.0, 0.0]), 0.5, np.random.default_rng(0)
    known = readouts.posed_scores(W, x, reach, 1, True)
    deltas = rng.normal(size=(500, 2))
    deltas *= reach * rng.uniform(size=(500, 1)) / np.linalg.norm(deltas, axis=1, keepdims=True)
    points = x + np.concatenate([deltas, [[reach, 0.0], [-reach, 0.0]]])
    scores = np.maximum(np.einsum("nd,khd->nkh", points, W), 0).mean(axis=2)
    u = points @ W.mean(axis=1).T
    assert (scores <= np.maximum(u, 0) + known.lift + 1e-12).all()
    assert (scores >= u - known.slip - 1e-12).all()
    assert ((known.low <= u) & (u <= known.high)).all()
    assert known.lift[0] == pytest.approx((1 + reach) / 2)


# --- regions


def least(v, low, high, radius):
    """min ⟨v, δ⟩ with low ≤ δ ≤ high and ‖δ‖ ≤ radius, by bisection on the multiplier of the ball."""
    corner = np.where(v > 0, low, high)
    if np.linalg.norm(corner) <= radius:
        return v @ corner
    small, large = 0.0, 1e6
    for _ in range(200):
        middle = (small + large) / 2
        delta = np.clip(-v / max(middle, 1e-300), low, high)
        small, large = (middle, large) if np.linalg.norm(delta) > radius else (small, middle)
    return v @ np.clip(-v / large, low, high)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_product_in_a_ball_with_a_box_is_found(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, size=4)
    v = rng.normal(size=(5, 4))
    for norm, radius in ((2.0, 0.6), (2.0, 0.05), (2.0, 3.0), (np.inf, 0.3)):
        region = Region.around(x, radius, norm, (0.0, 1.0))
        found = region.least(enclosed(v))
        reach = radius if norm == 2 else 1e9
        truth = np.array([least(row, np.maximum(-x, -radius), np.minimum(1 - x, radius), reach) for row in v])
        assert (found <= truth + 1e-12).all()
        np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_of_neurons_hold_and_are_those_of_intervals_at_least(seed):
    rng = np.random.default_rng(seed)
    sizes = ((6, 3), (5, 6), (4, 5), (2, 4))
    weights = tuple(rng.normal(size=s) for s in sizes)
    model = Layers(weights, tuple(rng.normal(size=s[0]) for s in sizes), "relu")
    x, radius = rng.normal(size=3), 0.2
    region = Region.around(x, radius, 2.0, (-np.inf, np.inf))
    c = enclosed(weights[0]) @ x + model.biases[0]
    deltas = rng.normal(size=(2000, 3))
    deltas *= radius * rng.uniform(size=(2000, 1)) / np.linalg.norm(deltas, axis=1, keepdims=True)
    for signs in ({}, {0: 1.0}, {1: -1.0}):
        known = neuron_bounds(model, c, region, signs)
        z = (x + deltas) @ weights[0].T + model.biases[0]
        here = np.ones(len(z), dtype=bool)
        for j, sign in signs.items():
            here &= sign * z[:, j] >= 0
        for k, bounds in enumerate(known):
            assert (bounds.low <= z[here]).all()
            assert (z[here] <= bounds.high).all()
            if k + 1 < len(known):
                z = np.maximum(z, 0) @ weights[k + 1].T + model.biases[k + 1]
        for j, sign in signs.items():
            assert known[0].low[j] >= 0 if sign > 0 else known[0].high[j] <= 0


# --- float32


def test_the_error_of_a_layer_is_what_the_analysis_says():
    W, mass, size = np.ones((2, 10)), np.array([1.0, 3.0]), np.ones(10)
    u = Fraction(1, 2**24)
    for n in (1, 2, 10):
        found = float32._layer(W[:, :n], mass, np.zeros(2), size[:n])
        bound = (n + 3) * u / (1 - (n + 3) * u) * exact(mass)
        assert bool((exact(found) >= bound).all())
        assert (found <= 1.001 * bound.astype(float)).all()
    carried = float32._layer(W, mass, np.array([0.5, 0.5]), size)
    assert (carried >= 0.5).all()


def test_numbers_that_may_overflow_have_no_bound():
    W, size = np.ones((1, 2)), np.ones(2)
    for share, finite in ((0.45, True), (0.55, False)):
        found = float32._layer(W, np.array([share * float32.MOST]), np.zeros(1), size)
        assert np.isfinite(found[0]) == finite
    assert np.isinf(float32._layer(2 * float32.MOST * W, size[:1], np.zeros(1), size)).all()
    assert np.isinf(float32._layer(W, size[:1], np.zeros(1), 2 * float32.MOST * size)).all()
    wide = np.ones((1, 2**23))
    assert np.isinf(float32._layer(wide, size[:1], np.zeros(1), wide[0])).all()


def test_the_next_layer_starts_from_what_the_last_one_may_have_computed(monkeypatch):
    """With W = I and b = 0 the mass is the largest h, the carried error that of h, and h as computed is at most their sum."""
    calls, plain = [], float32._layer
    monkeypatch.setattr(float32, "_layer", lambda *given: calls.append(given) or plain(*given))
    model = Layers((np.ones((2, 2)), np.eye(2)), (np.zeros(2), np.zeros(2)), "relu")
    float32.float32_errors(model, np.array([1.0, 0.5]), 0.1, 2.0, (-np.inf, np.inf))
    _, mass, carried, size = calls[1]
    np.testing.assert_array_equal(size, mass + carried)
    assert (carried > 0).all()


def test_least_products_over_an_l1_ball_in_a_box_are_those_of_linear_programming():
    """δ = p - q with p, q ≥ 0, Σ(p + q) ≤ radius and low ≤ δ ≤ high."""
    rng = np.random.default_rng(8)
    for _ in range(30):
        low, high, radius = -rng.uniform(0, 1, 5), rng.uniform(0, 1, 5), rng.uniform(0.1, 3.0)
        v = rng.normal(size=5)
        optimum = linprog(
            np.concatenate([v, -v]),
            A_ub=[np.ones(10)],
            b_ub=[radius],
            bounds=[(0, side) for side in (*high, *-low)],
        ).fun
        least = Region(radius, 1, low, high).least(enclosed(v[None]))[0]
        assert least <= optimum + 1e-9
        assert least == pytest.approx(optimum, abs=1e-9)
