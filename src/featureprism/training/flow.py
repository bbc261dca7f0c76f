"""Gradient flow of two-layer networks in their weights, for any start and activation.

For balanced pReLU starts at scales that no float holds, see `balanced_flow`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from threadpoolctl import ThreadpoolController
from torch import Tensor

from featureprism._inputs import as_tensors, check_points
from featureprism._progress import Progress, no_progress
from featureprism.models.activations import Activation, Tanh
from featureprism.models.one_layer import TwoLayerNet
from featureprism.training.descent import Recorder
from featureprism.training.integrators import (
    Field,
    Segment,
    StepLimitError,
    adaptive_segments,
    fixed_segments,
)
from featureprism.training.losses import Loss
from featureprism.training.packing import packed
from featureprism.training.trajectory import Ended, Trajectory

MAX_HALVINGS = 8  # the fixed step may shrink by 2^8 before the run is called not converged
Segments = Callable[[Field, Tensor, float, float], Iterator[Segment]]


def is_smooth(activation: Activation) -> bool:
    """Whether the flow's field is continuous: φ' is, for Tanh and for powers p ≥ 2."""
    return isinstance(activation, Tanh) or activation.p >= 2


def run_with(
    integrate: Callable[[Segments], tuple[Trajectory, Tensor]],
    *,
    moved: Callable[[Tensor, Tensor], float],
    smooth: bool,
    rtol: float,
    atol: float,
    step_size: float,
) -> Trajectory:
    """One adaptive run for a smooth field; else fixed steps, halved until the end moves by less than rtol.

    `integrate(segments)` returns a trajectory and its final state; `moved(coarse, fine)` says how far apart two such are.
    """
    if smooth:
        # numpy's BLAS threads would wait on the same cores as torch's and slow both down severalfold
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            return integrate(partial(adaptive_segments, rtol=rtol, atol=atol))[0]
    run, final = integrate(partial(fixed_segments, step_size=step_size))
    work, error = run.work, math.inf
    for halving in range(1, MAX_HALVINGS + 1):
        finer, finer_final = integrate(partial(fixed_segments, step_size=step_size / 2**halving))
        work += finer.work
        error = moved(final, finer_final)
        run, final = finer, finer_final
        if error < rtol:
            break
    ended = run.ended if error < rtol else Ended.NOT_CONVERGED
    return Trajectory(run.times, run.snapshots, ended, work=work, error=error)


class Keeper:
    """Records a flow at the times asked for and at its end, from interpolants of its state; tells how far it is."""

    def __init__(
        self,
        record: Sequence[float],
        t_end: float,
        snapshot: Callable[[Tensor], Any],
        progress: Progress,
    ) -> None:
        self.times = sorted({float(t) for t in record if 0 <= t < t_end} | {float(t_end)})
        self.t_end, self.snapshot, self.progress = t_end, snapshot, progress
        self.recorder = Recorder()

    def __call__(self, until: float, at: Callable[[float], Tensor]) -> None:
        """Record what is due up to a time; `at(t)` is the state at each time since the last call."""
        while self.times and self.times[0] <= until:
            t = self.times.pop(0)
            self.recorder.add(t, self.snapshot(at(t)))
        self.progress(min(1.0, until / self.t_end))


def check_flow(x: Float[Tensor, "n d"], y: Float[Tensor, " n"], t_end: float) -> None:
    """Refuse what no flow can start from."""
    check_points(x, y)
    if not t_end > 0:
        raise ValueError(f"t_end must be positive, got {t_end}.")


def _followed(velocity: Field, start: Tensor, segments: Segments, keep: Keeper) -> tuple[Trajectory, Tensor]:
    """A field from t = 0 to the end, or as far as the steps suffice: what was kept of it, and its last state."""
    work, ended, state = 0, Ended.TIME_REACHED, start

    def counted(state: Tensor) -> Tensor:
        nonlocal work
        work += 1
        return velocity(state)

    keep(0.0, lambda _: start)
    try:
        for segment in segments(counted, start, 0.0, keep.t_end):
            keep(segment.end, segment.at)
            state = segment.at(segment.end)
    except StepLimitError:
        ended = Ended.STEP_LIMIT
    return keep.recorder.trajectory(ended, work), state


def _relative(coarse: Tensor, fine: Tensor) -> float:
    return float(torch.linalg.vector_norm(fine - coarse) / torch.linalg.vector_norm(coarse))


@torch.no_grad()
def gradient_flow(
    net: TwoLayerNet,
    x: Any,
    y: Any,
    *,
    loss: Loss,
    t_end: float,
    record: Sequence[float] = (),
    rtol: float | None = None,
    step_size: float = 0.1,
    progress: Progress = no_progress,
) -> Trajectory[TwoLayerNet]:
    """Gradient flow dθ/dt = -∇L(θ) of all parameters, in float64.

    Smooth activations (Tanh, powers p ≥ 2) are integrated adaptively at order 8. With kinks (ReLU, p < 2, where φ'(0) = 0) Runge-Kutta
    steps are halved until the final parameters settle. Recording interpolates, so it does not change the run.

    Parameters
    ----------
    net : TwoLayerNet
        Where to start.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    loss : Loss
        What to minimise.
    t_end : float
        Time at which the flow ends.
    record : sequence, optional
        Times (or steps) at which to keep a snapshot; the last one is always kept.
    rtol : float, optional
        Local error (default 1e-7), or for kinks the largest relative move of the final parameters (default 1e-3).
    step_size : float
        First step where steps are fixed.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        `last` is the network at t_end; `error` is the integrator's own estimate.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 1, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 5, generator=fp.generator_for("train", 0))
    >>> net = fp.networks.gaussian_start(4, 50, 0.1, fp.networks.PolynomialReLU(3), generator=fp.generator_for("start", 0))
    >>> run = fp.training.gradient_flow(net, data.x, data.y, loss=fp.training.Loss("square", "mean"), t_end=2.0)
    >>> run.times, run.ended.name
    ([2.0], 'TIME_REACHED')
    """
    x, y = as_tensors(x, y)
    check_flow(x, y, t_end)
    x, y = x.double(), y.double()
    packing, start = packed(net)

    def velocity(state: Tensor) -> Tensor:
        return -packing.gradient(state, x, lambda f: loss.residual(f, y))

    def integrate(segments: Segments) -> tuple[Trajectory, Tensor]:
        return _followed(velocity, start, segments, Keeper(record, t_end, packing.net, progress))

    smooth = is_smooth(net.activation)
    rtol = rtol or (1e-7 if smooth else 1e-3)
    typical = float(start.abs().mean())  # an absolute tolerance that fits weights of any size
    return run_with(
        integrate, moved=_relative, smooth=smooth, rtol=rtol, atol=rtol * typical, step_size=step_size
    )
