"""Less effort in tests of whole items: the same code, shorter searches."""

from functools import partial

import numpy as np

from featureprism.attacks import minimal_radius
from featureprism.brackets import RadiusBracket
from featureprism.networks import BinaryReadout
from featureprism.verify import Budget, robust_radius
from featureprism.verify.one_layer.interior_point import LOOK


def free_bracket(net, x, _y, **_options) -> RadiusBracket:
    """In place of brackets, which have tests of their own and cost a second each: ten labels hold twice as far as two."""
    radius = 2.0 if isinstance(net, BinaryReadout) else 1.0
    return RadiusBracket(np.full(len(x), radius / 2), np.full(len(x), radius))


def quick_bracket(net, x, y, **options) -> RadiusBracket:
    """A bracket from two branches: looser, which is all the same to a tiny network."""
    return robust_radius(net, x, y, **options | {"budget": Budget(branches=2)})


def quicken(monkeypatch) -> None:
    """Short attacks and proofs, short trainings of heads, no brackets of heads."""
    for module in ("verify.attack", "papers.gmm_flow.propositions"):
        monkeypatch.setattr(
            f"featureprism.{module}.minimal_radius", partial(minimal_radius, rounds=1, steps=4)
        )
    monkeypatch.setattr("featureprism.attacks.boundary.SLIDES", 2)
    for steps in ("ROOT_STEPS", "CHILD_STEPS", "NEWTON_STEPS"):
        monkeypatch.setattr(f"featureprism.verify.one_layer.branch_and_bound.{steps}", LOOK + 2)
    for module in (
        "feature_averaging.setting",
        "double_edged.many_clusters",
        "double_edged.theorem_4_1",
        "double_edged.explored",
        "double_edged.initialisation",
    ):
        monkeypatch.setattr(f"featureprism.papers.{module}.robust_radius", quick_bracket)
    monkeypatch.setattr("featureprism.lab.heads.compare.LEAST_STEPS", 20)
    monkeypatch.setattr("featureprism.heads.scored.robust_radius", free_bracket)
