"""How far is a model from breaking? Queries, budgets, proofs, and the one loop that brackets radii."""

from featureprism.checker.certificate import Certificate
from featureprism.checker.vnnlib import property_of, read_property
from featureprism.verify.api import (
    bracket_classifier,
    check,
    check_point,
    opened,
    robust_radius,
    statement_of,
)
from featureprism.verify.driver import INTERRUPTED
from featureprism.verify.model import Model
from featureprism.verify.properties.api import PropertyResult, verify_property
from featureprism.verify.query import Budget, Query

__all__ = [
    "INTERRUPTED",
    "Budget",
    "Certificate",
    "Model",
    "PropertyResult",
    "Query",
    "bracket_classifier",
    "check",
    "check_point",
    "opened",
    "property_of",
    "read_property",
    "robust_radius",
    "statement_of",
    "verify_property",
]
