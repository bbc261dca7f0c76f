"""What features gradient descent finds, and how far the networks that use them are from breaking.

The names at the top are those most people need; the rest is in its module: featureprism.networks, featureprism.probes and so on.
Each is imported when it is used, so that `import featureprism` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.14.0"  # the only place: pyproject.toml and the command line read it here

if TYPE_CHECKING:
    from featureprism.attacks import minimal_radius, pgd, structured_starts, universal_direction
    from featureprism.audit import explain
    from featureprism.brackets import RadiusBracket
    from featureprism.data import (
        GaussianClusters,
        SparseCoding,
        orthogonal_clusters,
        orthonormal_clusters,
        sample,
        sample_balanced,
        sample_sparse,
        sample_xor,
        to_signs,
        xor_clusters,
    )
    from featureprism.data.dataset import Dataset
    from featureprism.geometry import LpBall
    from featureprism.heads import DecoupledHead, GaussianHead, PReLUHead, load_head
    from featureprism.lab import Claim, Experiment, Paper, Premise, Rows
    from featureprism.networks import (
        PolynomialReLU,
        PowerReLU,
        ReLU,
        Tanh,
        TwoLayerNet,
        gaussian_start,
        load_net,
        save_net,
    )
    from featureprism.probes import kkt_audit
    from featureprism.seeds import generator_for
    from featureprism.training import (
        Loss,
        balanced_flow,
        gradient_descent,
        gradient_flow,
        max_margin_network,
    )
    from featureprism.training.trajectory import Trajectory
    from featureprism.verify import Budget, check, property_of, robust_radius, verify_property

_SUBMODULES = {
    "attacks": ("minimal_radius", "pgd", "structured_starts", "universal_direction"),
    "audit": ("explain",),
    "verify": ("Budget", "check", "property_of", "robust_radius", "verify_property"),
    "data": (
        "Dataset",
        "GaussianClusters",
        "SparseCoding",
        "orthogonal_clusters",
        "orthonormal_clusters",
        "sample",
        "sample_balanced",
        "sample_sparse",
        "sample_xor",
        "to_signs",
        "xor_clusters",
    ),
    "lab": ("Claim", "Experiment", "Paper", "Premise", "Rows"),
    "geometry": ("LpBall",),
    "heads": ("DecoupledHead", "GaussianHead", "PReLUHead", "load_head"),
    "networks": (
        "PolynomialReLU",
        "PowerReLU",
        "ReLU",
        "Tanh",
        "TwoLayerNet",
        "gaussian_start",
        "load_net",
        "save_net",
    ),
    "probes": ("kkt_audit",),
    "brackets": ("RadiusBracket",),
    "seeds": ("generator_for",),
    "training": (
        "Loss",
        "Trajectory",
        "balanced_flow",
        "gradient_descent",
        "gradient_flow",
        "max_margin_network",
    ),
}
_MODULE_OF = {name: module for module, names in _SUBMODULES.items() for name in names}

__all__ = [
    "Budget",
    "Claim",
    "Dataset",
    "DecoupledHead",
    "Experiment",
    "GaussianClusters",
    "GaussianHead",
    "Loss",
    "LpBall",
    "PReLUHead",
    "Paper",
    "PolynomialReLU",
    "PowerReLU",
    "Premise",
    "RadiusBracket",
    "ReLU",
    "Rows",
    "SparseCoding",
    "Tanh",
    "Trajectory",
    "TwoLayerNet",
    "balanced_flow",
    "check",
    "explain",
    "gaussian_start",
    "generator_for",
    "gradient_descent",
    "gradient_flow",
    "kkt_audit",
    "load_head",
    "load_net",
    "max_margin_network",
    "minimal_radius",
    "orthogonal_clusters",
    "orthonormal_clusters",
    "pgd",
    "property_of",
    "robust_radius",
    "sample",
    "sample_balanced",
    "sample_sparse",
    "sample_xor",
    "save_net",
    "structured_starts",
    "to_signs",
    "universal_direction",
    "verify_property",
    "xor_clusters",
]


def __getattr__(name: str) -> Any:
    """A public name from its module, kept here from then on."""
    if name not in _MODULE_OF:
        raise AttributeError(
            f"module 'featureprism' has no attribute {name!r}; what is not at the top is in a module such as featureprism.networks."
        )
    value = getattr(import_module(f"featureprism.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
