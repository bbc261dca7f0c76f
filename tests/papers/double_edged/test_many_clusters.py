"""More clusters than dimensions at a small size."""

from dataclasses import replace

import pytest

from featureprism.papers.double_edged.many_clusters import MANY_CLUSTERS, crowd
from featureprism.papers.double_edged.setting import problem
from featureprism.training import NotSeparableError, max_margin_network

TINY = {
    "double-edged/many-clusters": [
        replace(crowd(4, 6, 30, 5, 2), steps=100, test_points=12, radius_points=1),
        *(
            replace(s, dim=60, clusters=4, points=20, test_points=12, radius_points=1)
            for s in MANY_CLUSTERS.settings("quick")[1:]
        ),
    ]
}
SLOW = frozenset(TINY)  # several brackets for each setting


def test_four_clusters_a_dimension_are_not_separable_by_two_directions():
    """Cover: k random points of random labels in d dimensions are separable with probability 0 for k well above 2d."""
    data = problem(crowd(8, 40, 10, 1, per_cluster=1), 0)
    with pytest.raises(NotSeparableError):
        max_margin_network(data.clusters.mu, data.clusters.labels)
