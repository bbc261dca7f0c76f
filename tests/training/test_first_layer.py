"""One algorithm, three representations: each against the plain loop, and against autograd."""

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.models.one_layer import stack
from featureprism.networks import PolynomialReLU, ReLU, gaussian_start, grouped_start, voting_start
from featureprism.networks.grouped import GroupedNet
from featureprism.seeds import generator_for
from featureprism.training import Loss, first_layer_descent, gradient_descent, growing_lumps
from featureprism.training.trajectory import Ended


@pytest.fixture
def data():
    clusters = orthogonal_clusters(80, 2, 2, 1.0, generator=generator_for("centres", 0))
    return sample(clusters, 40, generator=generator_for("train", 0))


@pytest.mark.parametrize("representation", ["direct", "gram", "auto", "patterns"])
def test_two_class_training_is_the_plain_loop(representation, data, generator):
    net = voting_start(3, 80, 0.1, ReLU(), generator=generator)
    options = {"step_size": 0.05, "steps": 60}
    run = first_layer_descent(net, data.x, data.y, representation=representation, record=(0, 7), **options)
    plain = gradient_descent(
        net, data.x, data.y, loss=Loss("logistic", "mean"), fixed=("a",), record=(7,), **options
    )
    assert run.times == [0, 7, 60]
    assert run.ended is Ended.TIME_REACHED
    for found, wanted in zip(run.snapshots[1:], plain.snapshots, strict=True):
        torch.testing.assert_close(found.W, wanted.W, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found.b, wanted.b, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(run.snapshots[0].W, net.W)


@pytest.mark.parametrize("representation", ["direct", "gram", "patterns"])
def test_k_class_training_is_autograd(representation, data, generator):
    net = grouped_start(4, 2, 80, 0.1, generator=generator)
    W = net.W.detach().clone().requires_grad_()
    for _ in range(30):
        z = (data.x @ W.reshape(8, 80).T).reshape(-1, 4, 2)
        loss = torch.nn.functional.cross_entropy(torch.relu(z).mean(dim=2), data.cluster)
        (slope,) = torch.autograd.grad(loss, W)
        W = (W - 0.05 * slope).detach().requires_grad_()
    run = first_layer_descent(
        net, data.x, data.cluster, step_size=0.05, steps=30, representation=representation
    )
    torch.testing.assert_close(run.last.W, W, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("representation", ["direct", "gram"])
def test_a_stack_with_its_own_data_and_step_sizes_is_one_after_another(representation, data, generator):
    nets = [voting_start(3, 80, std, ReLU(), generator=generator) for std in (0.1, 0.01)]
    x = torch.stack([data.x, 2 * data.x])
    rates = torch.tensor([0.05, 0.02]).double()
    options = {"steps": 25, "representation": representation}
    both = first_layer_descent(stack(nets), x, data.y, step_size=rates, **options).last
    for i in range(2):
        alone = first_layer_descent(nets[i], x[i], data.y, step_size=float(rates[i]), **options).last
        torch.testing.assert_close(both[i].W, alone.W)
        torch.testing.assert_close(both[i].b, alone.b)


def test_patterns_are_the_direct_run_of_a_stack(data, generator):
    nets = stack([voting_start(3, 80, std, ReLU(), generator=generator) for std in (0.1, 0.01)])
    rates = torch.tensor([0.05, 0.02]).double()
    direct, patterns = (
        first_layer_descent(nets, data.x, data.y, step_size=rates, steps=25, representation=name)
        for name in ("direct", "patterns")
    )
    torch.testing.assert_close(patterns.last.W, direct.last.W, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(patterns.last.b, direct.last.b, rtol=1e-10, atol=1e-12)


def test_stacks_of_grouped_networks(data, generator):
    nets = [grouped_start(4, 1, 80, 0.1, generator=generator) for _ in range(2)]
    both = first_layer_descent(
        GroupedNet(torch.stack([n.W for n in nets])), data.x, data.cluster, step_size=0.05, steps=9
    )
    alone = first_layer_descent(nets[1], data.x, data.cluster, step_size=0.05, steps=9)
    torch.testing.assert_close(both.last[1].W, alone.last.W)


def test_bad_requests_are_refused(data, generator):
    net = voting_start(3, 80, 0.1, ReLU(), generator=generator)
    with pytest.raises(ValueError, match="representation"):
        first_layer_descent(net, data.x, data.y, step_size=0.1, steps=1, representation="kernel")
    both = torch.stack([data.x, data.x])
    with pytest.raises(ValueError, match="one set of points"):
        first_layer_descent(net, both, data.y, step_size=0.1, steps=1, representation="patterns")
    with pytest.raises(ValueError, match="positive"):
        first_layer_descent(net, data.x, data.y, step_size=-0.1, steps=1)
    power = gaussian_start(4, 80, 0.1, PolynomialReLU(3.0), generator=generator)
    with pytest.raises(ValueError, match="ReLU"):
        first_layer_descent(power, data.x, data.y, step_size=0.1, steps=1)


def test_lumps_add_up_and_stand_for_their_steps(data, generator):
    lumps = growing_lumps(1000, 0.1)
    assert sum(lumps) == 1000
    assert lumps[:20] == [1] * 20
    assert max(lumps) < 110
    net = voting_start(3, 80, 1e-3, ReLU(), generator=generator)
    options = {"step_size": 1e-3, "representation": "gram"}
    one_by_one = first_layer_descent(net, data.x, data.y, steps=1000, **options)
    fine = growing_lumps(1000, 0.02)
    lumped = first_layer_descent(net, data.x, data.y, steps=len(fine), lumps=fine, **options)
    margins = [data.y * run.last(data.x).detach() for run in (one_by_one, lumped)]
    torch.testing.assert_close(margins[0], margins[1], rtol=0.02, atol=0.02)
    with pytest.raises(ValueError, match="lump"):
        first_layer_descent(net, data.x, data.y, steps=3, lumps=[1], **options)
