"""Networks as functions of points: a score for every class, and margins of many pairs (point, target class) as one network."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.geometry import in_batches, products, row_norms, unit_rows
from featureprism.models.activations import (
    GELU,
    Activation,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    SiLU,
    Smooth,
    Tanh,
)
from featureprism.models.one_layer import TwoLayerNet

ONES = {Tanh: (20.0, 1.0), GELU: (64.0, 64.0), SiLU: (64.0, 64.0)}  # z and φ(z), the same in float64


def checked_parameter(values: Tensor, name: str, shape: tuple[int, ...]) -> nn.Parameter:
    """A parameter of its own; refuses what is no finite real number, and shapes that do not fit."""
    if values.shape != shape or not all(shape):
        raise ValueError(f"{name} must have the shape {shape}, none of it 0, got {tuple(values.shape)}.")
    if not values.is_floating_point() or not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} must hold finite floating-point numbers, got {values.dtype}.")
    return nn.Parameter(values.detach().clone())


class TwoScores(nn.Module):
    """The scores 0 and f of a network with one output."""

    num_classes = 2

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 2"]:
        """Both scores."""
        value = self.net(x)
        return torch.stack([torch.zeros_like(value), value], dim=1)


class LinearScores(nn.Module):
    """Scores Vx + c: V (k, d), c (k,)."""

    def __init__(self, V: Float[Tensor, "k d"], c: Float[Tensor, " k"]) -> None:
        super().__init__()
        self.V = checked_parameter(V, "V", tuple(V.shape[:2]))
        self.c = checked_parameter(c, "c", tuple(V.shape[:1]))

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        return x @ self.V.T + self.c


class ScoreNet(nn.Module):
    """One hidden layer, k classes: scores φ(xWᵀ + b)V + c, W (h, d), b (h,), V (h, k) of any sign, c (k,).

    φ is ReLU, a power of it, or tanh. Every margin f_y - f_r is a two-layer network on the same neurons.
    """

    def __init__(
        self,
        W: Float[Tensor, "h d"],
        V: Float[Tensor, "h k"],
        b: Float[Tensor, " h"] | None = None,
        c: Float[Tensor, " k"] | None = None,
        *,
        activation: Activation,
    ) -> None:
        super().__init__()
        if W.ndim != 2 or V.ndim != 2:
            raise ValueError(f"Need W (h, d) and V (h, k), got {tuple(W.shape)} and {tuple(V.shape)}.")
        if isinstance(activation, PolynomialReLU):
            raise ValueError("pReLU neurons enter as PowerReLU neurons: see ScoreNet.of.")
        (h, d), k = W.shape, V.shape[1]
        self.W = checked_parameter(W, "W", (h, d))
        self.V = checked_parameter(V, "V", (h, k))
        self.b = checked_parameter(W.new_zeros(h) if b is None else b, "b", (h,))
        self.c = checked_parameter(W.new_zeros(k) if c is None else c, "c", (k,))
        self.activation = activation

    @classmethod
    def of(cls, net: TwoLayerNet) -> "ScoreNet":
        """The two classes of f: scores (0, f). pReLU: ‖w‖[⟨w/‖w‖, x⟩ + b/‖w‖]₊^p, with unit neurons and votes a‖w‖."""
        W, a, b = net.W.detach(), net.a.detach(), None if net.b is None else net.b.detach()
        activation = net.activation
        if isinstance(activation, PolynomialReLU):
            norms = torch.linalg.vector_norm(W, dim=1)
            unit = norms.clamp_min(torch.finfo(W.dtype).tiny)
            W, a = W / unit.unsqueeze(1), a * norms
            b = None if b is None else torch.where(norms > 0, b / unit, 0.0)  # a zero neuron gives 0
            activation = PowerReLU(activation.p)
        return cls(W, torch.stack([torch.zeros_like(a), a], dim=1), b, activation=activation)

    @property
    def num_classes(self) -> int:
        """k."""
        return self.V.shape[1]

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        return self.activation.value(x @ self.W.T + self.b) @ self.V + self.c

    def score_gradient(
        self, x: Float[Tensor, "n d"], weights: Float[Tensor, "n k"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n d"]]:
        """The scores, and the gradient of their sum with these weights."""
        z = x @ self.W.T + self.b
        gradient = (self.activation.derivative(z) * (weights @ self.V.T)) @ self.W
        return self.activation.value(z) @ self.V + self.c, gradient

    def with_bias_neuron(self) -> tuple[Float[Tensor, "j d"], Float[Tensor, "j k"], Float[Tensor, " j"]]:
        """W, V, b of the same scores without c: where c is not 0, one neuron that is always 1 gives it."""
        W, V, b, c = (t.detach() for t in (self.W, self.V, self.b, self.c))
        if not bool(c.any()):
            return W, V, b
        one, value = ONES.get(type(self.activation), (1.0, 1.0))
        return (
            torch.cat([W, torch.zeros_like(W[:1])]),
            torch.cat([V, c[None] / value]),
            torch.cat([b, b.new_tensor([one])]),
        )

    def margin(self, label: int, target: int) -> TwoLayerNet:
        """f_label - f_target, of the neurons that tell the two apart."""
        W, V, b = self.with_bias_neuron()
        votes = V[:, label] - V[:, target]
        part = votes != 0
        if not bool(part.any()):  # the two always tie
            part[0] = True
        return TwoLayerNet(W[part], votes[part], b[part], activation=self.activation)


class LayeredScores(nn.Module):
    """Scores of several hidden layers with one activation between them: W_L φ(… φ(W_1 x + b_1) …) + b_L."""

    def __init__(
        self, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: ReLU | Smooth
    ) -> None:
        super().__init__()
        widths = [weights[0].shape[1], *(len(W) for W in weights)]
        shapes = list(zip(widths[1:], widths[:-1], strict=True))
        self.weights = nn.ParameterList(
            [
                checked_parameter(W, f"W{i + 1}", s)
                for i, (W, s) in enumerate(zip(weights, shapes, strict=True))
            ]
        )
        self.biases = nn.ParameterList(
            [
                checked_parameter(b, f"b{i + 1}", s[:1])
                for i, (b, s) in enumerate(zip(biases, shapes, strict=True))
            ]
        )
        self.activation = activation

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.biases[-1])

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        for i, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = (self.activation.value(x) if i else x) @ W.T + b
        return x

    def score_gradient(
        self, x: Float[Tensor, "n d"], weights: Float[Tensor, "n k"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n d"]]:
        """The scores, and the gradient of their sum with these weights."""
        matrices, slopes = list(self.weights), []
        for i, (W, b) in enumerate(zip(matrices, self.biases, strict=True)):
            if i:
                slopes.append(self.activation.derivative(x))
                x = self.activation.value(x)
            x = x @ W.T + b
        gradient = weights
        for W, slope in zip(matrices[:0:-1], reversed(slopes), strict=True):
            gradient = (gradient @ W) * slope
        return x, gradient @ matrices[0]


class QuadraticScores(nn.Module):
    """Scores c_r + ⟨V_r, x⟩ - ½ xᵀA_r x: A (k, d, d) symmetric, V (k, d), c (k,). The largest wins."""

    def __init__(self, A: Float[Tensor, "k d d"], V: Float[Tensor, "k d"], c: Float[Tensor, " k"]) -> None:
        super().__init__()
        k, d = V.shape[:2]
        self.A = checked_parameter(A, "A", (k, d, d))
        self.V = checked_parameter(V, "V", (k, d))
        self.c = checked_parameter(c, "c", (k,))
        if not torch.equal(self.A.detach(), self.A.detach().mT):
            raise ValueError("The matrices A of quadratic scores must be symmetric.")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        curved = torch.stack([((x @ A) * x).sum(dim=1) for A in self.A], dim=1)
        return self.c + x @ self.V.T - curved / 2

    def margin(self, label: int, target: int) -> "QuadraticMargin":
        """f_own - f_rival as a function with one output."""
        A, V, c = (t.detach() for t in (self.A, self.V, self.c))
        return QuadraticMargin(A[label] - A[target], V[label] - V[target], float(c[label] - c[target]))

    def after(self, W: Float[Tensor, "d e"], b: Float[Tensor, " d"]) -> "QuadraticScores":
        """The same scores of Wx + b, as a function of x."""
        A, V, c = (t.detach() for t in (self.A, self.V, self.c))
        bent = W.T @ A @ W
        slopes = V - A @ b
        return QuadraticScores((bent + bent.mT) / 2, slopes @ W, c + (V + slopes) @ b / 2)


class QuadraticMargin(nn.Module):
    """f(x) = c + ⟨v, x⟩ - ½ xᵀQx, with its gradient."""

    def __init__(self, Q: Float[Tensor, "d d"], v: Float[Tensor, " d"], c: float) -> None:
        super().__init__()
        self.Q, self.v, self.c = nn.Parameter(Q), nn.Parameter(v), c

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self.c + x @ self.v - ((x @ self.Q) * x).sum(dim=1) / 2

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x) = v - Qx."""
        return self(x), self.v - x @ self.Q


