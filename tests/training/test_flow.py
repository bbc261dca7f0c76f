import math
from itertools import pairwise

import pytest
import torch

from featureprism.networks import PolynomialReLU, ReLU, Tanh, balanced, gaussian_shape, gaussian_start
from featureprism.networks.initial import random_signs
from featureprism.probes.alignment import balancedness
from featureprism.training import Loss, gradient_descent, gradient_flow
from featureprism.training.integrators import StepLimitError, adaptive_segments, fixed_segments
from featureprism.training.span import span_coordinates
from featureprism.training.trajectory import Ended

LOSS = Loss("square", "per-cluster", 5)


def final(segments):
    *_, last = segments
    return last.at(last.end)


def test_the_error_of_fixed_steps_falls_as_the_fourth_power():
    # dy/dt = -y², y(0) = 1: y(t) = 1/(1+t)
    start = torch.ones(1).double()
    errors = [
        abs(float(final(fixed_segments(lambda y: -(y**2), start, 0.0, 2.0, step_size=h))) - 1 / 3)
        for h in (0.2, 0.1)
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize("start", [0.0, 0.1, 1 / 3, 1e6])
def test_the_last_fixed_step_ends_where_it_was_asked_to(start):
    for duration in (0.01 * k for k in range(1, 200)):
        parts = list(
            fixed_segments(lambda y: -y, torch.ones(1).double(), start, start + duration, step_size=0.03)
        )
        assert parts[-1].end == start + duration
        assert all(a.end == b.start for a, b in pairwise(parts))


def test_adaptive_steps_meet_their_tolerance_and_interpolate():
    start = torch.tensor([1.0, 0.0]).double()  # the circle
    turn = lambda s: torch.stack([-s[1], s[0]])  # noqa: E731
    for segment in adaptive_segments(turn, start, 0.0, 6.0, rtol=1e-9, atol=1e-12):
        middle = (segment.start + segment.end) / 2
        torch.testing.assert_close(
            segment.at(middle), torch.tensor([math.cos(middle), math.sin(middle)]).double()
        )
    assert segment.end == 6.0


@pytest.mark.parametrize(
    "segments",
    [
        lambda f, y: fixed_segments(f, y, 0.0, 2.0, step_size=0.1),
        lambda f, y: adaptive_segments(f, y, 0.0, 2.0, rtol=1e-6, atol=1e-9),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_blow_up_is_an_error(segments):
    with pytest.raises(StepLimitError):
        final(segments(lambda y: y**3, torch.tensor([2.0]).double()))  # infinite at t = 1/8


@pytest.mark.parametrize("activation", [PolynomialReLU(3.0), Tanh()], ids=str)
def test_smooth_flow_is_the_limit_of_descent(activation, train_set, generator):
    net = gaussian_start(5, 60, 0.3, activation, generator=generator)
    flow = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=2.0).last.W.detach()
    gaps = []
    for steps in (200, 400):
        run = gradient_descent(net, train_set.x, train_set.y, loss=LOSS, step_size=2.0 / steps, steps=steps)
        gaps.append(float((run.last.W.detach() - flow).norm()))
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.1)  # Euler: first order


def test_flow_keeps_balancedness_constant_even_when_unbalanced(train_set, generator):
    net = gaussian_start(5, 60, 0.3, PolynomialReLU(3.0), generator=generator)
    run = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=5.0, record=[0.0, 1.0, 2.5])
    start, *later = [balancedness(n.W, n.a).detach() for n in run.snapshots]
    assert run.times == [0.0, 1.0, 2.5, 5.0]
    for now in later:
        torch.testing.assert_close(now, start, atol=1e-6, rtol=0)


def test_relu_flow_halves_its_step_until_it_settles(train_set, generator):
    net = gaussian_start(5, 60, 0.1, ReLU(), generator=generator)
    run = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=3.0, record=[1.5])
    assert run.ended is Ended.TIME_REACHED
    assert run.error < 1e-3
    finer = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=3.0, step_size=0.05, rtol=3e-4)
    torch.testing.assert_close(run.last.W, finer.last.W, atol=2e-3, rtol=0)


def test_recording_does_not_change_the_flow(train_set, generator):
    signs = random_signs(6, generator=generator)
    net = balanced(gaussian_shape(6, 60, generator=generator), signs, math.log(1e-2)).to_net(
        PolynomialReLU(3.0)
    )
    plain = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=4.0)
    seen = gradient_flow(net, train_set.x, train_set.y, loss=LOSS, t_end=4.0, record=[0.3, 1.1, 3.9])
    assert torch.equal(plain.last.W, seen.last.W)


def test_span_coordinates_go_down_and_up_without_loss(generator):
    x, W = torch.randn(7, 30, generator=generator).double(), torch.randn(4, 30, generator=generator).double()
    W[2] = x[0] - 2 * x[1]  # inside the span: no outside direction
    coordinates = span_coordinates(x, W)
    torch.testing.assert_close(coordinates.up(coordinates.down(W)), W)
    torch.testing.assert_close(coordinates.points @ coordinates.down(W).T, x @ W.T)
    assert float(coordinates.outside[2].norm()) == 0
