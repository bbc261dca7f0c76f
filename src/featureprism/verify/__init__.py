"""How far is a model from breaking? Queries, budgets, proofs, and the one loop that brackets radii."""

from featureprism.checker.certificate import Certificate
from featureprism.checker.vnnlib import property_of, read_property
from featureprism.verify.api import (
    check,
    robust_radius,
    statement_of,
)
from featureprism.verify.driver import INTERRUPTED, bracket_points
from featureprism.verify.properties.api import PropertyResult, verify_property
from featureprism.verify.query import Budget, Query

__all__ = [
    "INTERRUPTED",
    "Budget",
    "Certificate",
    "PropertyResult",
    "Query",
    "bracket_points",
    "check",
    "property_of",
    "read_property",
    "robust_radius",
    "statement_of",
    "verify_property",
]
