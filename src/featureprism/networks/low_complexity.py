"""Models that feature-purification compares with: thresholds on features, polynomials, tangent features."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.networks.gates import ROOT_TWO_PI, smoothed_step


class IndicatorClassifier(nn.Module):
    """f(x) = Σ_j w*_j ⟨M_j, x⟩ 1{|⟨M_j, x⟩| ≥ threshold}: keeps signals, drops noise. Source: feature-purification, Section 3."""

    M: Tensor
    w: Tensor

    def __init__(self, M: Float[Tensor, "d D"], w: Float[Tensor, " D"], threshold: float) -> None:
        super().__init__()
        self.register_buffer("M", M.detach().clone())
        self.register_buffer("w", w.detach().clone())
        self.threshold = threshold

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        u = x @ self.M
        return (u * (u.abs() >= self.threshold)) @ self.w


class CubicNet(nn.Module):
    """f(x) = Σ_j (a_j u_j + c_j u_j³), u = Mᵀx: a polynomial of degree 3. Source: feature-purification, footnote 3."""

    M: Tensor

    def __init__(self, M: Float[Tensor, "d D"], a: Float[Tensor, " D"], c: Float[Tensor, " D"]) -> None:
        super().__init__()
        self.register_buffer("M", M.detach().clone())
        self.a, self.c = (nn.Parameter(t.detach().clone()) for t in (a, c))

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        u = x @ self.M
        return u @ self.a + u**3 @ self.c


class PolynomialKernel(nn.Module):
    """f(x) = Σ_a c_a κ(⟨x, a⟩) over anchors a, κ(t) = ((1 + t)^r - (1 - t)^r)/2: the odd part of the polynomial kernel of degree r.

    Trained is v in c = K^(-1/2) v, K = κ(anchors, anchors): coordinates in which the norm of v is that of f in the kernel's space, so
    that descent is well conditioned. Directions of K below `CUT` of its first eigenvalue are left out. Corollary 5.7.
    """

    CUT = 1e-6
    anchors: Tensor
    root: Tensor

    def __init__(self, anchors: Float[Tensor, "k d"], degree: int) -> None:
        super().__init__()
        if degree < 1 or degree % 2 == 0:
            raise ValueError(f"An odd label needs an odd degree, got {degree}.")
        self.degree = degree
        gram, _ = self._kernel(anchors.double() @ anchors.double().T)
        values, vectors = torch.linalg.eigh(gram)
        kept = values > self.CUT * values[-1]
        self.register_buffer("anchors", anchors.detach().clone())
        self.register_buffer("root", (vectors[:, kept] / values[kept].sqrt()).to(anchors.dtype))
        self.v = nn.Parameter(anchors.new_zeros(int(kept.sum())))

    def _kernel(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """κ = Σ_j C(r, j) t^j over odd j, and κ', by Horner's rule in t²."""
        square, odd = t * t, range(self.degree, 0, -2)
        value = slope = torch.zeros_like(t)
        for j in odd:
            value = value * square + math.comb(self.degree, j)
            slope = slope * square + j * math.comb(self.degree, j)
        return value * t, slope

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        return self._kernel(x @ self.anchors.T)[0] @ (self.root @ self.v)

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x) = Σ_a c_a κ'(⟨x, a⟩) a."""
        c = self.root @ self.v
        value, slope = self._kernel(x @ self.anchors.T)
        return value @ c, (slope * c) @ self.anchors


class TangentNet(nn.Module):
    """p(x) = Σ_i ⟨x, v_i⟩ [Φ((u_i - b)/s) ± Φ((-u_i - b)/s)], u = Wx: linear in the trained V; W stays at its random start.

    With + these are the tangent features of the symmetric network and p is odd. Definition 5.5 prints a minus, which makes p even:
    right on exactly one of x and -x whenever their labels differ. Source: feature-purification, Definition 5.5 and Fact A.1.
    """

    W: Tensor

    def __init__(
        self,
        W: Float[Tensor, "h d"],
        V: Float[Tensor, "h d"],
        bias: float,
        smoothing: float,
        *,
        as_printed: bool = False,
    ) -> None:
        super().__init__()
        if not smoothing > 0:
            raise ValueError(f"Tangent features need smoothing > 0, got {smoothing}.")
        self.register_buffer("W", W.detach().clone())
        self.V = nn.Parameter(V.detach().clone())
        self.bias, self.smoothing, self.sign = bias, smoothing, -1.0 if as_printed else 1.0

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """p(x) for every point."""
        return ((self._opened(x @ self.W.T) @ self.V) * x).sum(dim=1)

    def _opened(self, u: Tensor) -> Tensor:
        b, s = self.bias, self.smoothing
        return smoothed_step(u - b, s) + self.sign * smoothed_step(-u - b, s)

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """p(x) and ∇p(x) = Σ_i opened_i v_i + ⟨x, v_i⟩ opened_i' w_i, opened' = (φ((u-b)/s) ∓ φ((u+b)/s))/s."""
        u, s = x @ self.W.T, self.smoothing
        direct = self._opened(u) @ self.V
        low, high = ((u + sign * self.bias) / s for sign in (-1, 1))
        bend = (torch.exp(-(low**2) / 2) - self.sign * torch.exp(-(high**2) / 2)) / (s * ROOT_TWO_PI)
        return (direct * x).sum(dim=1), direct + (x @ self.V.T * bend) @ self.W
