"""This library's own networks, which are read without being traced."""

import torch
from torch import nn

from featureprism.models.quadratic import QuadraticScores
from featureprism.models.reading import graph
from featureprism.models.reading.graph import GraphScores, Value
from featureprism.models.reading.lowering import as_network, dense_layers
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet, as_scores
from featureprism.models.two_layer import TwoLayerNet


def read_ours(module: nn.Module) -> nn.Module | None:
    """A network of this library in float64, a copy; None for modules of others."""
    net = as_scores(module)
    return None if net is None else net.double().requires_grad_(False).eval()


def after_steps(value: Value, net: nn.Module) -> nn.Module:
    """The network of a head after affine steps."""
    if isinstance(net, QuadraticScores):
        (W,), (b,), _ = dense_layers(value.node)
        return net.double().after(torch.from_numpy(W), torch.from_numpy(b)).requires_grad_(False).eval()
    if isinstance(net, LinearScores):
        return as_network(graph.dense(value, net.V, net.c).node)
    assert isinstance(net, ScoreNet)
    hidden = graph.activated(graph.dense(value, net.W, net.b), net.activation)
    return as_network(graph.dense(hidden, net.V.T, net.c).node)


def input_dim(net: nn.Module) -> int:
    """d of a network that was read."""
    match net:
        case LinearScores() | QuadraticScores():
            return net.V.shape[1]
        case ScoreNet() | TwoLayerNet():
            return net.W.shape[-1]
        case LayeredScores():
            return net.weights[0].shape[1]
        case GraphScores():
            return net.dim
        case _:
            raise ValueError("The dimension of a module that is only called is not known.")
