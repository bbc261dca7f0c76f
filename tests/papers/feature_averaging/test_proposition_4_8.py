"""Networks that are written down: Proposition 4.8 and Appendix D."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import BinaryReadout, decoupled_classifier
from featureprism.networks.constructions import shared_features_net
from featureprism.papers.feature_averaging.proposition_4_8 import PROPOSITION_4_8
from featureprism.papers.feature_averaging.setting import bracket
from featureprism.seeds import generator_for

TINY = {
    PROPOSITION_4_8.id: [
        replace(
            PROPOSITION_4_8.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1
        )
    ]
}


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
    assert radii.half_radius[1] == pytest.approx(math.sqrt(1600) / 2, abs=1)
