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
from featureprism._threads import one_thread
from featureprism.attacks import Towards, minimal_radius
from featureprism.brackets import RadiusBracket
from featureprism.geometry import LpBall
from featureprism.heads.descent import Perturb, Slopes
from featureprism.heads.estimators import PReLUHead
from featureprism.models.activations import relu_power
from featureprism.verify import robust_radius
from featureprism.verify.called.kernels import KernelNet
from featureprism.verify.called.nearest import nearest_neighbour_radius

ATTACK_STEPS = 3  # of PGD in adversarial training
BATCH = 25  # points of a kernel machine that are attacked together, between two words of progress
NEAREST = 8  # training points of the other class that an attack on a kernel machine starts towards


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


class LinearHead:
    """Logistic regression or a linear support vector machine; the radius is exact."""

    def __init__(self, kind: str, seed: int, C: float = 1.0) -> None:
        machines = {
            "logistic regression": LogisticRegression(C=C, max_iter=500),
            "linear SVM": LinearSVC(C=C, random_state=seed),
        }
        self.machine: Any = machines[kind]

    def fit(self, X: np.ndarray, y: np.ndarray) -> "LinearHead":
        """Train."""
        self.machine.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The labels of fit."""
        return self.machine.predict(X)

    def robust_radius(self, X: np.ndarray, y: np.ndarray, progress: Progress = no_progress) -> RadiusBracket:
        """|f(x)|/‖w‖; of more classes the least of (f_y - f_c)/‖w_y - w_c‖."""
        return robust_radius(self.machine, X, y, progress=progress)


class KernelHead:
    """A support vector machine with the Gaussian kernel; attacked, and certified by the norm of f in the kernel's space."""

    def __init__(self) -> None:
        self.machine = SVC(kernel="rbf", gamma="scale")

    def fit(self, X: np.ndarray, y: np.ndarray) -> "KernelHead":
        """Train."""
        self.machine.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels ±1."""
        return self.machine.predict(X)

    @one_thread()
    def robust_radius(self, X: np.ndarray, y: np.ndarray, progress: Progress = no_progress) -> RadiusBracket:
        """The attack starts towards the nearest support vectors of the other class."""
        machine: Any = self.machine
        points = torch.as_tensor(machine.support_vectors_).double()
        alpha = torch.as_tensor(machine.dual_coef_[0]).double()
        net = KernelNet(points, alpha, float(machine.intercept_[0]), float(machine._gamma))
        x, signs = torch.as_tensor(X).double(), torch.as_tensor(y).double()
        strong = torch.cat([_strongest(alpha, sign) for sign in (1.0, -1.0)])
        starts = [Towards(points[strong], torch.sign(alpha[strong]))]
        upper = 2 * float(torch.cdist(x, points).max())
        parts = []
        for first in range(0, len(x), BATCH):
            rows = slice(first, first + BATCH)
            parts.append(
                minimal_radius(net, x[rows], signs[rows], starts=starts, upper=upper, steps=10, rounds=3)
            )
            progress(min(first + BATCH, len(x)) / len(x))
        radius, delta = (torch.cat([getattr(part, name) for part in parts]) for name in ("radius", "delta"))
        with torch.no_grad():
            low = torch.minimum(net.certified(signs * net(x)), radius)
        return RadiusBracket(low.numpy(), radius.numpy(), ("kernel norm",) * len(x), delta.numpy())


def _strongest(alpha: Tensor, sign: float) -> Tensor:
    return (sign * alpha).topk(min(NEAREST, len(alpha))).indices


class NeighbourHead:
    """1-nearest neighbour; the radius is exact."""

    def __init__(self) -> None:
        self.machine = KNeighborsClassifier(1)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "NeighbourHead":
        """Remember."""
        self.X, self.y = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.machine.fit(self.X, self.y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The label of the nearest training point."""
        return self.machine.predict(X)

    def robust_radius(self, X: np.ndarray, y: np.ndarray, progress: Progress = no_progress) -> RadiusBracket:
        """The distance to the nearest point that has a stranger as its neighbour."""
        low, delta = torch.zeros(len(X)).double(), torch.zeros(len(X), self.X.shape[1]).double()
        high = torch.full_like(low, torch.inf)
        for i, (x, label) in enumerate(zip(X, y, strict=True)):
            low[i], witness = nearest_neighbour_radius(self.X, self.y, x, label)
            if witness is not None:
                delta[i] = torch.as_tensor(witness)
                high[i] = torch.linalg.vector_norm(delta[i])
            progress((i + 1) / len(X))
        return RadiusBracket((low * (1 - 1e-9)).numpy(), high.numpy(), ("exact",) * len(X), delta.numpy())
