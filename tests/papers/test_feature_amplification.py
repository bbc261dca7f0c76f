"""What the items of feature-amplification measure, against known truths."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from featureprism.context import Context
from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.lab import Rows
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_amplification.adversary import label_influence
from featureprism.papers.feature_amplification.amplification import AMPLIFICATION
from featureprism.papers.feature_amplification.baselines import ThreeLayers, lazy_outputs
from featureprism.papers.feature_amplification.critical_constant import (
    logistic_fit,
    on_every_edge,
    smallest_constant,
)
from featureprism.papers.feature_amplification.feature_change import CLAIMS as CLAIMS_3_2
from featureprism.papers.feature_amplification.figure import PRINTED
from featureprism.papers.feature_amplification.lemmas import (
    captured,
    of_end,
    of_features,
    of_start,
    surpluses,
)
from featureprism.papers.feature_amplification.linear import (
    AXES,
    SKEWED_ERROR,
    best_linear,
    skewed_directions,
)
from featureprism.papers.feature_amplification.long_training import CLAIMS_MEMORISATION
from featureprism.papers.feature_amplification.noise import breakdown
from featureprism.papers.feature_amplification.planar import half_turn_sums, planar_descent
from featureprism.papers.feature_amplification.rademacher import PROPOSITION_B_1, Signs, largest_sums
from featureprism.papers.feature_amplification.setting import (
    ADVERSARY,
    Setting,
    margins,
    problem,
    start,
    trained,
)
from featureprism.papers.feature_amplification.theorem import THEOREM_3_1
from featureprism.probes.amplification import count_by_noise, first_step
from featureprism.theory import feature_amplification as theory
from featureprism.training import first_layer_descent
from featureprism.training.trajectory import Ended, Trajectory

C3 = 4096 * math.exp(2) / 0.9**2  # Lemma 4.9 with C₀ = 10


def value(claims, name, rows):
    claim = next(claim for claim in claims if claim.name == name)
    return claim.value(Rows.gather(rows)).tolist()


@pytest.mark.parametrize("dim", [50, 200])
def test_one_step_amplifies_in_any_dimension(dim):
    s = replace(AMPLIFICATION.settings("quick")[0], dim=dim, points=1000, width=200)
    s = replace(s, sigma=1 / (16 * dim**0.5), start=1 / (256 * (200 * dim) ** 0.5))
    rows = AMPLIFICATION.measure(s, 0, Context())
    assert rows[0]["over_law"] == pytest.approx(1.0, abs=0.1)
    medians = [row["correlation"] for row in rows if row.get("quantile") == 0.5]
    assert medians[0] * dim**0.5 == pytest.approx(0.6956, rel=0.15)  # weak, of order 1/√d
    assert medians[1] > 0.6


def test_the_best_threshold_is_found_by_brute_force(generator):
    x = torch.randn(60, 2, generator=generator).double()
    y = torch.where(x[:, 0] > 0.4, 1.0, -1.0).double()
    y[:3] = -y[:3]
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    w, threshold = best_linear(x, y, directions, bias=True)
    error = float((torch.where(x @ w > threshold, 1.0, -1.0) != y).double().mean())
    brute = min(
        float((torch.where(x @ v > t, 1.0, -1.0) != y).double().mean())
        for v in directions
        for t in (x @ v).tolist()
    )
    assert error == pytest.approx(brute)
    w, threshold = best_linear(x, y, directions, bias=False)
    assert w.tolist() == [1.0, 0.0]
    assert threshold == 0


def test_breakdown_is_the_first_rate_that_loses_points():
    lost = {0.0: 0.0, 0.2: 0.005, 0.3: 0.2, 0.4: 0.5}
    rows = [{"kind": "rate", "seed": 0, "rate": rate, "clean_lost": share} for rate, share in lost.items()]
    assert breakdown(Rows.gather(rows)) == 0.3
    assert breakdown(Rows.gather(rows[:2])) == 0.2


def small_sample(kind="constant", rate=0.0):
    s = Setting.on_edge(16.0, dim=30, points=200, width=40, noise=kind, noise_rate=rate, counted=True)
    return s, problem(s, 0).train


def test_influence_is_the_derivative_of_training():
    s, sample = small_sample()
    found = label_influence(start(s, 0), sample, step_size=s.step_size, steps=s.steps)

    def margin_of_its_cluster(index, label):
        y = sample.clean.clone()
        y[index] = label
        net = first_layer_descent(start(s, 0), sample.data.x, y, step_size=s.step_size, steps=s.steps).last
        own = sample.data.cluster == sample.data.cluster[index]
        return float((sample.clean * net(sample.data.x).detach())[own].mean())

    for index in (0, 7, 100):
        y = float(sample.clean[index])
        ends = [margin_of_its_cluster(index, y * (1 + step)) for step in (-1e-5, 1e-5)]
        assert float(found[index]) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4)


def test_an_adversary_keeps_its_budget_and_does_worse_than_chance():
    lost = {}
    for kind in ("constant", "one cluster", ADVERSARY):
        s, sample = small_sample(kind, 0.1)
        assert int(sample.flipped.sum()) == 20
        assert torch.equal(sample.data.y != sample.clean, sample.flipped)
        lost[kind] = count_by_noise(margins(trained(s, sample, 0).last, sample), sample.flipped)[0]
    assert lost[ADVERSARY] >= max(lost.values())
    assert lost[ADVERSARY] > 20


def test_the_slope_of_a_power_law():
    rows = [
        {"kind": "change", "seed": 0, "family": "start", "start": s, "change": 3 / s}
        for s in (0.1, 0.01, 0.001)
    ]
    assert value(CLAIMS_3_2, "slope", rows) == pytest.approx([-1.0])


def test_edges_and_sets_of_a_start_against_loops():
    s = Setting.on_edge(4.0, dim=20, points=60, width=12)
    sample, net = problem(s, 1).train, start(s, 1)
    W, a, data = net.W.detach(), net.a.detach(), sample.data
    edges, scores, sizes, expected = [], [], [0] * 4, []
    for c in range(4):
        opposite = [1, 0, 3, 2][c]
        own, other = (int(((data.cluster == k) & ~sample.flipped).sum()) for k in (c, opposite))
        for j in range(12):
            cosine = float(W[j] @ data.centres[c] / W[j].norm())
            if cosine < 1 / (30 * 20**0.5):
                continue
            sizes[c] += int((a[j] > 0) == (c < 2))
            active = (data.x @ W[j] > 0) & ~sample.flipped
            edges.append(int(active[data.cluster == c].sum()) - int(active[data.cluster == opposite].sum()))
            share = 0.5 * math.erfc(-cosine / s.sigma / 2**0.5)
            expected.append(own * share - other * (1 - share))
            spread = ((own + other) * share * (1 - share)) ** 0.5
            if spread > 1:
                scores.append((edges[-1] - expected[-1]) / spread)
    found = of_start(W, a, sample, s.sigma)
    assert found["leaning"] == pytest.approx(min(sizes) / 3)
    assert found["least_edge"] == pytest.approx(min(edges) / theory.edge_bound(60, 10.0))
    assert found["edge_law"] == pytest.approx(sum(edges) / sum(expected))
    assert found["edge_score"] == pytest.approx((sum(v**2 for v in scores) / len(scores)) ** 0.5)


def test_margins_of_the_end_on_either_side():
    s = Setting.on_edge(16.0, dim=20, points=100, width=12)
    sample, net = problem(s, 0).train, start(s, 0)
    every = torch.ones(4, 12, dtype=torch.bool)
    found = of_end(s, net, sample, every)
    margin = (sample.data.y * net(sample.data.x).detach()).tolist()
    clean = min(m for m, flip in zip(margin, sample.flipped.tolist(), strict=True) if not flip)
    noisy = min(-m for m, flip in zip(margin, sample.flipped.tolist(), strict=True) if flip)
    assert found["clean_margin"] == pytest.approx(clean * C3)
    assert found["noisy_margin"] == pytest.approx(noisy * C3)
    assert surpluses(sample).sum() == 100 - 2 * int(sample.flipped.sum())


def test_features_of_the_end_by_hand():
    centres = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]).double()
    W = torch.tensor([[3.0, 1.0, 0.0], [0.0, -2.0, 1.0], [0.0, 0.1, 5.0], [4.0, 0.0, 0.0]]).double()
    leaning = torch.tensor(
        [[True, False, False, True], [False] * 4, [False] * 4, [False, True, False, False]]
    )
    weights = [9 * W, W, 1.5 * W, 2 * W * torch.tensor([[1.0], [1.0], [0.1], [0.5]])]
    nets = [TwoLayerNet(own, torch.ones(4).double(), activation=ReLU()) for own in weights]
    found = of_features(Trajectory([0.0, 1.0, 2.0, 3.0], nets, Ended.TIME_REACHED), centres, leaning)
    assert found["captured"] == 1
    assert found["growing"] == pytest.approx(2 / 3)  # the first step and the neuron outside J do not count
    assert found["across"] == pytest.approx(1 / 10**0.5)
    assert found["near_centre"] == 0.5  # 3/√10 and 1 are high, 2/√5 and 0.02 are not
    turned = torch.cat([torch.tensor([[0.0, 3.0, 1.0]]).double(), W[1:]])
    assert captured(turned, centres, leaning).any(dim=0).tolist() == [False, True, False, True]


def test_norms_and_remainders_cannot_pass_their_bounds():
    """Lemma A.1, Lemma 4.9, (24) and (26) are triangle inequalities under ‖x‖ ≤ √2, ω√(md) ≤ α/3 and the norms of Lemma 4.1."""
    for seed in range(3):
        s = Setting.on_edge(16.0, dim=80, points=60, width=20, noise_rate=0.4, test_points=20)
        sample, net = problem(s, seed).train, start(s, seed)
        W0, a = net.W.detach(), net.a.detach()
        assert float(sample.data.x.norm(dim=1).max()) <= 2**0.5
        assert float(W0.norm(dim=1).max()) <= 1.5 * s.start * 80**0.5
        run = trained(s, sample, seed, tuple(range(s.steps)))
        norms = [float(torch.linalg.matrix_norm(step.W.detach())) for step in run.snapshots]
        assert all(norm <= theory.norm_bound(s, time) for time, norm in enumerate(norms) if time)
        assert norms[-1] <= 1
        parts = first_step(W0, a, sample.data, s.step_size)
        assert float(parts.point_noise.norm(dim=1).max()) <= theory.point_noise_bound(s)
        assert float(parts.loss_noise.norm(dim=1).max()) <= theory.loss_noise_bound(s)


def test_the_excess_leaves_out_the_coins_of_the_test_labels():
    s = replace(next(s for s in THEOREM_3_1.settings("quick") if s.family == "excess"), dim=50, points=400)
    row = THEOREM_3_1.measure(replace(s, test_points=37), 0, Context())[0]
    assert row["over_allowed"] == 0  # all clean labels are right, whatever share of 37 was flipped


def test_an_adversary_inside_the_assumptions_loses():
    s = next(s for s in THEOREM_3_1.settings("quick") if s.family == ADVERSARY)
    row, *premises = THEOREM_3_1.measure(replace(s, width=60), 0, Context())
    assert all(premise["holds"] for premise in premises)
    assert (row["clean_wrong"], row["noisy_right"]) == (0, 0)


def test_descent_in_the_plane_is_descent():
    s = replace(PRINTED, points=90, width=14, steps=60)
    data, net = problem(s, 0).train.data, start(s, 0)
    planar, slow = (
        descend(net, data.x, data.y, step_size=0.4, steps=60, record=(0, 7))
        for descend in (planar_descent, first_layer_descent)
    )
    assert planar.times == slow.times == [0, 7, 60]
    for own, other in zip(planar.snapshots, slow.snapshots, strict=True):
        torch.testing.assert_close(own.W, other.W, rtol=1e-9, atol=1e-12)


def test_sums_over_half_turns_by_hand(generator):
    angle = (torch.rand(30, generator=generator).double() * 2 - 1) * math.pi
    values, at = (
        torch.randn(30, 2, generator=generator).double(),
        torch.tensor([-3.1, -1.0, 0.0, 1.7, 3.0]).double(),
    )
    order = angle.argsort()
    found = half_turn_sums(angle[order], values[order], at)
    for place, own in zip(at.tolist(), found, strict=True):
        near = [math.cos(other - place) > 0 for other in angle.tolist()]
        torch.testing.assert_close(own, values[torch.tensor(near)].sum(dim=0))


def test_no_linear_classifier_beats_chance_on_mirrored_points(generator):
    """Through the origin: of x and -x, which have one label where clusters are symmetric about their centres, it gets one right."""
    sample = problem(Setting.on_edge(16.0, dim=20, points=200, width=2), 0).train
    x, y = torch.cat([sample.data.x, -sample.data.x]), torch.cat([sample.clean, sample.clean])
    for w in torch.randn(20, 20, generator=generator).double():
        assert float((torch.where(x @ w > 0, 1.0, -1.0) != y).double().mean()) == 0.5


def test_a_skewed_law_lets_a_linear_classifier_through(generator):
    clusters = xor_clusters(400, 0.01, "exponential", generator=generator)
    sample = sample_xor(clusters, 20_000, LabelNoise(), generator=generator)
    w = skewed_directions(clusters)[AXES]  # an axis and μ2
    said = torch.where(sample.data.x @ w > 0, -1.0, 1.0)
    assert float((said != sample.clean).double().mean()) == pytest.approx(SKEWED_ERROR, abs=0.02)


def test_the_complexity_never_passes_the_bound_of_the_proposition():
    """A lower estimate against a proven upper bound, for any data: Proposition B.1."""
    for law in ("gaussian", "exponential"):
        s = Signs.on_edge(16.0, dim=6, points=20, width=2, sigma=2.0, law=law, draws=30, test_points=1)
        row = PROPOSITION_B_1.measure(s, 0, Context())[0]
        assert row["complexity"] <= row["bound"]


def test_largest_sums_never_pass_those_of_a_grid_of_directions(generator):
    x = torch.randn(12, 2, generator=generator).double()
    signs = torch.randint(2, (20, 12), generator=generator).double() * 2 - 1
    angle = torch.linspace(0, 2 * math.pi, 2000, dtype=torch.float64)
    exact = (signs @ torch.relu(x @ torch.stack([angle.cos(), angle.sin()]))).amax(dim=1).clamp_min(0)
    found = largest_sums(x, signs, torch.randn(16, 2, generator=generator).double())
    assert bool((found <= exact * 1.001).all())
    assert float((found / exact)[exact > 1].min()) > 0.9  # maxima may sit where a point is switched off


def test_largest_sums_of_points_at_their_centres_by_hand(generator):
    cluster = torch.randint(4, (30,), generator=generator)
    centres = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()
    signs = torch.randint(2, (20, 30), generator=generator).double() * 2 - 1
    sums = torch.stack([signs[:, cluster == c].sum(dim=1) for c in range(4)])
    wanted = [math.hypot(max(a, b, 0), max(c, d, 0)) for a, b, c, d in sums.T.tolist()]
    starts = torch.tensor([[u, v] for u in (1, 0, -1) for v in (1, 0, -1) if u or v]).double()
    assert largest_sums(centres[cluster], signs, starts).tolist() == pytest.approx(wanted)


def test_lazy_training_is_descent_on_the_linearised_network():
    s = Setting.on_edge(16.0, dim=15, points=40, width=10, sigma=0.5, test_points=20)
    data, net = problem(s, 0), start(s, 0)
    x, y, fresh = data.train.data.x, data.train.data.y, data.test.data.x
    W0, a = net.W.detach(), net.a.detach()
    W = W0.clone()

    def linearised(points, W):
        return ((points @ W0.T > 0) * (points @ W.T)) @ a  # the network is its own tangent at W⁰

    for _ in range(5):
        moving = W.clone().requires_grad_()
        torch.nn.functional.softplus(-y * linearised(x, moving)).mean().backward()
        W = W - 0.7 * moving.grad
    torch.testing.assert_close(lazy_outputs(net, data, 0.7, 5), linearised(fresh, W))


def test_a_step_of_three_layers_is_the_gradient():
    s = Setting.on_edge(16.0, dim=6, points=30, width=8, start=0.3)
    data, net = problem(s, 0).train.data, ThreeLayers.random(s, 0)
    W = net.W.clone().requires_grad_()
    f = torch.relu(torch.relu(data.x @ W.T) @ net.V.T) @ net.a
    torch.testing.assert_close(net.outputs(data.x), f.detach())
    torch.nn.functional.softplus(-data.y * f).mean().backward()
    torch.testing.assert_close(net.stepped(data.x, data.y, 0.5).W, net.W - 0.5 * W.grad)


def shares(curve, constants, steps):
    return [
        {
            "kind": "share",
            "seed": 0,
            "runs": 10_000,
            "steps": steps,
            "constant": C,
            "share": curve(math.log(C)),
        }
        for C in constants
    ]


def test_the_smallest_constant_is_where_a_logistic_curve_passes():
    def curve(x):
        return 1 / (1 + math.exp(-2 - 3 * (x - math.log(8))))

    wanted = 8 * math.exp((math.log(4) - 2) / 3)
    rows = shares(curve, (4.0, 6.0, 9.0, 12.0), 2)
    assert smallest_constant(Rows.gather(rows)) == pytest.approx(wanted, rel=1e-3)
    # it does not get there before the number of steps jumps, and is above the level from then on
    low = shares(lambda x: curve(x) / 2, (4.0, 6.0, 9.0, 12.0), 2)
    high = shares(lambda _: 0.95, (16.0, 20.0), 3)
    assert smallest_constant(Rows.gather(low + high)) == 16.0
    assert smallest_constant(Rows.gather(low)) == math.inf
    assert smallest_constant(Rows.gather(high)) == 16.0


def test_a_logistic_fit_is_the_most_likely(generator):
    x = np.linspace(0, 2, 6)
    share = torch.rand(6, generator=generator).double().numpy()
    runs = np.full(6, 30.0)
    height, slope = logistic_fit(x, share, runs)

    def loss(height, slope):
        chance = 1 / (1 + np.exp(-height - slope * x))
        k, n = share * runs + 0.5, runs + 1
        return -(k * np.log(chance) + (n - k) * np.log(1 - chance)).sum() + 1e-3 * slope**2 / 2

    least = minimize(lambda b: loss(*b), [0.0, 0.0], tol=1e-10)
    assert (height, slope) == pytest.approx(tuple(least.x), abs=1e-4)


@pytest.mark.parametrize("C", [3.0, 4.0, 7.3, 16.0, 24.0])
def test_every_assumption_is_met_with_no_room(C):
    s = on_every_edge(C, 1)
    assert all(premise.holds for premise in theory.assumptions(s, C))
    assert any(not premise.holds for premise in theory.assumptions(s, 1.001 * C))
    smaller = [replace(s, **{name: getattr(s, name) - 2}) for name in ("dim", "width", "points")]
    assert all(any(not p.holds for p in theory.assumptions(other, C)) for other in smaller)


def test_memorisation_is_read_at_the_end_of_the_largest_and_the_smallest_dimension():
    rows = [
        {"kind": "time", "seed": 0, "dim": dim, "time": time, "fitted_share": dim / 1000 + time / 10000}
        for dim in (600, 20, 200)
        for time in (3, 50, 500)
    ]
    assert value(CLAIMS_MEMORISATION, "high-dimension", rows) == pytest.approx([0.65])
    assert value(CLAIMS_MEMORISATION, "low-dimension", rows) == pytest.approx([0.07])
    assert value(CLAIMS_MEMORISATION, "early", rows) == pytest.approx([0.605])
