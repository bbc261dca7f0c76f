"""What is asked about every point, and how much work the answer may cost."""

import time
from dataclasses import dataclass, field
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from featureprism.geometry import Sides

OVERSHOOT = (
    1 + 1e-6
)  # a proof aims this much beyond its goal, so that slack and rounding do not reopen the bracket
REACH_MARGIN = 1.001  # times eps: how far proofs about one radius look
NORMS = {1: 1.0, "1": 1.0, "l1": 1.0, 2: 2.0, "2": 2.0, "l2": 2.0, inf: inf, "inf": inf, "linf": inf}


def as_norm(norm: Any) -> float:
    """The norm that a number or a word names."""
    if not isinstance(norm, Real | str) or isinstance(norm, bool) or norm not in NORMS:
        raise ValueError(f'norm must be 1, 2 or math.inf ("l1", "l2", "linf"), got {norm!r}.')
    return NORMS[norm]


@dataclass(frozen=True)
class Query:
    """What is asked about every point: how far does it keep its class, or does it keep it within `eps`?

    Parameters
    ----------
    norm : {1, 2, inf}
        Norm of perturbations.
    eps : float, optional
        The one radius in question. Without it the radius of every point is bracketed.
    bounds : pair of floats or of arrays (d,), optional
        Every coordinate of a perturbed point stays between these two.
    max_radius : float, optional
        Perturbations beyond it are not looked at (default: four times the longest point).
    gap : float
        A bracket is closed when certified ≥ (1 - gap)·attacked.
    weights : array (d,), optional
        Radii are norms of weights ∘ δ; a feature with the weight inf does not move.
    """

    norm: float = 2
    eps: float | None = None
    bounds: Sides | None = None
    max_radius: float | None = None
    gap: float = 0.01
    weights: Float64[np.ndarray, " d"] | None = None

    def __post_init__(self) -> None:
        for name in ("gap", "eps", "max_radius"):
            value = getattr(self, name)
            if (value is not None or name == "gap") and not isinstance(value, Real):
                raise ValueError(f"{name} must be one number, got {value!r}.")
        if self.norm not in (1, 2, inf):
            raise ValueError(f"norm must be 1, 2 or math.inf, got {self.norm!r}.")
        if not 0 < self.gap < 1:
            raise ValueError(f"gap must lie between 0 and 1, got {self.gap}.")
        for name in ("eps", "max_radius"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise ValueError(
                    f"{name} must be positive and finite, got {value}; leave it out where it is not known."
                )

    def goal(self, attacked: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The radius to prove for each point; 0 where nothing is left to ask."""
        if self.eps is None:
            return torch.where(
                torch.isfinite(attacked), (1 - self.gap) * attacked, torch.full_like(attacked, inf)
            )
        return torch.where(attacked > self.eps, self.eps, torch.zeros_like(attacked))

    def reach(self, attacked: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """How far proofs look: up to the shortest flip, and hardly beyond eps."""
        return attacked if self.eps is None else attacked.clamp_max(REACH_MARGIN * self.eps)


@dataclass(frozen=True)
class Budget:
    """How much work a call may cost.

    Parameters
    ----------
    seconds : float
        CPU seconds of the whole call, shared by its points: what easy points leave over is spent on the open ones. They buy branches
        until they are used up.
    branches : int, optional
        Branches of each proof. A limit in branches repeats bit for bit, one in seconds does not. Without it seconds alone decide.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.Budget(seconds=60).seconds, fp.Budget(branches=500).branches
    (60, 500)
    """

    seconds: float = inf
    branches: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, Real) or not self.seconds >= 0:
            raise ValueError(f"seconds must be a number, 0 or more, got {self.seconds!r}.")
        if self.branches is not None and (
            not isinstance(self.branches, Real) or self.branches != int(self.branches) or self.branches < 0
        ):
            raise ValueError(f"branches must be a whole number, 0 or more, got {self.branches!r}.")
        if self.branches is None and self.seconds == inf:
            raise ValueError("A budget needs a limit: give seconds, branches, or both.")


@dataclass
class Limits:
    """What one proof may still use: branches, and the CPU time of this thread at which it ends."""

    branches: float
    deadline: float = inf
    out_of_seconds: bool = field(default=False, init=False)
    out_of_branches: bool = field(default=False, init=False)
    seemed_too_few: bool = field(default=False, init=False)  # a proof was not begun or not ended for it

    @classmethod
    def of(cls, budget: Budget, seconds: float) -> "Limits":
        """A share of a budget that begins now."""
        branches = inf if budget.branches is None else float(budget.branches)
        return cls(branches, inf if seconds == inf else time.thread_time() + seconds)

    def allow(self, branches: float = 0) -> bool:
        """Whether so many more branches may be made now; remembers what was missing."""
        if time.thread_time() >= self.deadline:
            self.out_of_seconds = True
            return False
        if branches > self.branches:
            self.out_of_branches = True
            return False
        return True

    def affordable(self, seconds_each: float) -> float:
        """About how many branches are left, where each takes so long."""
        return min(self.branches, (self.deadline - time.thread_time()) / max(seconds_each, 1e-9))

    def share(self, num_left: int) -> "Limits":
        """The limits of one of several proofs that share the time; each may make as many branches."""
        now = time.thread_time()
        return Limits(self.branches, inf if self.deadline == inf else now + (self.deadline - now) / num_left)

    def note(self, share: "Limits") -> None:
        """Remember what a share was missing."""
        self.out_of_seconds |= share.out_of_seconds
        self.out_of_branches |= share.out_of_branches
        self.seemed_too_few |= share.seemed_too_few
