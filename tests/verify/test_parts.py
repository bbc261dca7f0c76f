"""Parts of the search, each against its own closed form; what a proof rests on is judged by the checker elsewhere."""

import gzip
import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import featureprism as fp
from featureprism.checker.certificate import Certificate
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.vnnlib import Case
from featureprism.models import read_model
from featureprism.models.model import of_weights
from featureprism.verify import referee
from featureprism.verify.deep import methods as deep
from featureprism.verify.driver import _Outcome
from featureprism.verify.float32 import Program, _witnessed
from featureprism.verify.one_layer import linear_cells
from featureprism.verify.one_layer.cells import Proof
from featureprism.verify.one_layer.envelopes import contacts
from featureprism.verify.properties import api
from featureprism.verify.properties.relaxation import PLACES, stored
from featureprism.verify.query import Limits, Query
from featureprism.verify.weights import STILL, finite_weights


def test_a_search_for_the_farthest_radius_ends_where_its_bracket_is_closed(monkeypatch):
    """Proofs exist up to 0.7, and the margin falls in a line."""
    monkeypatch.setattr(deep, "TRIALS", 100)
    ends = [0.1, 1.0]

    def at(radius, _target):
        assert ends[1] - ends[0] >= deep.RESOLUTION * ends[1], "a trial after the end"
        ends[radius > 0.7] = radius
        return (Certificate(radius, "deep"), 0.0) if radius <= 0.7 else (None, radius / 0.7 - 1)

    proving: Any = SimpleNamespace(limits=Limits(math.inf), at=at)
    found = deep.Proving.farthest(proving, 0, 0.1, 1.0)
    assert found is not None
    assert 0.7 * (1 - 2 * deep.RESOLUTION) <= found.radius <= 0.7
    ends[:] = 0.1, 0.5
    whole = deep.Proving.farthest(proving, 0, 0.1, 0.5)
    assert whole is not None
    assert whole.radius == 0.5


def test_a_share_of_the_time_is_a_share_of_what_is_left(monkeypatch):
    monkeypatch.setattr(time, "thread_time", lambda: 100.0)
    share = Limits(5, 130.0).share(3)
    assert (share.branches, share.deadline) == (5, 110.0)
    assert Limits(5).share(3).deadline == math.inf


@pytest.mark.parametrize(
    ("branches", "out", "why"),
    [
        (5, True, "the branches were used up"),
        (0, False, "the branches were used up"),
        (5, False, "the relaxation proves no more"),
    ],
)
def test_what_ended_a_search_is_said(branches, out, why):
    limits = Limits(branches)
    assert not limits.allow(6) if out else limits.allow()
    arguments = torch.tensor(False), torch.tensor(1.0), "cells", limits, Query(norm=2)
    assert _Outcome._why(*arguments) == why


def test_a_model_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "LARGEST_MODEL", 10)
    path = tmp_path / "model.onnx.gz"
    for size in (10, 11):
        path.write_bytes(gzip.compress(bytes(size)))
        if size == 10:
            assert api._unpacked(path) == bytes(10)
        else:
            with pytest.raises(ValueError, match="unpacks to more than 10 bytes"):
                api._unpacked(path)


def test_a_counterexample_in_float32_stays_in_its_box():
    """The float32 nearest to 0.1 lies above it, that nearest to 0.7 below it."""
    layers = Layers((np.eye(2), np.eye(2)), (np.zeros(2), np.zeros(2)), "relu")
    case = Case(np.array([0.0, 0.7]), np.array([0.1, 0.9]), np.array([[1.0, 0.0]]), np.array([5.0]))
    near = api._as_float32(np.array([0.1, 0.7]), [case], layers)
    assert (near == near.astype(np.float32)).all()
    assert (case.lower <= near).all()
    assert (near <= case.upper).all()


