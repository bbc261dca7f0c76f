"""Perturbation algorithms for training: called as adversary(net, x, y, scale), they return the points to train on."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.attacks.gradient import margin_gradient
from featureprism.geometry import LpBall

Points = Float[Tensor, "n d"]
Labels = Float[Tensor, " n"]


def _scaled(ball: LpBall, scale: float) -> LpBall:
    return LpBall(ball.p, torch.as_tensor(ball.eps) * scale)


@dataclass(frozen=True)
class FastGradient:
    """Fast gradient method as an adversary of training: δ = argmin_{‖δ‖_p ≤ eps} ⟨y ∇f(x), δ⟩.

    Parameters
    ----------
    ball : LpBall
        Norm and radius of the perturbations.
    zero : float
        Gradients whose dual norm is smaller count as zero, and δ = 0 there (1/poly(d) in the paper).

    References
    ----------
    feature-purification, Section 4.
    """

    ball: LpBall
    zero: float = 0.0

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ and the labels, the radius multiplied by scale."""
        _, gradient = margin_gradient(net, x, y)
        delta = _scaled(self.ball, scale).steepest(-gradient)
        if self.zero > 0:
            size = torch.linalg.vector_norm(gradient, ord=2 if self.ball.p == 2 else 1, dim=1, keepdim=True)
            delta = delta * (size >= self.zero)
        return x + delta, y


@dataclass(frozen=True)
class ProjectedGradient:
    """PGD from zero: `steps` steps of 2.5 eps/steps along the steepest direction, projected; the last point is kept."""

    ball: LpBall
    steps: int = 7

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ and the labels, the radius multiplied by scale."""
        ball, delta = _scaled(self.ball, scale), torch.zeros_like(x)
        for _ in range(self.steps):
            _, gradient = margin_gradient(net, x + delta, y)
            delta = ball.project(delta - 2.5 / self.steps * ball.steepest(gradient))
        return x + delta, y


@dataclass(frozen=True)
class SmoothAdversary:
    """SmoothAdv-PGD ℓ2(ε, σ): descend log mean_i sigmoid(y f(x + δ + n_i)) over noise n_i ~ N(0, σ²I), then train at x + δ + n_i.

    Normalised gradients (a zero one is replaced by a random direction), steps of 2ε/steps. The rows come back `samples` times.
    σ is the noise of one coordinate. Source: Salman et al. 2019, as in feature-purification, footnote 14.
    """

    eps: float
    sigma: float
    generator: torch.Generator
    samples: int = 2
    steps: int = 4

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ + n_i and the labels, `samples` copies; ε multiplied by scale."""
        ball = LpBall(2, self.eps * scale)
        n, (rows, d) = self.samples, x.shape
        noise = self.sigma * torch.randn((n, rows, d), generator=self.generator, dtype=x.dtype)
        delta, signs = torch.zeros_like(x), y.repeat(n)
        for _ in range(self.steps):
            margin, gradient = margin_gradient(net, (x + delta + noise).reshape(n * rows, d), signs)
            p = torch.sigmoid(margin)
            pull = ((p * (1 - p)).unsqueeze(1) * gradient).reshape(n, rows, d).sum(dim=0)
            lost = torch.linalg.vector_norm(pull, dim=1, keepdim=True) == 0
            pull = torch.where(lost, torch.randn(pull.shape, generator=self.generator, dtype=x.dtype), pull)
            delta = ball.project(delta - 2 / self.steps * ball.steepest(pull))
        return (x + delta + noise).reshape(n * rows, d), signs
