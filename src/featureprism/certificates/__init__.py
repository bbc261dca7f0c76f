"""Proofs; a lower bound on the radius, and the bracket of both."""

from featureprism.certificates.bracket import INTERRUPTED, margin_radius
from featureprism.certificates.front import (
    bracket_classifier,
    check,
    check_point,
    checkable,
    opened,
    robust_radius,
    statement_of,
)
from featureprism.checker.certificate import Certificate

__all__ = [
    "INTERRUPTED",
    "Certificate",
    "bracket_classifier",
    "check",
    "check_point",
    "checkable",
    "margin_radius",
    "opened",
    "robust_radius",
    "statement_of",
]
