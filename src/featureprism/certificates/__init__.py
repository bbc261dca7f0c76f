"""Proofs; a lower bound on the radius, and the bracket of both."""

from featureprism.certificates.bracket import INTERRUPTED, robust_radius
from featureprism.certificates.record import check
from featureprism.checker.certificate import Certificate

__all__ = ["INTERRUPTED", "Certificate", "check", "robust_radius"]
