"""Settings of the synthetic experiments of feature-purification that run in about a second."""

from dataclasses import replace
from typing import Any

from featureprism.papers.feature_purification.adversaries import ATTACKERS, L_INFINITY
from featureprism.papers.feature_purification.baselines import BASELINES
from featureprism.papers.feature_purification.inside import INSIDE
from featureprism.papers.feature_purification.mixtures import DENSE_MIXTURE, FIGURE_9
from featureprism.papers.feature_purification.perturbations import (
    GRADIENT_MASKING,
    PERTURBATION_DENSITY,
    TRANSFER,
)
from featureprism.papers.feature_purification.purification import PURIFICATION
from featureprism.papers.feature_purification.reconstruction import SPARSE_RECONSTRUCTION
from featureprism.papers.feature_purification.scaling import SCALING
from featureprism.papers.feature_purification.schedule import BIAS_SCHEDULE
from featureprism.papers.feature_purification.shortcut import LINEAR_SHORTCUT
from featureprism.papers.feature_purification.thresholds import FIGURE_3
from featureprism.papers.feature_purification.tickets import FIGURE_8

SMALL = {
    "dim": 40,
    "sparsity": 6,
    "width": 60,
    "steps": 40,
    "adversarial_steps": 10,
    "batch": 50,
    "pool": 400,
    "test_points": 20,
    "attack_steps": 3,
}
OWN: dict[str, dict[str, Any]] = {
    BASELINES.id: {"baseline_steps": 5, "tangent_width": 10, "baseline_batch": 20},
    ATTACKERS.id: {"attacker_steps": 4, "attacker_batch": 20},
    SPARSE_RECONSTRUCTION.id: {"reconstructed": 3},
    FIGURE_8.id: {
        "steps": 200,
        "step_per_bias": 10.0,
        "batch": 300,
        "step_size": 1.5,
        "sparsity": 3,
        "noise": 0.3,
        "width": 100,
    },
    LINEAR_SHORTCUT.id: {"steps": 120},
    BIAS_SCHEDULE.id: {"schedule_steps": 20, "schedule_batch": 50},
}
EXPERIMENTS = (
    PURIFICATION,
    INSIDE,
    SCALING,
    BIAS_SCHEDULE,
    LINEAR_SHORTCUT,
    FIGURE_3,
    FIGURE_8,
    FIGURE_9,
    DENSE_MIXTURE,
    PERTURBATION_DENSITY,
    SPARSE_RECONSTRUCTION,
    TRANSFER,
    BASELINES,
    L_INFINITY,
    ATTACKERS,
    GRADIENT_MASKING,
)
TINY: dict[str, list] = {
    e.id: [replace(s, **(SMALL | OWN.get(e.id, {}))) for s in e.settings("quick")] for e in EXPERIMENTS
}
TINY[SCALING.id] = [replace(s, dim=dim) for s, dim in zip(TINY[SCALING.id], (30, 40, 50) * 2, strict=True)]
# growth with d and k needs settings that differ in them
_random, _smaller, _sparser, _pure = TINY[DENSE_MIXTURE.id]
TINY[DENSE_MIXTURE.id] = [_random, replace(_smaller, dim=30), replace(_sparser, sparsity=3), _pure]
