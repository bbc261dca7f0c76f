"""Training far beyond the point where the loss underflows: losses as logarithms, and the margin itself.

For a 2-homogeneous network the exponential and logistic losses push θ to infinity while its direction goes to a KKT point of the
max-margin problem (double-edged, Theorem 2.1); only ln L and the softmax weights of the points are ever needed.
"""

from collections.abc import Sequence
from itertools import count
from math import log

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from featureprism._inputs import check_points
from featureprism._progress import Progress, no_progress
from featureprism._threads import one_thread
from featureprism.models.one_layer import TwoLayerNet, parameter_gradient
from featureprism.training.descent import Recorder
from featureprism.training.packing import Packing, packed
from featureprism.training.span import span_coordinates
from featureprism.training.trajectory import Ended, Trajectory

LOSSES = ("exponential", "logistic")
METHODS = ("flow", "normalised")
LARGEST_TURN = 0.1  # of ‖θ‖ in one step of the flow
FAR = 20.0  # beyond this margin ln(ln(1 + e^-q)) is -q to the last digit but eight


def log_loss(margins: Float[Tensor, " n"], loss: str) -> Float[Tensor, ""]:
    """ln L for L = (1/n) Σ e^(-q_i) or (1/n) Σ ln(1 + e^(-q_i)), at any size of q."""
    return torch.logsumexp(_log_terms(margins, loss), dim=0) - log(len(margins))


def point_weights(margins: Float[Tensor, " n"], loss: str) -> Float[Tensor, " n"]:
    """-∂ ln L/∂q_i: a softmax for the exponential loss; e^(lnσ(-q_i) - ln nL) for the logistic one."""
    total = torch.logsumexp(_log_terms(margins, loss), dim=0)
    slopes = -margins if loss == "exponential" else logsigmoid(-margins)
    return torch.exp(slopes - total)


def _log_terms(margins: Tensor, loss: str) -> Tensor:
    if loss not in LOSSES:
        raise ValueError(f"Unknown loss {loss!r}; use exponential or logistic.")
    if loss == "exponential":
        return -margins
    near = softplus(-margins.clamp_max(FAR)).log()
    return torch.where(margins > FAR, -margins, near)


@one_thread()
@torch.no_grad()
def margin_descent(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    loss: str = "exponential",
    method: str = "flow",
    step_size: float,
    steps: int,
    record: Sequence[int] = (),
    progress: Progress = no_progress,
) -> Trajectory[TwoLayerNet]:
    """Follow g = -∇ ln L on all parameters: the path of gradient flow on L, without waiting for its slowing clock.

    Runs in the span of the points, in float64.

    Parameters
    ----------
    net : TwoLayerNet
        Where to start.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    loss : str
        "exponential" or "logistic".
    method : str
        "flow": θ ← θ + step_size g/‖g‖², an Euler step of gradient flow with ln(1/L) as its clock, where no step
        moves θ by more than a tenth. "normalised": θ ← θ + step_size g/‖g‖, so that ‖θ‖ grows evenly and the
        direction settles faster than along the flow.
    step_size : float
        Size of a step.
    steps : int
        Number of steps.
    record : sequence of int, optional
        Steps at which to keep a snapshot; the last one is always kept.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        Times are steps.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> start = fp.networks.biased_start(8, 50, 0.1, generator=fp.generator_for('start', 0))
    >>> net = fp.training.margin_descent(start, data.x, data.y, step_size=0.1, steps=200).last
    >>> bool((data.y * net(data.x) > 0).all())
    True
    """
    check_points(x, y)
    if method not in METHODS:
        raise ValueError(f"Unknown method {method!r}; use flow or normalised.")
    x, y = x.double(), y.double()
    span = span_coordinates(x, net.W.detach().double())
    W, a = span.down(net.W.detach().double()), net.a.detach().double()
    b = None if net.b is None else net.b.detach().double()
    wanted, recorder = set(record) | {steps}, Recorder()
    for step in range(steps + 1):
        if step in wanted:
            recorder.add(step, TwoLayerNet(span.up(W), a, b, activation=net.activation))
        if step == steps:
            break
        _, up = parameter_gradient(
            W, a, b, net.activation, span.points, lambda f: y * point_weights(y * f, loss)
        )
        parts = [(W, up.W), (a, up.a)] + ([(b, up.b)] if b is not None else [])
        size, slope = (sum(float((t**2).sum()) for t in kind) ** 0.5 for kind in zip(*parts, strict=True))
        if slope == 0:
            recorder.add(step, TwoLayerNet(span.up(W), a, b, activation=net.activation))
            return recorder.trajectory(Ended.SILENT, work=step)
        length = step_size if method == "normalised" else min(step_size / slope, LARGEST_TURN * size)
        W, a, *rest = (p + length / slope * g for p, g in parts)
        b = rest[0] if rest else None
        progress((step + 1) / steps)
    return recorder.trajectory(Ended.TIME_REACHED, work=steps)