def test_stored_slopes_and_multipliers_have_few_digits():
    slopes, beta = torch.rand(50), 100 * torch.rand(50)
    kept, rounded = stored(slopes, beta)
    assert torch.equal(kept * PLACES, torch.round(kept * PLACES))
    mantissa, _ = torch.frexp(rounded)
    assert torch.equal(mantissa * PLACES, torch.round(mantissa * PLACES))
    torch.testing.assert_close(kept, slopes.double(), rtol=0, atol=1 / PLACES)
    torch.testing.assert_close(rounded, beta.double(), rtol=2 / PLACES, atol=0)


def test_shares_of_all_points_that_are_known_are_these_shares():
    """0.29 and 0.57 times 100 are a little less than whole numbers in floats."""
    least, most = np.array([0.29]), np.array([0.57])
    assert referee._of_all(least, most, 100, 100) == (pytest.approx(0.29), pytest.approx(0.57))
    low, high = referee._of_all(least, most, 100, 1000)
    assert 0.1 < float(low[0]) < 0.29
    assert 0.57 < float(high[0]) < 0.8


def sequential():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))


class Tilted(nn.Module):
    """One output tanh x₁, of Lipschitz constant 1."""

    def forward(self, z):
        return torch.tanh(z[:, 0])


@pytest.mark.parametrize("lipschitz", [0.0, -1.0, math.inf, math.nan])
def test_a_lipschitz_constant_is_positive_and_finite(lipschitz):
    x, y, net = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([1.0]).double(), Tilted()
    with pytest.raises(ValueError, match="lipschitz must be positive"):
        fp.robust_radius(net, x, y, lipschitz=lipschitz)
    assert 0 < float(fp.robust_radius(net, x, y, lipschitz=1.0).certified[0]) <= 1


def test_a_lipschitz_constant_is_of_a_module():
    with pytest.raises(ValueError, match="torch module"):
        fp.robust_radius(lambda z: z[:, 0], np.ones((1, 2)), np.array([1]), lipschitz=1.0)


def test_as_many_labels_as_points():
    called = lambda z: np.stack([-z[:, 0], z[:, 0]], axis=1)  # noqa: E731
    with pytest.raises(ValueError, match="2 points, 1 labels"):
        fp.robust_radius(called, np.ones((2, 2)), np.array([1]))


def test_float32_takes_only_the_module_whose_weights_were_read():
    net, other = sequential(), sequential()
    nn.init.ones_(other.get_parameter("0.bias"))
    Program.of(net, read_model(net))
    with pytest.raises(ValueError, match="one ReLU between"):
        Program.of(net, read_model(other))
    read = read_model(net)
    net[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="without hooks"):
        Program.of(net, read)


def test_a_flip_exactly_at_the_radius_counts():
    """Scores (0, x): the class 1 of x = 1 is lost at x = 0."""
    program = Program(nn.Identity())
    x, label = torch.ones(1, 1).double(), torch.tensor([1])
    for eps, length in ((1.0, 1.0), (0.99, math.inf)):
        found, *_ = _witnessed(program, x, label, [np.array([[-1.0]])], Query(norm=math.inf, eps=eps))
        assert found.tolist() == [length]


@pytest.mark.parametrize("norm", [2, math.inf])
def test_the_nearest_flip_of_linear_scores_is_that_of_the_plane(norm):
    V, x = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 2.0]])
    model = of_weights(LinearScores(V, np.zeros(2)))
    bracket = fp.robust_radius(model, x, np.array([0]), norm=norm)
    length = 11 / (5 if norm == 2 else 7)
    assert bracket.certified[0] == pytest.approx(length, rel=1e-8)
    assert bracket.attacked[0] == pytest.approx(length, rel=1e-8)
    assert bracket.witness is not None
    step = V[0] / 5 if norm == 2 else np.ones(2)
    np.testing.assert_allclose(bracket.witness[0], -length * step, rtol=1e-6)


