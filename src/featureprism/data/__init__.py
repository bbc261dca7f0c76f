"""Distributions with known structure."""

from featureprism.data.by_gram import SpanSample, sample_by_gram
from featureprism.data.clusters import (
    GaussianClusters,
    class_labels,
    equicorrelated_centres,
    orthogonal_clusters,
    orthonormal_clusters,
    sample,
    sample_balanced,
    sample_in_span,
    to_signs,
)
from featureprism.data.dataset import Dataset
from featureprism.data.label_noise import LabelNoise
from featureprism.data.sparse_coding import (
    SparseCoding,
    SparseSample,
    dictionary,
    label_weights,
    sample_sparse,
    two_level,
)
from featureprism.data.xor import NoisySample, XorClusters, sample_xor, xor_clusters

__all__ = [
    "Dataset",
    "GaussianClusters",
    "LabelNoise",
    "NoisySample",
    "SpanSample",
    "SparseCoding",
    "SparseSample",
    "XorClusters",
    "class_labels",
    "dictionary",
    "equicorrelated_centres",
    "label_weights",
    "orthogonal_clusters",
    "orthonormal_clusters",
    "sample",
    "sample_balanced",
    "sample_by_gram",
    "sample_in_span",
    "sample_sparse",
    "sample_xor",
    "to_signs",
    "two_level",
    "xor_clusters",
]
