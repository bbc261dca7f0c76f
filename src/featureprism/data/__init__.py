"""Distributions with known structure."""

from featureprism.data.clusters import (
    GaussianClusters,
    class_labels,
    equicorrelated_centres,
    orthogonal_centres,
    orthogonal_clusters,
    orthonormal_clusters,
    sample,
    sample_balanced,
    sphere_centres,
    to_signs,
)

__all__ = [
    "GaussianClusters",
    "class_labels",
    "equicorrelated_centres",
    "orthogonal_centres",
    "orthogonal_clusters",
    "orthonormal_clusters",
    "sample",
    "sample_balanced",
    "sphere_centres",
    "to_signs",
]
