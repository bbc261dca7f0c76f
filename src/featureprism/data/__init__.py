"""Distributions with known structure."""

from featureprism.data.clusters import (
    GaussianClusters,
    centres_with_cosines,
    class_labels,
    equicorrelated_centres,
    orthogonal_centres,
    orthogonal_clusters,
    orthonormal_clusters,
    sample,
    sample_balanced,
    sample_blocks,
    sample_in_span,
    sphere_centres,
    to_signs,
)
<<<<<<< HEAD
from featureprism.data.noise import NOISE_LAWS, Noise
=======
from featureprism.data.label_noise import NOISES, LabelNoise
>>>>>>> amplification
from featureprism.data.sparse_coding import (
    DICTIONARIES,
    LABEL_WEIGHTS,
    HiddenVector,
    SparseCoding,
    SparseSample,
    dictionary,
    dictionary_norms,
    label_weights,
    power_law,
    sample_sparse,
    three_level,
    two_level,
)
from featureprism.data.xor import (
    LAWS,
    NoisySample,
    XorClusters,
    best_classifier,
    sample_xor,
    with_flips,
    xor_clusters,
)

__all__ = [
    "DICTIONARIES",
    "LABEL_WEIGHTS",
    "LAWS",
    "NOISES",
    "NOISE_LAWS",
    "GaussianClusters",
    "HiddenVector",
    "LabelNoise",
    "Noise",
    "NoisySample",
    "SparseCoding",
    "SparseSample",
    "XorClusters",
    "best_classifier",
    "centres_with_cosines",
    "class_labels",
    "dictionary",
    "dictionary_norms",
    "equicorrelated_centres",
    "label_weights",
    "orthogonal_centres",
    "orthogonal_clusters",
    "orthonormal_clusters",
    "power_law",
    "sample",
    "sample_balanced",
    "sample_blocks",
    "sample_in_span",
    "sample_sparse",
    "sample_xor",
    "sphere_centres",
    "three_level",
    "to_signs",
    "two_level",
    "with_flips",
    "xor_clusters",
]
