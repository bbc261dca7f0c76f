"""Proofs; a lower bound on the radius, and the bracket of both."""

from featureprism.checker.certificate import Certificate
from featureprism.verify.bracket import INTERRUPTED, margin_radius
from featureprism.verify.front import bracket_classifier, check, checkable, opened, robust_radius

__all__ = [
    "INTERRUPTED",
    "Certificate",
    "bracket_classifier",
    "check",
    "checkable",
    "margin_radius",
    "opened",
    "robust_radius",
]
