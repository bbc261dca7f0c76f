"""Full-batch descent on the first layer alone, for stacks of networks, directly or in the Gram representation.

With pre-activations Z = X Wᵀ + b and slopes C = ∂L/∂Z, a step is W ← W - η CᵀX, b ← b - η Cᵀ1. Hence Z ← Z - η (X Xᵀ + 1) C
(without the 1 if there is no bias): when n < d the loop can run in Z, with n × n instead of n × d products, and W(t) =
W(0) - η A(t)ᵀX follows from the summed slopes A. Both are the same algorithm. A is also the decomposition of Lemma 5.1.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.models.activations import relu_power
from featureprism.networks import TwoLayerNet
from featureprism.networks.grouped import GroupedNet, group_means
from featureprism.training.trajectory import Ended, Trajectory


class Layer(NamedTuple):
    """The trained layer of a stack: W (s, H, d) and b (s, H, or None), H neurons of each network."""

    W: Tensor
    b: Tensor | None


@torch.no_grad()
def first_layer_descent(
    net: TwoLayerNet | GroupedNet,
    x: Float[Tensor, "*s n d"],
    targets: Tensor,
    *,
    step_size: float | Float[Tensor, " s"],
    steps: int,
    record: Sequence[int] = (),
    representation: str = "auto",
    lumps: Sequence[int] | None = None,
    watch: Callable[[Tensor], Any] | None = None,
    progress: Progress = no_progress,
) -> Trajectory[Any]:
    """Gradient descent on the first layer, W and b, while the second layer stays; φ'(0) = 1.

    Parameters
    ----------
    net : TwoLayerNet or GroupedNet
        Where to start; a stack of networks shares every matrix product.
    x : tensor (n, d) or (s, n, d)
        Points, shared by a stack of networks or one set for each.
    targets : tensor (n,)
        Labels ±1 (logistic loss) for a TwoLayerNet, classes (cross-entropy) for a GroupedNet; both losses are means.
    step_size : float or tensor (s,)
        Learning rate.
    steps : int
        Number of steps.
    record : sequence of int, optional
        Steps at which to keep a snapshot; the last one is always kept.
    representation : str
        "direct", "gram", "auto" (gram if n < d), or "patterns": neurons with the same slopes share one product, which is
        fast where most neurons see a cluster as a whole.
    lumps : sequence of int, optional
        How many steps each step stands for, see `growing_lumps`.
    watch : callable, optional
        Called with the pre-activations at every step; its answers are the probe `watched`.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Trajectory
        With the probes `slopes` (s, n, h) and `pre_activations`.

    References
    ----------
    feature-averaging, Section 3.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> start = fp.networks.voting_start(3, 50, 1e-3, fp.networks.ReLU(), generator=fp.generator_for('start', 0))
    >>> net = fp.training.first_layer_descent(start, data.x, data.y, step_size=0.01, steps=100).last
    >>> bool((data.y * net(data.x) > 0).all())
    True
    """
    _refuse(net, x, representation)
    layer, many = _layer(net)
    x = x.to(layer.W.dtype)
    rate = torch.as_tensor(step_size, dtype=x.dtype).reshape(-1, 1, 1)
    if lumps is not None and len(lumps) != steps:
        raise ValueError(f"Need a lump for each of {steps} steps, got {len(lumps)}.")
    if steps < 0 or not bool((rate > 0).all()):
        raise ValueError(f"Need steps ≥ 0 and positive step sizes, got {steps} and {step_size}.")
    gram = representation == "gram" or (representation == "auto" and x.shape[-2] < x.shape[-1])
    moving = (_Gram if gram else _Patterns if representation == "patterns" else _Direct)(layer, x, rate)
    total, wanted = torch.zeros_like(moving.z), {*record, steps}
    times, nets, probes = [], [], {"slopes": [], "pre_activations": [], "watched": []}
    for step in range(steps + 1):
        if watch is not None:
            probes["watched"].append(watch(moving.z))
        if step in wanted and bool(torch.isfinite(moving.z).all()):
            times.append(step)
            nets.append(_rebuilt(net, moving.now(total), many))
            probes["slopes"].append(total.clone())
            probes["pre_activations"].append(moving.z.clone())
        if step < steps:
            slopes = _slopes(net, moving.z, targets)
            slopes = slopes if lumps is None else lumps[step] * slopes
            total += slopes
            moving.step(slopes)
            progress((step + 1) / steps)
    ended = Ended.TIME_REACHED if bool(torch.isfinite(moving.z).all()) else Ended.DIVERGED
    return Trajectory(times, nets, ended, probes, steps)


def _refuse(net: TwoLayerNet | GroupedNet, x: Tensor, representation: str) -> None:
    """A ValueError for what cannot be trained here."""
    if representation not in ("auto", "direct", "gram", "patterns"):
        raise ValueError(f"Unknown representation {representation!r}; use auto, direct, gram or patterns.")
    if representation == "patterns" and x.ndim == 3:
        raise ValueError("The representation 'patterns' needs one set of points for all networks of a stack.")
    if isinstance(net, TwoLayerNet) and net.activation.p != 1:
        raise ValueError("Only ReLU networks are trained in the first layer alone.")


def growing_lumps(steps: int, growth: float) -> list[int]:
    """How many steps to take as one, in a run that slows down.

    Margins grow like the logarithm of time, so a lump of a share g of the past adds g to them, and Euler's method is off by g/2.

    Parameters
    ----------
    steps : int
        Number of steps altogether.
    growth : float
        Size of a lump as a share of all steps before it.

    Returns
    -------
    list of int
        Numbers that add up to `steps`: ones at first, then larger and larger.

    Examples
    --------
    >>> import featureprism as fp
    >>> lumps = fp.training.growing_lumps(10**9, 0.05)
    >>> sum(lumps), len(lumps) < 500
    (1000000000, True)
    """
    lumps, done = [], 0
    while done < steps:
        lumps.append(min(max(1, int(growth * done)), steps - done))
        done += lumps[-1]
    return lumps


def _layer(net: TwoLayerNet | GroupedNet) -> tuple[Layer, bool]:
    """The first layer as a stack, and whether it was one."""
    if isinstance(net, GroupedNet):
        many = net.W.ndim == 4
        W = net.W.detach().flatten(-3, -2)
        return Layer(W if many else W.unsqueeze(0), None), many
    many = net.W.ndim == 3
    W, b = net.W.detach(), None if net.b is None else net.b.detach()
    return (Layer(W, b) if many else Layer(W.unsqueeze(0), None if b is None else b.unsqueeze(0))), many


def _rebuilt(net: TwoLayerNet | GroupedNet, layer: Layer, many: bool) -> TwoLayerNet | GroupedNet:
    if not many:
        layer = Layer(layer.W[0], None if layer.b is None else layer.b[0])
    if isinstance(net, GroupedNet):
        return GroupedNet(layer.W.unflatten(-2, net.W.shape[-3:-1]))
    return TwoLayerNet(layer.W, net.a, layer.b, activation=net.activation)


def _slopes(
    net: TwoLayerNet | GroupedNet, z: Float[Tensor, "s n h"], targets: Tensor
) -> Float[Tensor, "s n h"]:
    """C = ∂L/∂Z: the residual of each output times how much the neuron adds to it."""
    num = z.shape[1]
    if isinstance(net, GroupedNet):
        k, h = net.W.shape[-3:-1]
        p = group_means(z.unflatten(-1, (k, h))).softmax(dim=-1)
        residual = (p - torch.nn.functional.one_hot(targets, k).to(z.dtype)) / (num * h)
        return (residual.unsqueeze(-1) * _active(z).unflatten(-1, (k, h))).flatten(-2)
    a = net.a.detach().reshape(-1, 1, z.shape[2])
    f = (relu_power(z, 1) @ a.mT).squeeze(-1)  # (s, n)
    residual = -targets * torch.sigmoid(-targets * f) / num
    return _active(z).mul_(residual.unsqueeze(-1)).mul_(a)


def _active(z: Tensor) -> Tensor:
    """1(z ≥ 0): the derivative of ReLU that the paper specifies."""
    return torch.ge(z, 0, out=torch.empty_like(z))


def _shared(left: Float[Tensor, "*s m n"], right: Float[Tensor, "s n h"]) -> Float[Tensor, "s m h"]:
    """left @ right for a stack; one matrix shared by all is read once, in one product."""
    if left.ndim == 3:
        return left @ right
    s, n, h = right.shape
    return (left @ right.movedim(0, 1).reshape(n, s * h)).reshape(-1, s, h).movedim(1, 0)


def _pulls(slopes: Float[Tensor, "s n h"], x: Float[Tensor, "*s n d"]) -> Float[Tensor, "s h d"]:
    """slopesᵀ x for a stack, in this order: xᵀ slopes walks through a tall x against its rows, and takes several times as long."""
    if x.ndim == 3:
        return slopes.mT @ x
    return (slopes.mT.flatten(0, 1) @ x).unflatten(0, slopes.shape[::2])


def _forward(layer: Layer, x: Tensor) -> Tensor:
    z = _shared(x, layer.W.mT)
    return z if layer.b is None else z + layer.b.unsqueeze(1)


class _Direct:
    """The layer itself moves; Z is computed from it."""

    def __init__(self, layer: Layer, x: Tensor, rate: Tensor) -> None:
        self.layer, self.x, self.rate = layer, x, rate
        self.z = _forward(layer, x)

    def step(self, slopes: Tensor) -> None:
        W, b = self.layer
        W = W - self.rate * _pulls(slopes, self.x)
        self.layer = Layer(W, None if b is None else b - self.rate[..., 0] * slopes.sum(dim=1))
        self.z = _forward(self.layer, self.x)

    def now(self, total: Tensor) -> Layer:
        return self.layer


class _Patterns(_Direct):
    """The layer and Z move together; equal columns of slopes, so neurons of one pattern and one output weight, are multiplied once."""

    def step(self, slopes: Tensor) -> None:
        W, b = self.layer
        columns = slopes.mT.flatten(0, 1)  # (s h, n)
        first: dict[bytes, int] = {}
        kept = [first.setdefault(row.tobytes(), len(first)) for row in columns.numpy()]
        distinct = torch.empty(len(first), columns.shape[1], dtype=columns.dtype)
        distinct[kept] = columns
        pulls = distinct @ self.x  # (distinct, d)
        moved = self.x @ pulls.T if b is None else self.x @ pulls.T + distinct.sum(dim=1)
        self.layer = Layer(
            W - self.rate * pulls[kept].unflatten(0, slopes.shape[::2]),
            None if b is None else b - self.rate[..., 0] * slopes.sum(dim=1),
        )
        self.z = self.z - self.rate * moved.T[kept].unflatten(0, slopes.shape[::2]).mT


class _Gram:
    """Only Z moves; the layer is read off the summed slopes."""

    def __init__(self, layer: Layer, x: Tensor, rate: Tensor) -> None:
        self.start, self.x, self.rate = layer, x, rate
        self.z, gram = _forward(layer, x), x @ x.mT
        self.gram = gram if layer.b is None else gram + 1

    def step(self, slopes: Tensor) -> None:
        self.z = self.z - self.rate * _shared(self.gram, slopes)

    def now(self, total: Tensor) -> Layer:
        W, b = self.start
        W = W - self.rate * _pulls(total, self.x)
        return Layer(W, None if b is None else b - self.rate[..., 0] * total.sum(dim=1))
