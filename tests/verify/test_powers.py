"""Any power: brackets of random networks against brute force, curves against φ itself, and the laws of scale and of more cells."""

import math
from functools import partial
from itertools import pairwise

import pytest
import torch
from asking import asked

from featureprism.models.activations import relu_power
from featureprism.networks import PolynomialReLU, PowerReLU, TwoLayerNet
from featureprism.seeds import generator_for
from featureprism.verify.one_layer import interior_point as interior
from featureprism.verify.one_layer.cells import Cells, Problem, Proof, envelope, evaluate, whole_space
from featureprism.verify.one_layer.envelopes import quadratic_below, quotient, slope_of, tangent_quadratic
from featureprism.verify.one_layer.interior_point import Search, Space, as_proof, contacts, solve

POWERS = (1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 4.2, 6.0, 10.0)
bracketed = partial(asked)


def gaussian(p, seed, *, width=6, dim=2, num_points=4):
    """A network with biases on odd seeds, normalised on seeds 2 and 3 of four; points and the labels it gives them."""
    g = generator_for("any power", seed)
    W, a, b = (torch.randn(*s, generator=g).double() for s in ((width, dim), (width,), (width,)))
    kind = PolynomialReLU if seed % 4 > 1 else PowerReLU
    net = TwoLayerNet(W, a, b if seed % 2 else None, activation=kind(p))
    x = torch.randn(num_points, dim, generator=g).double()
    with torch.no_grad():
        return net, x, torch.where(net(x) >= 0, 1.0, -1.0).double()


def truth_in_the_plane(net, x, y, upper, directions=720, radii=120):
    """From above: the first flip on a fine fan of rays, by scanning and halving. Shares nothing with the attack."""
    angle = torch.arange(directions).double() * (2 * math.pi / directions)
    rays = torch.stack([angle.cos(), angle.sin()], dim=1)
    nearest = []
    with torch.no_grad():
        for point, label in zip(x, y, strict=True):
            first = torch.full((directions,), torch.inf).double()
            for r in torch.linspace(upper, upper / radii, radii).double():
                first = torch.where(label * net(point + r * rays) <= 0, r, first)
            low, high = first - upper / radii, first
            for _ in range(40):
                middle = (low + high) / 2
                flips = label * net(point + middle.clamp_max(upper).unsqueeze(1) * rays) <= 0
                low, high = torch.where(flips, low, middle), torch.where(flips, middle, high)
            nearest.append(high.min().clamp_min(0.0))
    return torch.stack(nearest)


def check_power(p, seeds, **sizes):
    """Every certificate below the truth; returns the gaps of all points that can be flipped."""
    gaps = []
    for seed in seeds:
        net, x, y = gaussian(p, seed, **sizes)
        upper = 4 * float(x.norm(dim=1).max())
        bracket, truth = bracketed(net, x, y, branches=60), truth_in_the_plane(net, x, y, upper)
        assert bool((bracket.certified <= truth).all()), f"certificate above the truth, p = {p}, seed {seed}"
        gaps.append(bracket.gap[torch.isfinite(bracket.attacked) & (bracket.attacked > 0)])
    return torch.cat(gaps)


@pytest.mark.parametrize("p", POWERS)
def test_brackets_of_any_power_hold_the_truth_and_close(p):
    gaps = check_power(p, (2 + POWERS.index(p) % 2,), num_points=1)
    assert float(gaps.max()) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
def test_brackets_of_many_networks_of_any_power_hold_the_truth(p):
    gaps = check_power(p, range(100, 140))
    assert float(gaps.median()) <= 0.02


@pytest.mark.parametrize("p", [1.0, *POWERS])
def test_tangents_lie_above_and_below_the_power_on_their_interval(p):
    g = generator_for("intervals", 0)
    low = torch.randn(300, 1, generator=g).double()
    high = low + 2 * torch.rand(300, 1, generator=g).double()
    c = 1.5 * torch.randn(300, 1, generator=g).double()
    t = low + torch.linspace(0, 1, 101).double() * (high - low)
    scale = 1e-9 * (1 + relu_power(high.abs() + 2, p))
    phi, above = relu_power(t, p), tangent_quadratic(c.expand_as(t), low.expand_as(t), high.expand_as(t), p)
    assert bool((above.at(t) >= phi - scale).all())
    slope = slope_of(c.abs(), p).expand_as(t)
    below = quadratic_below(slope, low.expand_as(t), high.expand_as(t), p)
    assert bool((below.at(t) <= phi + scale).all())


