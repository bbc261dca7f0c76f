import pytest
import torch

from featureprism.attacks import minimal_radius, structured_starts
from featureprism.networks import (
    BayesClassifier,
    LinearClassifier,
    PolynomialClassifier,
    PolynomialReLU,
    TwoLayerNet,
)
from featureprism.networks.reference import NearestCluster
from featureprism.probes.self_test import self_test


def attack(net, clusters, points, upper=1.2):
    starts = structured_starts(net, clusters.mu, clusters.labels)
    return minimal_radius(net, points.x, points.y, starts=starts, upper=upper)


@pytest.mark.parametrize("kind", ["linear", "nearest", "polynomial", "bayes", "network"])
def test_the_attack_reaches_the_exact_radius_and_never_goes_below(kind, clusters, test_set):
    mu, labels = clusters.mu, clusters.labels
    F = PolynomialClassifier(mu, labels, 3.0)
    net, exact = {
        "linear": lambda: (n := LinearClassifier(labels @ mu), n.exact_radius(test_set.x, test_set.y)),
        "nearest": lambda: (n := NearestCluster(mu, labels), n.exact_radius(test_set.x, test_set.y)),
        "polynomial": lambda: (F, F.exact_radius(test_set.x, test_set.y)),
        "bayes": lambda: (
            n := BayesClassifier(mu, labels, clusters.noise_std),
            torch.from_numpy(n.radius_bracket(test_set.x, test_set.y).certified),
        ),
        # the network with one neuron on each centre is F^(3)
        "network": lambda: (
            TwoLayerNet(mu, labels, activation=PolynomialReLU(3.0)),
            F.exact_radius(test_set.x, test_set.y),
        ),
    }[kind]()
    found = attack(net, clusters, test_set)
    assert bool((found.radius >= exact - 1e-9).all())
    assert float((found.radius / exact - 1).median()) < 1e-3
    with torch.no_grad():
        assert bool((test_set.y * net(test_set.x + found.delta) <= 0).all())
    torch.testing.assert_close(found.delta.norm(dim=1), found.radius)


def test_misclassified_points_have_radius_zero_and_out_of_reach_is_infinite(clusters, test_set):
    net = NearestCluster(clusters.mu, clusters.labels)
    wrong = type(test_set)(test_set.x, -test_set.y, test_set.cluster, test_set.centres)
    assert float(attack(net, clusters, wrong).radius.max()) == 0
    short = attack(net, clusters, test_set, upper=0.3)
    assert bool(torch.isinf(short.radius).all())
    assert short.accuracy(torch.tensor([0.0, 0.3])).tolist() == [1.0, 1.0]


def test_the_curve_counts_points(clusters, test_set):
    found = attack(LinearClassifier(clusters.labels @ clusters.mu), clusters, test_set)
    r = float(found.radius.sort().values[9])  # ten points break at or below it
    assert found.accuracy(torch.tensor([0.0, r], dtype=torch.float64)).tolist() == pytest.approx([1.0, 0.75])
    assert found.half == float(found.radius.median())


def test_the_self_test_passes_structured_attacks_and_fails_plain_ones():
    assert self_test().passed
    plain = self_test(structured=False)
    assert not plain.passed
    assert plain.accuracy_at_break > 0.5  # plain PGD would call F^(3) robust where nothing can be
    with pytest.raises(ValueError, match="positive"):
        minimal_radius(
            LinearClassifier(torch.ones(2).double()),
            torch.ones(1, 2).double(),
            torch.ones(1).double(),
            starts=(),
            upper=0.0,
        )
