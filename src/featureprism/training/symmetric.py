"""Algorithms 1 and 2 of feature-purification: clean and adversarial descent with a growing bias and a smoothing schedule."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism._inputs import check_points
from featureprism._progress import Progress, no_progress
from featureprism.data.sparse_coding import SparseCoding, sample_points
from featureprism.networks.gates import Bias, Gates, gates, openings, smoothed_step
from featureprism.networks.symmetric import SymmetricNet
from featureprism.training.descent import Recorder
from featureprism.training.resting import Watch
from featureprism.training.trajectory import Ended, Trajectory

Batch = tuple[Tensor, Tensor]  # x (n, d), y (n,)
Draw = Callable[[], Batch]
Perturb = Callable[
    [SymmetricNet, Tensor, Tensor, float], Batch
]  # points to train on; the float scales the radius


LEAST_BIAS = 1e-6  # a trained bias stays positive
TOGETHER = 2**20  # numbers of new samples that are drawn at a time


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one rule for step, bias, smoothing and adversary.

    Parameters
    ----------
    steps : int
        Number of steps.
    step_size : float
        Learning rate; the step is min(step_size, step_per_bias·b), since with a small start time must run slowly
        while the bias b is small.
    smoothing : float
        σ_ρ as a multiple of b.
    step_per_bias : float
        See `step_size`.
    bias_growth : float
        The bias grows by this times the step; Algorithm 2 has no growth.
    bias_cap : float
        Largest bias.
    bias_descent : float
        If positive every neuron has its bias and trains it, with this factor of the step (footnote 8); b is then
        their mean.
    perturb : callable, optional
        Adversary: the step is taken at the perturbed points (Algorithm 2).
    ramp : pair of float
        Factors of the adversary's radius at the beginning and the end.

    References
    ----------
    feature-purification, Section 4.
    """

    steps: int
    step_size: float
    smoothing: float
    step_per_bias: float = math.inf
    bias_growth: float = 0.0
    bias_cap: float = math.inf
    bias_descent: float = 0.0
    perturb: Perturb | None = None
    ramp: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if self.steps < 0 or not self.step_size > 0 or not self.step_per_bias > 0:
            raise ValueError(f"Need steps ≥ 0 and a positive step, got {self.steps} and {self.step_size}.")
        if min(self.smoothing, self.bias_growth, self.bias_descent) < 0:
            raise ValueError("Smoothing, bias growth and bias descent must be at least 0.")

    def step_at(self, bias: float) -> float:
        """η = min(step_size, step_per_bias·b)."""
        return min(self.step_size, self.step_per_bias * bias)

    def bias_after(self, bias: Bias, rate: float) -> Bias:
        """The bias, or the biases, when they have grown for a step of size `rate`."""
        if isinstance(bias, Tensor):
            return torch.maximum(bias, (bias + rate * self.bias_growth).clamp_max(self.bias_cap))
        return max(bias, min(self.bias_cap, bias + rate * self.bias_growth))

    def radius_at(self, step: int) -> float:
        """The share of the adversary's radius at a step of this phase."""
        first, last = self.ramp
        return first + (last - first) * step / max(1, self.steps - 1)


def from_pool(
    x: Float[Tensor, "n d"], y: Float[Tensor, " n"], batch: int, *, generator: torch.Generator
) -> Draw:
    """Draw batches with replacement from a fixed set of points.

    Parameters
    ----------
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    batch : int
        Points of a batch.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    callable
        For the argument `draw` of `train_symmetric`.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> draw = fp.training.from_pool(torch.eye(3), torch.ones(3), 5, generator=fp.generator_for('batches', 0))
    >>> x, y = draw()
    >>> x.shape, y.shape
    (torch.Size([5, 3]), torch.Size([5]))
    """
    check_points(x, y)

    def draw() -> Batch:
        chosen = torch.randint(len(x), (batch,), generator=generator)
        return x[chosen], y[chosen]

    return draw


