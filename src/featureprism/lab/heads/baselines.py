"""What people use instead, asked the same: predictions, a bracket of radii, the cost of training. Two classes have the labels ±1."""

from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import check_random_state
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.brackets import RadiusBracket
from featureprism.geometry import LpBall
from featureprism.heads.descent import Perturb, Slopes
from featureprism.heads.estimators import PReLUHead
from featureprism.models.activations import relu_power
from featureprism.verify import robust_radius

ATTACK_STEPS = 3  # of PGD in adversarial training


def perturbed(
    points: Float[Tensor, "n d"], U: Float[Tensor, "h d"], slopes: Slopes, p: float, *, eps: float
) -> Float[Tensor, "n d"]:
    """Points after PGD on the training loss within the ℓ2 ball: ∂loss/∂x_i = Σ_j ‖w_j‖ G_ij φ'(z_ij) u_j."""
    ball, delta = LpBall(2, eps), torch.zeros_like(points)
    for _ in range(ATTACK_STEPS):
        z = (points + delta) @ U.T
        _, G = slopes(z)
        ascent = (G * p * relu_power(z, p - 1)) @ U
        delta = ball.project(delta + 2 / ATTACK_STEPS * ball.steepest(ascent))
    return points + delta


class AdversarialHead(PReLUHead):
    """A PReLUHead (p = 1: ReLU) trained on PGD perturbations of norm `eps`, in the units of the data. Source: Madry et al. 2018."""

    def __init__(
        self,
        eps: float = 0.1,
        p: float = 1.0,
        width: int = 100,
        init_scale: float = 1.0,
        *,
        epochs: float = 6,
        batch_size: int = 256,
        step_size: float = 0.01,
        weight_decay: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            p,
            width,
            init_scale,
            epochs=epochs,
            batch_size=batch_size,
            step_size=step_size,
            weight_decay=weight_decay,
            scaling="points",  # the ball of the perturbations is round in the units of the data
            fit_intercept=False,
            random_state=random_state,
        )
        self.eps = eps

    def _perturb(self, scale: float) -> Perturb | None:
        return partial(perturbed, eps=self.eps / scale)


class NoisyHead(AdversarialHead):
    """The same head trained on points with Gaussian noise of norm about `eps`: what costs nothing and needs no attack."""

    def _perturb(self, scale: float) -> Perturb | None:
        generator = torch.Generator().manual_seed(check_random_state(self.random_state).randint(2**31 - 1))
        return partial(noisy, eps=self.eps / scale, generator=generator)


def noisy(
    points: Float[Tensor, "n d"],
    _U: Float[Tensor, "h d"],
    _slopes: Slopes,
    _p: float,
    *,
    eps: float,
    generator: torch.Generator,
) -> Float[Tensor, "n d"]:
    """Points plus N(0, eps²/d I)."""
    noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
    return points + eps / points.shape[1] ** 0.5 * noise


class Baseline:
    """A classifier of scikit-learn, asked like a head."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Baseline":
        """Train."""
        self.machine.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The labels of fit."""
        return self.machine.predict(X)

    def robust_radius(self, X: np.ndarray, y: np.ndarray, progress: Progress = no_progress) -> RadiusBracket:
        """What `robust_radius` says of the classifier."""
        return robust_radius(self.machine, X, y, progress=progress)


class LinearHead(Baseline):
    """Logistic regression or a linear support vector machine; the radius is exact."""

    def __init__(self, kind: str, seed: int, C: float = 1.0) -> None:
        machines = {
            "logistic regression": LogisticRegression(C=C, max_iter=500),
            "linear SVM": LinearSVC(C=C, random_state=seed),
        }
        super().__init__(machines[kind])


class KernelHead(Baseline):
    """A support vector machine with the Gaussian kernel: attacked, and bounded by its norm in the kernel's space."""

    def __init__(self) -> None:
        super().__init__(SVC(kernel="rbf", gamma="scale"))


class NeighbourHead(Baseline):
    """1-nearest neighbour; the radius is exact."""

    def __init__(self) -> None:
        super().__init__(KNeighborsClassifier(1))
