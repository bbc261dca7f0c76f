"""Training a head: Adam on minibatches, with the gradient in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism._threads import one_thread
from featureprism.heads.pace import Pace, num_steps, steps_between_looks
from featureprism.models.activations import relu_power

WATCHED = 2048  # points whose loss is watched, at most
INTERVALS = 50  # how often progress is reported
CONVERGED, PASSES_MADE = "the loss no longer fell", "all passes were made"


@dataclass(frozen=True)
class Neurons:
    """Which sub-class each neuron speaks for, and which class each sub-class belongs to."""

    subclass: Int[Tensor, " h"]
    parent: Int[Tensor, " s"]
    num_classes: int

    @property
    def owner(self) -> Int[Tensor, " h"]:
        """The class of each neuron."""
        return self.parent[self.subclass]


@dataclass(frozen=True)
class Recipe:
    """How a head is trained; `fine_weight` is the share of the sub-class loss.

    `epochs` passes, whole or not; None: until the loss no longer falls by `tol` nats.
    """

    p: float
    epochs: float | None
    batch_size: int
    step_size: float
    weight_decay: float
    fine_weight: float = 0.0
    tol: float = 1e-3


@runtime_checkable
class Points(Protocol):
    """Rows that can be asked for by number: a tensor, or sparse rows that become dense batch by batch."""

    def __len__(self) -> int: ...

    def __getitem__(self, batch: Tensor, /) -> Tensor: ...


class Learned(NamedTuple):
    """Points (n, d), the sub-class of each and, where they count differently, their weights of mean 1."""

    x: Points
    subclass: Int[Tensor, " n"]
    weight: Float[Tensor, " n"] | None = None

    def rows(self, index: Int[Tensor, " m"]) -> "Learned":
        """Some of the points."""
        weight = None if self.weight is None else self.weight[index]
        return Learned(self.x[index], self.subclass[index], weight)


class Trained(NamedTuple):
    """The neurons, the steps made, and why no more were."""

    W: Float[Tensor, "h d"]
    steps: int
    ended: str


Slopes = Callable[[Tensor], tuple[Tensor, Tensor]]  # z ↦ (φ(z), G = ∂loss/∂(‖w_j‖ φ(z_ij)))
Perturb = Callable[[Tensor, Tensor, Slopes, float], Tensor]  # points, unit neurons, slopes, p ↦ moved points


class Level(NamedTuple):
    """One cross-entropy of the loss: its share, the label of each neuron (also one-hot), and of each point."""

    share: float
    label: Int[Tensor, " h"]
    one_hot: Float[Tensor, "h k"]
    target: Int[Tensor, " n"]


def levels(
    neurons: Neurons, recipe: Recipe, subclass: Int[Tensor, " n"], dtype: torch.dtype = torch.float32
) -> list[Level]:
    """The class loss and, where it has a share, the sub-class loss."""
    coarse = 1 - recipe.fine_weight, neurons.owner, neurons.parent[subclass], neurons.num_classes
    fine = recipe.fine_weight, neurons.subclass, subclass, len(neurons.parent)
    return [
        Level(share, label, torch.nn.functional.one_hot(label, num).to(dtype), target)
        for share, label, target, num in (coarse, fine)
        if share > 0
    ]


def loss_slopes(
    z: Float[Tensor, "n h"],
    norms: Float[Tensor, " h"],
    p: float,
    batch: Int[Tensor, " n"],
    loss: list[Level],
    weight: Float[Tensor, " m"] | None = None,
) -> tuple[Float[Tensor, "n h"], Float[Tensor, "n h"]]:
    """φ(z) and the derivative of n·loss in each neuron's contribution ‖w_j‖ φ(z_ij), for the points `batch`.

    loss = (1 - β) CE(class scores, class) + β CE(sub-class scores, sub-class), times the point's weight; a score is the sum over
    its neurons, so the derivative is the residual softmax - 1 of the neuron's class and sub-class.
    """
    phi = relu_power(z, p)
    contributions, total = phi * norms, torch.zeros_like(z)
    for share, label, one_hot, target in loss:
        residual = (contributions @ one_hot).softmax(dim=1)
        residual.scatter_add_(1, target[batch].unsqueeze(1), -torch.ones_like(z[:, :1]))
        total.add_(residual.index_select(1, label), alpha=share)
    if weight is not None:
        total.mul_(weight[batch].unsqueeze(1))
    return phi, total


def unit_neurons(W: Float[Tensor, "h d"]) -> tuple[Float[Tensor, "h d"], Float[Tensor, " h"]]:
    """Directions and norms."""
    norms = torch.linalg.vector_norm(W, dim=1)
    return W / norms.clamp_min(torch.finfo(W.dtype).tiny).unsqueeze(1), norms


def mean_loss(W: Float[Tensor, "h d"], neurons: Neurons, seen: Learned, recipe: Recipe) -> float:
    """The loss that training lowers on these points: weighted cross-entropies plus weight_decay/2 ‖W‖²."""
    U, norms = unit_neurons(W)
    points = seen.x[torch.arange(len(seen.x))]
    contributions = relu_power(points @ U.T, recipe.p) * norms
    total = torch.zeros(len(points), dtype=W.dtype)
    for share, _, one_hot, target in levels(neurons, recipe, seen.subclass, W.dtype):
        total += share * torch.nn.functional.cross_entropy(contributions @ one_hot, target, reduction="none")
    mean = total.mean() if seen.weight is None else (seen.weight * total).sum() / seen.weight.sum()
    return float(mean) + recipe.weight_decay / 2 * float(norms.square().sum())


@one_thread()
@torch.no_grad()
def train(
    W: Float[Tensor, "h d"],
    neurons: Neurons,
    seen: Learned,
    recipe: Recipe,
    *,
    generator: torch.Generator,
    held: Learned | None = None,
    perturb: Perturb | None = None,
    progress: Progress = no_progress,
) -> Trained:
    """Neurons of the scores Σ_j ‖w_j‖ [⟨w_j, x⟩/‖w_j‖]₊^p after Adam with a step size that falls linearly to 0.

    The loss of `held` is watched where it is given, and the best neurons are kept; else, where no number of epochs is given, the loss
    of some of the points. `perturb` moves the points of every batch before they are learned from: adversarial training.
    """
    W, size = W.clone(), min(recipe.batch_size, len(seen.x))
    optimiser = torch.optim.Adam([W], lr=recipe.step_size, weight_decay=recipe.weight_decay, fused=True)
    per_epoch = max(1, len(seen.x) // size)
    pace = Pace(recipe.step_size, num_steps(recipe.epochs, per_epoch), recipe.tol)
    every = steps_between_looks(per_epoch)
    watched = held
    if held is None and recipe.epochs is None:
        watched = seen.rows(torch.randperm(len(seen.x), generator=generator)[:WATCHED])
    order, loss, best = torch.arange(0), levels(neurons, recipe, seen.subclass, W.dtype), W
    step, interval = 0, max(1, pace.end // INTERVALS)
    while step < pace.end:
        if len(order) < size:
            order = torch.randperm(len(seen.x), generator=generator)
        batch, order = order[:size], order[size:]
        W.grad = _gradient(W, seen, batch, recipe, loss, perturb)
        optimiser.param_groups[0]["lr"] = pace.rate(step)
        optimiser.step()
        if step % interval == 0:
            progress(step / pace.end)
        step += 1
        if (
            watched is not None
            and (step % every == 0 or step == pace.end)
            and pace.look(mean_loss(W, neurons, watched, recipe), step)
            and held is not None
        ):
            best = W.clone()
    W = W if held is None else best
    if not bool(torch.isfinite(W).all()):
        raise ValueError(f"Training diverged; lower step_size (now {recipe.step_size:g}).")
    progress(1.0)
    return Trained(W, step, CONVERGED if pace.is_slowing else PASSES_MADE)


def _gradient(
    W: Float[Tensor, "h d"],
    seen: Learned,
    batch: Int[Tensor, " m"],
    recipe: Recipe,
    loss: list[Level],
    perturb: Perturb | None,
) -> Float[Tensor, "h d"]:
    """Of the loss of a batch, by neuron: Σ_i G_ij (p z_ij^(p-1) x_i + (1-p) z_ij^p u_j), two matrix products."""
    points, p = seen.x[batch], recipe.p
    U, norms = unit_neurons(W)
    slopes = partial(loss_slopes, norms=norms, p=p, batch=batch, loss=loss, weight=seen.weight)
    if perturb is not None:
        points = perturb(points, U, slopes, p)
    z = points @ U.T
    phi, G = slopes(z)
    slope = G * p * relu_power(z, p - 1)
    return (slope.T @ points + ((1 - p) * (G * phi).sum(dim=0)).unsqueeze(1) * U) / len(batch)
