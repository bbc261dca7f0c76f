"""Training a head: Adam on minibatches, with the gradient in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.networks.activations import relu_power
from featureprism.records import Progress, silent
from featureprism.threads import one_thread

MIN_STEPS = 500  # small sets are passed more often than asked, until this many steps are made
INTERVALS = 50  # how often progress is told


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
    """How a head is trained; `fine_weight` is the share of the sub-class loss."""

    p: float
    epochs: int
    batch_size: int
    step_size: float
    weight_decay: float
    fine_weight: float = 0.0


Slopes = Callable[[Tensor], tuple[Tensor, Tensor]]  # z ↦ (φ(z), G = ∂loss/∂(‖w_j‖ φ(z_ij)))
Perturb = Callable[[Tensor, Tensor, Slopes, float], Tensor]  # points, unit neurons, slopes, p ↦ moved points


class Level(NamedTuple):
    """One cross-entropy of the loss: its share, the label of each neuron (also one-hot), and of each point."""

    share: float
    label: Int[Tensor, " h"]
    one_hot: Float[Tensor, "h k"]
    target: Int[Tensor, " n"]


def levels(neurons: Neurons, recipe: Recipe, subclass: Int[Tensor, " n"]) -> list[Level]:
    """The class loss and, where it has a share, the sub-class loss."""
    coarse = 1 - recipe.fine_weight, neurons.owner, neurons.parent[subclass], neurons.num_classes
    fine = recipe.fine_weight, neurons.subclass, subclass, len(neurons.parent)
    return [
        Level(share, label, torch.nn.functional.one_hot(label, num).float(), target)
        for share, label, target, num in (coarse, fine)
        if share > 0
    ]


def loss_slopes(
    z: Float[Tensor, "n h"], norms: Float[Tensor, " h"], p: float, batch: Int[Tensor, " n"], loss: list[Level]
) -> tuple[Float[Tensor, "n h"], Float[Tensor, "n h"]]:
    """φ(z) and the derivative of n·loss in each neuron's contribution ‖w_j‖ φ(z_ij), for the points `batch`.

    loss = (1 - β) CE(class scores, class) + β CE(sub-class scores, sub-class); a score is the sum over its neurons, so the
    derivative is the residual softmax - 1 of the neuron's class and sub-class.
    """
    phi = relu_power(z, p)
    contributions, total = phi * norms, torch.zeros_like(z)
    for share, label, one_hot, target in loss:
        residual = (contributions @ one_hot).softmax(dim=1)
        residual.scatter_add_(1, target[batch].unsqueeze(1), -torch.ones_like(z[:, :1]))
        total.add_(residual.index_select(1, label), alpha=share)
    return phi, total


@one_thread()
@torch.no_grad()
def train(
    W: Float[Tensor, "h d"],
    neurons: Neurons,
    x: Float[Tensor, "n d"],
    subclass: Int[Tensor, " n"],
    recipe: Recipe,
    *,
    generator: torch.Generator,
    perturb: Perturb | None = None,
    progress: Progress = silent,
) -> Float[Tensor, "h d"]:
    """Neurons of the scores Σ_j ‖w_j‖ [⟨w_j, x⟩/‖w_j‖]₊^p after Adam with a step size that falls linearly to 0.

    A neuron moves by Σ_i G_ij (p z_ij^(p-1) x_i + (1-p) z_ij^p u_j), two matrix products a step. `perturb` moves the points of
    every batch before they are learned from: adversarial training.
    """
    W = W.clone()
    optimiser = torch.optim.Adam([W], lr=recipe.step_size, weight_decay=recipe.weight_decay, fused=True)
    size = min(recipe.batch_size, len(x))
    per_epoch = max(1, len(x) // size)
    steps = max(recipe.epochs * per_epoch, MIN_STEPS)
    order, loss = torch.arange(0), levels(neurons, recipe, subclass)
    for step in range(steps):
        if len(order) < size:
            order = torch.randperm(len(x), generator=generator)
        batch, order = order[:size], order[size:]
        points, norms = x[batch], torch.linalg.vector_norm(W, dim=1)
        U = W / norms.clamp_min(torch.finfo(W.dtype).tiny).unsqueeze(1)
        slopes = partial(loss_slopes, norms=norms, p=recipe.p, batch=batch, loss=loss)
        if perturb is not None:
            points = perturb(points, U, slopes, recipe.p)
        z = points @ U.T
        phi, G = slopes(z)
        slope = G * recipe.p * relu_power(z, recipe.p - 1)
        W.grad = (slope.T @ points + ((1 - recipe.p) * (G * phi).sum(dim=0)).unsqueeze(1) * U) / size
        optimiser.param_groups[0]["lr"] = recipe.step_size * (1 - step / steps)
        optimiser.step()
        if step % max(1, steps // INTERVALS) == 0:
            progress(step / steps)
    if not bool(torch.isfinite(W).all()):
        raise ValueError(f"Training diverged; lower step_size (now {recipe.step_size:g}).")
    progress(1.0)
    return W