@one_thread()
@torch.no_grad()
def margin_ascent(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    sharpness: Sequence[float] = (30.0, 100.0, 300.0, 1000.0, 3000.0),
    iterations: int = 200,
    progress: Progress = no_progress,
) -> TwoLayerNet:
    """Climb the smoothed normalised margin -(1/β) ln Σ_i e^(-β q_i/(γ‖θ‖²)) with L-BFGS, β rising; needs every margin positive.

    q_i = y_i N(x_i); γ is the least q_i/‖θ‖² at the start of each stage, so β counts in units of the margin. The maximum over all θ as
    β → ∞ is a KKT point. Returns the network scaled to least margin 1. Source: double-edged, Theorem 2.1.
    """
    from scipy.optimize import minimize  # takes half a second

    check_points(x, y)
    x, y = x.double(), y.double()
    span = span_coordinates(x, net.W.detach().double())
    others = [p.detach().double() for p in (net.a, net.b) if p is not None]
    packing, state = packed(
        TwoLayerNet(span.down(net.W.detach().double()), *others, activation=net.activation)
    )
    for stage, beta in enumerate(sharpness):
        state = state / torch.linalg.vector_norm(state)
        unit = float((y * packing.net(state)(span.points)).min())
        if not unit > 0:
            raise ValueError(f"The least margin is {unit:.3g}: train until every margin is positive first.")
        done = count(1)
        climbed = minimize(
            lambda flat, beta=beta, unit=unit: _below_margin(flat, packing, span.points, y, beta, unit),
            state.numpy(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-12},
            callback=lambda _, stage=stage, done=done: progress(
                (stage + next(done) / iterations) / len(sharpness)
            ),
        )
        state = torch.from_numpy(climbed.x)
        progress((stage + 1) / len(sharpness))
    W, *others = packing.parts(state)
    final = TwoLayerNet(span.up(W), *others, activation=net.activation)
    root = float((y * final(x)).min().clamp_min(1e-300)) ** 0.5
    return TwoLayerNet(*(p / root for p in final.parameters()), activation=net.activation)


def _below_margin(
    numbers: np.ndarray, packing: Packing, x: Tensor, y: Tensor, beta: float, unit: float
) -> tuple[float, np.ndarray]:
    """(1/β) ln Σ_i e^(-β q_i), q_i = y_i N(x_i)/(unit ‖θ‖²), and its gradient in θ: minus the smoothed normalised margin."""
    state = torch.from_numpy(numbers)
    size = float(state @ state)
    value = pull = 0.0

    def slopes(f: Tensor) -> Tensor:
        nonlocal value, pull
        q = y * f / (unit * size)
        value = float(torch.logsumexp(-beta * q, dim=0)) / beta
        weights = torch.softmax(-beta * q, dim=0)
        pull = float(weights @ q)
        return y * weights / (unit * size)

    upward = packing.gradient(state, x, slopes) - 2 * pull / size * state
    return value, -upward.numpy()
