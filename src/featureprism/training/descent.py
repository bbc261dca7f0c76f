"""Gradient descent: full batch for (stacks of) two-layer networks, SGD with momentum for any module."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._inputs import check_points
from featureprism._progress import Progress, no_progress
from featureprism.models.activations import Activation
from featureprism.models.one_layer import Gradient, TwoLayerNet, outputs, parameter_gradient
from featureprism.training.losses import Loss
from featureprism.training.trajectory import Ended, Trajectory


@torch.no_grad()
def gradient_descent(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    loss: Loss,
    step_size: float,
    steps: int,
    fixed: Collection[str] = (),
    record: Sequence[int] = (),
    progress: Progress = no_progress,
) -> Trajectory[TwoLayerNet]:
    """Gradient descent θ ← θ - step_size ∇L(θ) on all points at once; the given network is left alone.

    A stack of networks shares every matrix product. Runs in the precision of the network.

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
    step_size : float
        Learning rate.
    steps : int
        How many steps.
    fixed : collection of str
        Parameters that stay as they are, of "W", "a" and "b".
    record : sequence, optional
        Times (or steps) at which to keep a snapshot; the last one is always kept.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        Times are steps. Of a run that diverges the last finite step is kept; `ended` says so.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 1, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 20, generator=fp.generator_for("train", 0))
    >>> net = fp.networks.gaussian_start(10, 50, 0.01, fp.networks.ReLU(), generator=fp.generator_for("start", 0))
    >>> run = fp.training.gradient_descent(net, data.x, data.y, loss=fp.training.Loss("square", "mean"), step_size=0.5, steps=100)
    >>> bool((run.last(data.x) * data.y > 0).all())
    True
    """
    check_points(x, y)
    _check_descent(step_size, steps, fixed)
    x, y = x.to(net.W.dtype), y.to(net.W.dtype)
    moving = [name not in fixed for name in ("W", "a", "b")]
    parameters = [p.detach().clone() for p in (net.W, net.a, *([] if net.b is None else [net.b]))]
    wanted, recorder = set(record) | {steps}, Recorder()
    ended, step, before = Ended.TIME_REACHED, 0, parameters
    for step in range(steps + 1):
        f, gradient = _outputs(parameters, net.activation, x, y, loss, last=step == steps)
        if not bool(torch.isfinite(f.sum())):
            ended = Ended.DIVERGED
            recorder.add(max(0, step - 1), TwoLayerNet(*before, activation=net.activation))
            break
        if step in wanted:
            recorder.add(step, TwoLayerNet(*parameters, activation=net.activation))
        if gradient is None:
            break
        before = parameters
        parameters = [
            p.sub(slope, alpha=step_size) if moves and slope is not None else p
            for p, slope, moves in zip(parameters, gradient, moving, strict=False)
        ]
        progress((step + 1) / steps)
    return recorder.trajectory(ended, work=step)


def _check_descent(step_size: float, steps: int, fixed: Collection[str]) -> None:
    if steps < 0 or not step_size > 0:
        raise ValueError(f"Need steps ≥ 0 and step_size > 0, got {steps} and {step_size}.")
    if unknown := set(fixed) - {"W", "a", "b"}:
        raise ValueError(f"Only W, a and b can be fixed, got {sorted(unknown)}.")


def _outputs(
    parameters: Sequence[Tensor], activation: Activation, x: Tensor, y: Tensor, loss: Loss, *, last: bool
) -> tuple[Tensor, Gradient | None]:
    """f(x), and the gradient of the loss unless no step follows."""
    W, a, *rest = parameters
    b = rest[0] if rest else None
    if last:
        return outputs(W, a, b, activation, x), None
    return parameter_gradient(W, a, b, activation, x, lambda f: loss.residual(f, y))


class Recorder:
    """Collects snapshots."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.snapshots: list[Any] = []

    def add(self, time: float, snapshot: Any) -> None:
        """Keep one snapshot."""
        self.times.append(time)
        self.snapshots.append(snapshot)

    def trajectory(self, ended: Ended, work: int, error: float = float("nan")) -> Trajectory:
        """Everything collected, as a record."""
        return Trajectory(self.times, self.snapshots, ended, work=work, error=error)


def stochastic_descent(
    net: nn.Module,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    loss: Loss,
    step_size: float,
    batch_size: int,
    epochs: int,
    generator: torch.Generator,
    momentum: float = 0.0,
    target_loss: float = 0.0,
    record: Sequence[int] = (),
    progress: Progress = no_progress,
) -> Trajectory[nn.Module]:
    """Stochastic gradient descent with momentum on any module.

    Two-layer networks use their closed gradient, other modules autograd.

    Parameters
    ----------
    net : nn.Module
        Where to start; trained in place.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    loss : Loss
        What to minimise; it is taken over the batch, so that "mean" is the usual normalisation.
    step_size : float
        Learning rate.
    batch_size : int
        Points of a batch.
    epochs : int
        Shuffled passes over the data.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    momentum : float
        Momentum.
    target_loss : float
        Stop once the mean loss over an epoch is below.
    record : sequence of int, optional
        Epochs at which to keep a copy.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        Times are epochs; the last snapshot is the network itself.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> start = fp.networks.gaussian_start(10, 50, 0.01, fp.networks.ReLU(), generator=fp.generator_for('start', 0))
    >>> options = {"step_size": 0.1, "batch_size": 5, "epochs": 30, "generator": fp.generator_for("order", 0)}
    >>> loss = fp.training.Loss("logistic", "mean")
    >>> run = fp.training.stochastic_descent(start, data.x, data.y, loss=loss, **options)
    >>> type(run).__name__
    'Trajectory'
    """
    check_points(x, y)
    optimiser = torch.optim.SGD(net.parameters(), lr=step_size, momentum=momentum)
    recorder, ended, epoch = Recorder(), Ended.TIME_REACHED, 0
    for epoch in range(epochs):
        if epoch in record:
            recorder.add(epoch, deepcopy(net))
        total = 0.0
        for batch in torch.randperm(len(x), generator=generator).split(batch_size):
            total += len(batch) * _fill_gradients(net, x[batch], y[batch], loss)
            optimiser.step()
        progress((epoch + 1) / epochs)
        if not total < float("inf") or total / len(x) < target_loss:
            ended = Ended.LOSS_BELOW_TARGET if total < float("inf") else Ended.DIVERGED
            break
    recorder.add(min(epoch + 1, epochs), net)
    return recorder.trajectory(ended, work=min(epoch + 1, epochs) * -(-len(x) // batch_size))


def _fill_gradients(net: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> float:
    """Set .grad of every parameter for one batch; returns the loss."""
    if isinstance(net, TwoLayerNet):
        with torch.no_grad():
            f, gradient = parameter_gradient(
                net.W, net.a, net.b, net.activation, x, lambda f: loss.residual(f, y)
            )
            for parameter, slope in zip(net.parameters(), gradient, strict=False):
                parameter.grad = slope
            return float(loss.value(f, y))
    net.zero_grad()
    value = loss.value(net(x), y)
    value.backward()
    return float(value.detach())
