"""The written-down networks against their definitions, point by point."""

import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import averaging_classifier, decoupled_classifier
from featureprism.seeds import generator_for


def test_constructions_are_their_formulas():
    clusters = orthogonal_clusters(60, 3, 2, 1.0, generator=generator_for("centres", 0))
    points = sample(clusters, 20, generator=generator_for("points", 0))
    averaging = averaging_classifier(clusters.mu, clusters.labels)
    decoupled = decoupled_classifier(clusters.mu, clusters.labels)
    for x in points.x:
        scores = clusters.mu @ x
        own, other = scores[:3].sum(), scores[3:].sum()
        torch.testing.assert_close(averaging(x.unsqueeze(0))[0], own.clamp_min(0) - other.clamp_min(0))
        votes = clusters.labels * (scores - 30).clamp_min(0)
        torch.testing.assert_close(decoupled(x.unsqueeze(0))[0], votes.sum())
