"""Proofs; a lower bound on the radius, and the bracket of both."""

from featureprism.certificates.bracket import INTERRUPTED, robust_radius
from featureprism.certificates.record import Certificate, check

__all__ = ["INTERRUPTED", "Certificate", "check", "robust_radius"]