STRONGEST = 8  # neurons of each pair that are starts of their own


class PairMargins(nn.Module):
    """Row i of the points has the margin f_label[i] - f_target[i]; m pairs, and row i + m belongs to pair i again, and so on."""

    pair: Tensor

    def __init__(self, scores: nn.Module, label: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("pair", torch.stack([label, target], dim=1))

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_label - f_target, row by row."""
        of_row = self.pair.repeat(len(z) // len(self.pair), 1)
        chosen = in_batches(self.scores, z).gather(1, of_row)
        return chosen[:, 0] - chosen[:, 1]


class NeuronMargins(nn.Module):
    """The same for one hidden layer: row i has the margin Σ_j votes_ij φ(⟨w_j, x⟩ + b_j), with closed gradient and convex parts."""

    W: Tensor
    b: Tensor
    votes: Tensor

    def __init__(
        self,
        W: Float[Tensor, "h d"],
        b: Float[Tensor, " h"],
        votes: Float[Tensor, "m h"],
        activation: Activation,
    ) -> None:
        super().__init__()
        for name, value in (("W", W), ("b", b), ("votes", votes)):
            self.register_buffer(name, value)
        self.activation = activation

    def _weighed(self, values: Tensor, votes: Tensor) -> Float[Tensor, "n h"]:
        """What every neuron of every row counts for the margin of the row."""
        m, h = votes.shape
        return (values.reshape(-1, m, h) * votes).reshape(-1, h)

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_label - f_target, row by row."""
        return self._weighed(self.activation.value(products(z, self.W.T) + self.b), self.votes).sum(dim=1)

    @torch.no_grad()
    def input_gradient(self, z: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """The margins and their gradients."""
        t = products(z, self.W.T) + self.b
        value = self._weighed(self.activation.value(t), self.votes).sum(dim=1)
        return value, products(self._weighed(self.activation.derivative(t), self.votes), self.W)

    @torch.no_grad()
    def convex_parts(
        self, z: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """P, ∇P, N, ∇N of the margin P - N, for y = 1, for the true class; convex for powers of ReLU."""
        t = products(z, self.W.T) + self.b
        value, slope = self.activation.value(t), self.activation.derivative(t)
        positive, negative = self.votes.clamp_min(0), (-self.votes).clamp_min(0)
        return (
            self._weighed(value, positive).sum(dim=1),
            products(self._weighed(slope, positive), self.W),
            self._weighed(value, negative).sum(dim=1),
            products(self._weighed(slope, negative), self.W),
        )

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "NeuronMargins":
        """The same function of z = basisᵀ x, exact when the basis spans the neurons."""
        return NeuronMargins(self.W @ basis, self.b, self.votes, self.activation)

    def strong_directions(self) -> Float[Tensor, "s m d"]:
        """For each pair the sum of its votes, Σ_j votes_j w_j, and its strongest neurons, all against the true class."""
        strength = self.votes.abs() * row_norms(self.W)
        chosen = strength.topk(min(STRONGEST, len(self.W)), dim=1).indices  # (m, s)
        single = -torch.sign(self.votes.gather(1, chosen)).unsqueeze(2) * unit_rows(self.W)[chosen]
        return torch.cat([-products(self.votes, self.W).unsqueeze(0), single.transpose(0, 1)])


class SignedMargins(nn.Module):
    """±f of a network with one output, row by row; m signs, and row i + m belongs to sign i again, and so on."""

    def __init__(self, net: nn.Module, sign: Float[Tensor, " m"]) -> None:
        super().__init__()
        self.net, self.sign = net, sign

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """sign · f(z)."""
        return self.net(z) * self.sign.repeat(len(z) // len(self.sign))
