import math
from functools import partial

import pytest
import torch

from featureprism.geometry import row_norms
from featureprism.networks import PolynomialReLU, balanced, gaussian_shape, nudge_to_own_class
from featureprism.networks.initial import random_signs
from featureprism.papers.gmm_flow.theory import nominal_alignment_field, nominal_mass
from featureprism.probes import alignment, cluster_masses
from featureprism.probes.voronoi import voronoi_region
from featureprism.seeds import generator_for
from featureprism.training import Loss, balanced_flow, gradient_flow
from featureprism.training.trajectory import Ended

LOSS = Loss("square", "per-cluster", 5)


def start_at(clusters, log_scale, *, nudge=0.5, width=10, seed=0):
    shape = gaussian_shape(width, clusters.dim, generator=generator_for("shape", seed))
    signs = torch.tensor([1.0, -1.0]).double().repeat(width // 2)
    if nudge:
        shape = nudge_to_own_class(
            shape, signs, clusters.mu, clusters.labels, nudge, generator=generator_for("nudge", seed)
        )
    return balanced(shape, signs, log_scale)


SLOW = [(p, kind, rtol) for p, rtol in ((2.5, 1e-4), (1.0, 5e-3)) for kind in ("logistic", "exponential")]


@pytest.mark.parametrize(
    ("p", "kind", "rtol"),
    [
        *((3.0, kind, 1e-4) for kind in ("square", "logistic", "exponential")),
        (2.5, "square", 1e-4),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (*SLOW, (1.0, "square", 5e-3))),
    ],
)
def test_it_agrees_with_the_flow_of_the_weights(p, kind, rtol, clusters, train_set):
    # ε = 1e-2 times a unit-norm shape, with and without the nudge's help
    start, loss = start_at(clusters, math.log(1e-2 / 8), nudge=0.2), Loss(kind, "per-cluster", 5)
    options = {"loss": loss, "t_end": 8.0, "record": [2.0, 5.0]}
    here = balanced_flow(start, train_set.x, train_set.y, p=p, **options)
    there = gradient_flow(start.to_net(PolynomialReLU(p)), train_set.x, train_set.y, **options)
    assert here.ended is there.ended is Ended.TIME_REACHED
    for ours, theirs in zip(here.snapshots, there.snapshots, strict=True):
        f, g = ours.to_net(PolynomialReLU(p))(train_set.x), theirs(train_set.x)
        assert float((f - g).detach().abs().max()) < rtol * max(1.0, float(g.detach().abs().max()))


@pytest.mark.parametrize("log10_epsilon", [-7, -20, -80])
def test_any_scale_is_an_ordinary_run(log10_epsilon, clusters, train_set):
    log_epsilon = log10_epsilon * math.log(10)
    start = start_at(clusters, log_epsilon)
    run = balanced_flow(start, train_set.x, train_set.y, p=3.0, loss=LOSS, t_end=-log_epsilon + 8)
    region = voronoi_region(start.directions, start.signs, clusters.mu, clusters.labels)
    masses = cluster_masses(run.last.log_norms, region, 5)
    assert run.ended is Ended.TIME_REACHED
    assert float((masses - 1).abs().max()) < 0.02
    assert float(alignment(run.last.directions, clusters.mu).min()) > 0.999
    assert run.work < 2500  # nearly independent of ε


def test_a_scale_far_below_the_smallest_float_is_only_a_longer_jump(clusters, train_set):
    # clusters grow at rates that differ by their noise, so they are learned far apart; look before the first
    start = start_at(clusters, -20_000.0)
    run = balanced_flow(
        start, train_set.x, train_set.y, p=3.0, loss=LOSS, t_end=15_000.0, record=[5_000.0, 10_000.0]
    )
    a, b, c = (weights.log_norms for weights in run.snapshots)
    assert run.work < 2500
    torch.testing.assert_close(b - a, c - b)  # linear growth, in closed form
    assert float(alignment(run.last.directions, clusters.mu).min()) > 0.999


def test_the_jump_lands_where_the_integrator_does(clusters, train_set, monkeypatch):
    start = start_at(clusters, math.log(1e-30), nudge=0.3)
    options = {"p": 3.0, "loss": LOSS, "t_end": 80.0, "record": [20.0, 40.0, 66.0]}
    jumped = balanced_flow(start, train_set.x, train_set.y, **options)
    monkeypatch.setattr("featureprism.training.any_scale.SETTLED", 0.0)
    walked = balanced_flow(start, train_set.x, train_set.y, **options)
    assert jumped.work < walked.work
    for a, b in zip(jumped.snapshots, walked.snapshots, strict=True):
        torch.testing.assert_close(a.log_norms, b.log_norms, atol=1e-5, rtol=0)
        torch.testing.assert_close(a.directions, b.directions, atol=1e-5, rtol=0)


