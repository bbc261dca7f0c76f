"""Wide networks of few neurons that decide: what a search is told of the others is true, and brackets close."""

import torch
from asking import asked

from featureprism.data import orthonormal_clusters, sample
from featureprism.models.activations import relu_power
from featureprism.models.model import as_model
from featureprism.networks import PolynomialReLU, TwoLayerNet
from featureprism.seeds import generator_for
from featureprism.verify.one_layer.branch_and_bound import FEW_NEURONS, Strong
from featureprism.verify.one_layer.cells import Problem, Units


def wide_network(p: float, weak: float = 1e-4, width: int = 70):
    """Five neurons on the centres of clusters, and many short ones anywhere; a few points."""
    clusters = orthonormal_clusters(90, 3, 2, 0.1, generator=generator_for("centres", 0))
    points = sample(clusters, 3, generator=generator_for("points", 0))
    g = generator_for("weak neurons", 0)
    W = torch.cat([clusters.mu, weak * torch.randn(width, 90, generator=g).double() / 90**0.5])
    a = torch.cat([clusters.labels, torch.randn(width, generator=g).double().sign()])
    return TwoLayerNet(W, a, activation=PolynomialReLU(p)), points.x, points.y


def margin(problem: Problem, t: torch.Tensor) -> torch.Tensor:
    value = problem.size * relu_power(t, problem.p)
    return torch.where(problem.for_label, value, -value).sum(dim=-1)


def test_the_smaller_problem_lies_below_the_whole_one():
    net, x, y = wide_network(3.0, weak=1e-2)
    form = as_model(net).one_layer
    assert form is not None
    votes = y.unsqueeze(1) * form.weight
    reach = torch.full((len(x),), 0.7).double()
    whole = Problem(form.gram, x @ form.W.T, votes.abs(), votes > 0, reach, 3.0)
    whole = Units.of(whole).scaled(whole)
    strong = Strong(whole, torch.arange(8))
    g = generator_for("perturbations", 0)
    for length in (0.3, 1.0):
        delta = torch.nn.functional.normalize(torch.randn(200, 1, 90, generator=g).double(), dim=-1)
        t = whole.t0 + length * delta @ form.W.T  # all lengths are 1 in these units
        less = margin(strong.problem(), torch.stack([strong.taken(row) for row in t]))
        assert bool((less <= margin(whole, t) + 1e-12).all())


def test_brackets_of_wide_networks_with_few_strong_neurons_close():
    net, x, y = wide_network(3.0)
    assert len(net.a) > FEW_NEURONS
    bracket = asked(net, x[:1], y[:1], branches=12)
    assert float(bracket.gap.max()) <= 0.01
