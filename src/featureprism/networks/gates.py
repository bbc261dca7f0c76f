"""Smoothed ReLU gates from pre-activations: all of them in few passes, or only the pairs near their threshold."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

ROOT_TWO_PI = math.sqrt(2 * math.pi)
ERF_REACH = 6.0  # b/s up to which erf in double precision gives Φ(-b/s) to 7 digits
HALF_REACH = 4.9  # b/s from which Φ(-b/s) < 5·10⁻⁷ is a rounding error in single precision
ROUNDING = 1e-16  # what is smaller by this factor does not change a sum in double precision
NEAR = 5.5  # σ_ρ below the threshold: Φ(-5.5) = 2·10⁻⁸ is a rounding error in single precision
FEW = 0.12  # share of the gates up to which taking them one by one costs less than a product with all
LEAST_POWER = -120.0  # a power of two above the denormal numbers of single precision

Bias = float | Tensor  # one for all neurons, or (h,) one for each


def least(bias: Bias) -> float:
    """The smallest bias of a neuron."""
    return float(bias.min()) if isinstance(bias, Tensor) else bias


def normal_cdf(a: Tensor) -> Tensor:
    """Φ(a): in double precision by erfc, exact far below zero, where torch.special.ndtr gives 0 from -8.3 on; in single by erf."""
    root = math.sqrt(0.5)
    return 0.5 * torch.erfc(a * -root) if a.dtype == torch.float64 else 0.5 * torch.erf(a * root) + 0.5


def smoothed_relu(u: Tensor, smoothing: float) -> Tensor:
    """R_s(u) = E ReLU(u + ρ) = u Φ(u/s) + s φ(u/s), ρ ~ N(0, s²); the plain ReLU for s = 0."""
    if smoothing == 0:
        return torch.relu(u)
    a = u / smoothing
    # s(φ(a) + aΦ(a)) cancels far below zero: beyond -30 the value is smaller than any double of interest
    value = smoothing * (torch.exp(-a * a / 2) / ROOT_TWO_PI + a * normal_cdf(a))
    return torch.where(a < -30, torch.zeros_like(value), value.clamp_min(0))


def smoothed_step(u: Tensor, smoothing: float) -> Tensor:
    """R_s'(u) = Φ(u/s) = P(u + ρ ≥ 0); 1{u ≥ 0} for s = 0."""
    return (u >= 0).to(u.dtype) if smoothing == 0 else normal_cdf(u / smoothing)


class Gates(NamedTuple):
    """What the neurons make of their pre-activations: the output f (n,) and how open each is (n, h)."""

    value: Float[Tensor, " n"]
    open: Float[Tensor, "n h"]


@torch.no_grad()
def gates(
    u: Float[Tensor, "n h"], bias: Bias, smoothing: float, scratch: Float[Tensor, "3 n h"] | None = None
) -> Gates:
    """f and Φ((u-b)/s) + Φ((-u-b)/s) from pre-activations, in few passes; u is overwritten, and `scratch` takes what is returned.

    Φ has the absolute error of the number type, while no neuron is less open than 2Φ(-b/s). Where that is small in double precision
    the tail is computed apart, so that the gradient of a network that hardly fires still points somewhere. The half with the sign of
    -u, below Φ(-b/s), is then left out: in single precision always, in double where all of them together are a rounding error.
    """
    lowest = least(bias)
    if smoothing > 0 and u.dtype == torch.float64 and lowest > ERF_REACH * smoothing:
        found = _upper_half(u, bias, smoothing)
        closed = u.shape[1] * math.erfc(lowest / smoothing / math.sqrt(2))
        if not len(u) or float(found.open.sum(dim=1).min()) * ROUNDING > closed:
            return found
    if smoothing == 0 or (u.dtype == torch.float64 and lowest > ERF_REACH * smoothing):
        up, down = u - bias, -u - bias
        value = (smoothed_relu(up, smoothing) - smoothed_relu(down, smoothing)).sum(dim=1)
        return Gates(value, smoothed_step(up, smoothing) + smoothed_step(down, smoothing))
    sign, *buffers = u.new_empty(3, *u.shape) if scratch is None else scratch
    start, slope = torch.as_tensor(-bias / smoothing, dtype=u.dtype), 1 / smoothing
    if u.dtype == torch.float32 and lowest > HALF_REACH * smoothing:
        torch.sign(u, out=sign)
        value, opened = _half(torch.addcmul(start, u, sign, value=slope, out=u), *buffers)
        return Gates(value.mul_(sign).sum(dim=1).mul_(smoothing), opened)
    value, opened = _half(torch.add(start, u, alpha=slope, out=sign), *buffers)
    below, opened_below = _half(torch.add(start, u, alpha=-slope, out=u), *u.new_empty(2, *u.shape))
    return Gates(value.sub_(below).sum(dim=1).mul_(smoothing), opened.add_(opened_below))


