"""The list of KKT points."""

import pytest
import torch

from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample_balanced
from featureprism.probes import kkt_audit, kkt_points


def test_obtuse_means_have_many_kkt_points(generator):
    mu = equicorrelated_centres(6, 900, 30.0, -0.02, generator=generator)
    data = sample_balanced(GaussianClusters(mu, class_labels(3, 3), 1 / 30), 3, generator=generator)
    points = kkt_points(data.x, data.y, cluster=data.cluster, num_starts=2, steps=200, generator=generator)
    neurons = {point.origin: point.num_neurons for point in points}
    assert neurons["one neuron a class"] == 2
    assert neurons["one neuron a cluster"] == 6
    margins = [point.margin for point in points]
    assert margins == sorted(margins, reverse=True)
    for point in points:
        again = kkt_audit(point.net, data.x, data.y, tolerance=1e-9)
        assert point.audit.stationarity < 1e-9
        assert again.stationarity < 1e-9
        assert point.as_row()["neurons"] == len(point.net.a)


def test_without_clusters_patterns_are_random(generator):
    x = torch.randn(10, 4, generator=generator).double()
    x[:, 0] = torch.where(torch.arange(10) % 2 == 0, 2.0, -2.0)
    y = torch.sign(x[:, 0])
    points = kkt_points(x, y, num_patterns=2, num_starts=0, generator=generator)
    assert points[0].margin == pytest.approx(max(point.margin for point in points))
    assert all(point.audit.stationarity < 1e-8 for point in points)
