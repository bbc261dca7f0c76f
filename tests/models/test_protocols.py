"""Who offers what: every method of a network that others ask for is found by its protocol, and nothing else is."""

import pytest
import torch
from torch import nn

from featureprism.models.protocols import (
    HasConvexParts,
    HasExactRadius,
    HasInputDirections,
    HasInputGradient,
)
from featureprism.networks import (
    MLP,
    BayesClassifier,
    BinaryReadout,
    LinearClassifier,
    PolynomialClassifier,
    SymmetricNet,
    TwoLayerNet,
)
from featureprism.networks.low_complexity import TangentNet
from featureprism.networks.reference import NearestCluster

OFFERS = {
    HasExactRadius: {LinearClassifier, NearestCluster, PolynomialClassifier},
    HasInputDirections: {
        MLP,
        BayesClassifier,
        BinaryReadout,
        LinearClassifier,
        NearestCluster,
        PolynomialClassifier,
        SymmetricNet,
        TwoLayerNet,
    },
    HasInputGradient: {BinaryReadout, PolynomialClassifier, SymmetricNet, TangentNet, TwoLayerNet},
    HasConvexParts: {BinaryReadout, TwoLayerNet},
}
EVERY = {kind for kinds in OFFERS.values() for kind in kinds} | {nn.Linear, nn.Sequential}


@pytest.mark.parametrize("protocol", OFFERS)
def test_every_network_offers_what_it_knows(protocol):
    assert {kind for kind in EVERY if issubclass(kind, protocol)} == OFFERS[protocol]


def test_a_wrapped_network_offers_nothing():
    net = LinearClassifier(torch.ones(3))
    assert isinstance(net, HasExactRadius)
    assert not any(isinstance(nn.Sequential(net), protocol) for protocol in OFFERS)
