"""Points that fool; an upper bound on the radius."""

from featureprism.attacks.adversaries import FastGradient, ProjectedGradient, SmoothAdversary
from featureprism.attacks.gradient import Attack, AttackOutcome, fgm, pgd, strongest_of
from featureprism.attacks.radius import AttackedRadius, minimal_radius
from featureprism.attacks.starts import Along, AtRandom, Start, Towards, structured_starts
from featureprism.attacks.universal import (
    accuracy_curve,
    along,
    flip_rate,
    flipping_norm,
    transfer,
    universal_direction,
    universal_shift,
)

__all__ = [
    "Along",
    "AtRandom",
    "Attack",
    "AttackOutcome",
    "AttackedRadius",
    "FastGradient",
    "ProjectedGradient",
    "SmoothAdversary",
    "Start",
    "Towards",
    "accuracy_curve",
    "along",
    "fgm",
    "flip_rate",
    "flipping_norm",
    "minimal_radius",
    "pgd",
    "strongest_of",
    "structured_starts",
    "transfer",
    "universal_direction",
    "universal_shift",
]