def _upper_half(u: Tensor, bias: Bias, smoothing: float) -> Gates:
    """The gates without the half with the sign of -u, in double precision with the tail of Φ."""
    t = u.abs().sub_(bias).div_(smoothing)
    opened = torch.erfc(t * -math.sqrt(0.5)).mul_(0.5)
    value = torch.square(t).mul_(-0.5).exp_().div_(ROOT_TWO_PI).addcmul_(t, opened).clamp_min_(0)
    return Gates(value.mul_(torch.sign(u)).sum(dim=1).mul_(smoothing), opened)


def _half(t: Tensor, ramp: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """tΦ(t) + φ(t) in `value` and Φ(t) in `ramp`.

    Φ is gelu(t)/t, the fastest erf torch has, exact but at t = 0; φ stops at 2^LEAST_POWER, for denormal numbers would cost more
    than all the rest.
    """
    torch.ops.aten.gelu.out(t, out=ramp)
    torch.addcmul(
        torch.scalar_tensor(-math.log2(ROOT_TWO_PI), dtype=t.dtype), t, t, value=-0.5 / math.log(2), out=value
    )
    value.clamp_min_(LEAST_POWER).exp2_().add_(ramp)
    return value, ramp.div_(t).nan_to_num_(0.5)


class Openings(NamedTuple):
    """The gates near their threshold, in the order of rows: where they are, what each adds to f, how open each is."""

    row: Int[Tensor, " p"]
    column: Int[Tensor, " p"]
    value: Float[Tensor, " p"]
    open: Float[Tensor, " p"]

    def sums(
        self, weights: Float[Tensor, " p"], table: Float[Tensor, "c d"], num_rows: int
    ) -> Float[Tensor, "r d"]:
        """Σ weight·table[column] over the gates of each row: a sparse matrix times `table`."""
        counts = torch.bincount(self.row, minlength=num_rows)
        return torch.nn.functional.embedding_bag(
            self.column, table, counts.cumsum(0).sub_(counts), mode="sum", per_sample_weights=weights
        )


@torch.no_grad()
def openings(
    u: Float[Tensor, "n h"],
    bias: Bias,
    smoothing: float,
    *,
    by_neuron: bool = False,
    scratch: Float[Tensor, "n h"] | None = None,
) -> Openings | None:
    """What `gates` gives, of the few gates that are not closed to rounding; rows are points, or neurons if they are wanted so.

    None where that would be no gain: in double precision, which rounds far less; with a bias below NEAR σ_ρ; with more gates than FEW.
    """
    if u.dtype != torch.float32 or not least(bias) > NEAR * smoothing > 0:
        return None
    near = torch.abs(u, out=scratch) > bias - NEAR * smoothing
    if int(near.count_nonzero()) > FEW * near.numel():
        return None
    near = near.T.contiguous() if by_neuron else near
    at = torch.from_numpy(np.flatnonzero(near.numpy()))  # in half the time of torch.nonzero
    row = at // near.shape[1]
    column = at - row * near.shape[1]
    point, neuron = (column, row) if by_neuron else (row, column)
    t = u.view(-1)[point * u.shape[1] + neuron]
    sign = t.sign()
    t = t.mul_(sign).sub_(bias[neuron] if isinstance(bias, Tensor) else bias).div_(smoothing)
    value, opened = _half(t, *t.new_empty(2, len(t)))
    return Openings(row, column, value.mul_(sign).mul_(smoothing), opened)
