"""What the experiments share: sizes at the rates of the theorems, training once, the worst of all attacks."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.data import SparseSample, sample_sparse
from featureprism.geometry import LpBall
from featureprism.networks import LinearClassifier, SymmetricNet, symmetric_start
from featureprism.papers.feature_purification import setting as shared
from featureprism.papers.feature_purification.attackers import AttackerSetting
from featureprism.papers.feature_purification.measures import bench, ceiling_row, under_universal
from featureprism.probes.purification import pull_to_dense
from papers.feature_purification.sizes import BATTERY

SETTING = replace(shared.QUICK, **BATTERY)


@pytest.mark.parametrize("law", shared.HIDDEN)
def test_all_laws_of_the_hidden_vector_have_one_norm(law):
    assert 100 * shared.hidden_vector(replace(shared.QUICK, hidden=law)).second_moment == pytest.approx(2)


def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="choose one of"):
        shared.hidden_vector(replace(shared.QUICK, hidden="gaussian"))


def test_training_is_done_once_and_depends_on_nothing_else():
    first = shared.trained(SETTING, 0, "clean")
    assert shared.trained(replace(SETTING, test_points=5, attack_steps=1), 0, "clean") is first
    assert shared.trained(shared.extended(SETTING, AttackerSetting, smooth_sigma=0.5), 0, "clean") is first
    other = shared.trained(replace(SETTING, steps=41), 0, "clean")
    assert not torch.equal(other.W, first.W)
    again = shared.train(SETTING, shared.start(SETTING, 0), [shared.clean_phase(SETTING)], 0, "clean").last
    assert torch.equal(again.W, first.W)
    assert not torch.equal(shared.trained(SETTING, 0, "clean", peer=1).W, first.W)


def test_the_clock_of_clean_training_is_the_sum_of_its_steps():
    slow = replace(SETTING, step_per_bias=1e6)
    assert slow.clean_time == pytest.approx(slow.steps * slow.step_size)
    assert SETTING.clean_time < slow.clean_time
    assert SETTING.adversarial_time == 10 * SETTING.step_size


def test_the_worst_accuracy_is_the_least_of_all_attacks():
    problem, test = shared.coding(SETTING, 0), shared.test_set(SETTING, 0)
    for radius in (0.05, 0.3):
        row = shared.robustness(shared.pure_start(SETTING, 0), test, problem, SETTING, 0, radius).row
        assert row["worst"] <= min(row["clean"], row["universal"], row["fgm"], row["pgd"])


def test_the_universal_direction_breaks_a_network_that_is_nothing_else():
    problem, test = shared.coding(SETTING, 0), shared.test_set(SETTING, 0)
    dense = SymmetricNet(problem.dense_direction.unsqueeze(0), 0.0, 0.0)
    few = SparseSample(*(test[:3]), test.acceptance, test.tie_share)
    row = shared.robustness(dense, few, problem, SETTING, 0, radius=2.0).row
    assert row["universal"] == 0.0


def test_the_loss_pulls_neurons_to_the_dense_direction_from_the_start_on(generator):
    """Section 6.2: y⟨w*, z⟩ ≥ 0, so every neuron that opens at all is pulled, whatever its weights."""
    problem = shared.coding(replace(SETTING, noise=0.0), 0)
    sample = sample_sparse(problem, 500, generator=generator)
    net = symmetric_start(30, 40, 1.0, 0.5, 0.3, generator=generator)
    assert bool((pull_to_dense(net, sample.x, sample.y, problem.dense_direction) > 0).all())


def test_sizes_follow_the_rates_of_the_theorems():
    first, larger = shared.battery(100), shared.battery(400)
    assert (first.sparsity, larger.sparsity) == (5, 9)
    assert larger.c0 == pytest.approx(first.c0, abs=2e-3)
    assert larger.clean_time / first.clean_time == pytest.approx(4, rel=0.15)
    assert larger.bias_cap / first.bias_cap == pytest.approx(math.sqrt(5 / 9), rel=0.01)
    assert larger.radius * 3 / (first.radius * math.sqrt(5)) == pytest.approx(math.sqrt(5 / 9), rel=0.01)


def test_points_are_new_at_every_step():
    points = shared.draws(replace(SETTING, noise=1.0), 0, "clean")
    assert len(torch.cat([points()[0] for _ in range(10)]).unique(dim=0)) == 500


def test_under_the_universal_direction_a_linear_network_loses_what_its_exact_radii_say():
    on, ball = bench(SETTING, 0), LpBall(2, 0.1)
    direction = on.problem.dense_direction
    net = SymmetricNet(direction.unsqueeze(0), 0.0, 0.0)  # u₊ - (-u)₊ = u
    radii = LinearClassifier(direction.double()).exact_radius(on.many.x.double(), on.many.y.double())
    assert under_universal(net, on, ball) == pytest.approx(float((radii > 0.1).double().mean()))


def test_the_ceiling_is_no_lower_than_any_of_its_pure_networks():
    on = bench(SETTING, 0)
    best = ceiling_row(on, SETTING, 0)
    middle = shared.pure_net(
        on.problem.M, on.problem.w, 0.3 / SETTING.sparsity**0.5, 0.015 / SETTING.sparsity**0.5
    )
    assert best["worst"] >= shared.robustness(middle, on.test, on.problem, SETTING, 0).row["worst"] - 1e-9
    assert best["clean"] >= best["worst"]
