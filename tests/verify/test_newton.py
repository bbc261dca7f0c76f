"""Newton's method on ReLU cells: quadratics above ReLU, derivatives against differences, bounds against the proof it writes down."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.checker.power_bounds import quadratic_above
from featureprism.verify.one_layer import newton
from featureprism.verify.one_layer import newton as hinges
from featureprism.verify.one_layer.cells import Cells, Problem, first_proof, restricted, whole_space
from featureprism.verify.one_layer.cells import evaluate as evaluate_proof


def random_problem(seed: int, points: int = 4, width: int = 9, dim: int = 5) -> Problem:
    rng = np.random.default_rng(seed)
    W, t0, votes = (torch.from_numpy(rng.normal(size=s)) for s in ((width, dim), *[(points, width)] * 2))
    reach = torch.from_numpy(rng.uniform(0.2, 1.0, size=points))
    return Problem(W @ W.T, t0, votes.abs(), votes > 0, reach, 1.0)


def half_cells(problem: Problem) -> Cells:
    """The part of the ball where the first neuron that may be on or off is on."""
    whole = whole_space(problem)
    loose = (whole.low < 0) & (whole.high > 0)
    neuron = loose.to(torch.int8).argmax(dim=1)
    return restricted(problem, whole, neuron, torch.zeros(len(neuron)).double(), above=True)


def intervals(rng: np.random.Generator, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    low, high, log_c = -rng.exponential(size=n), rng.exponential(size=n), rng.normal(size=n)
    return torch.from_numpy(low), torch.from_numpy(high), torch.from_numpy(log_c)


def test_quadratics_lie_above_relu_and_touch_it_twice():
    low, high, log_c = intervals(np.random.default_rng(0), 500)
    q, _ = hinges.quadratics(log_c, low, high)
    t = low + (high - low) * torch.linspace(0, 1, 400).double().unsqueeze(1)
    above = q.at(t) - t.clamp_min(0)
    assert float(above.min()) > -1e-12
    spread = (log_c.exp() > high) & (log_c.exp() > -low)  # these touch at both ends, as they should
    ends = torch.stack([torch.maximum(low, -log_c.exp()), torch.minimum(high, log_c.exp())])
    assert torch.allclose(q.at(ends), ends.clamp_min(0), atol=1e-10)
    assert 50 < int(spread.sum()) < 450


def test_quadratics_have_the_derivatives_they_say():
    low, high, log_c = intervals(np.random.default_rng(1), 500)
    _, slope = hinges.quadratics(log_c, low, high)
    after, before = (hinges.quadratics(log_c + h, low, high)[0] for h in (1e-6, -1e-6))
    for a, b, claimed in zip(after, before, slope, strict=True):
        near_kink = ((a - b) / 2e-6 - claimed).abs() > 1e-5 * (1 + claimed.abs())
        assert int(near_kink.sum()) <= 2  # where the family changes


def test_the_checker_keeps_tangents_on_the_left_above_relu():
    rng = np.random.default_rng(2)
    high, centre = rng.exponential(size=500), -rng.exponential(size=500)
    low = -rng.exponential(size=500)
    q0, q1, q2 = quadratic_above(np.zeros(500), centre, np.zeros(500), low, high, 1.0)
    t = low + (high - low) * np.linspace(0, 1, 400)[:, None]
    above = q0.high + np.where(t > 0, q1.high, q1.low) * t + 0.5 * q2 * t**2 - np.maximum(t, 0)
    assert above.min() > -1e-14
    far = -centre > high
    touched = q0.mid + q1.mid * high + 0.5 * q2 * high**2 - high
    assert np.abs(touched[far]).max() < 1e-12


@pytest.mark.parametrize("cut", [False, True])
def test_the_gradient_is_that_of_differences(cut):
    problem = random_problem(3)
    reduced = hinges.reduced(problem, half_cells(problem) if cut else whole_space(problem))
    unknowns, mu = hinges.start(reduced), 0.01 * problem.reach**2
    at = newton.evaluate(reduced, unknowns, mu)
    step, promise = newton.newton(reduced, unknowns, at, mu)
    assert bool((promise > 0).all())
    h = 1e-6
    ends = [
        newton.evaluate(
            reduced,
            hinges.Unknowns(unknowns.log_tau + s * h * step.log_tau, unknowns.each + s * h * step.each),
            mu,
        ).barrier
        for s in (1, -1)
    ]
    share = (step.log_tau.abs() / newton.LONGEST).clamp_max(1)  # a step that was shortened promises less
    slope = (ends[0] - ends[1]) / (2 * h)
    assert bool((slope <= promise * (1 + 1e-4)).all())
    assert bool((slope[share < 1] > 0).all())


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_that_of_the_proof_and_no_worse_than_tangents_at_the_point(seed):
    problem = random_problem(seed)
    for cells in (whole_space(problem), half_cells(problem)):
        goal = 10 * problem.reach
        proof = newton.improve(problem, cells, None, goal, 40)
        reduced = hinges.reduced(problem, cells)
        unknowns = newton.ascend(reduced, hinges.start(reduced), goal, 40)
        value = newton.evaluate(reduced, unknowns, problem.reach).value
        assert torch.allclose(proof.bound, (2 * value.clamp_min(0)).sqrt(), rtol=1e-6)
        plain = first_proof(problem, cells, problem.t0, torch.ones_like(problem.reach))
        assert bool((proof.bound >= plain.bound * (1 - 1e-3)).all())


def test_a_part_of_a_cell_is_proven_at_least_as_well_as_by_the_multipliers_of_the_whole():
    problem = random_problem(7)
    whole, part = whole_space(problem), half_cells(problem)
    goal = 10 * problem.reach
    first = newton.improve(problem, whole, None, goal, 40)
    second = newton.improve(problem, part, first, goal, 3)
    assert bool((second.bound >= evaluate_proof(problem, part, first).bound).all())


def test_batches_of_any_size_prove_the_same(monkeypatch):
    problem = random_problem(8, points=6)
    cells, goal = whole_space(problem), 10 * problem.reach
    together = newton.improve(problem, cells, None, goal, 40).bound
    monkeypatch.setattr(newton, "ENTRIES", 1)
    assert torch.allclose(newton.improve(problem, cells, None, goal, 40).bound, together, rtol=1e-4)


def test_a_network_without_neurons_that_turn_is_linear():
    problem = replace(random_problem(9), t0=torch.full((4, 9), 50.0).double())
    proof = newton.improve(problem, whole_space(problem), None, 100 * problem.reach, 40)
    votes = torch.where(problem.for_label, problem.size, -problem.size)
    value, length = (votes * problem.t0).sum(dim=1), ((votes @ problem.gram) * votes).sum(dim=1).sqrt()
    exact = value.clamp_min(0) / length
    assert torch.allclose(proof.bound[exact > 0], exact[exact > 0], rtol=1e-4)