@pytest.mark.parametrize("p", [1.2, 1.5, 1.9, 2.0, 3.0])
def test_derivatives_of_contacts_are_their_difference_quotients(p):
    rng, step = np.random.default_rng(0), 1e-6
    low = torch.from_numpy(-rng.uniform(0.1, 3, size=200))
    high, kappa = (torch.from_numpy(rng.uniform(0.1, 3, size=200)) for _ in range(2))
    here = contacts(kappa, low, high, p)
    before, after = (contacts(kappa + s * step, low, high, p) for s in (-1, 1))
    for value, rate in (("first", "first_rate"), ("second", "second_rate")):
        quotient = (getattr(after, value) - getattr(before, value)) / (2 * step)
        smooth = (quotient - getattr(here, rate)).abs() <= 1e-3 * (1 + quotient.abs())
        assert float(smooth.double().mean()) > 0.97  # but for points where one case turns into another


def test_fixed_features_weigh_in_proportion_to_their_columns():
    V = np.array([[1.0, 4.0, 1e30], [0.0, 0.0, 0.0]])
    weights = np.array([1.0, math.inf, math.inf])
    found = finite_weights(of_weights(LinearScores(V, np.zeros(2))), weights)
    assert found.tolist() == [1.0, STILL * 2.0**3, STILL * 2.0**60]
    assert finite_weights(of_weights(LinearScores(V, np.zeros(2))), np.ones(3)).tolist() == [1.0] * 3


def line_problem(W, t0, size, own):
    parts = torch.tensor([t0]).double(), torch.tensor([size]).double(), torch.tensor([own])
    return linear_cells.BoxProblem(torch.tensor(W).double(), *parts, torch.ones(1).double(), 1.0)


def start(problem, cells, slope):
    nothing = torch.zeros_like(problem.t0)
    blank = dict.fromkeys(Proof.__dataclass_fields__, nothing)
    blank |= {
        "tau": torch.zeros(1).double(),
        "slope": torch.full_like(nothing, slope),
        "bound": torch.zeros(1).double(),
    }
    return linear_cells.evaluate(problem, cells, Proof(**blank))


def test_ascent_finds_the_best_slopes_and_multipliers_of_a_grid():
    """One supporting and one opposing neuron in the part where the first is at least 0.6: the best bound is that of a fine grid."""
    problem = line_problem([[1.0, -0.5], [-0.5, 1.0]], [0.8, 0.1], [1.0, 0.6], [True, False])
    whole = linear_cells.whole_box(problem)
    upper = linear_cells.halved(whole, torch.tensor([0]), torch.tensor([0.6]).double()).rows(
        torch.tensor([1])
    )
    for cells, floors in ((whole, [0.0]), (upper, np.linspace(0, 2, 21))):
        first, best = start(problem, cells, 0.5), 0.0
        for slope in np.linspace(0, 1, 41):
            for nu in floors:
                proof = start(problem, cells, slope)
                nu_floor = torch.tensor([[float(nu), 0.0]]).double()
                proof = linear_cells.evaluate(problem, cells, replace(proof, nu_floor=nu_floor))
                best = max(best, float(proof.bound))
        found = linear_cells.improve(problem, cells, first, torch.full((1,), 1e9).double(), 200)
        assert float(found.bound) >= 0.99 * best
        assert best > float(first.bound) * 1.01


def test_ascent_turns_a_neuron_off_that_only_costs():
    """[1 + x₁]₊ + [-½ - x₂]₊ > 0 for |x| < 1: the lines 1 + x₁ and 0 show it, while 1 + x₁ - ½ - x₂ shows a quarter of it."""
    problem = line_problem([[1.0, 0.0], [0.0, -1.0]], [1.0, -0.5], [1.0, 1.0], [True, True])
    cells = linear_cells.whole_box(problem)
    assert float(start(problem, cells, 1.0).bound) == pytest.approx(0.25)
    found = linear_cells.improve(
        problem, cells, start(problem, cells, 0.5), torch.full((1,), 1e9).double(), 200
    )
    assert float(found.bound) == pytest.approx(1.0, rel=0.02)
    torch.testing.assert_close(found.slope, torch.tensor([[1.0, 0.0]]).double(), rtol=0, atol=0.05)
