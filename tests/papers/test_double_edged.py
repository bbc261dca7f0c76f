"""What the items of double-edged measure, against known truths."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.context import Context
from featureprism.lab import Rows, fields_of
from featureprism.papers.double_edged.generalisation import THEOREM_3_1, Variants
from featureprism.papers.double_edged.initialisation import passage
from featureprism.papers.double_edged.kkt import KKT
from featureprism.papers.double_edged.many_clusters import crowd
from featureprism.papers.double_edged.samples import Sampled, measure_samples
from featureprism.papers.double_edged.setting import Setting, clusters_of, direction, error_of, problem
from featureprism.papers.double_edged.universality import CLAIMS_SCALING, SCALING, NearestNeighbour
from featureprism.records import Dataset
from featureprism.theory import double_edged as theory
from featureprism.training import NotSeparableError, max_margin_network


def test_the_breaking_norm_follows_the_law():
    """σ = 1/√d at small d: the exact KKT point breaks at √(d/k), so the exponents are -1/2 and 1/2."""
    settings = [
        replace(s, dim=s.dim // 5, points=60, test_points=200)
        for s in SCALING.settings("quick")
        if s.case == "within"
    ]
    rows = Rows.gather(
        {"seed": 0, **fields_of(s), **row} for s in settings for row in SCALING.measure(s, 0, Context())
    )
    powers = {c.name: c.value(rows)[0] for c in CLAIMS_SCALING if c.name in ("exponent", "dimension")}
    assert powers == pytest.approx({"exponent": -0.5, "dimension": 0.5}, abs=0.04)


def test_what_every_kkt_point_satisfies(monkeypatch):
    """v_j² = ‖w_j‖² + b_j² and Σλ = ‖θ‖²/2 follow from the KKT conditions, with the solver's multipliers."""
    monkeypatch.setattr("featureprism.papers.double_edged.kkt.PATHS", {})
    for setting in KKT.settings("quick"):
        tiny = replace(setting, dim=100, points=60, iterations=1)
        row = KKT.measure(tiny, 0, Context())[0]
        assert row["kind"] == "solution"
        assert row["balance"] < 1e-9
        assert row["sum_gap"] < 1e-8


def test_the_three_cases_have_the_means_they_say():
    for made in (Setting.usual, Setting.on_sphere, Setting.within):
        clusters = clusters_of(made(50, 6), 0)
        gram = clusters.mu @ clusters.mu.T
        assert torch.diagonal(gram).tolist() == pytest.approx([50.0] * 6)
        apart = float(gram.fill_diagonal_(0).abs().max())
        assert (apart > 1) == (made == Setting.on_sphere)
        assert clusters.labels.tolist() == [1, 1, 1, -1, -1, -1]


def test_the_nearest_neighbour_by_hand():
    data = Dataset(
        torch.tensor([[0.0], [2.0]]).double(),
        torch.tensor([-1.0, 1.0]).double(),
        torch.tensor([0, 1]),
        torch.zeros(2, 1).double(),
    )
    assert NearestNeighbour(data)(torch.tensor([[0.9], [1.1]]).double()).tolist() == [-1.0, 1.0]


def test_streamed_test_points_give_what_all_of_them_at_once_give():
    """The errors and the least linear margin, in two blocks and in memory; with so much noise that there are errors."""
    s = replace(Variants.usual(40, 6, variants=(), test_points=3000), points=20, sigma=1.5)
    point, bound, *_ = THEOREM_3_1.measure(s, 0, Context())
    data = problem(s, 0)
    net = max_margin_network(data.train.x, data.train.y).net
    assert point["error"] == pytest.approx(error_of(net, data.test))
    assert point["error"] > 0
    assert bound["linear_least"] == pytest.approx(
        float((data.test.y * (data.test.x @ direction(data))).min())
    )


def test_errors_on_lost_and_seen_clusters_add_up():
    """error = lost share × error there + the rest; far more points than clusters lose none."""
    s = Sampled.loud_and_still(300, 6, draws=4, test_points=600, ratios=(1.0, 20.0))[0]
    few, many = measure_samples(s, 1, Context())[:2]
    assert few["lost"] > 0.1 > few["seen_error"]
    assert few["error"] <= few["strict_error"]
    assert many["lost"] == 0
    assert many["lost_error"] is None
    assert many["error"] == pytest.approx(many["seen_error"])


def test_the_law_of_lost_clusters_against_a_simulation(generator):
    """Share of empty boxes when n balls are thrown into k, and two independent symmetric responses that are compared."""
    thrown = torch.randint(5, (20000, 7), generator=generator)
    empty = 1 - torch.nn.functional.one_hot(thrown, 5).amax(dim=1).double().mean()
    assert theory.lost_share(5, 7) == pytest.approx(float(empty), abs=0.005)
    own, other = torch.randn(2, 200000, generator=generator).clamp_min(0)
    assert theory.lost_cluster_strict_error(2, 1) == pytest.approx(
        0.5 * float((own <= other).double().mean()), abs=0.003
    )
    assert theory.lost_cluster_error(2, 1) == 0.25


def test_the_passage_is_interpolated_in_the_logarithm():
    assert passage([1.0, 4.0, 16.0], [3.0, 2.0, 1.0], 1.5) == pytest.approx(8.0)
    assert math.isnan(passage([1.0, 4.0], [3.0, 2.0], 1.5))


def test_four_clusters_a_dimension_are_not_separable_by_two_directions():
    """Cover: k random points of random labels in d dimensions are separable with probability 0 for k well above 2d."""
    data = problem(crowd(8, 40, 10, 1, per_cluster=1), 0)
    with pytest.raises(NotSeparableError):
        max_margin_network(data.clusters.mu, data.clusters.labels)


def test_free_settings_have_the_classes_norms_and_cosines_they_say():
    few = clusters_of(replace(Setting.usual(60, 8), positives=1), 0)
    assert int((few.labels > 0).sum()) == 1
    uneven = clusters_of(replace(Setting.usual(60, 8), norm_spread=0.3), 0)
    norms = uneven.mu.norm(dim=1) / math.sqrt(60)
    assert sorted(norms.tolist()) == pytest.approx(torch.linspace(0.7, 1.3, 8).tolist())
    mixed = clusters_of(replace(Setting.usual(60, 8), means="mixed cosines"), 0)
    cosines = (mixed.mu @ mixed.mu.T / 60)[~torch.eye(8, dtype=torch.bool)]
    assert -0.1 <= float(cosines.min()) < 0 < 0.2 < float(cosines.max()) <= 0.3
