"""The symmetric network of feature-purification: pairs of smoothed ReLU neurons with a common bias, or one each."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.geometry import LpBall
from featureprism.models.activations import ReLU
from featureprism.models.model import Model, as_model, plain
from featureprism.models.one_layer import TwoLayerNet
from featureprism.networks.gates import Bias, gates, least, openings, smoothed_relu, smoothed_step

UPWARDS = 1 + 1e-6  # of norms in single precision
CLOSED = 9.0  # σ_ρ below the bias: Φ(-9) = 10⁻¹⁹


class SymmetricNet(nn.Module):
    """f(x) = Σ_i [R_s(⟨w_i, x⟩ - b) - R_s(-⟨w_i, x⟩ - b)]: odd in x, output weights 1, smoothing s = σ_ρ.

    This is E_ρ of the network with noise ρ_i in both halves of neuron i; `sampled` has the noise itself. `thresholds`
    holds the bias as it
    was given, `bias` the number if there is one for all neurons.

    Parameters
    ----------
    W : tensor (h, d)
        Neurons as rows.
    bias : float or tensor (h,)
        Threshold b > 0, for all neurons or for each.
    smoothing : float
        Standard deviation σ_ρ of the noise that is averaged out.

    References
    ----------
    feature-purification, Section 4.
    """

    W: Tensor
    thresholds: Bias

    def __init__(self, W: Float[Tensor, "h d"], bias: Bias, smoothing: float) -> None:
        super().__init__()
        if not bool(torch.isfinite(W).all()):
            raise ValueError("W contains NaN or infinite values.")
        if isinstance(bias, Tensor) and bias.shape != W.shape[:1]:
            raise ValueError(f"Need one bias, or one for each of {len(W)} neurons, got {tuple(bias.shape)}.")
        if not (least(bias) >= 0 and smoothing >= 0):
            raise ValueError(f"Bias and smoothing must be at least 0, got {least(bias)} and {smoothing}.")
        self.W = nn.Parameter(W.detach().clone(memory_format=torch.contiguous_format))
        self.smoothing = float(smoothing)
        if isinstance(bias, Tensor):
            self.register_buffer("thresholds", bias.detach().to(W.dtype, copy=True))
        else:
            self.thresholds = float(bias)

    @property
    def bias(self) -> float:
        """The bias that all neurons share."""
        if isinstance(self.thresholds, Tensor):
            raise ValueError("Each neuron has its own bias: read `thresholds`, or their mean `level`.")
        return self.thresholds

    @property
    def level(self) -> float:
        """The mean bias."""
        return float(self.thresholds.mean()) if isinstance(self.thresholds, Tensor) else self.thresholds

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
        b, s = self.thresholds, self.smoothing
        return act(u - b, s) + sign * act(-u - b, s)

    def slopes(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n h"]:
        """Φ((u_i - b)/s) + Φ((-u_i - b)/s): how open each neuron is. Source: Fact A.1."""
        return self._gate(x @ self.W.detach().T, smoothed_step, 1)

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """E_ρ f(x) and its gradient Σ_i [Φ((u_i - b)/s) + Φ((-u_i - b)/s)] w_i: a matrix product or two."""
        u = x @ self.W.T
        few = openings(u, self.thresholds, self.smoothing)
        if few is not None:
            return x.new_zeros(len(x)).index_add_(0, few.row, few.value), few.sums(few.open, self.W, len(x))
        value, open_ = gates(u, self.thresholds, self.smoothing)
        return value, open_ @ self.W

    @torch.no_grad()
    def sampled(self, x: Float[Tensor, "n d"], *, generator: torch.Generator) -> Float[Tensor, " n"]:
        """f(x, ρ) with one draw of ρ for every point, the same in both halves."""
        u = x @ self.W.T
        rho = self.smoothing * torch.randn(u.shape, generator=generator, dtype=u.dtype) - self.thresholds
        return (torch.relu(u + rho) - torch.relu(rho - u)).sum(dim=1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "SymmetricNet":
        """The same function of z = basisᵀ x, exact when the basis spans the rows of W."""
        return self.with_weights(self.W.detach().to(basis.dtype) @ basis)

    def with_weights(self, W: Float[Tensor, "h r"]) -> "SymmetricNet":
        """Other weights with the same biases and smoothing, in their precision."""
        return SymmetricNet(W, self.thresholds, self.smoothing)

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W.detach()


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
    """A symmetric network with weights w_i ~ N(0, std² I).

    Parameters
    ----------
    width : int
        Number of neurons.
    dim : int
        Dimension of the points.
    std : float
        Standard deviation of the initial weights.
    bias : float
        Threshold of all neurons.
    smoothing : float
        Smoothing σ_ρ.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    dtype : torch.dtype, optional
        Precision of the result.

    Returns
    -------
    SymmetricNet

    References
    ----------
    feature-purification, Section 4.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.networks.symmetric_start(6, 4, 0.1, 0.2, 0.0, generator=fp.generator_for('start', 0)).W.shape
    torch.Size([6, 4])
    """
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
    W, b = net.W.detach().to(x.dtype), net.thresholds
    reach = float(torch.linalg.vector_norm(x, dim=1).max()) + eps
    open_ = torch.linalg.vector_norm(W, dim=1) * reach * UPWARDS >= b - CLOSED * net.smoothing
    fires = net.smoothing == 0 or bool(((x @ W.T).abs() >= b).any())
    kept = b[open_] if isinstance(b, Tensor) else b
    return SymmetricNet(net.W.detach()[open_], kept, net.smoothing) if fires else net


def unsmoothed(net: SymmetricNet) -> TwoLayerNet:
    """The network with σ_ρ = 0 as 2h ReLU neurons: ±w_i with output weights ±1 and offset -b_i."""
    W = net.W.detach()
    ones = W.new_ones(len(W))
    return TwoLayerNet(
        torch.cat([W, -W]), torch.cat([ones, -ones]), (-net.thresholds * ones).repeat(2), activation=ReLU()
    )


@as_model.register
def _(net: SymmetricNet) -> Model | None:
    return as_model(unsmoothed(net)) if net.smoothing == 0 else Model(plain(net), has_one_output=True)
