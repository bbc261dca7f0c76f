"""Points that fool; an upper bound on the radius."""

from featureprism.attacks.gradient import AttackOutcome, FastGradient, fgm, pgd, strongest_of
from featureprism.attacks.radius import AttackedRadius, minimal_radius
from featureprism.attacks.starts import Along, AtRandom, Start, Towards, structured_starts
from featureprism.attacks.universal import along, flip_rate, flipping_norm, universal_direction

__all__ = [
    "Along",
    "AtRandom",
    "AttackOutcome",
    "AttackedRadius",
    "FastGradient",
    "Start",
    "Towards",
    "along",
    "fgm",
    "flip_rate",
    "flipping_norm",
    "minimal_radius",
    "pgd",
    "strongest_of",
    "structured_starts",
    "universal_direction",
]
