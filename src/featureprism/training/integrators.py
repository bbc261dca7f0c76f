"""Ordinary differential equations, one step at a time.

A `Segment` is one accepted step with its interpolant, so that recording never changes the steps.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy.integrate import DOP853

Field = Callable[[Tensor], Tensor]  # autonomous: state ↦ velocity


class Segment(NamedTuple):
    """An accepted step from `start` to `end`; `at(t)` is the state in between."""

    start: float
    end: float
    at: Callable[[float], Tensor]


class StepLimitError(RuntimeError):
    """The adaptive integrator could not go on with the tolerance it was given."""


def adaptive_segments(
    field: Field, state: Tensor, start: float, end: float, *, rtol: float, atol: float
) -> Iterator[Segment]:
    """Dormand-Prince 8(5,3) with error control (scipy's DOP853), for smooth fields; float64."""

    from scipy.integrate import DOP853  # takes half a second

    def velocity(_t: float, flat: np.ndarray) -> np.ndarray:
        return field(torch.from_numpy(flat)).numpy()

    solver = DOP853(velocity, start, state.numpy().copy(), end, rtol=rtol, atol=atol)
    while solver.status == "running":
        before = float(solver.t)
        solver.step()
        if solver.status == "failed" or not np.isfinite(solver.y).all():
            raise StepLimitError(f"No step at t = {solver.t:.6g} meets rtol = {rtol:g}.")
        yield Segment(before, float(solver.t), _dense(solver))


def _dense(solver: "DOP853") -> Callable[[float], Tensor]:
    """The interpolant of the last step, built only if it is asked for between the ends."""
    final, t_final = torch.from_numpy(solver.y.copy()), float(solver.t)
    interpolants = []

    def at(t: float) -> Tensor:
        if t == t_final:
            return final
        if not interpolants:
            interpolants.append(solver.dense_output())
        return torch.from_numpy(interpolants[0](t))

    return at


def fixed_segments(
    field: Field, state: Tensor, start: float, end: float, *, step_size: float
) -> Iterator[Segment]:
    """Classical Runge-Kutta of order 4 with equal steps, for fields with kinks; cubic interpolant."""
    num_steps = max(1, round((end - start) / step_size))
    h = (end - start) / num_steps
    slope = field(state)
    for index in range(num_steps):
        k2 = field(state + h / 2 * slope)
        k3 = field(state + h / 2 * k2)
        k4 = field(state + h * k3)
        following = state + h / 6 * (slope + 2 * k2 + 2 * k3 + k4)
        if not bool(torch.isfinite(following).all()):
            raise StepLimitError(f"The state is no longer finite at step size {h:g}.")
        next_slope = field(following)
        # the last step ends at `end` itself, not a rounding error before it: what is due then is recorded
        t, until = start + index * h, end if index == num_steps - 1 else start + (index + 1) * h
        yield Segment(t, until, _hermite((t, until), h, state, following, slope, next_slope))
        state, slope = following, next_slope


def _hermite(
    times: tuple[float, float], h: float, y0: Tensor, y1: Tensor, s0: Tensor, s1: Tensor
) -> Callable[[float], Tensor]:
    def at(t: float) -> Tensor:
        if t >= times[1]:
            return y1
        q = (t - times[0]) / h
        return (
            (1 + 2 * q) * (1 - q) ** 2 * y0
            + q * (1 - q) ** 2 * h * s0
            + q * q * (3 - 2 * q) * y1
            + q * q * (q - 1) * h * s1
        )

    return at
