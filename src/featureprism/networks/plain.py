"""The networks the papers compare with: a linear classifier and a bias-free multi-layer perceptron."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._inputs import check_points
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.models.activations import relu_power
from featureprism.models.model import Model, arrays_of, as_model, plain


class LinearClassifier(nn.Module):
    """f(x) = ⟨w, x⟩ + b; its ℓ2 robust radius is |f(x)|/‖w‖.

    Parameters
    ----------
    w : tensor (d,)
        Weights.
    bias : float
        Bias b.
    """

    def __init__(self, w: Float[Tensor, " d"], bias: float = 0.0) -> None:
        super().__init__()
        if not bool(torch.isfinite(w).all()):
            raise ValueError("w contains NaN or infinite values.")
        self.w = nn.Parameter(w.detach().clone())
        self.bias = bias

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        return x @ self.w + self.bias

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "LinearClassifier":
        """The same function of z = basisᵀ x."""
        return LinearClassifier(self.w.detach().to(basis.dtype) @ basis, self.bias)

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.w.detach().unsqueeze(0)

    def exact_radius(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Distance to the decision boundary, 0 where misclassified: max(0, y f(x))/‖w‖."""
        check_points(x, y)
        with torch.no_grad():
            return (y * self(x)).clamp_min(0) / torch.linalg.vector_norm(self.w)


class MLP(nn.Module):
    """A ReLU network of any depth without biases and with one output: W_L [… [W_1 x]₊ …]₊.

    Parameters
    ----------
    weights : sequence of tensors
        W_1 (h_1, d), …, W_L (1, h_{L-1}).
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        if weights[-1].shape[0] != 1:
            raise ValueError(f"The last layer needs one output, got {weights[-1].shape[0]}.")
        if not all(bool(torch.isfinite(w).all()) for w in weights):
            raise ValueError("The weights contain NaN or infinite values.")
        self.weights = nn.ParameterList(nn.Parameter(w.detach().clone()) for w in weights)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        *hidden, last = self.weights
        for W in hidden:
            x = relu_power(x @ W.T, 1)
        return (x @ last.T).squeeze(-1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "MLP":
        """The same function of z = basisᵀ x, exact when the basis spans the first layer."""
        first, *rest = [w.detach().to(basis.dtype) for w in self.weights]
        return MLP([first @ basis, *rest])

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.weights[0].detach()


@as_model.register
def _(net: LinearClassifier) -> Model:
    (w,) = arrays_of(net.w)
    weights = LinearScores(np.stack([np.zeros_like(w), w]), np.array([0.0, float(net.bias)]))
    return Model(plain(net), weights, has_one_output=True)


@as_model.register
def _(net: MLP) -> Model:
    *hidden, last = arrays_of(*net.weights)
    both = np.concatenate([np.zeros_like(last), last])  # of the output f the two scores 0 and f
    if not hidden:
        return Model(plain(net), LinearScores(both, np.zeros(2)), has_one_output=True)
    layers = (*hidden, both)
    return Model(
        plain(net), Layers(layers, tuple(np.zeros(len(W)) for W in layers), "relu"), has_one_output=True
    )
