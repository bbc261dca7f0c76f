import pytest
import torch

from featureprism.models.one_layer import stack
from featureprism.networks import (
    LinearClassifier,
    PolynomialReLU,
    ReLU,
    Tanh,
    TwoLayerNet,
    gaussian_start,
    voting_start,
)
from featureprism.seeds import generator_for
from featureprism.training import Loss, gradient_descent, stochastic_descent
from featureprism.training.trajectory import Ended

LOSS = Loss("square", "mean")


def autograd_descent(net, x, y, loss, step_size, steps):
    """The plain loop everybody writes."""
    parameters = [p.detach().clone().requires_grad_() for p in net.parameters()]
    for _ in range(steps):
        value = loss.value(TwoLayerNet.forward(_with(net, parameters), x), y)
        slopes = torch.autograd.grad(value, parameters)
        parameters = [
            (p - step_size * g).detach().requires_grad_() for p, g in zip(parameters, slopes, strict=True)
        ]
    return parameters


def _with(net, parameters):
    class View:
        W, a, *_rest = parameters
        b = None if net.b is None else parameters[2]
        activation = net.activation

    return View


@pytest.mark.parametrize("activation", [ReLU(), PolynomialReLU(3.0), Tanh()], ids=str)
def test_descent_is_the_autograd_loop(activation, train_set, generator):
    net = gaussian_start(6, 60, 0.3, activation, generator=generator)
    net = TwoLayerNet(net.W, net.a, 0.1 * torch.ones(6).double(), activation=activation)
    run = gradient_descent(net, train_set.x, train_set.y, loss=LOSS, step_size=0.3, steps=20)
    expected = autograd_descent(net, train_set.x, train_set.y, LOSS, 0.3, 20)
    for found, wanted in zip(run.last.parameters(), expected, strict=True):
        torch.testing.assert_close(found, wanted, check_dtype=True)
    assert run.ended is Ended.TIME_REACHED


def test_fixed_parameters_stay(train_set, generator):
    net = voting_start(3, 60, 0.3, ReLU(), generator=generator)
    assert net.a.tolist() == pytest.approx([1 / 3] * 3 + [-1 / 3] * 3)
    options = {"loss": LOSS, "step_size": 0.3, "steps": 5}
    run = gradient_descent(net, train_set.x, train_set.y, fixed=("a",), **options)
    one = gradient_descent(net, train_set.x, train_set.y, **{**options, "steps": 1})
    assert torch.equal(run.last.a, net.a)
    assert not torch.equal(run.last.b, net.b)
    first = gradient_descent(net, train_set.x, train_set.y, fixed=("a",), **{**options, "steps": 1})
    assert torch.equal(first.last.W, one.last.W)
    with pytest.raises(ValueError, match="fixed"):
        gradient_descent(net, train_set.x, train_set.y, fixed=("v",), **options)


def test_a_stack_descends_as_its_networks_do_alone(train_set, generator):
    nets = [gaussian_start(6, 60, 0.3, PolynomialReLU(3.0), generator=generator) for _ in range(3)]
    options = {"loss": LOSS, "step_size": 0.5, "steps": 30}
    together = gradient_descent(stack(nets), train_set.x, train_set.y, **options).last
    for i, net in enumerate(nets):
        alone = gradient_descent(net, train_set.x, train_set.y, **options).last
        torch.testing.assert_close(together[i].W, alone.W)


def test_recording_and_probing_change_nothing(train_set, generator):
    net = gaussian_start(6, 60, 0.3, ReLU(), generator=generator)
    options = {"loss": LOSS, "step_size": 0.5, "steps": 20}
    plain = gradient_descent(net, train_set.x, train_set.y, **options)
    seen = gradient_descent(
        net,
        train_set.x,
        train_set.y,
        record=[0, 7, 13],
        **options,
    )
    assert seen.times == [0, 7, 13, 20]
    assert torch.equal(plain.last.W, seen.last.W)


def test_divergence_is_said_not_hidden(train_set, generator):
    net = gaussian_start(6, 60, 1.0, PolynomialReLU(3.0), generator=generator)
    run = gradient_descent(
        net, train_set.x, train_set.y, loss=Loss("square", "sum"), step_size=100.0, steps=300
    )
    assert run.ended is Ended.DIVERGED
    assert not run.ended.is_complete
    assert bool(torch.isfinite(run.last(train_set.x)).all())  # the last finite network
    sudden = gradient_descent(
        net, train_set.x, train_set.y, loss=Loss("square", "sum"), step_size=1e200, steps=1
    )
    assert sudden.ended is Ended.DIVERGED  # although only the last step did it
    with pytest.raises(ValueError, match="steps"):
        gradient_descent(net, train_set.x, train_set.y, loss=LOSS, step_size=0.1, steps=-1)
    with pytest.raises(ValueError, match="Labels"):
        gradient_descent(net, train_set.x, 0 * train_set.y, loss=LOSS, step_size=0.1, steps=1)


@pytest.mark.parametrize("closed", [True, False])
def test_sgd_with_one_batch_and_no_momentum_is_descent(closed, train_set, generator):
    start = gaussian_start(6, 60, 0.3, ReLU(), generator=generator)
    expected = gradient_descent(start, train_set.x, train_set.y, loss=LOSS, step_size=0.3, steps=10).last
    module = start if closed else torch.nn.Sequential(start)  # a wrapped network goes through autograd
    stochastic_descent(
        module,
        train_set.x,
        train_set.y,
        loss=LOSS,
        step_size=0.3,
        batch_size=1000,
        epochs=10,
        generator=generator,
    )
    torch.testing.assert_close(start.W, expected.W)


def test_sgd_stops_at_its_target_and_repeats_itself(train_set):
    def run():
        net = LinearClassifier(torch.zeros(60).double())
        run = stochastic_descent(
            net,
            train_set.x,
            train_set.y,
            loss=LOSS,
            step_size=0.1,
            batch_size=10,
            epochs=200,
            momentum=0.9,
            target_loss=0.01,
            record=[0, 1],
            generator=generator_for("batches", 0),
        )
        assert run.times[:2] == [0, 1]
        assert run.last is net
        return net.w.detach(), run.ended

    (first, ended), (second, _) = run(), run()
    assert ended is Ended.LOSS_BELOW_TARGET
    assert torch.equal(first, second)
