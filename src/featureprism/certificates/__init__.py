"""Proofs; a lower bound on the radius, and the bracket of both."""

from featureprism.certificates.bracket import robust_radius
from featureprism.certificates.record import Certificate, check

__all__ = ["Certificate", "check", "robust_radius"]
