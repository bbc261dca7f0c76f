"""Projected gradient attacks on image classifiers: ℓ2 and ℓ∞, inside the box of pixels, with restarts and with smoothing noise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log, sqrt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featureprism.geometry import LpBall
from featureprism.networks.deep import home_of

ImageLoss = Callable[
    [Tensor, Tensor], Tensor
]  # logits, labels ↦ one loss for each image, larger when more wrong


AT_ONCE = 500  # images in one pass when no gradient is needed
SHORT = 3  # steps of the run that goes before the full ones


@dataclass(frozen=True)
class ImageAttack:
    """`steps` steps of length `step_size` (default 2.5 eps/steps) from a random start in the ball, the best of `restarts`.

    With `noise` σ > 0 every image is seen as `samples` copies with Gaussian noise, the same in all steps, and what counts is the
    mean of the probabilities: SmoothAdv-PGD, the ℓ2(ε, σ) of feature-purification, Section 8 (Salman et al. 2019).
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


def margin_loss(logits: Float[Tensor, "n c"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """max_{c ≠ y} f_c - f_y: it does not flatten where the softmax is saturated."""
    own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    return logits.masked_fill(own, -inf).amax(dim=1) - logits[own]


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
    noise: Float[Tensor, "s n ch h w"] | None = None,
    last: bool = False,
    generator: torch.Generator,
) -> Float[Tensor, "n ch h w"]:
    """The perturbations with the largest loss over all steps and restarts; x + δ stays in [0, 1]. `noise` is drawn when not given.

    `last` takes the end of the last restart unseen, as training does: one pass less. Everything happens where the network is; the
    answer comes back to where the images are.
    """
    came_from, home = x.device, home_of(model)
    noise = (draw_noise(x, attack, generator=generator) if noise is None else noise).to(home)
    x, y = x.to(home), y.to(home)
    best, worst = torch.zeros_like(x), torch.full((len(x),), -inf, device=x.device)
    ball = LpBall(attack.norm, attack.eps)
    length = attack.step_size or 2.5 * attack.eps / attack.steps
    step_ball = LpBall(attack.norm, length)
    for _ in range(attack.restarts):
        start = ball.sample(len(x), x.shape[1:].numel(), generator=generator, dtype=x.dtype).reshape(x.shape)
        delta = (x + start.to(x.device)).clamp(0, 1) - x
        for step in range(attack.steps + (not last)):
            value, slope = _slope(model, x + delta, y, noise, loss, needed=step < attack.steps)
            better = value > worst
            worst = torch.where(better, value, worst)
            best = torch.where(better.reshape(-1, 1, 1, 1), delta, best)
            if slope is None:
                break
            moved = delta.flatten(1) + step_ball.steepest(slope.flatten(1))
            delta = (x + ball.project(moved).reshape(x.shape)).clamp(0, 1) - x
        best = delta if last else best
    return best.to(came_from)


def draw_noise(
    x: Float[Tensor, "n ch h w"], attack: ImageAttack, *, generator: torch.Generator
) -> Float[Tensor, "s n ch h w"]:
    """What the attack adds to each of its copies of the images: N(0, σ²) in every pixel, or one copy of zeros."""
    if not attack.noise:
        return torch.zeros(1, *x.shape, dtype=x.dtype, device=x.device)
    drawn = torch.randn((attack.samples, *x.shape), generator=generator, dtype=x.dtype)
    return (attack.noise * drawn).to(x.device)


def _slope(
    model: nn.Module, x: Tensor, y: Tensor, noise: Tensor, loss: ImageLoss, *, needed: bool
) -> tuple[Tensor, Tensor | None]:
    """Loss of every image, at the mean of its copies' probabilities, and the gradient."""
    x = x.detach().requires_grad_(needed)
    with torch.set_grad_enabled(needed):
        logits = model((x + noise).flatten(0, 1)) if len(noise) > 1 else model(x + noise[0])
        if len(noise) > 1:
            log_p = torch.log_softmax(logits, dim=1).reshape(*noise.shape[:2], -1)
            logits = torch.logsumexp(log_p, dim=0) - log(len(noise))
        value = loss(logits, y)
    slope = torch.autograd.grad(value.sum(), x)[0] if needed else None
    return value.detach(), slope


@torch.no_grad()
def decided(model: nn.Module, x: Tensor, groups: Int[Tensor, " c"] | None = None) -> Int[Tensor, " n"]:
    """The class, or the group with the largest log-sum-exp of its logits."""
    home = home_of(model)
    logits = torch.cat([model(part.to(home)).to(x.device) for part in x.split(AT_ONCE)])
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
    """Which images keep their decision under every one of the losses (default: that of the decision itself).

    Most images of a fragile network fall in a few steps, so a short run of the first loss goes before the full ones, which see what
    it leaves. Against an attack with noise the decision is made at x + δ + n with a new draw of the noise.
    """
    losses = losses or ((label_loss,) if groups is None else (group_loss(groups),))
    short = replace(attack, steps=min(SHORT, attack.steps), restarts=1)
    model.eval()
    kept = []
    for image, label in zip(x.split(batch), y.split(batch), strict=True):
        alive = decided(model, image, groups) == label
        for loss, run in ((losses[0], short), *((loss, attack) for loss in losses)):
            left = alive.nonzero().flatten()  # what has fallen is left in peace
            if not len(left):
                break
            x_left, y_left = image[left], label[left]
            delta = perturb(model, x_left, y_left, run, loss=loss, generator=generator)
            moved = x_left + delta + draw_noise(x_left, attack, generator=generator)[0]
            alive[left] = decided(model, moved, groups) == y_left
        kept.append(alive)
    return torch.cat(kept)


def vanishing_share(model: nn.Module, x: Tensor, y: Tensor, batch: int = 100) -> float:
    """Share of images where the gradient of the cross-entropy is exactly zero: there a gradient attack is blind."""
    home, lost = home_of(model), 0
    for image, label in zip(x.to(home).split(batch), y.to(home).split(batch), strict=True):
        _, slope = _slope(model, image, label, torch.zeros_like(image).unsqueeze(0), label_loss, needed=True)
        assert slope is not None
        lost += int((slope.flatten(1).abs().amax(dim=1) == 0).sum())
    return lost / len(x)


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """95 % confidence interval of a proportion (Wilson's score interval)."""
    if total == 0:
        return 0.0, 1.0
    p, shift = hits / total, z * z / total
    middle, half = p + shift / 2, z * sqrt(p * (1 - p) / total + shift / (4 * total))
    return (middle - half) / (1 + shift), (middle + half) / (1 + shift)


def noise_adversary(attack: ImageAttack) -> Callable:
    """The control of `pgd_adversary`: images moved as far, in a direction that asks no network, with the attack's noise if it has any.

    ℓ2: uniform on the sphere of radius eps; ℓ∞: every pixel by eps up or down. Nothing is clipped, so no image moves less.
    """

    def adversary(
        _model: nn.Module, x: Tensor, y: Tensor, strength: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        drawn = torch.randn(x.flatten(1).shape, generator=generator, dtype=x.dtype)
        moved = LpBall(attack.norm, strength * attack.eps).steepest(drawn).reshape(x.shape).to(x.device)
        noise = draw_noise(x, attack, generator=generator)
        return (x + moved + noise).flatten(0, 1), y.repeat(len(noise))

    return adversary


def pgd_adversary(attack: ImageAttack, loss: ImageLoss = label_loss) -> Callable:
    """The adversary of `train_images`: images moved by the attack at a share `strength` of its radius, with their labels.

    The network is attacked as it will be used (batch statistics frozen). With noise each image comes back `samples` times, with the
    noise that the attack saw (SmoothAdv).
    """

    def adversary(
        model: nn.Module, x: Tensor, y: Tensor, strength: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        modes = {module: module.training for module in model.modules()}
        model.eval()
        length = None if attack.step_size is None else strength * attack.step_size
        softer = replace(attack, eps=strength * attack.eps, step_size=length)
        noise = draw_noise(x, attack, generator=generator)
        if softer.eps > 0:
            x = x + perturb(model, x, y, softer, loss=loss, noise=noise, last=True, generator=generator)
        for module, training in modes.items():
            module.training = training
        return (x + noise).flatten(0, 1).detach(), y.repeat(len(noise))

    return adversary