def fresh(coding: SparseCoding, batch: int, *, generator: torch.Generator) -> Draw:
    """New samples for every step: descent on the population loss. Small batches are drawn several at a time."""
    together = max(1, TOGETHER // (batch * coding.M.shape[0]))
    waiting: list[Batch] = []

    def draw() -> Batch:
        if not waiting:
            x, y = sample_points(coding, together * batch, generator=generator)
            waiting.extend(zip(x.split(batch), y.split(batch), strict=True))
        return waiting.pop()

    return draw


class LossGradient(NamedTuple):
    """f (n,), and the factors of ∇_W mean log(1 + e^(-y f)) = openᵀ pulls; `pulls` holds -y ℓ' x/n, ℓ' = sigmoid(-y f)."""

    value: Float[Tensor, " n"]
    open: Float[Tensor, "n h"]
    pulls: Float[Tensor, "n d"]


def loss_gradient(
    W: Float[Tensor, "h d"],
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    open_gates: Callable[[Tensor], Gates],
) -> LossGradient:
    """The gradient of the mean logistic loss in two factors, (h, n) and (n, d). Source: Fact A.1."""
    f, opened = open_gates(x @ W.T)
    return LossGradient(f, opened, x * loss_slope(f, y).unsqueeze(1))


def loss_slope(f: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """∂/∂f of mean log(1 + e^(-y f)): -y ℓ'/n."""
    return torch.sigmoid(-y * f).mul_(y).mul_(-1 / len(y))


@torch.no_grad()
def symmetric_step(
    W: Float[Tensor, "h d"],
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    bias: Bias,
    smoothing: float,
    step_size: float,
    penalty: float,
    noise: torch.Generator | None = None,
    scratch: Float[Tensor, "4 n h"] | None = None,
) -> Float[Tensor, " n"]:
    """One step of W, in place, on mean log(1 + e^(-y f)) + λ Σ_i (‖w_i‖²/2 + ‖w_i‖³/3); returns f before it.

    Two matrix products and a few passes; where nearly all gates are closed, one product and the few that are not. With a `noise`
    generator ρ is drawn once for every point and neuron, as printed in Algorithm 1; without, f is E_ρ f. `scratch` is memory to use
    again from step to step.
    """
    out, spare, buffers = (None, None, None) if scratch is None else (scratch[0], scratch[1], scratch[1:])
    u = torch.mm(x, W.T, out=out)
    few = openings(u, bias, smoothing, by_neuron=True, scratch=spare) if noise is None else None
    kept = 1 - step_size * penalty * (1 + torch.linalg.vector_norm(W, dim=1, keepdim=True))
    if few is not None:
        f = x.new_zeros(len(x)).index_add_(0, few.column, few.value)
        pulls = few.sums(few.open * loss_slope(f, y)[few.column], x, len(W))
        W.mul_(kept).sub_(pulls, alpha=step_size)
        return f
    f, opened = (
        gates(u, bias, smoothing, buffers) if noise is None else noisy_gates(u, bias, smoothing, noise)
    )
    W.mul_(kept).addmm_(opened.T, x * loss_slope(f, y).unsqueeze(1), alpha=-step_size)
    return f


@torch.no_grad()
def bias_pulls(net: SymmetricNet, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " h"]:
    """-∂Loss/∂b_i = -E[y ℓ' (Φ((u_i - b_i)/s) - Φ((-u_i - b_i)/s))] of every neuron: positive where a larger bias lowers the loss."""
    u, b, s = x @ net.W.T, net.thresholds, net.smoothing
    halves = smoothed_step(u - b, s) - smoothed_step(-u - b, s)
    return loss_slope(gates(u, b, s).value, y) @ halves


def noisy_gates(u: Float[Tensor, "n h"], bias: Bias, smoothing: float, generator: torch.Generator) -> Gates:
    """The gates for one draw of ρ, the same in both halves; both can be open at once."""
    rho = smoothing * torch.randn(u.shape, generator=generator, dtype=u.dtype) - bias
    up, down = u + rho, rho - u
    value = (torch.relu(up) - torch.relu(down)).sum(dim=1)
    return Gates(value, (up >= 0).to(u.dtype) + (down >= 0).to(u.dtype))


def _own_biases(net: SymmetricNet) -> Float[Tensor, " h"]:
    return net.thresholds * net.W.new_ones(net.width)


def _biases_after(phase: Phase, net: SymmetricNet, x: Tensor, y: Tensor, rate: float) -> Bias:
    """Where growth takes the bias, and descent on the loss of a batch the biases."""
    grown = phase.bias_after(net.thresholds, rate)
    if not phase.bias_descent:
        return grown
    return torch.clamp_min(grown + rate * phase.bias_descent * bias_pulls(net, x, y), LEAST_BIAS)


@torch.no_grad()
def train_symmetric(
    net: SymmetricNet,
    draw: Draw,
    phases: Sequence[Phase],
    *,
    penalty: float,
    noise: torch.Generator | None = None,
    record: Sequence[int] = (),
    watch: int = 0,
    progress: Progress = no_progress,
) -> Trajectory[SymmetricNet]:
    """Train a symmetric network: Algorithm 1 (phases without `perturb`) and Algorithm 2 (with).

    W is trained, and the biases where a phase says so; otherwise bias and smoothing follow the phases.

    Parameters
    ----------
    net : SymmetricNet
        Where to start; it is not changed.
    draw : callable
        Gives the next batch (x, y); see `from_pool`.
    phases : sequence of Phase
        What to do, one after another.
    penalty : float
        Factor λ of the regulariser.
    noise : torch.Generator, optional
        Draw the noise ρ of the neurons instead of averaging it out.
    record : sequence of int, optional
        Steps at which to keep a snapshot; the last one is always kept.
    watch : int
        If positive, neurons far from being active are only updated in every `watch`-th step.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        Times are steps over all phases.

    References
    ----------
    feature-purification, Section 4.
    """
    trains_biases = any(p.bias_descent for p in phases)
    now = SymmetricNet(net.W, _own_biases(net) if trains_biases else net.thresholds, net.smoothing)
    total, step = sum(p.steps for p in phases), 0
    wanted, recorder = {*record, total}, Recorder()
    crew = Watch(now, 0 if isinstance(now.thresholds, Tensor) else watch, penalty)
    move, memory = partial(symmetric_step, penalty=penalty, noise=noise), now.W.new_empty(0)
    for phase in phases:
        now.smoothing = phase.smoothing * now.level
        for inner in range(phase.steps):
            if step in wanted or crew.is_due(step):
                crew.wake()
            if step in wanted:
                recorder.add(step, now.with_weights(now.W))
            x, y = _drawn(draw, phase, now, inner)
            if crew.is_due(step):
                crew.look(x)
            memory, scratch = _scratch(memory, (4, len(x), now.width))
            rate = phase.step_at(now.level)
            b, s, after = now.thresholds, now.smoothing, _biases_after(phase, now, x, y, rate)
            move(now.W.data, x, y, bias=b, smoothing=s, step_size=rate, scratch=scratch)
            crew.shrink(rate)
            if crew.is_due(step):
                crew.dismiss()
            now.thresholds = after
            now.smoothing = phase.smoothing * now.level
            step += 1
            progress(step / total)
        crew.wake()
        if not bool(torch.isfinite(now.W).all()):
            return recorder.trajectory(Ended.DIVERGED, work=step)
    recorder.add(step, now.with_weights(now.W))
    return recorder.trajectory(Ended.TIME_REACHED, work=step)


def _drawn(draw: Draw, phase: Phase, net: SymmetricNet, step: int) -> Batch:
    """A batch, as the adversary of the phase leaves it."""
    x, y = draw()
    return (x, y) if phase.perturb is None else phase.perturb(net, x, y, phase.radius_at(step))


def _scratch(memory: Tensor, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Memory that is large enough, the same where it is, and a part of it in that shape."""
    size = math.prod(shape)
    memory = memory if len(memory) >= size else memory.new_empty(size)
    return memory, memory[:size].view(shape)
