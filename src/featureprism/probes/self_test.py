"""An attack earns belief by breaking what must break and sparing what must hold."""

from dataclasses import dataclass
from functools import cache

import torch

from featureprism.attacks.radius import minimal_radius
from featureprism.attacks.starts import Start, structured_starts
from featureprism.data import orthonormal_clusters, sample
from featureprism.networks.reference import PolynomialClassifier
from featureprism.seeds import generator_for

MUST_BREAK, MUST_HOLD = 0.75, 0.68  # around √2/2, where F^(3) breaks


@dataclass(frozen=True)
class SelfTest:
    """Robust accuracy of F^(3) under the attack at 0.75 (must be 0) and at 0.68 (must be 1)."""

    accuracy_at_break: float
    accuracy_at_hold: float

    @property
    def passed(self) -> bool:
        """Whether the attack can be believed on networks of this kind."""
        return self.accuracy_at_break == 0 and self.accuracy_at_hold == 1


@cache
def self_test(*, structured: bool = True, seed: int = 0) -> SelfTest:
    """Attack F^(3) on an orthonormal mixture (D = 400, K = 12+8, α = 0.1, 30 points).

    Its exact radius is 0.70 ± 0.01, so an attack that finds nothing at 0.75 is blind, and one that claims a flip at 0.68
    is wrong. `structured=False` shows what plain PGD says. Tests of one seed are run once.
    """
    clusters = orthonormal_clusters(400, 12, 8, 0.1, generator=generator_for("self-test-centres", seed))
    points = sample(clusters, 30, generator=generator_for("self-test-points", seed))
    F = PolynomialClassifier(clusters.mu, clusters.labels, 3.0)
    starts: tuple[Start, ...] = structured_starts(F, clusters.mu, clusters.labels) if structured else ()
    attacked = minimal_radius(F, points.x, points.y, starts=starts, upper=MUST_BREAK)
    at_break, at_hold = attacked.accuracy(torch.tensor([MUST_BREAK, MUST_HOLD])).tolist()
    return SelfTest(at_break, at_hold)
