"""Support vector machines with the Gaussian kernel: attacked, and certified by norms in the space of the kernel."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._threads import one_thread
from featureprism.attacks import Towards, minimal_radius

STRONGEST = 8  # support vectors of each class that the attack starts towards


class KernelNet(nn.Module):
    """f(x) = Σ_i α_i exp(-γ‖x - x_i‖²) + b, with its gradient and its norm in the kernel's space."""

    def __init__(self, points: Tensor, alpha: Tensor, bias: float, gamma: float) -> None:
        super().__init__()
        self.points, self.alpha = nn.Parameter(points), nn.Parameter(alpha)
        self.bias, self.gamma = bias, gamma

    def _kernel(self, x: Tensor) -> Tensor:
        return torch.exp(-self.gamma * torch.cdist(x, self.points) ** 2)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self._kernel(x) @ self.alpha + self.bias

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x) = 2γ Σ_i α_i k(x, x_i) (x_i - x)."""
        weighted = self._kernel(x) * self.alpha
        total = weighted.sum(dim=1)
        return total + self.bias, 2 * self.gamma * (weighted @ self.points - total.unsqueeze(1) * x)

    @torch.no_grad()
    def certified(self, margin: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """r with ‖f‖_H √(2 - 2 exp(-γr²)) = margin: by Cauchy-Schwarz in the space of the kernel, f changes less on the way."""
        square = self.alpha @ self._kernel(self.points) @ self.alpha
        share = (margin.clamp_min(0) ** 2 / (2 * square)).clamp_max(1 - 1e-12)
        return (-torch.log1p(-share) / self.gamma).sqrt() * (1 - 1e-9)


def kernel_radii(machine: Any, x: Float[np.ndarray, "n d"], label: np.ndarray) -> Float[np.ndarray, " n"]:
    """(n,) ℓ2 radii within which the true class wins all its duels against the others, and so the vote."""
    k, first = len(machine.classes_), np.concatenate([[0], np.cumsum(machine.n_support_)])
    points, gamma = torch.as_tensor(machine.support_vectors_).double(), float(machine._gamma)
    radius, z, duel = np.full(len(x), np.inf), torch.as_tensor(x).double(), 0
    for i in range(k):
        for j in range(i + 1, k):
            alpha = np.zeros(len(points))
            alpha[first[i] : first[i + 1]] = machine.dual_coef_[j - 1, first[i] : first[i + 1]]
            alpha[first[j] : first[j + 1]] = machine.dual_coef_[i, first[j] : first[j + 1]]
            net = KernelNet(points, torch.as_tensor(alpha), float(machine.intercept_[duel]), gamma)
            with torch.no_grad():
                value = net(z).numpy()
            # of two classes scikit-learn turns the sign round: positive means the second one
            sign = -1.0 if k == 2 else 1.0
            for own, s in ((i, sign), (j, -sign)):
                rows = label == own
                margin = torch.as_tensor(s * value[rows])
                radius[rows] = np.minimum(radius[rows], net.certified(margin).numpy())
            duel += 1
    return np.where(np.isfinite(radius), radius, 0.0)


@one_thread()
def kernel_flips(
    machine: Any, x: Float[np.ndarray, "n d"], label: np.ndarray, norm: float, domain: Any
) -> Float[np.ndarray, "n d"]:
    """Perturbations that flip a machine of two classes: by its gradient, from the strongest support vectors of the other class."""
    points = torch.as_tensor(machine.support_vectors_).double()
    alpha = torch.as_tensor(machine.dual_coef_[0]).double()
    net = KernelNet(points, alpha, float(machine.intercept_[0]), float(machine._gamma))
    z, signs = torch.as_tensor(x).double(), torch.as_tensor(2.0 * label - 1)
    strong = torch.cat([(s * alpha).topk(min(STRONGEST, len(alpha))).indices for s in (1.0, -1.0)])
    starts = [Towards(points[strong], torch.sign(alpha[strong]))]
    upper = 2 * float(torch.cdist(z, points).max())
    found = minimal_radius(
        net, z, signs, starts=starts, upper=upper, norm=norm, domain=domain, steps=10, rounds=3
    )
    # a hair beyond the boundary, where scikit-learn's own arithmetic has changed its answer as well
    return torch.where(torch.isfinite(found.radius).unsqueeze(1), (1 + 1e-9) * found.delta, 0.0).numpy()