def test_it_agrees_with_the_flow_of_the_weights_for_relu(clusters, train_set):
    start = start_at(clusters, math.log(0.1 / 8), width=4)
    options = {"loss": LOSS, "t_end": 1.5, "rtol": 4e-3}
    here = balanced_flow(start, train_set.x, train_set.y, p=1.0, **options).last.to_net(PolynomialReLU(1.0))
    there = gradient_flow(start.to_net(PolynomialReLU(1.0)), train_set.x, train_set.y, **options).last
    torch.testing.assert_close(here(train_set.x), there(train_set.x), atol=5e-3, rtol=0)


def test_directions_stay_on_the_sphere_and_recording_changes_nothing(clusters, train_set):
    start = start_at(clusters, -30.0, nudge=0.0)
    options = {"p": 3.0, "loss": LOSS, "t_end": 40.0}
    plain = balanced_flow(start, train_set.x, train_set.y, **options)
    seen = balanced_flow(start, train_set.x, train_set.y, record=[0.0, 3.0, 17.0, 39.0], **options)
    assert seen.times == [0.0, 3.0, 17.0, 39.0, 40.0]
    assert torch.equal(plain.last.directions, seen.last.directions)
    for weights in seen.snapshots:
        torch.testing.assert_close(row_norms(weights.directions), torch.ones(10).double())
    torch.testing.assert_close(seen.snapshots[0].directions, start.directions)


def test_without_noise_the_masses_follow_the_logistic_law(clusters):
    # the points are the centres themselves and the neurons start on them: dS/dt = 2S(1-S) exactly
    x, y = clusters.mu, clusters.labels
    start = balanced(clusters.mu, clusters.labels, math.log(0.05))
    times = [0.5, 1.5, 3.0, 6.0]
    run = balanced_flow(start, x, y, p=3.0, loss=LOSS, t_end=6.0, record=times)
    for t, weights in zip(run.times, run.snapshots, strict=True):
        masses = (2 * weights.log_norms).exp()
        torch.testing.assert_close(
            masses, torch.full_like(masses, nominal_mass(0.05**2, t)), rtol=1e-5, atol=0
        )


def test_without_noise_the_cosines_follow_the_nominal_field(clusters):
    start = start_at(clusters, -200.0, nudge=0.1)
    c = start.directions @ clusters.mu.T
    h, steps = 0.002, 1000
    for _ in range(steps):  # midpoint rule on the nominal equations
        k = nominal_alignment_field(c, start.signs, clusters.labels, 3.0)
        c = c + h * nominal_alignment_field(c + h / 2 * k, start.signs, clusters.labels, 3.0)
    run = balanced_flow(start, clusters.mu, clusters.labels, p=3.0, loss=LOSS, t_end=h * steps)
    torch.testing.assert_close(run.last.directions @ clusters.mu.T, c, atol=1e-5, rtol=0)


def test_fewer_points_than_dimensions_is_the_same_flow(clusters, train_set):
    # 30 points in 60 dimensions run in their span; padding with zeros in 10 more dimensions must not matter
    keep = torch.arange(0, 100, 4)
    x, y = train_set.x[keep], train_set.y[keep]
    start = start_at(clusters, -20.0, nudge=0.0)
    pad = lambda t: torch.cat([t, torch.zeros(len(t), 10).double()], dim=1)  # noqa: E731
    wide = balanced(pad(start.directions), start.signs, -20.0 + 0)
    wide = type(wide)(wide.directions, start.log_norms, start.signs)
    options = {"p": 3.0, "loss": LOSS, "t_end": 30.0}
    a = balanced_flow(start, x, y, **options).last
    b = balanced_flow(wide, pad(x), y, **options).last
    torch.testing.assert_close(pad(a.directions), b.directions, atol=1e-5, rtol=0)


def test_a_flow_with_kinks_in_pieces_has_a_snapshot_at_every_end(clusters, train_set):
    """Lengths whose equal steps add up to a rounding error less than the whole; the pieces lead where one run does."""
    weights, lengths = start_at(clusters, math.log(0.05)), [0.31, 0.57, 0.64, 0.89]
    run = partial(balanced_flow, x=train_set.x, y=train_set.y, p=1.5, loss=LOSS, rtol=1e-2)
    whole = run(weights, t_end=sum(lengths))
    for length in lengths:
        piece = run(weights, t_end=length)
        assert piece.times == [length]
        weights = piece.last
    assert float((weights.log_norms - whole.last.log_norms).abs().max()) < 2e-2


def test_bad_input_is_refused(clusters, train_set):
    start = start_at(clusters, -5.0)
    with pytest.raises(ValueError, match="at least 1"):
        balanced_flow(start, train_set.x, train_set.y, p=0.5, loss=LOSS, t_end=1.0)
    with pytest.raises(ValueError, match="NaN"):
        balanced_flow(start, train_set.x * math.nan, train_set.y, p=3.0, loss=LOSS, t_end=1.0)


def test_random_signs_are_fair(generator):
    assert abs(float(random_signs(10000, generator=generator).mean())) < 0.03
