"""How far is a model from breaking? Queries, budgets, proofs, and the one loop that brackets radii."""

from featureprism.checker.certificate import Certificate
from featureprism.checker.vnnlib import property_of, read_property
from featureprism.verify.api import check, feature_radii, robust_radius
from featureprism.verify.properties.api import PropertyResult, verify_property
from featureprism.verify.query import Budget, Query

__all__ = [
    "Budget",
    "Certificate",
    "PropertyResult",
    "Query",
    "check",
    "feature_radii",
    "property_of",
    "read_property",
    "robust_radius",
    "verify_property",
]
