from dataclasses import replace

import pytest
import torch

from featureprism.attacks import minimal_radius, structured_starts
from featureprism.networks import PolynomialReLU, TwoLayerNet
from featureprism.papers.gmm_flow.robust_accuracy import class_gains
from featureprism.papers.gmm_flow.shared_neurons import SHARED_NEURONS
from featureprism.papers.gmm_flow.theory import shared_radius

SMALL = {
    "dim": 60,
    "per_cluster": 10,
    "networks": 2,
    "positive": 3,
    "negative": 2,
    "width": 8,
    "std": 0.1,
    "epochs": 150,
}
QUICK = SHARED_NEURONS.settings("quick")
TINY = {
    "gmm-flow/shared-neurons": [
        replace(QUICK[0], **SMALL),
        *(replace(s, **SMALL) for s in QUICK if s.series == "momentum"),
        *(
            replace(s, dim=60 + s.dim // 100, width=12, positive=3, negative=2, races=2)
            for s in QUICK
            if s.series == "dimension"
        ),
    ]
}
SLOW = frozenset(TINY)  # trains and attacks several networks


@pytest.mark.parametrize("served", [1, 2, 3])
def test_the_law_on_a_network_made_by_hand(served):
    """One neuron for `served` positive centres with output 1 at each, one for every other centre; by an attack and from the weights."""
    mu, labels = torch.eye(6).double(), torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, -1.0]).double()
    shared = mu[:served].sum(dim=0, keepdim=True) / served**0.5
    directions = torch.cat([shared, mu[served:]])
    masses = torch.ones(len(directions)).double()
    masses[0] = served**1.5  # f(μ) = S s^(-p/2) = 1 at p = 3
    signs = torch.cat([torch.ones(1).double(), labels[served:]])
    W = masses.sqrt().unsqueeze(1) * directions
    net = TwoLayerNet(W, signs * masses.sqrt(), None, activation=PolynomialReLU(3.0))
    gains = class_gains(net, mu, labels)
    assert gains == pytest.approx((served**0.5, 1.0))
    starts = structured_starts(net, mu, labels)
    attacked = minimal_radius(net, mu[4:], labels[4:], starts=starts, upper=1.0)
    assert attacked.radius.tolist() == pytest.approx([shared_radius(served**0.5)] * 2, rel=1e-3)
