"""Training image classifiers, plainly or against an adversary, with checkpoints from which a killed run ends in the same weights."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from math import cos, pi
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from featureprism._progress import Progress, no_log, no_progress
from featureprism.networks.deep import channels_last, home_of
from featureprism.seeds import generator_for

SCHEDULES = ("constant", "cosine", "step", "one-cycle")
RISE = 0.25  # of a one-cycle training, until the largest step
Adversary = Callable[
    [nn.Module, Tensor, Tensor, float, torch.Generator], tuple[Tensor, Tensor]
]  # (model, x, y, strength, generator) ↦ images to train on, and their labels


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum: step sizes follow `schedule`.

    step: a tenth after each of the `milestones` (epochs; 50 % and 75 % of all when none are given). one-cycle: up from a tenth in a
    straight line over the first quarter, then down to zero, for short trainings.
    `augment` pads by 4 (an eighth of the picture), crops and flips; the adversary's strength grows from 0 to 1 over `warm_up` epochs.
    `bfloat16` multiplies in that precision, the adversary too: twice as fast on CPUs that have it, ten times slower on others.
    """

    epochs: int
    batch_size: int = 128
    step_size: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: str = "cosine"
    augment: bool = False
    flip: bool = True
    warm_up: int = 0
    milestones: tuple[int, ...] = ()
    bfloat16: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"Unknown schedule {self.schedule!r}; choose one of {', '.join(SCHEDULES)}.")

    def rate(self, epoch: float) -> float:
        """The step size at a moment of training."""
        share = epoch / max(1, self.epochs)
        if self.schedule == "cosine":
            return self.step_size * (1 + cos(pi * share)) / 2
        if self.schedule == "step":
            places = self.milestones or (0.5 * self.epochs, 0.75 * self.epochs)
            return self.step_size * 0.1 ** sum(epoch >= place for place in places)
        if self.schedule == "one-cycle":
            return self.step_size * (0.1 + 0.9 * share / RISE if share < RISE else (1 - share) / (1 - RISE))
        return self.step_size


