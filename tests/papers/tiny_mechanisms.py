"""Settings of the mechanisms, certificates and variants of feature-purification that run in about a second."""

from dataclasses import replace

from featureprism.papers.feature_purification.certified import CERTIFIED
from featureprism.papers.feature_purification.linearisation import LINEARISATION
from featureprism.papers.feature_purification.lower_bounds import LOWER_BOUNDS
from featureprism.papers.feature_purification.mechanisms import MECHANISMS
from featureprism.papers.feature_purification.real_codes import REAL_CODES
from featureprism.papers.feature_purification.variants import VARIANTS_ITEM

SMALL = {
    "dim": 24,
    "sparsity": 3,
    "width": 60,
    "pool": 2000,
    "batch": 100,
    "steps": 150,
    "adversarial_steps": 30,
}
OWN = {
    CERTIFIED.id: {"points": 20, "max_cells": 2},
    LINEARISATION.id: {"points": 60},
    MECHANISMS.id: {"points": 4000, "least_winners": 1},  # more than the largest of its samples
    VARIANTS_ITEM.id: {"points": 15, "steps": 20, "adversarial_steps": 5},
    LOWER_BOUNDS.id: {"points": 30, "model_steps": 9, "model_batch": 40, "steps": 30, "anchors": 40},
    REAL_CODES.id: {"points": 30, "patches": 400, "learning": 300, "epochs": 1, "side": 4, "steps": 40},
}
TINY: dict[str, list] = {
    e.id: [replace(s, **(SMALL | OWN[e.id])) for s in e.settings("quick")]
    for e in (CERTIFIED, LINEARISATION, MECHANISMS, LOWER_BOUNDS, REAL_CODES)
}
TINY[VARIANTS_ITEM.id] = [
    replace(s, **(SMALL | OWN[VARIANTS_ITEM.id] | {"dim": 16, "features": s.features // 4}))
    for s in VARIANTS_ITEM.settings("quick")
]
