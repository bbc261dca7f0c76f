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
from featureprism.data.xor import (
    LAWS,
    NOISES,
    LabelNoise,
    NoisySample,
    XorClusters,
    best_classifier,
    sample_xor,
    xor_clusters,
)

__all__ = [
    "LAWS",
    "NOISES",
    "GaussianClusters",
    "LabelNoise",
    "NoisySample",
    "XorClusters",
    "best_classifier",
    "class_labels",
    "equicorrelated_centres",
    "orthogonal_centres",
    "orthogonal_clusters",
    "orthonormal_clusters",
    "sample",
    "sample_balanced",
    "sample_xor",
    "sphere_centres",
    "to_signs",
    "xor_clusters",
]
