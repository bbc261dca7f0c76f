"""Gradient flow of balanced pReLU networks at any initialisation scale.

With a balanced start |a_j| = ‖w_j‖ =: exp(ρ_j) for all time and s_j = sign a_j never changes. In u_j = w_j/‖w_j‖ and ρ_j

    f(x)    = Σ_j s_j exp(2ρ_j) [⟨x, u_j⟩]₊^p
    dρ_j/dt = -s_j Σ_i g_i [⟨x_i, u_j⟩]₊^p
    du_j/dt = -s_j p Σ_i g_i [⟨x_i, u_j⟩]₊^(p-1) (I - u_j u_jᵀ) x_i        g_i = ∂L/∂f(x_i)

and the scale enters only through f. While f is negligible every neuron moves by itself: one whose direction has
settled goes on with a constant dρ_j/dt, in closed form, and once all have settled the flow jumps to the time at which
f begins to count. Source: gmm-flow, Appendix E.1, (E.3) and (E.4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, log

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import PolynomialReLU, relu_power
from featureprism.networks.balanced_weights import BalancedWeights
from featureprism.training.flow import Keeper, Segments, check_flow, is_smooth, run_with
from featureprism.training.integrators import Segment, StepLimitError
from featureprism.training.losses import Loss
from featureprism.training.span import span_coordinates
from featureprism.training.trajectory import Ended, Trajectory

NEGLIGIBLE = 1e-9  # |f| below this leaves the residual at its value for f = 0
SETTLED = 1e-6  # direction speed; dρ/dt is stationary there, so its error is of the order of the square


@torch.no_grad()
def balanced_flow(
    start: BalancedWeights,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    p: float,
    loss: Loss,
    t_end: float,
    record: Sequence[float] = (),
    rtol: float | None = None,
    step_size: float = 0.1,
    progress: Progress = no_progress,
) -> Trajectory[BalancedWeights]:
    """Gradient flow of a balanced pReLU network from any initialisation scale, also far below what a float can hold.

    Directions and logarithms of norms are integrated in float64 in the span of the data: adaptively at order 8 for p ≥ 2, by fixed
    steps that are halved until the end settles for p < 2.

    Parameters
    ----------
    start : BalancedWeights
        Directions and log-norms of the neurons.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    p : float
        Power of the pReLU.
    loss : Loss
        What to minimise.
    t_end : float
        Time at which the flow ends.
    record : sequence, optional
        Times (or steps) at which to keep a snapshot; the last one is always kept.
    rtol : float, optional
        Local error (default 1e-7); for p < 2 the largest move of directions and log-norms (default 1e-3).
    step_size : float
        First step where steps are fixed.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        Of `BalancedWeights`.

    Examples
    --------
    >>> from math import log
    >>> import featureprism as fp
    >>> from featureprism.networks import balanced, gaussian_shape
    >>> clusters = fp.data.orthonormal_clusters(50, 1, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 20, generator=fp.generator_for("train", 0))
    >>> shape = gaussian_shape(6, 50, generator=fp.generator_for("shape", 0))
    >>> start = balanced(shape, clusters.labels.repeat(3), log(1e-80))  # far below what a float32 weight can hold
    >>> loss = fp.training.Loss("square", "per-cluster", num_clusters=2)
    >>> run = fp.training.balanced_flow(start, data.x, data.y, p=3.0, loss=loss, t_end=1.0)
    >>> run.ended.name
    'TIME_REACHED'
    """
    check_flow(x, y, t_end)
    smooth = is_smooth(PolynomialReLU(p))
    x, y = x.double(), y.double()
    coordinates = span_coordinates(x, start.directions.double())
    system = _System(coordinates.points, y, start.signs.double(), p, loss)
    small = coordinates.down(start.directions.double())
    initial = torch.cat([small, start.log_norms.double().unsqueeze(1)], dim=1)

    def snapshot(state: Tensor) -> BalancedWeights:
        return BalancedWeights(unit_rows(coordinates.up(state[:, :-1])), state[:, -1].clone(), start.signs)

    def integrate(segments: Segments) -> tuple[Trajectory, Tensor]:
        return _followed(system, initial, segments, Keeper(record, t_end, snapshot, progress))

    rtol = rtol or (1e-7 if smooth else 1e-3)
    return run_with(
        integrate, moved=_farthest, smooth=smooth, rtol=rtol, atol=rtol / 100, step_size=step_size
    )


def _followed(
    system: "_System", initial: Float[Tensor, "h q"], segments: Segments, keep: Keeper
) -> tuple[Trajectory, Float[Tensor, "h q"]]:
    """The flow from t = 0 to the end, or as far as the steps suffice: what was kept of it, and its last state."""
    system.work, ended, state = 0, Ended.TIME_REACHED, initial
    try:
        t, state = _while_negligible(system, initial, keep.t_end, segments, keep)
        if t < keep.t_end:
            for segment in segments(system.coupled, state.flatten(), t, keep.t_end):
                keep(segment.end, _rows(segment, state.shape))
                state = segment.at(segment.end).reshape(state.shape)
    except StepLimitError:
        ended = Ended.STEP_LIMIT
    return keep.recorder.trajectory(ended, system.work), state


def _farthest(coarse: Tensor, fine: Tensor) -> float:
    """Largest change of a direction or a log-norm over neurons; both are pure numbers of order 1, whatever the scale."""
    gap = fine - coarse
    return float(torch.maximum(row_norms(gap[:, :-1]).max(), gap[:, -1].abs().max()))


def _rows(segment: Segment, shape: torch.Size) -> Callable[[float], Tensor]:
    return lambda t: segment.at(t).reshape(shape)


@dataclass
class _System:
    """The two fields: all neurons coupled through f, and single neurons while f is negligible."""

    x: Float[Tensor, "n r"]
    y: Float[Tensor, " n"]
    signs: Float[Tensor, " h"]
    p: float
    loss: Loss
    work: int = 0
    log_bound: float = field(init=False)  # |f(x_i)| ≤ exp(log_bound) Σ_j exp(2ρ_j) on the data

    def __post_init__(self) -> None:
        self.log_bound = self.p * float(row_norms(self.x).max().clamp_min(1e-300).log())

    def velocity(
        self, state: Float[Tensor, "m q"], signs: Float[Tensor, " m"], coupled: bool
    ) -> Float[Tensor, "m q"]:
        """(du/dt, dρ/dt) as rows; uncoupled means f = 0."""
        self.work += 1
        u = unit_rows(state[:, :-1])
        z = u @ self.x.T  # (m, n): few neurons as rows are read faster than as columns
        slope = relu_power(z, self.p - 1)
        power = slope * z.clamp_min(0)
        f = (signs * (2 * state[:, -1]).exp()) @ power if coupled else torch.zeros_like(self.y)
        g = self.loss.residual(f, self.y)
        pull = (slope * g) @ self.x  # (m, r)
        tangent = pull - (pull * u).sum(dim=1, keepdim=True) * u
        growth = (power @ g).unsqueeze(1)
        return -signs.unsqueeze(1) * torch.cat([self.p * tangent, growth], dim=1)

    def coupled(self, flat: Tensor) -> Tensor:
        """The full flow."""
        return self.velocity(flat.reshape(len(self.signs), -1), self.signs, True).flatten()

    def is_negligible(self, log_norms: Tensor) -> bool:
        """Whether f is certainly too small to matter on every point."""
        log_f = self.log_bound + float(torch.logsumexp(2 * log_norms, dim=0))
        return log_f < log(NEGLIGIBLE)


@dataclass(frozen=True)
class _Crowd:
    """All neurons at one time: the settled go on in closed form, the moving need the integrator."""

    state: Float[Tensor, "h q"]
    since: float
    moving: Bool[Tensor, " h"]
    rates: Float[Tensor, " h"]  # dρ/dt of the settled, 0 for the moving

    def at_rest(self, t: float) -> Float[Tensor, "h q"]:
        """Every settled neuron at a later time: the direction stays, ρ grows linearly."""
        state = self.state.clone()
        state[:, -1] += self.rates * (t - self.since)
        return state

    def along(self, segment: Segment, t: float) -> Float[Tensor, "h q"]:
        """Every neuron at a time within a step of the moving ones."""
        state = self.at_rest(t)
        state[self.moving] = segment.at(t).reshape(-1, state.shape[1])
        return state

    def settle(self, state: Tensor, t: float, which: Tensor, growth: Tensor) -> "_Crowd":
        """The crowd at time t, `which` of its moving neurons now settled at these rates."""
        index = self.moving.nonzero()[:, 0][which]
        moving, rates = self.moving.clone(), self.rates.clone()
        moving[index], rates[index] = False, growth[which]
        return _Crowd(state, t, moving, rates)


def _while_negligible(
    system: _System, state: Float[Tensor, "h q"], t_end: float, segments: Segments, keep: Keeper
) -> tuple[float, Float[Tensor, "h q"]]:
    """Run until f begins to count or t_end; returns that time and the state there."""
    keep(0.0, lambda _: state)
    everyone = torch.ones(len(state), dtype=torch.bool)
    crowd = _Crowd(state, 0.0, everyone, torch.zeros_like(state[:, 0]))
    while crowd.since < t_end and system.is_negligible(crowd.state[:, -1]):
        if not bool(crowd.moving.any()):
            return _leave(system, crowd.at_rest, crowd.since, t_end, keep)
        crowd = _follow(system, crowd, t_end, segments, keep)
    return crowd.since, crowd.state


def _follow(system: _System, crowd: _Crowd, t_end: float, segments: Segments, keep: Keeper) -> _Crowd:
    """Integrate the moving neurons until a quarter of them settle, f begins to count, or t_end."""
    signs, start = system.signs[crowd.moving], crowd.state[crowd.moving]

    def alone(flat: Tensor) -> Tensor:
        return system.velocity(flat.reshape(start.shape), signs, False).flatten()

    speed, state = torch.full_like(signs, torch.inf), crowd.state
    for segment in segments(alone, start.flatten(), crowd.since, t_end):
        at = partial(crowd.along, segment)
        state = at(segment.end)
        if not system.is_negligible(state[:, -1]):
            t, state = _leave(system, at, segment.start, segment.end, keep)
            return _Crowd(state, t, crowd.moving, crowd.rates)
        keep(segment.end, at)
        velocity = system.velocity(state[crowd.moving], signs, False)
        stopped, speed = settled(velocity[:, :-1], speed, segment.end - segment.start)
        if 4 * int(stopped.sum()) >= len(stopped):
            return crowd.settle(state, segment.end, stopped, velocity[:, -1])
    return _Crowd(state, t_end, crowd.moving, crowd.rates)


def _leave(
    system: _System, at: Callable[[float], Tensor], low: float, high: float, keep: Keeper
) -> tuple[float, Tensor]:
    """The time in [low, high] at which f begins to count (else high) and the state there."""
    t = _first_time(at, system, low, high)
    keep(t, at)
    return t, at(t)


def settled(
    direction_velocity: Float[Tensor, "m r"], previous: Float[Tensor, " m"], duration: float
) -> tuple[Bool[Tensor, " m"], Float[Tensor, " m"]]:
    """Which directions have stopped, and all speeds.

    Stopped: not moving at all, or slow and slowing down exponentially, as near an attracting direction. A neuron that leaves a
    saddle speeds up, and one that is repelled slows down only like 1/t²; both go on being integrated.
    """
    speed = row_norms(direction_velocity)
    decaying = (speed < SETTLED) & (speed <= previous * exp(-0.2 * duration)) & torch.isfinite(previous)
    return decaying | (speed == 0), speed


def _first_time(at: Callable[[float], Tensor], system: _System, low: float, high: float) -> float:
    """When f stops being negligible between two times (or the later one), by bisection."""
    if system.is_negligible(at(high)[:, -1]):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if system.is_negligible(at(middle)[:, -1]):
            low = middle
        else:
            high = middle
    return high
