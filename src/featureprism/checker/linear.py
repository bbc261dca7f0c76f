"""Linear scores: the radius is the margin over the dual norm of its gradient."""

from dataclasses import dataclass

import numpy as np

from featureprism.checker.enclosed import Enclosed, down, enclosed, outward, unit, up
from featureprism.checker.scaled import is_weights, refuse_unless, scaled_by


@dataclass(frozen=True, eq=False)
class LinearScores:
    """The score of class r is ⟨V_r, x⟩ + c_r."""

    V: np.ndarray  # (k, d)
    c: np.ndarray  # (k,)

    def __post_init__(self) -> None:
        refuse_unless(isinstance(self.V, np.ndarray) and self.V.ndim == 2, "weights V (k, d)")
        refuse_unless(is_weights(self.V, self.V.shape) and len(self.V) > 1, "usual float64 V (k, d), k ≥ 2")
        refuse_unless(is_weights(self.c, self.V.shape[:1]), f"c as a finite float64 array ({len(self.V)},)")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    def radius(self, x: np.ndarray, own: int, rival: int, norm: float) -> float:
        """A float below (⟨v, x⟩ + c_own - c_rival)/‖v‖_q, v = V_own - V_rival; inf where v is 0 and `own` is ahead.

        v is rounded once in every entry. It is divided by a power of two, which is exact, so that its largest entry is in [½, 1).
        """
        refuse_unless(is_weights(x, self.V.shape[1:]), f"x as a finite float64 array {self.V.shape[1:]}")
        v, offset = self.V[own] - self.V[rival], self.c[own] - self.c[rival]
        refuse_unless(bool(np.isfinite(v).all()), "weights whose differences are finite")
        if not v.any():
            return np.inf if offset > 0 else 0.0
        exponent = int(np.frexp(np.abs(v).max())[1])
        scaled = scaled_by(np.append(v, offset), -exponent)
        all_terms = Enclosed(scaled, unit() * np.abs(scaled))
        v = all_terms[:-1]
        margin = (all_terms * np.append(x, 1.0)).sum()
        size = enclosed(up(v.size))
        if norm == 1:
            dual = size.mid.max()
        else:
            dual = up(np.sqrt((size * size).sum().high)) if norm == 2 else outward(size.mid.sum(), v.mid.size)
        return float(down(margin.low / dual)) if margin.low > 0 else 0.0
