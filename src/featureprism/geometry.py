"""Balls, boxes and subspaces: where perturbations live, and the few directions a network can see."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["LpBall"]

SAFE = 1e-15  # norms from here to 1/SAFE can be squared in single precision
ACTIVE_SETS = 8  # rounds in which coordinates may stop at the sides of a box
ROWS = 32  # of every batch of `in_batches`; the last one is filled up with zeros
Sides = tuple[Any, Any]  # lower and upper, numbers for all coordinates or arrays (d,) for each
INWARD = 1 - 2.0**-51  # undoes the rounding of a side less a coordinate


@dataclass(frozen=True)
class Box:
    """Perturbations with low ≤ δ ≤ high, coordinate by coordinate and row by row; 0 is one of them."""

    low: Float[Tensor, "n d"]
    high: Float[Tensor, "n d"]

    @classmethod
    def around(cls, x: Float[Tensor, "n d"], domain: Sides | None) -> "Box | None":
        """What may be added to points whose coordinates must stay in [lo, hi], also after rounding; None without a domain."""
        if domain is None:
            return None
        check_domain(x, domain)
        lower, upper = (torch.as_tensor(side, dtype=x.dtype, device=x.device) for side in domain)
        low, high = lower - x, upper - x
        return cls(
            torch.where(x + low < lower, low * INWARD, low),
            torch.where(x + high > upper, high * INWARD, high),
        )

    def clip(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """The nearest perturbation of the box, in any norm."""
        return torch.minimum(torch.maximum(delta, self.low), self.high)

    def along(
        self, v: Float[Tensor, "*s d"], goal: Float[Tensor, "*s"], weigh: Float[Tensor, "*s d"] | None = None
    ) -> Float[Tensor, "*s d"]:
        """clip(s v), s > 0 nearly the largest one with Σ_i weigh_i clip(s v)_i ≤ goal; weigh v ≥ 0.

        Without weights the sum is ‖clip(s v)‖². The coordinates that have met a side stay there, the others share what is left: s only
        grows, never too far.
        """
        square = v * v if weigh is None else weigh * v
        s = torch.zeros_like(goal).unsqueeze(-1)
        stuck = torch.zeros_like(v, dtype=torch.bool)
        for _ in range(ACTIVE_SETS):
            at = self.clip(s * v)
            spent = torch.where(stuck, at * (at if weigh is None else weigh), 0.0).sum(dim=-1)
            free = torch.where(stuck, 0.0, square).sum(dim=-1)
            share = (goal - spent).clamp_min(0) / torch.where(free > 0, free, 1.0)
            share = (share.sqrt() if weigh is None else share).unsqueeze(-1)
            s = torch.where((free > 0).unsqueeze(-1), torch.maximum(s, share), s)
            stuck = self.clip(s * v) != s * v
        return self.clip(s * v)


def check_domain(x: Float[Tensor, "n d"], domain: Sides) -> None:
    """Refuse what is no interval, for all coordinates or for each, and points outside it."""
    try:
        lower, upper = (np.asarray(side, dtype=np.float64) for side in domain)
        fits = all(side.ndim == 0 or side.shape == x.shape[1:] for side in (lower, upper))
        fits = fits and bool((lower <= upper).all() and (lower < upper).any())
    except (TypeError, ValueError):
        fits, lower, upper = False, np.array(inf), np.array(-inf)
    if not fits:
        raise ValueError(
            f"The domain must be a pair (lo, hi) of numbers with lo < hi, as (0, 1), or of {x.shape[1]} numbers each, "
            f"one for every feature, got {domain!s:.60}."
        )
    outside = (x < torch.from_numpy(lower)) | (x > torch.from_numpy(upper))
    if count := int(outside.any(dim=1).sum()):
        where = f"[{lower:g}, {upper:g}]" if lower.ndim == upper.ndim == 0 else "of some feature"
        raise ValueError(
            f"{count} of {len(x)} points lie outside the domain {where}; widen it, or leave these points out."
        )


@dataclass(frozen=True)
class LpBall:
    """Perturbations δ with ‖δ‖_p ≤ eps.

    Parameters
    ----------
    p : float
        2 or ∞.
    eps : float or tensor (n,)
        One radius, or one for each row.
    box : Box, optional
        Bounds that x + δ must keep.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> fp.geometry.LpBall(p=2, eps=1.0).project(torch.tensor([[3.0, 4.0], [0.1, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.1000, 0.0000]])
    """

    p: float
    eps: float | Tensor
    box: Box | None = None

    def __post_init__(self) -> None:
        if self.p not in (2, inf):
            raise ValueError(f"p must be 2 or math.inf, got {self.p}.")
        eps = torch.as_tensor(self.eps, dtype=torch.float64)
        if not bool((torch.isfinite(eps) & (eps >= 0)).all()):
            raise ValueError(f"The radius eps must be finite and at least 0, got {self.eps}.")

    def _column(self, like: Tensor) -> Tensor:
        """eps as a column that broadcasts against rows of `like`."""
        eps = torch.as_tensor(self.eps, dtype=like.dtype, device=like.device)
        return eps.unsqueeze(-1)

    def norm(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s"]:
        """‖δ‖_p, row by row."""
        return torch.linalg.vector_norm(delta, ord=self.p, dim=-1)

    def _clip(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        return delta if self.box is None else self.box.clip(delta)

    def project(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """Nearest point of the ball (in ℓ2; in a box nearly), row by row."""
        eps = self._column(delta)
        if self.p == inf:
            return self._clip(torch.minimum(torch.maximum(delta, -eps), eps))
        if self.box is not None:
            inside = self.box.clip(delta)
            fits = self.norm(inside).unsqueeze(-1) <= eps
            return torch.where(fits, inside, self._edge(delta))
        length = self.norm(delta).unsqueeze(-1)
        return delta * (eps / length.clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)

    def steepest(self, gradient: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """The δ of the ball with the largest ⟨gradient, δ⟩; zero where the gradient is zero."""
        if self.p == inf:
            return self._clip(self._column(gradient) * gradient.sign())
        if self.box is not None:
            return self._edge(gradient)
        return self._column(gradient) * unit_rows(gradient)

    def open_at(
        self, delta: Float[Tensor, "*s d"], direction: Float[Tensor, "*s d"]
    ) -> Float[Tensor, "*s d"]:
        """The direction without what leads out of the box at δ."""
        if self.box is None:
            return direction
        blocked = ((delta <= self.box.low) & (direction < 0)) | ((delta >= self.box.high) & (direction > 0))
        return direction.masked_fill(blocked, 0.0)

    def _edge(self, v: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """clip(s v) of the box on the sphere of radius eps: solves `project` and `steepest` for ℓ2."""
        assert self.box is not None
        eps = torch.as_tensor(self.eps, dtype=v.dtype, device=v.device)
        return self.box.along(unit_rows(v), (eps * eps).expand(v.shape[:-1]))

    def stretch(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """δ scaled to the edge of the ball, its direction kept (up to the box); zero stays zero."""
        length = self.norm(delta).unsqueeze(-1)
        return self._clip(
            delta * (self._column(delta) / torch.where(length > 0, length, torch.ones_like(length)))
        )

    def sample(
        self, num_points: int, dim: int, *, generator: torch.Generator, dtype=torch.float64
    ) -> Float[Tensor, "n d"]:
        """Uniform draws from the ball: a uniform direction at radius eps·U^(1/d), or a uniform box."""
        shape = (num_points, dim)
        if self.p == inf:
            cube = 2 * torch.rand(shape, generator=generator, dtype=dtype) - 1
            return cube * self._column(cube)
        direction = unit_rows(torch.randn(shape, generator=generator, dtype=dtype))
        share = torch.rand(num_points, 1, generator=generator, dtype=dtype) ** (1 / dim)
        return direction * share * self._column(direction)


def row_norms(W: Float[Tensor, "*h d"]) -> Float[Tensor, "*h"]:
    """‖w_j‖ without under- or overflow: the largest entry is divided out before squaring."""
    largest = W.abs().amax(dim=-1, keepdim=True)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    return torch.linalg.vector_norm(W / scale, dim=-1) * scale.squeeze(-1)


def unit_rows(W: Float[Tensor, "*h d"]) -> Float[Tensor, "*h d"]:
    """w_j / ‖w_j‖ at any scale; a zero row stays zero."""
    length = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
    safe = (length > SAFE) & (length < 1 / SAFE)
    if bool(safe.all()):
        return W / length
    largest = W.abs().amax(dim=-1, keepdim=True)
    scaled = W / torch.where(largest > 0, largest, torch.ones_like(largest))
    size = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    slow = scaled / torch.where(size > 0, size, torch.ones_like(size))
    return torch.where(safe, W / torch.where(safe, length, torch.ones_like(length)), slow)


def span_basis(W: Float[Tensor, "h d"]) -> Float[Tensor, "d r"]:
    """Orthonormal basis Q of the span of the rows of W (h > d gives r = d).

    x ↦ W x depends on x only through Qᵀx, so ℓ2 questions about such a network can be asked in r
    dimensions exactly. QR with zero rows dropped; nearly dependent rows cost a column, never accuracy.
    """
    rows = unit_rows(W)
    rows = rows[rows.abs().amax(dim=1) > 0]
    if rows.shape[0] >= rows.shape[1]:
        return torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
    return torch.linalg.qr(rows.T, mode="reduced").Q


def batches(z: Tensor, rows: int = ROWS) -> tuple[Tensor, ...]:
    """Some rows at a time: a matrix product rounds a row in a way that depends on the shape of the batch, not on the other rows."""
    return torch.cat([z, z.new_zeros(-len(z) % rows, *z.shape[1:])]).split(rows)


def in_batches(function: Callable[[Tensor], Tensor], z: Tensor, rows: int = ROWS) -> Tensor:
    """function(z) for a function that treats rows alike, such that each row of the result depends on that row of z alone."""
    return torch.cat([function(part) for part in batches(z, rows)])[: len(z)]


def products(z: Tensor, matrix: Tensor) -> Tensor:
    """z @ matrix, each row as if it were alone."""
    return in_batches(lambda part: part @ matrix, z)
