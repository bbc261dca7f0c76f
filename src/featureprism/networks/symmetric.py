"""The symmetric network of feature-purification: pairs of smoothed ReLU neurons with one common bias."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.geometry import LpBall
from featureprism.networks.activations import ReLU
from featureprism.networks.two_layer import TwoLayerNet

ROOT_TWO_PI = math.sqrt(2 * math.pi)
ERF_REACH = 6.0  # b/s up to which erf in double precision gives Φ(-b/s) to 7 digits
HALF_REACH = 4.9  # b/s from which Φ(-b/s) < 5·10⁻⁷ is a rounding error in single precision
ROUNDING = 1e-16  # what is smaller by this factor does not change a sum in double precision
UPWARDS = 1 + 1e-6  # of norms in single precision
CLOSED = 9.0  # σ_ρ below the bias: Φ(-9) = 10⁻¹⁹
LEAST_POWER = -120.0  # a power of two above the denormal numbers of single precision


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


class SymmetricNet(nn.Module):
    """f(x) = Σ_i [R_s(⟨w_i, x⟩ - b) - R_s(-⟨w_i, x⟩ - b)]: odd in x, output weights 1, one bias b, smoothing s = σ_ρ.

    This is E_ρ of the network with noise ρ_i in both halves of neuron i; `sampled` has the noise itself.
    Source: feature-purification, Section 4.
    """

    W: Tensor

    def __init__(self, W: Float[Tensor, "h d"], bias: float, smoothing: float) -> None:
        super().__init__()
        if not bool(torch.isfinite(W).all()):
            raise ValueError("W contains NaN or infinite values.")
        if not (bias >= 0 and smoothing >= 0):
            raise ValueError(f"Bias and smoothing must be at least 0, got {bias} and {smoothing}.")
        self.W = nn.Parameter(W.detach().clone())
        self.bias, self.smoothing = float(bias), float(smoothing)

    @property
    def width(self) -> int:
        """The number of neurons."""
        return self.W.shape[0]

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """E_ρ f(x)."""
        u = x @ self.W.T
        return self._gate(u, smoothed_relu, -1).sum(dim=1)

    def _gate(self, u: Tensor, act, sign: int) -> Tensor:
        """act(u - b) ± act(-u - b)."""
        b, s = self.bias, self.smoothing
        return act(u - b, s) + sign * act(-u - b, s)

    def slopes(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n h"]:
        """Φ((u_i - b)/s) + Φ((-u_i - b)/s): how open each neuron is. Source: Fact A.1."""
        return self._gate(x @ self.W.detach().T, smoothed_step, 1)

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """E_ρ f(x) and its gradient Σ_i [Φ((u_i - b)/s) + Φ((-u_i - b)/s)] w_i: two matrix products."""
        value, open_ = gates(x @ self.W.T, self.bias, self.smoothing)
        return value, open_ @ self.W

    @torch.no_grad()
    def sampled(self, x: Float[Tensor, "n d"], *, generator: torch.Generator) -> Float[Tensor, " n"]:
        """f(x, ρ) with one draw of ρ for every point, the same in both halves."""
        u = x @ self.W.T
        rho = self.smoothing * torch.randn(u.shape, generator=generator, dtype=u.dtype)
        return (torch.relu(u + rho - self.bias) - torch.relu(-u + rho - self.bias)).sum(dim=1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "SymmetricNet":
        """The same function of z = basisᵀ x, exact when the basis spans the rows of W."""
        return SymmetricNet(self.W.detach().to(basis.dtype) @ basis, self.bias, self.smoothing)

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W.detach()


class Gates(NamedTuple):
    """What the neurons make of their pre-activations: the output f (n,) and how open each is (n, h)."""

    value: Float[Tensor, " n"]
    open: Float[Tensor, "n h"]


@torch.no_grad()
def gates(
    u: Float[Tensor, "n h"], bias: float, smoothing: float, scratch: Float[Tensor, "3 n h"] | None = None
) -> Gates:
    """f and Φ((u-b)/s) + Φ((-u-b)/s) from pre-activations, in few passes; u is overwritten, and `scratch` takes what is returned.

    Φ has the absolute error of the number type, while no neuron is less open than 2Φ(-b/s). Where that is small in double precision
    the tail is computed apart, so that the gradient of a network that hardly fires still points somewhere. The half with the sign of
    -u, below Φ(-b/s), is then left out: in single precision always, in double where all of them together are a rounding error.
    """
    if smoothing > 0 and u.dtype == torch.float64 and bias > ERF_REACH * smoothing:
        found = _upper_half(u, bias, smoothing)
        closed = u.shape[1] * math.erfc(bias / smoothing / math.sqrt(2))
        if not len(u) or float(found.open.sum(dim=1).min()) * ROUNDING > closed:
            return found
    if smoothing == 0 or (u.dtype == torch.float64 and bias > ERF_REACH * smoothing):
        up, down = u - bias, -u - bias
        value = (smoothed_relu(up, smoothing) - smoothed_relu(down, smoothing)).sum(dim=1)
        return Gates(value, smoothed_step(up, smoothing) + smoothed_step(down, smoothing))
    sign, *buffers = u.new_empty(3, *u.shape) if scratch is None else scratch
    start, slope = torch.scalar_tensor(-bias / smoothing, dtype=u.dtype), 1 / smoothing
    if u.dtype == torch.float32 and bias > HALF_REACH * smoothing:
        torch.sign(u, out=sign)
        value, opened = _half(torch.addcmul(start, u, sign, value=slope, out=u), *buffers)
        return Gates(value.mul_(sign).sum(dim=1).mul_(smoothing), opened)
    value, opened = _half(torch.add(start, u, alpha=slope, out=sign), *buffers)
    below, opened_below = _half(torch.add(start, u, alpha=-slope, out=u), *u.new_empty(2, *u.shape))
    return Gates(value.sub_(below).sum(dim=1).mul_(smoothing), opened.add_(opened_below))


def _upper_half(u: Tensor, bias: float, smoothing: float) -> Gates:
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


def symmetric_start(
    width: int,
    dim: int,
    std: float,
    bias: float,
    smoothing: float,
    *,
    generator: torch.Generator,
    dtype=torch.float32,
) -> SymmetricNet:
    """w_i ~ N(0, std² I). Source: feature-purification, Section 4."""
    return SymmetricNet(std * torch.randn(width, dim, generator=generator, dtype=dtype), bias, smoothing)


def pure_net(
    M: Float[Tensor, "d D"], w: Float[Tensor, " D"], bias: float, smoothing: float = 0.0, scale: float = 1.0
) -> SymmetricNet:
    """w_j = scale·sign(w*_j) M_j: one neuron per feature, nothing else. The soft classifier of Section 3 for w* = ±1."""
    return SymmetricNet(scale * (M * torch.sign(w)).T, bias, smoothing)


@torch.no_grad()
def reachable(net: SymmetricNet, x: Float[Tensor, "n d"], ball: LpBall) -> SymmetricNet:
    """The neurons that can open within a ball around a point, |⟨w, x + δ⟩| ≤ ‖w‖(‖x‖ + eps): there the same function.

    Exact without smoothing; with it, neurons at 9σ_ρ below the bias are left out, which are open by Φ(-9) = 10⁻¹⁹. A network none
    of whose neurons fires at any of the points has nothing else, and stays as it is.
    """
    eps = float(torch.as_tensor(ball.eps).max()) * (1.0 if ball.p == 2 else math.sqrt(x.shape[1]))
    W = net.W.detach().to(x.dtype)
    reach = float(torch.linalg.vector_norm(x, dim=1).max()) + eps
    open_ = torch.linalg.vector_norm(W, dim=1) * reach * UPWARDS >= net.bias - CLOSED * net.smoothing
    fires = net.smoothing == 0 or bool(((x @ W.T).abs() >= net.bias).any())
    return SymmetricNet(net.W.detach()[open_], net.bias, net.smoothing) if fires else net


def unsmoothed(net: SymmetricNet) -> TwoLayerNet:
    """The network with σ_ρ = 0 as 2h ReLU neurons: ±w_i with output weights ±1 and offset -b."""
    W = net.W.detach()
    ones = W.new_ones(len(W))
    offsets = W.new_full((2 * len(W),), -net.bias)
    return TwoLayerNet(torch.cat([W, -W]), torch.cat([ones, -ones]), offsets, activation=ReLU())