@pytest.mark.parametrize("p", POWERS)
def test_the_lowest_quadratic_of_a_curvature_meets_the_power_where_it_is_said_to(p):
    g = generator_for("curvatures", 1)
    low = torch.randn(200, 1, generator=g).double()
    high = low.clamp_min(-1.5) + 0.05 + 2 * torch.rand(200, 1, generator=g).double()
    low, high = low[high > 0.02].unsqueeze(1), high[high > 0.02].unsqueeze(1)
    most = quotient(high, high * (1 - 1e-3), p)
    kappa = (most * 10 ** (-3 * torch.rand(len(low), 1, generator=g).double())).clamp_min(1e-6)
    met = contacts(kappa, low, high, p)
    x1, x2 = met.first, met.second
    rise = (relu_power(x2, p) - relu_power(x1, p)) / (x2 - x1).clamp_min(1e-12)
    t = low + torch.linspace(0, 1, 101).double() * (high - low)
    q = relu_power(x1, p) + rise * (t - x1) - kappa * (t - x1) * (x2 - t) / 2
    assert bool((q >= relu_power(t, p) - 1e-6 * (1 + relu_power(high, p))).all())


def test_newtons_method_finds_the_projection_onto_a_half_space():
    # y f = t₁² - t₂² with t₁ = 1 always and t₂ = ⟨u, δ⟩: flips from ⟨u, δ⟩ = 1 on
    gram = torch.tensor([[0.0, 0.0], [0.0, 1.0]]).double()
    own = torch.tensor([[True, False]])
    one = torch.ones(1).double()
    problem = Problem(
        gram, torch.tensor([[1.0, 0.0]]).double(), torch.ones(1, 2).double(), own, 1.2 * one, 2.0
    )
    cells = whole_space(problem)
    zero = torch.zeros(1, 2).double()
    start = Proof(one, zero, zero + 0.5, zero, zero, zero, -one, torch.tensor([[1.0, 0.9]]).double())
    found = solve(problem, cells, start, one, Space.of(gram), 25)
    assert 0.8 <= float(found.bound) <= 1 + 1e-9
    halved = Cells(
        cells.floor, cells.ceiling, cells.low, torch.minimum(cells.high, torch.tensor([1.2, 1.0]).double())
    )
    assert float(evaluate(problem, halved, found).bound) >= float(found.bound) - 1e-9


def test_squares_close_where_the_best_quadratic_is_the_neuron_itself():
    bracket = bracketed(*gaussian(2, 0, width=12, dim=8, num_points=2), branches=8)
    assert float(bracket.gap.max()) <= 0.01


def test_a_tangent_at_0_is_not_taken_for_one_through_both_ends():
    one, half = torch.ones(1).double(), torch.tensor([[0.5]]).double()
    problem = Problem(one.unsqueeze(0), half, one.unsqueeze(0), half < 0, one, 2.0)
    cells, space = whole_space(problem), Space.of(problem.gram)
    nothing = torch.zeros(1, 2).double()
    state = Search(torch.zeros(1, 1).double(), 0.1 * one, 0.2 * one.unsqueeze(0), nothing, one, half, nothing)
    proof = as_proof(problem, cells, state, space)  # κ = e/τ = 2: t² itself
    assert 0 < float(proof.centre) < 1e-6
    assert float(envelope(problem, cells, proof).q2) == pytest.approx(2.0)


@pytest.mark.parametrize("p", [1.0, 10.0])
def test_more_cells_never_prove_less(p):
    net, x, y = gaussian(p, 0, width=10, dim=6, num_points=1)
    proven = [bracketed(net, x, y, branches=cells, gap=1e-6).certified for cells in (1, 5)]
    for fewer, more in pairwise(proven):
        assert bool((more >= fewer * (1 - 1e-9)).all())


def test_brackets_scale_with_the_network_and_the_data():
    p = 3.0
    net, x, y = gaussian(p, 3, width=8, dim=4, num_points=1)
    net = TwoLayerNet(net.W.detach(), net.a.detach(), net.b.detach(), activation=PowerReLU(p))
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    plain = bracketed(net, x, y, branches=2)
    W, a, b = net.W.detach(), net.a.detach(), net.b.detach()
    for height, unit in ((2.0**-40, 1.0), (2.0**40, 1.0), (1.0, 2.0**-40), (1.0, 2.0**40)):
        other = TwoLayerNet(W, height * a, unit * b, activation=PowerReLU(p))
        scaled = bracketed(other, unit * x, y, branches=2)
        torch.testing.assert_close(scaled.attacked / unit, plain.attacked, rtol=1e-9, atol=0)
        torch.testing.assert_close(scaled.certified / unit, plain.certified, rtol=1e-6, atol=0)


def test_a_form_that_no_curvature_makes_positive_ends_no_search():
    space = Space.of(torch.eye(2, dtype=torch.float64))
    ones = torch.ones(2, 2, dtype=torch.float64)
    none = torch.zeros(2, 4, dtype=torch.float64)
    e = torch.tensor([[1e6, 1e6], [0.5, 0.5]], dtype=torch.float64)  # far too bent; positive as it is
    state = Search(ones, ones[:, 0], e, none, ones[:, 0], ones, none)
    after, inverse = interior._with_positive_form(state, space, torch.zeros_like(e), e > 0)
    assert torch.isfinite(inverse).all()
    assert torch.equal(after.e[1], e[1])
    torch.testing.assert_close(inverse[1], torch.eye(2, dtype=torch.float64) / (1 - 0.5))