def augmented(
    x: Float[Tensor, "n c h w"], *, flip: bool, generator: torch.Generator
) -> Float[Tensor, "n c h w"]:
    """Each image padded by an eighth of its height, cropped at a random place, and flipped with probability ½."""
    size, edge = x.shape[-1], max(1, x.shape[-1] // 8)
    wide = pad(x, (edge,) * 4)
    at = torch.randint(0, 2 * edge + 1, (2, len(x), 1), generator=generator) + torch.arange(size)
    if flip:
        mirrored = torch.rand(len(x), generator=generator) < 0.5
        at[1] = torch.where(mirrored.unsqueeze(1), at[1].flip(1), at[1])
    rows = torch.arange(len(x)).reshape(-1, 1, 1)
    return wide[rows, :, at[0].unsqueeze(2), at[1].unsqueeze(1)].permute(0, 3, 1, 2).contiguous()


def train_images(
    net: nn.Module,
    x: Float[Tensor, "n c h w"],
    y: Int[Tensor, " n"],
    recipe: Recipe,
    *,
    seed: int,
    adversary: Adversary | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
    watch: Callable[[nn.Module], dict[str, Any]] | None = None,
    history: list[dict[str, Any]] | None = None,
    until: Callable[[dict[str, Any]], bool] | None = None,
    progress: Progress = no_progress,
    announce: Callable[[str], None] = no_log,
) -> nn.Module:
    """Train in place by cross-entropy and return the network, in eval mode, on its device; parameters without gradient stay.

    All randomness of an epoch comes from (seed, epoch), and after each epoch everything is written to `checkpoint`: a killed run that
    is started again ends with the same weights as one that was not. What `watch` says after each epoch (in eval mode) joins `history`;
    training ends early when `until` is content with it. `announce` receives the training accuracy after every batch.
    """
    if len(x) != len(y) or len(y) == 0:
        raise ValueError(f"Need one label for each image, got {len(x)} images and {len(y)} labels.")
    channels_last(net.to(device))
    moving = [w for w in net.parameters() if w.requires_grad]
    optimiser = torch.optim.SGD(
        moving, lr=recipe.step_size, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    history = [] if history is None else history
    for epoch in range(_resume(net, optimiser, checkpoint, history), recipe.epochs):
        _one_epoch(net, optimiser, x, y, recipe, epoch, seed, adversary, progress, announce)
        net.eval()
        if watch is not None:
            history.append({"epoch": epoch + 1, **watch(net)})
        done = until is not None and bool(history) and until(history[-1])
        _save(net, optimiser, recipe.epochs if done else epoch + 1, checkpoint, history)
        if done:
            break
    return net.eval()


def _one_epoch(
    net: nn.Module,
    optimiser: torch.optim.SGD,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    epoch: int,
    seed: int,
    adversary: Adversary | None,
    progress: Progress,
    announce: Callable[[str], None],
) -> None:
    """All batches of one epoch, with the randomness of (seed, epoch)."""
    net.train()
    _hold_frozen(net)
    generator, home = generator_for(f"epoch {epoch}", seed), home_of(net)
    strength = min(1.0, (epoch + 1) / (recipe.warm_up + 1))
    batches = torch.randperm(len(x), generator=generator).split(recipe.batch_size)
    right = seen = 0
    began = time.perf_counter()
    for index, batch in enumerate(batches):
        if len(batch) == 1:  # batch normalisation needs two
            continue
        optimiser.param_groups[0]["lr"] = recipe.rate(epoch + index / len(batches))
        images, labels = x[batch], y[batch].to(home)
        if recipe.augment:
            images = augmented(images, flip=recipe.flip, generator=generator)
        images = images.to(home)
        if adversary is not None:
            with mixed_precision(home, wanted=recipe.bfloat16):
                images, labels = adversary(net, images, labels, strength, generator)
        optimiser.zero_grad()
        with mixed_precision(home, wanted=recipe.bfloat16):
            logits = net(images.contiguous(memory_format=torch.channels_last))
        cross_entropy(logits.float(), labels).backward()
        optimiser.step()
        right, seen = right + int((logits.argmax(dim=1) == labels).sum()), seen + len(labels)
        left = (time.perf_counter() - began) * ((recipe.epochs - epoch) * len(batches) / (index + 1) - 1)
        remaining = f", about {left / 60:.0f} min of this training left" if left > 60 else ""
        announce(f"epoch {epoch + 1}/{recipe.epochs}, training accuracy {right / seen:.2f}{remaining}")
        progress((epoch + (index + 1) / len(batches)) / recipe.epochs)


def mixed_precision(device: torch.device, *, wanted: bool = False) -> AbstractContextManager:
    """bfloat16 for convolutions: where it pays, on graphics cards that have it; elsewhere where it is wanted."""
    if wanted or (device.type == "cuda" and torch.cuda.is_bf16_supported()):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def checkpoint_for(folder: Path | None, **what: Any) -> Path | None:
    """The file in `folder` of a network known by everything its weights depend on; None without a folder: it is not kept.

    A training that is asked for again under the same name goes on from there, or is done at once.
    """
    if folder is None:
        return None
    text = json.dumps({**what, "version": version("featureprism")}, sort_keys=True, default=str)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.pt"


def _hold_frozen(net: nn.Module) -> None:
    """Batch statistics of frozen layers stay as they are."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d) and not module.weight.requires_grad:
            module.eval()


def _resume(
    net: nn.Module, optimiser: torch.optim.SGD, checkpoint: Path | None, history: list[dict[str, Any]]
) -> int:
    """Load what a former run left; the epoch to go on with."""
    if checkpoint is None or not checkpoint.exists():
        return 0
    try:
        state = torch.load(checkpoint, weights_only=True, map_location=next(net.parameters()).device)
        net.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
        history[:] = state["history"]
    except (RuntimeError, KeyError, EOFError, OSError, UnpicklingError) as error:
        raise ValueError(
            f"{checkpoint} does not fit this training: {error}. Delete it to start over."
        ) from error
    return int(state["epoch"])


def _save(
    net: nn.Module,
    optimiser: torch.optim.SGD,
    epoch: int,
    checkpoint: Path | None,
    history: list[dict[str, Any]],
) -> None:
    if checkpoint is None:
        return
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    partial = checkpoint.with_suffix(f".{os.getpid()}")  # another process may train the same network
    state = {"net": net.state_dict(), "optimiser": optimiser.state_dict(), "epoch": epoch, "history": history}
    torch.save(state, partial)
    partial.replace(checkpoint)
