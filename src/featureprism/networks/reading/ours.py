"""This library's own networks, which are read without being traced."""

import copy

import torch
from torch import nn

from featureprism.networks.activations import ReLU
from featureprism.networks.grouped import GroupedNet
from featureprism.networks.plain import MLP, LinearClassifier
from featureprism.networks.quadratic import QuadraticScores
from featureprism.networks.reading import graph
from featureprism.networks.reading.graph import GraphScores, Value
from featureprism.networks.reading.lowering import as_network, dense_layers
from featureprism.networks.scores import LayeredScores, LinearScores, ScoreNet, scores_of
from featureprism.networks.two_layer import TwoLayerNet


def read_ours(module: nn.Module) -> nn.Module | None:
    """A network of this library in float64, a copy; None for modules of others."""
    net = _scores(module)
    return None if net is None else net.double().requires_grad_(False).eval()


def _scores(module: nn.Module) -> nn.Module | None:
    if isinstance(module, ScoreNet):  # of heads, which know more, the network alone
        parts = (t.detach() for t in (module.W, module.V, module.b, module.c))
        return ScoreNet(*parts, activation=module.activation)
    if isinstance(module, LinearScores | LayeredScores | QuadraticScores):
        return copy.deepcopy(module)
    if isinstance(module, TwoLayerNet) and module.W.ndim == 2:
        return ScoreNet.of(copy.deepcopy(module).double())
    if isinstance(module, GroupedNet) and module.W.ndim == 3:
        k, h, _ = module.W.shape
        votes = torch.eye(k, dtype=module.W.dtype).repeat_interleave(h, dim=0) / h
        return ScoreNet(module.W.detach().flatten(0, 1), votes, activation=ReLU())
    if isinstance(module, LinearClassifier):
        return scores_of([module.w[None]], [torch.tensor([module.bias], dtype=torch.float64)], ReLU())
    if isinstance(module, MLP):
        return scores_of(list(module.weights), [torch.zeros(len(W)) for W in module.weights], ReLU())
    if isinstance(module, TwoLayerNet | GroupedNet):
        raise ValueError(f"A stack of {len(module.W)} networks was given; choose one, as net[0].")
    return None


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
