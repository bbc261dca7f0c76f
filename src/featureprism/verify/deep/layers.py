"""Networks of layers as the checker reads them."""

from typing import Any

import numpy as np

from featureprism.checker.layers import Layers
from featureprism.networks import MLP, LayeredScores, ScoreNet, Tanh, TwoLayerNet


def as_layers(net: Any) -> Layers | None:
    """A network of layers as the checker reads it; None for others."""
    if isinstance(net, LayeredScores):
        weights, biases = (
            tuple(t.detach().double().numpy().copy() for t in part) for part in (net.weights, net.biases)
        )
        return Layers(weights, biases, "tanh" if isinstance(net.activation, Tanh) else "relu")
    if isinstance(net, ScoreNet) and isinstance(net.activation, Tanh):
        W, V, b, c = (t.detach().double().numpy() for t in (net.W, net.V.T, net.b, net.c))
        return Layers((W.copy(), np.ascontiguousarray(V)), (b.copy(), c.copy()), "tanh")
    if isinstance(net, MLP) and len(net.weights) > 1:  # of its output f the two scores 0 and f
        *hidden, last = (W.detach().double().numpy().copy() for W in net.weights)
        weights = (*hidden, np.concatenate([np.zeros_like(last), last]))
        return Layers(weights, tuple(np.zeros(len(W)) for W in weights), "relu")
    if isinstance(net, TwoLayerNet) and isinstance(net.activation, Tanh):
        W, a = (t.detach().double().numpy().copy() for t in (net.W, net.a))
        b = np.zeros(len(W)) if net.b is None else net.b.detach().double().numpy().copy()
        return Layers((W, np.stack([np.zeros_like(a), a])), (b, np.zeros(2)), "tanh")
    return None
