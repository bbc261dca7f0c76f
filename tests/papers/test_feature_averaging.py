"""Weights, ends and radii whose values are known."""

import math
import re

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.lab import Rows
from featureprism.networks import BinaryReadout, decoupled_classifier, shared_features_net
from featureprism.papers.feature_averaging import PAPER
from featureprism.papers.feature_averaging.ablations import Ablation, clusters_of, last_that_averages
from featureprism.papers.feature_averaging.figures import FIGURE_3, over_critical
from featureprism.papers.feature_averaging.scaling import SCALING
from featureprism.papers.feature_averaging.setting import bracket
from featureprism.papers.feature_averaging.theorems import APPENDIX_A, ASSUMPTIONS, feature_fit
from featureprism.seeds import generator_for


@pytest.fixture
def five():
    """Three positive and two negative clusters in 100 dimensions."""
    return orthogonal_clusters(100, 3, 2, 1.0, generator=generator_for("centres", 0))


def test_averaged_weights_have_no_error(five):
    own = torch.tensor([1.0, -1.0]).double().unsqueeze(1) == five.labels
    averaged = 0.07 * torch.stack([five.mu[:3].sum(dim=0), five.mu[3:].sum(dim=0)]) / 100
    fit = feature_fit(averaged, own, five.mu)
    assert fit.growth == pytest.approx(0.07)
    assert fit.relative_error < 1e-9
    spoiled = averaged.clone()
    spoiled[0] += 0.5 * torch.ones(100).double()
    mistake = feature_fit(spoiled, own, five.mu)
    assert mistake.relative_error > 0.05
    model = mistake.growth * own.double() @ five.mu / 100
    error = torch.linalg.vector_norm(spoiled - model, dim=1).max()
    assert mistake.scaled_error == pytest.approx(10 * float(error))


def test_single_features_have_no_error(five):
    fit = feature_fit(0.3 * five.mu / 100, torch.eye(5), five.mu)
    assert fit.growth == pytest.approx(0.3)
    assert fit.scaled_error < 1e-9


def test_each_value_changes_one_field():
    s = Ablation(varied="centre_cosine", values=(0.0, 0.5), dim=50)
    first, second = s.each()
    assert (first.centre_cosine, second.centre_cosine) == (0.0, 0.5)
    assert first.points == second.points == s.points
    mu = clusters_of(second, 0).mu
    assert float(mu[0] @ mu[1]) == pytest.approx(0.5 * 50)
    (loud,) = Ablation(varied="signal", values=(2.0,), dim=50).each()
    assert float(clusters_of(loud, 0).mu[0].norm()) == pytest.approx(2 * math.sqrt(50))


def test_where_averaging_ends():
    def rows(*cosines: float | None) -> Rows:
        values = zip((0.01, 0.1, 1.0), cosines, strict=True)
        return Rows.gather(
            {"kind": "summary", "seed": 0, "value": value, "same_class": cosine, "law": 1.0}
            for value, cosine in values
        )

    assert last_that_averages(rows(0.99, 0.95, 0.5)).tolist() == [0.1]
    assert last_that_averages(rows(0.99, 0.5, 0.95)).tolist() == [
        0.01
    ]  # what averages again beyond does not count
    assert math.isnan(last_that_averages(rows(0.5, 0.95, None))[0])


def test_radii_are_in_units_of_the_critical_one_and_withheld_when_the_attack_is_blind():
    row = {"kind": "summary", "network": "two-class", "seed": 0, "dim": 90, "positive": 5, "negative": 5}
    seen = Rows.gather([{**row, "half_radius": 6.0, "self_test_passed": True}])
    assert over_critical(seen, "half_radius").tolist() == [2.0]
    claim = next(c for c in FIGURE_3.claims if c.name == "two-class")
    assert claim.value(seen).tolist() == [2.0]
    blind = Rows.gather([{**row, "half_radius": 6.0, "self_test_passed": False}])
    assert math.isnan(claim.value(blind)[0])


def test_slopes_of_powers():
    row = {"kind": "radius", "seed": 0, "network": "two-class", "split": "equal"}
    rows = Rows.gather({**row, "clusters": k, "radius": k**-0.5} for k in (4, 8, 16))
    assert SCALING.claims[0].value(rows)[0] == pytest.approx(-0.5)
    assert math.isnan(SCALING.claims[1].value(rows)[0])


def test_shared_features_leave_no_loss():
    """Proposition 4.8: the cross-entropy is of order e^-d, and both decisions are right."""
    clusters = orthogonal_clusters(500, 3, 3, 1.0, generator=generator_for("centres", 0))
    data = sample(clusters, 50, generator=generator_for("test", 0))
    with torch.no_grad():
        net = shared_features_net(clusters.mu, clusters.labels)
        logits, merged = net(data.x), BinaryReadout(net, clusters.labels)(data.x)
    assert float(torch.nn.functional.cross_entropy(logits, data.cluster)) < math.exp(-500 / 10)
    assert bool((logits.argmax(dim=1) == data.cluster).all())
    assert bool((data.y * merged > 0).all())


def test_decoupled_features_hold_to_a_third():
    """Theorem D.3: f_dec is √d/3-robust; its own neuron dies at √d/2, up to noise of size 1."""
    clusters = orthogonal_clusters(1600, 3, 3, 1.0, generator=generator_for("centres", 0))
    test = sample(clusters, 20, generator=generator_for("test", 0))
    radii = bracket(decoupled_classifier(clusters.mu, clusters.labels), test)
    assert float(radii.certified.min()) > math.sqrt(1600) / 3
    assert float(radii.attacked.median()) == pytest.approx(math.sqrt(1600) / 2, abs=1)


def test_what_two_labels_lose_in_units_of_the_critical_radius():
    row = {"kind": "radius", "seed": 0, "network": "two-class", "split": "equal"}
    (claim,) = (c for c in SCALING.claims if c.name == "vanishes")
    for power, lost in ((-0.5, 1.0), (-1.0, 0.5)):
        rows = Rows.gather({**row, "clusters": k, "radius": k**power} for k in (4, 8, 16))
        assert claim.value(rows)[0] == pytest.approx(lost)


PREMISES = {  # what a claim rests on, by the beginning of its source
    r"Theorems? 4\.[56]|Section 4\.1": (*ASSUMPTIONS, "theorem-4-5"),
    r"Theorem 4\.7": (*ASSUMPTIONS, "theorem-4-7"),
    r"Lemma (5\.|B\.[2-9])|Section 5": (*ASSUMPTIONS, "theorem-4-5", *APPENDIX_A),
    r"Lemma B\.1$": (*ASSUMPTIONS, "proposition-a-6", "proposition-a-10", "lemma-a-13"),
}


def test_a_claim_of_a_theorem_lists_its_premises():
    """Inside its premises a claim must not be because some were left out."""
    spoken = [(e, c) for e in PAPER.experiments for c in e.claims if c.origin == "paper"]
    named = 0
    for experiment, claim in spoken:
        for source, premises in PREMISES.items():
            if re.search(source, claim.source):
                assert set(premises) <= set(claim.premises.ids), experiment.claim_id(claim)
                named += 1
    assert named >= 20
