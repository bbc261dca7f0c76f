"""Certified ≤ truth ≤ attacked, against every closed form; brute force is in test_soundness."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import asked
from asking import check_point as check

from featureprism.brackets import RadiusBracket
from featureprism.checker.certificate import verified
from featureprism.data import orthogonal_clusters, orthonormal_clusters, sample
from featureprism.models.model import as_model
from featureprism.networks import (
    BayesClassifier,
    BinaryReadout,
    LinearClassifier,
    PolynomialClassifier,
    PolynomialReLU,
    ReLU,
    Tanh,
    TwoLayerNet,
    gaussian_start,
    grouped_start,
)
from featureprism.networks.grouped import GroupedNet
from featureprism.networks.reference import NearestCluster
from featureprism.seeds import generator_for


def bracketed(net, x, y, *, branches=16, **options):
    """`robust_radius` limited in branches alone: a busy machine gives the same answer."""
    return asked(net, x, y, branches=branches, **options)


@pytest.mark.parametrize(
    ("dim", "p"),
    [
        (50, 3.0),
        (3000, 4.2),
        pytest.param(50, 4.2, marks=pytest.mark.slow),
        pytest.param(3000, 3.0, marks=pytest.mark.slow),
    ],
)
def test_brackets_of_networks_hold_their_closed_forms(dim, p):
    clusters = orthonormal_clusters(dim, 3, 2, 0.1, generator=generator_for("centres", 0))
    points = sample(clusters, 3, generator=generator_for("points", 0))
    mu, labels = clusters.mu, clusters.labels
    net = TwoLayerNet(mu, labels, activation=PolynomialReLU(p))
    exact = PolynomialClassifier(mu, labels, p).exact_radius(points.x, points.y)
    bracket = bracketed(net, points.x, points.y, branches=16, max_radius=2.0)
    assert bool((bracket.certified <= exact + 1e-9).all())
    assert bool((bracket.attacked >= exact - 1e-9).all())
    assert float(bracket.gap.max()) <= 0.01
    # ⟨w, x⟩ as a ReLU network: [⟨w, x⟩]₊ - [-⟨w, x⟩]₊
    w = labels @ mu
    net = TwoLayerNet(torch.stack([w, -w]), torch.tensor([1.0, -1.0]).double(), activation=ReLU())
    exact = LinearClassifier(w).exact_radius(points.x, points.y)
    bracket = bracketed(net, points.x, points.y, gap=0.001, max_radius=2.0)
    assert bool((bracket.certified <= exact + 1e-9).all())
    assert bool((bracket.attacked >= exact - 1e-9).all())
    assert float(bracket.gap.max()) < 0.001


def test_the_feature_averaging_construction_has_its_closed_form():
    # f_FA = [⟨Σ₊μ, x⟩]₊ - [⟨Σ₋μ, x⟩]₊ breaks at min(u/√(|J₊|d), (u-v)/√(kd)) for label +
    clusters = orthogonal_clusters(300, 5, 5, 1.0, generator=generator_for("centres", 1))
    points = sample(clusters, 30, generator=generator_for("points", 1))
    plus, minus = clusters.mu[:5].sum(dim=0), clusters.mu[5:].sum(dim=0)
    net = TwoLayerNet(torch.stack([plus, minus]), torch.tensor([1.0, -1.0]).double(), activation=ReLU())
    own = torch.where(points.y > 0, points.x @ plus, points.x @ minus)
    other = torch.where(points.y > 0, points.x @ minus, points.x @ plus)
    exact = torch.minimum(own / math.sqrt(5 * 300), (own - other) / math.sqrt(10 * 300)).clamp_min(0)
    bracket = bracketed(net, points.x, points.y, gap=0.001)
    assert bool((bracket.certified <= exact * (1 + 1e-9)).all())
    assert bool((bracket.attacked >= exact * (1 - 1e-9)).all())
    assert float(bracket.gap.median()) < 0.001


def test_reference_classifiers_answer_in_closed_form(clusters, test_set):
    mu, labels = clusters.mu, clusters.labels
    for net in (
        LinearClassifier(labels @ mu),
        NearestCluster(mu, labels),
        PolynomialClassifier(mu, labels, 3.0),
    ):
        bracket = bracketed(net, test_set.x, test_set.y)
        torch.testing.assert_close(bracket.certified, net.exact_radius(test_set.x, test_set.y))
        assert set(bracket.method) == {"closed form"}
    bayes = bracketed(BayesClassifier(mu, labels, clusters.noise_std), test_set.x, test_set.y)
    assert float(bayes.gap.max()) < 0.01


def trained(generator):
    net = gaussian_start(12, 20, 1.0, ReLU(), generator=generator)
    x = torch.randn(12, 20, generator=generator).double()
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    return net, x, y


def test_every_certificate_passes_the_checker_and_a_forged_one_does_not(generator):
    net, x, y = trained(generator)
    bracket = bracketed(net, x, y)
    assert float(bracket.gap.median()) < 0.011
    for i, certificate in enumerate(bracket.certificates):
        assert check(certificate, net, x[i], float(y[i]))
        assert certificate.radius == pytest.approx(float(bracket.certified[i]))
        assert not check(
            replace(certificate, radius=1.02 * float(bracket.attacked[i])), net, x[i], float(y[i])
        )
    cells = next(c for c in bracket.certificates if c.kind == "cells")
    other = TwoLayerNet(1.3 * net.W, net.a, activation=ReLU())
    i = bracket.certificates.index(cells)
    assert not check(cells, other, x[i], float(y[i]))  # a proof about one network is none about another


@pytest.fixture(scope="module")
def proven_by_cells():
    """A certificate of cells, what it is about, and the radius at which the attack flips."""
    net, x, y = trained(generator_for("test", 0))
    bracket, form = bracketed(net, x, y), as_model(net).one_layer
    assert form is not None
    i, certificate = next((i, c) for i, c in enumerate(bracket.certificates) if c.kind == "cells")
    return certificate, form, x[i], float(y[i]), float(bracket.attacked[i])


@pytest.mark.parametrize("field", ["tau", "line", "low", "high", "centre", "kappa", "nu_floor", "nu_ceiling"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300])
def test_nonsense_in_a_certificate_proves_nothing_false(field, value, proven_by_cells):
    certificate, form, x, y, attacked = proven_by_cells

    def spoil(node):
        if "cut" in node:
            return {**node, "below": spoil(node["below"]), "above": spoil(node["above"])}
        return {**node, field: value if field == "tau" else 0 * node[field] + value}

    forged = replace(certificate, tree=spoil(certificate.tree))
    assert verified(forged, form.network, x.numpy(), y) <= attacked


def test_misclassified_tanh_and_foreign_modules(generator):
    net, x, y = trained(generator)
    wrong = bracketed(net, x, -y)
    assert float(wrong.attacked.max()) == float(wrong.certified.max()) == 0
    tanh = gaussian_start(6, 20, 1.0, Tanh(), generator=generator)
    with torch.no_grad():
        labels = torch.where(tanh(x) >= 0, 1.0, -1.0).double()
    proven = bracketed(tanh, x, labels)
    assert set(proven.method) == {"relaxation"}
    assert bool((proven.certified > 0).all())
    foreign = bracketed(torch.nn.Sequential(tanh), x, labels)
    assert {word.partition(":")[0] for word in foreign.method} == {"not certified yet"}
    assert float(foreign.certified.max()) == 0
    constant = float((tanh.a.abs() * tanh.W.norm(dim=1)).sum().detach())
    given = bracketed(torch.nn.Sequential(tanh), x, labels, lipschitz=constant)
    assert bool((given.certified > 0).all())
    assert bool((given.certified <= given.attacked).all())


@pytest.mark.parametrize("per_class", [1, 3])
def test_readouts_are_bracketed_soundly(per_class, generator):
    net = grouped_start(4, per_class, 5, 1.0, generator=generator)
    readout = BinaryReadout(net, torch.tensor([1.0, 1.0, -1.0, -1.0]).double())
    x = torch.randn(4, 5, generator=generator).double()
    with torch.no_grad():
        y = torch.where(readout(x) >= 0, 1.0, -1.0).double()
    bracket = bracketed(readout, x, y, branches=12)
    assert bool((bracket.certified > 0).all())
    assert set(bracket.method) <= {"readout", "boxes"}
    directions = torch.randn(4000, 5, generator=generator).double()
    directions = directions / directions.norm(dim=1, keepdim=True)
    flipped = torch.isfinite(bracket.attacked)
    with torch.no_grad():
        assert bool((y * readout(x + bracket.witness) <= 0)[flipped].all())
        for i in range(len(x)):
            assert bool((y[i] * readout(x[i] + bracket.certified[i] * directions) > 0).all())
    for i, certificate in enumerate(bracket.certificates):
        assert check(certificate, readout, x[i], float(y[i]))
        assert not check(replace(certificate, radius=1.01 * certificate.radius), readout, x[i], float(y[i]))
    # one class a side, one neuron each: f = [w, x]₊ - [v, x]₊, whose bracket the cells close
    pair = BinaryReadout(GroupedNet(net.W[:2, :1]), torch.tensor([1.0, -1.0]).double())
    twin = TwoLayerNet(net.W[:2, 0], torch.tensor([1.0, -1.0]).double(), activation=ReLU())
    with torch.no_grad():
        torch.testing.assert_close(pair(x), twin(x))
        right = twin(x).abs() > 1e-6
        labels = torch.where(twin(x) >= 0, 1.0, -1.0).double()
    exact = bracketed(twin, x[right], labels[right], gap=1e-3)
    loose = bracketed(pair, x[right], labels[right], branches=12)
    assert bool((loose.certified <= exact.attacked * (1 + 1e-9)).all())
    torch.testing.assert_close(loose.attacked, exact.attacked, rtol=1e-2, atol=0)


def test_brackets_hold_in_the_box_norm(generator):
    net, x, y = trained(generator)
    bracket = bracketed(net, x, y, norm=math.inf)
    assert bool((bracket.certified > 0).all())
    assert set(bracket.method) <= {"crown", "lines", "ellipsoid"}
    assert float(bracket.gap.median()) < 0.05  # CROWN alone: 0.3
    corners = torch.sign(torch.randn(2000, 20, generator=generator)).double()
    with torch.no_grad():
        for i in range(len(x)):
            assert bool((y[i] * net(x[i] + 0.999 * bracket.certified[i] * corners) > 0).all())


def test_curves_are_bands():
    bracket = RadiusBracket(np.array([0.1, 0.3]), np.array([0.2, 0.5]))
    low, high = bracket.accuracy(torch.tensor([0.0, 0.15, 0.4]))
    assert low.tolist() == [1.0, 0.5, 0.0]
    assert high.tolist() == [1.0, 1.0, 0.5]


def test_bad_requests_are_refused(generator):
    net, x, y = trained(generator)
    with pytest.raises(ValueError, match="gap"):
        asked(net, x, y, gap=0.0)
    with pytest.raises(ValueError, match="norm"):
        asked(net, x, y, norm=3)


@pytest.mark.parametrize(("norm", "proof"), [(2, "prove"), (math.inf, "box_certificates")])
def test_an_interrupt_keeps_what_is_proven(monkeypatch, norm, proof):
    """Whichever proof it falls into: a bracket is widened, not lost."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    chance = generator_for("interrupted", 0)
    W, a = torch.randn(12, 5, generator=chance).double(), torch.randn(12, generator=chance).double()
    net, x = (
        TwoLayerNet(W, a, activation=ReLU()),
        torch.randn(6, 5, generator=chance, dtype=torch.float64),
    )
    with torch.no_grad():
        y = net(x).sign()
    whole = asked(net, x, y, norm=norm, branches=8)
    monkeypatch.setattr(f"featureprism.verify.one_layer.methods.{proof}", interrupted)
    part = asked(net, x, y, norm=norm, branches=8)
    assert "interrupted" in part.method
    assert bool((part.certified <= whole.certified + 1e-12).all())
    assert bool((part.certified > 0).any())
    assert torch.equal(part.attacked, whole.attacked)
