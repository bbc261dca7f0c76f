"""Sizes at which the experiments of feature-purification run in about a second."""

from dataclasses import replace

BATTERY = {
    "dim": 40,
    "sparsity": 6,
    "width": 60,
    "steps": 40,
    "adversarial_steps": 10,
    "batch": 50,
    "test_points": 20,
    "attack_steps": 3,
}
SPARSER = BATTERY | {"dim": 24, "sparsity": 3, "batch": 100, "steps": 150, "adversarial_steps": 30}
IMAGES = {
    "train_images": 40,
    "test_images": 8,
    "test_steps": 2,
    "epochs": 1,
    "adversarial_epochs": 1,
    "finetune_epochs": 1,
    "batch_size": 20,
    "factor": 0.05,
}
ASCENT = IMAGES | {"ascent": 2}
LASSO = IMAGES | {"lasso_images": 2, "lasso_steps": 15, "penalties": (0.2, 0.002)}


def small(experiment, changes, num=None):
    """The settings of the quick scale, or the first few, with some fields made small."""
    return {experiment.id: [replace(s, **changes) for s in experiment.settings("quick")[:num]]}


def values(experiment, name, rows):
    """What the claim of a name reads from rows."""
    from featureprism.lab import Rows

    (claim,) = (claim for claim in experiment.claims if claim.name == name)
    return claim.value(Rows.gather(rows)).tolist()
