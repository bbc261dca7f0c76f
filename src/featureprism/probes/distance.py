"""The largest difference between two classifiers on a sphere."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import span_basis, unit_rows
from featureprism.models.protocols import HasInputDirections, HasInputGradient


@runtime_checkable
class Smooth(HasInputGradient, HasInputDirections, Protocol):
    """A classifier with a closed gradient and known directions."""

    def in_coordinates(self, basis: Tensor) -> "Smooth": ...


@dataclass(frozen=True)
class SphereDistance:
    """The largest difference of two functions on a sphere.

    Attributes
    ----------
    value : float
        sup |c f(x) - F(x)| over the sphere.
    scale : float
        The factor c.
    point : tensor (d,)
        A point at which it is reached.
    """

    value: float
    scale: float
    point: Float[Tensor, " d"]


@dataclass(frozen=True)
class _Scaled:
    """x ↦ f(radius·x), so that the sphere is the unit sphere."""

    net: Smooth
    radius: float

    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        value, gradient = self.net.input_gradient(self.radius * x)
        return value, self.radius * gradient

    def input_directions(self) -> Float[Tensor, "h d"]:
        return self.net.input_directions()


@torch.no_grad()
def sphere_distance(
    f: Smooth, F: Smooth, *, best_scale: bool = False, steps: int = 30, radius: float = 1.0
) -> SphereDistance:
    """The largest difference of two functions on a sphere, sup |c f(x) - F(x)|.

    Normalised ascent in span(f, F) from ±(every direction of F), the most promising directions of f and points
    between the two: a point of the sphere drawn at random has F ~ D^(-p/2) and a vanishing gradient. With biases
    neither network is homogeneous, so the radius matters, and a point of the sphere may lie inside the ball of the
    span: one direction outside the span is added where there is one.

    Parameters
    ----------
    f, F : network
        The two functions.
    best_scale : bool
        Scale f by the c > 0 that makes the difference least; otherwise c = 1.
    steps : int
        Steps of the ascent.
    radius : float
        Radius of the sphere.

    Returns
    -------
    SphereDistance
        A lower bound of the supremum, reached at `point`.

    References
    ----------
    dist(·,·) of gmm-flow, Section 3.2; Theorem 4.6 of feature-averaging has radius √d.
    """
    basis = _one_more(span_basis(torch.cat([f.input_directions().double(), F.input_directions().double()])))
    small_f, small_F = (_Scaled(net.in_coordinates(basis), radius) for net in (f, F))
    starts = _starts(small_f, small_F)
    scale, pool = 1.0, starts[:0]
    for _ in range(8 if best_scale else 1):
        point = _ascend(small_f, small_F, scale, torch.cat([starts, pool]), steps)
        pool = torch.cat([pool, point])
        before = scale
        if best_scale:
            scale = _least_scale(small_f.input_gradient(pool)[0], small_F.input_gradient(pool)[0])
        if abs(scale - before) < 1e-9 * max(1.0, abs(scale)):
            break
    gap = (scale * small_f.input_gradient(pool)[0] - small_F.input_gradient(pool)[0]).abs()
    best = int(gap.argmax())
    return SphereDistance(float(gap[best]), scale, radius * basis @ pool[best])


def _one_more(basis: Float[Tensor, "d r"]) -> Float[Tensor, "d q"]:
    """The basis and, if it does not span everything, one unit vector orthogonal to it."""
    d, r = basis.shape
    if r >= d:
        return basis
    left = 1 - (basis**2).sum(dim=1)  # squared length of what each axis has outside
    axis = torch.zeros(d, dtype=basis.dtype)
    axis[int(left.argmax())] = 1.0
    for _ in range(2):  # twice is enough for rounding
        axis = axis - basis @ (basis.T @ axis)
    return torch.cat([basis, (axis / torch.linalg.vector_norm(axis)).unsqueeze(1)], dim=1)


def _starts(f: _Scaled, F: _Scaled) -> Tensor:
    """±centres, and of ±neurons and the points halfway to a centre the most different ones."""
    centres, neurons = unit_rows(F.input_directions()), unit_rows(f.input_directions())
    nearest = centres[(neurons @ centres.T).abs().argmax(dim=1)]
    more = torch.cat([neurons, unit_rows(neurons + nearest), unit_rows(neurons - nearest)])
    more = torch.cat([more, -more])
    gap = (f.input_gradient(more)[0] - F.input_gradient(more)[0]).abs()
    chosen = more[gap.argsort(descending=True)[: 4 * len(centres)]]
    return torch.cat([centres, -centres, chosen])


def _ascend(f: _Scaled, F: _Scaled, scale: float, x: Tensor, steps: int) -> Tensor:
    """Each row climbs |scale·f - F| on the sphere; its step doubles on success and halves on failure."""

    def height(x: Tensor) -> tuple[Tensor, Tensor]:
        (fv, fg), (Fv, Fg) = f.input_gradient(x), F.input_gradient(x)
        gap = scale * fv - Fv
        return gap.abs(), gap.sign().unsqueeze(1) * (scale * fg - Fg)

    step = torch.full((len(x), 1), 0.3, dtype=x.dtype)
    value, gradient = height(x)
    for _ in range(steps):
        tangent = gradient - (gradient * x).sum(dim=1, keepdim=True) * x
        trial = unit_rows(x + step * unit_rows(tangent))
        trial_value, trial_gradient = height(trial)
        better = (trial_value > value).unsqueeze(1)
        x, gradient = torch.where(better, trial, x), torch.where(better, trial_gradient, gradient)
        value = torch.maximum(value, trial_value)
        step = torch.where(better, 1.5 * step, step / 3).clamp_max(0.5)
    return x


def _least_scale(f: Tensor, F: Tensor) -> float:
    """The c > 0 with the least max_i |c f_i - F_i|: a convex problem in one variable."""
    low, high = 0.0, 2 * float((F.abs().max() / f.abs().max().clamp_min(1e-300)).clamp_max(1e300))
    for _ in range(200):
        third = (high - low) / 3
        left, right = low + third, high - third
        if float((left * f - F).abs().max()) <= float((right * f - F).abs().max()):
            high = right
        else:
            low = left
    return (low + high) / 2
