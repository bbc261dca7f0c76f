"""Projected gradient attacks on image classifiers: ℓ2 and ℓ∞, inside the box of pixels, with restarts and with smoothing noise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, sqrt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featureprism.geometry import LpBall

ImageLoss = Callable[
    [Tensor, Tensor], Tensor
]  # logits, labels ↦ one loss for each image, larger when more wrong


@dataclass(frozen=True)
class ImageAttack:
    """`steps` steps of length `step_size` (default 2.5 eps/steps) from a random start in the ball, the best of `restarts`.

    With `noise` σ > 0 the gradient is averaged over `samples` Gaussian copies of each image: SmoothAdv-PGD,
    the ℓ2(ε, σ) of feature-purification, Section 8.
    """

    norm: float
    eps: float
    steps: int = 10
    step_size: float | None = None
    restarts: int = 1
    noise: float = 0.0
    samples: int = 1

    def __post_init__(self) -> None:
        if self.norm not in (2, inf):
            raise ValueError(f"norm must be 2 or math.inf, got {self.norm}.")
        if self.eps < 0 or self.steps < 1 or self.restarts < 1 or self.samples < 1 or self.noise < 0:
            raise ValueError(f"Need eps, noise ≥ 0 and steps, restarts, samples ≥ 1, got {self}.")


def label_loss(logits: Float[Tensor, "n c"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Cross-entropy of each image."""
    return cross_entropy(logits, labels, reduction="none")


def group_loss(groups: Int[Tensor, " c"]) -> ImageLoss:
    """Minus the log-probability of the label's group of classes: attacks the merged decision of a fine classifier.

    `groups[c]` is the group of class c and the labels are groups; for two groups this is softplus(LSE_other - LSE_own). Source:
    feature-averaging, Section 4.2 (the read-out that is evaluated).
    """

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        own = groups.to(logits.device) == labels.unsqueeze(1)
        log_p = torch.log_softmax(logits, dim=1)
        return -torch.logsumexp(log_p.masked_fill(~own, -inf), dim=1)

    return loss


def perturb(
    model: nn.Module,
    x: Float[Tensor, "n ch h w"],
    y: Int[Tensor, " n"],
    attack: ImageAttack,
    *,
    loss: ImageLoss = label_loss,
    generator: torch.Generator,
) -> Float[Tensor, "n ch h w"]:
    """The perturbations with the largest loss over all steps and restarts; x + δ stays in [0, 1]."""
    best, worst = torch.zeros_like(x), torch.full((len(x),), -inf, device=x.device)
    ball = LpBall(attack.norm, attack.eps)
    length = attack.step_size or 2.5 * attack.eps / attack.steps
    step_ball = LpBall(attack.norm, length)
    for _ in range(attack.restarts):
        start = ball.sample(len(x), x[0].numel(), generator=generator, dtype=x.dtype).reshape(x.shape)
        delta = (x + start.to(x.device)).clamp(0, 1) - x
        for step in range(attack.steps + 1):
            value, slope = _slope(model, x + delta, y, attack, loss, generator, needed=step < attack.steps)
            better = value > worst
            worst = torch.where(better, value, worst)
            best = torch.where(better.reshape(-1, 1, 1, 1), delta, best)
            if slope is None:
                break
            moved = delta.flatten(1) + step_ball.steepest(slope.flatten(1))
            delta = (x + ball.project(moved).reshape(x.shape)).clamp(0, 1) - x
    return best


def _slope(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    attack: ImageAttack,
    loss: ImageLoss,
    generator: torch.Generator,
    *,
    needed: bool,
) -> tuple[Tensor, Tensor | None]:
    """Loss of every image and its gradient, averaged over noisy copies where the attack asks for them."""
    copies = attack.samples if attack.noise else 1
    many = x.detach().repeat(copies, 1, 1, 1).requires_grad_(needed)
    seen = many
    if attack.noise:
        noise = torch.randn(many.shape, generator=generator, dtype=x.dtype).to(x.device)
        seen = many + attack.noise * noise
    with torch.set_grad_enabled(needed):
        value = loss(model(seen), y.repeat(copies))
    slope = torch.autograd.grad(value.sum(), many)[0] if needed else None
    mean = value.detach().reshape(copies, -1).mean(dim=0)
    return mean, None if slope is None else slope.reshape(copies, *x.shape).mean(dim=0)


@torch.no_grad()
def decided(model: nn.Module, x: Tensor, groups: Int[Tensor, " c"] | None = None) -> Int[Tensor, " n"]:
    """The class, or the group with the largest log-sum-exp of its logits."""
    logits = model(x)
    if groups is None:
        return logits.argmax(dim=1)
    scores = [torch.logsumexp(logits[:, groups == g], dim=1) for g in range(int(groups.max()) + 1)]
    return torch.stack(scores, dim=1).argmax(dim=1)


def survivors(
    model: nn.Module,
    x: Float[Tensor, "n ch h w"],
    y: Int[Tensor, " n"],
    attack: ImageAttack,
    *,
    groups: Int[Tensor, " c"] | None = None,
    losses: tuple[ImageLoss, ...] | None = None,
    batch: int = 250,
    generator: torch.Generator,
) -> Bool[Tensor, " n"]:
    """Which images keep their decision under every one of the losses (default: that of the decision itself)."""
    losses = losses or ((label_loss,) if groups is None else (group_loss(groups),))
    model.eval()
    kept = []
    for image, label in zip(x.split(batch), y.split(batch), strict=True):
        alive = decided(model, image, groups) == label
        for loss in losses:
            delta = perturb(model, image, label, attack, loss=loss, generator=generator)
            alive &= decided(model, image + delta, groups) == label
        kept.append(alive)
    return torch.cat(kept)


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """95 % confidence interval of a proportion (Wilson's score interval)."""
    if total == 0:
        return 0.0, 1.0
    p, shift = hits / total, z * z / total
    middle, half = p + shift / 2, z * sqrt(p * (1 - p) / total + shift / (4 * total))
    return (middle - half) / (1 + shift), (middle + half) / (1 + shift)


def pgd_adversary(attack: ImageAttack, loss: ImageLoss = label_loss) -> Callable:
    """The adversary of `train_images`: images moved by the attack at a share `strength` of its radius, noise added where it has any.

    The network is attacked as it will be used (batch statistics frozen) and trained on what comes out. With noise: SmoothAdv.
    """

    def adversary(
        model: nn.Module, x: Tensor, y: Tensor, strength: float, generator: torch.Generator
    ) -> Tensor:
        model.eval()
        length = None if attack.step_size is None else strength * attack.step_size
        softer = replace(attack, eps=strength * attack.eps, step_size=length)
        moved = x + perturb(model, x, y, softer, loss=loss, generator=generator) if softer.eps > 0 else x
        model.train()
        if attack.noise:
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
            moved = moved + strength * attack.noise * noise
        return moved.detach()

    return adversary
