"""Balanced weights at any scale, kept as directions and log-norms."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import Activation
from featureprism.models.one_layer import TwoLayerNet


@dataclass(frozen=True)
class BalancedWeights:
    """w_j = exp(ρ_j) u_j and a_j = s_j exp(ρ_j): unit directions, log-norms and signs of the neurons.

    ρ = -184 (ε = 1e-80) or -10 000 is as good as any other number; only `to_net` forms the weights, and
    there what is below the smallest float becomes 0. Source: gmm-flow, Assumption 1.
    """

    directions: Float[Tensor, "h d"]
    log_norms: Float[Tensor, " h"]
    signs: Float[Tensor, " h"]

    def __post_init__(self) -> None:
        if not bool((self.signs.abs() == 1).all()):
            raise ValueError("The signs of the neurons must be -1 or +1.")
        if not bool(torch.isfinite(self.directions).all() and torch.isfinite(self.log_norms).all()):
            raise ValueError("Directions and log-norms must be finite; a zero neuron has no direction.")

    def to_net(self, activation: Activation) -> TwoLayerNet:
        """The network with these weights."""
        norms = self.log_norms.exp()
        W = self.directions * norms.unsqueeze(-1)
        return TwoLayerNet(W, self.signs * norms, activation=activation)


def balanced(shape: Float[Tensor, "h d"], signs: Float[Tensor, " h"], log_scale: float) -> BalancedWeights:
    """Balanced weights of any scale: w_j = ε w_j0 and |a_j| = ‖w_j‖.

    Parameters
    ----------
    shape : tensor (h, d)
        The weights w_j0 before they are scaled.
    signs : tensor (h,)
        Signs of the output weights.
    log_scale : float
        Logarithm of the scale ε.

    Returns
    -------
    BalancedWeights
        Where `balanced_flow` starts.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> shape = fp.networks.gaussian_shape(4, 3, generator=fp.generator_for('start', 0))
    >>> weights = fp.networks.balanced(shape, torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=shape.dtype), -200.0)
    >>> type(weights).__name__
    'BalancedWeights'
    """
    return BalancedWeights(unit_rows(shape), log_scale + row_norms(shape).log(), signs)
