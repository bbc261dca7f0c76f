"""The synthetic side of feature-purification: what is shared, and the small computations that bring their own truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.data import SparseSample, sample_sparse
from featureprism.geometry import LpBall, unit_rows
from featureprism.lab import Rows
from featureprism.networks import SymmetricNet, TangentNet, symmetric_start
from featureprism.papers.feature_purification import setting as shared
from featureprism.papers.feature_purification.adversaries import ATTACKERS, Attackers
from featureprism.papers.feature_purification.inside import INSIDE
from featureprism.papers.feature_purification.measures import (
    bench,
    linear_radii,
    own_coefficient,
    premise_rows,
    under_universal,
)
from featureprism.papers.feature_purification.mixtures import DENSE_MIXTURE, half_radius
from featureprism.papers.feature_purification.perturbations import PERTURBATION_DENSITY, guarded_pgd
from featureprism.papers.feature_purification.real_codes import matching_pursuit
from featureprism.papers.feature_purification.reconstruction import lasso_codes, sparsity_curve, used_at
from featureprism.papers.feature_purification.scaling import SCALING
from featureprism.papers.feature_purification.schedule import SHARES, half_share
from featureprism.papers.feature_purification.shortcut import first_component
from featureprism.papers.feature_purification.thresholds import share_passed, soft_threshold
from featureprism.probes.purification import pull_to_dense
from papers.tiny_feature_purification import SMALL

SETTING = replace(shared.QUICK, **SMALL)


def values(experiment, name, rows):
    (claim,) = (claim for claim in experiment.claims if claim.name == name)
    return claim.value(Rows.gather(rows)).tolist()


def test_sizes_follow_the_rates_of_the_theorems():
    small, large = shared.in_regime(100), shared.in_regime(400)
    assert (small.sparsity, large.sparsity) == (5, 9)
    assert all(s.k_exponent <= 0.499 and s.margin == 0 and s.noise == 1 for s in (small, large))
    assert large.clean_time / small.clean_time == pytest.approx(4, rel=0.15)
    assert large.final_bias / small.final_bias == pytest.approx(math.sqrt(5 / 9))


def test_scaling_laws_follow_the_rates_of_the_theorems_and_reach_1600_dimensions():
    for settings in SCALING.scales.values():
        for path in ("random", "pure"):
            sizes = [s for s in settings if s.path == path]
            assert [s.sparsity / 5 for s in sizes] == pytest.approx([(s.dim / 100) ** 0.36 for s in sizes])
            assert [s.c0 for s in sizes] == pytest.approx([0.15] * len(sizes), abs=2e-3)
            assert len({(s.batch / s.dim, s.steps, s.bias_growth) for s in sizes}) == 1
            times = [s.adversarial_time / s.sparsity**2 for s in sizes]
            assert times == pytest.approx([24] * len(sizes), rel=0.01)
    assert max(s.dim for s in SCALING.scales["paper"]) == 1600


@pytest.mark.parametrize("law", shared.HIDDEN)
def test_all_laws_of_the_hidden_vector_have_one_norm(law):
    assert 100 * shared.hidden_vector(replace(shared.QUICK, hidden=law)).second_moment == pytest.approx(2)


def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="choose one of"):
        shared.hidden_vector(replace(shared.QUICK, hidden="gaussian"))


def test_batches_are_new_without_a_pool_and_come_back_with_one():
    def seen(pool):
        draw = shared.draws(replace(SETTING, pool=pool, batch=50), 0, "clean")
        return torch.cat([draw()[0] for _ in range(10)]).unique(dim=0)

    assert len(seen(0)) == 500
    assert len(seen(30)) <= 30


def test_the_first_principal_component_of_stretched_points(generator):
    x = torch.randn(4000, 5, generator=generator)
    direction = torch.tensor([1.0, 2.0, 0.0, 0.0, 2.0])
    x = x + 2 * (x @ direction / 9).unsqueeze(1) * direction
    assert first_component(x, direction) == pytest.approx(1, abs=0.02)


def test_where_half_of_the_features_are_lost():
    rows = [
        {"kind": "rate", "seed": 0, "share": share, "covered": covered}
        for share, covered in zip(SHARES, (0.8, 0.8, 0.8, 0.2, 0.0), strict=True)
    ]
    assert half_share(Rows.gather(rows)).tolist() == pytest.approx([math.sqrt(2)])
    kept = [row | {"covered": 0.8} for row in rows]
    assert half_share(Rows.gather(kept)).tolist() == [math.inf]


def test_exponents_are_slopes_by_seed():
    rows = [
        {"kind": "size", "seed": seed, "path": "random", "dim": d, "drift": 3.0 * d**power}
        for seed, power in ((0, -0.5), (1, 0.25))
        for d in (50, 100, 200)
    ]
    assert values(SCALING, "drift", rows) == pytest.approx([-0.5, 0.25])


def test_training_is_done_once_and_depends_on_nothing_else():
    first = shared.trained(SETTING, 0, "clean")
    assert shared.trained(replace(SETTING, test_points=5, attack_steps=1), 0, "clean") is first
    assert shared.trained(shared.extended(SETTING, Attackers, attacker_steps=3), 0, "clean") is first
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


def test_under_the_universal_direction_a_linear_network_loses_what_its_exact_radii_say():
    on, ball = bench(SETTING, 0), LpBall(2, 0.1)
    net = SymmetricNet(on.problem.dense_direction.unsqueeze(0), 0.0, 0.0)  # u₊ - (-u)₊ = u
    kept = (linear_radii(on.problem, on.many) > 0.1).double().mean()
    assert under_universal(net, on, ball) == pytest.approx(float(kept))


def test_guarded_pgd_does_not_move_on_tiny_gradients_and_moves_on_others(generator):
    x = torch.randn(5, 3, generator=generator).double()
    y = torch.ones(5).double()
    W = torch.eye(3).double()
    assert float(guarded_pgd(SymmetricNet(1e-30 * W, 0.0, 0.1), x, y, 0.2, 4).abs().max()) < 1e-15
    moved = guarded_pgd(SymmetricNet(W, 0.0, 0.0), x, y, 0.2, 4)
    assert torch.allclose(moved, torch.full((5, 3), -0.2 / 3**0.5).double(), atol=1e-9)


def test_lasso_thresholds_softly_on_an_orthonormal_basis(generator):
    targets = torch.randn(4, 6, generator=generator).double()
    codes = lasso_codes(torch.eye(6).double(), targets, 0.3)
    assert torch.allclose(codes, torch.sign(targets) * torch.relu(targets.abs() - 0.3), atol=1e-6)
    assert [round(used, 6) for _, used, _ in sparsity_curve(torch.eye(6), torch.eye(6)[:2])] == [1.0] * 7


def test_the_half_radius_of_a_network_along_one_direction():
    net = SymmetricNet(torch.tensor([[2.0, 0.0]]), 0.0, 0.0)
    x, y = torch.tensor([[0.1, 0.0], [0.3, 1.0], [-0.5, 0.0]]), torch.tensor([1.0, 1.0, -1.0])
    assert half_radius(net, x, y, torch.tensor([3.0, 0.0])) == pytest.approx(0.3, abs=1e-3)
    assert half_radius(net, x, y, torch.tensor([0.0, 1.0])) == float("inf")


def test_atoms_used_at_an_error():
    curve = [(0.0, 1.0), (10.0, 0.6), (20.0, 0.2), (30.0, 0.1)]
    assert used_at(curve, 0.4) == pytest.approx(15.0)
    assert used_at(curve, 0.05) == 30.0
    assert used_at(curve, 1.0) == 0.0


def test_the_loss_pulls_neurons_to_the_dense_direction_from_the_start_on(generator):
    """Section 6.2: y⟨w*, z⟩ ≥ 0, so every neuron that opens at all is pulled, whatever its weights."""
    problem = shared.coding(replace(SETTING, noise=0.0), 0)
    sample = sample_sparse(problem, 500, generator=generator)
    net = symmetric_start(30, 40, 1.0, 0.5, 0.3, generator=generator)
    assert bool((pull_to_dense(net, sample.x, sample.y, problem.dense_direction) > 0).all())


def test_tangent_features_as_printed_are_right_on_half_of_symmetric_data(generator):
    """Definition 5.5: an even function cannot fit odd labels; of x and -x it gets exactly one right."""
    sample = sample_sparse(shared.coding(SETTING, 0), 200, generator=generator)
    x, y = torch.cat([sample.x, -sample.x]), torch.cat([sample.y, -sample.y])
    W, V = (torch.randn(20, 40, generator=generator) for _ in range(2))
    assert shared.accuracy(TangentNet(W, V, 0.5, 0.5, as_printed=True), x, y) == pytest.approx(0.5)


def test_the_soft_threshold_drops_most_of_the_noise(generator):
    """E[S_b(u)²]/E[u²] = 2((1 + t²)Φ(-t) - tφ(t)) for Gaussian u with t = b/σ."""
    t = 2.0
    density, tail = math.exp(-t * t / 2) / math.sqrt(2 * math.pi), math.erfc(t / math.sqrt(2)) / 2
    u = 0.3 * torch.randn(400_000, generator=generator).double()
    assert share_passed(u, 0.3 * t) == pytest.approx(2 * ((1 + t * t) * tail - t * density), rel=0.05)
    assert share_passed(u, 0.3 * t) < 0.1
    kept = soft_threshold(torch.tensor([-1.0, -0.1, 0.2, 0.7]), 0.2)
    assert kept.tolist() == pytest.approx([-0.8, 0.0, 0.0, 0.5])


def test_slopes_and_ratios_pick_the_right_settings():
    def rows(kind, key, by_size):
        return [
            {"kind": kind, "family": "pure start", "seed": 0, "dim": d, "sparsity": k, key: v}
            for (d, k), values in by_size.items()
            for v in values
        ]

    betas = rows("time", "mean_beta", {(50, 8): (1.0, 0.8), (100, 4): (9.0, 7.0), (100, 8): (1.0, 0.2)})
    assert values(DENSE_MIXTURE, "dimension", betas) == pytest.approx([-2.0])
    radii = rows("response", "half_radius", {(100, 4): [0.8], (50, 8): [9.0], (100, 8): [0.2]})
    assert values(DENSE_MIXTURE, "radius", radii) == pytest.approx([0.25])


def test_the_least_gain_of_a_stronger_adversary():
    purity = {"FGM 1τ": (0.2, 0.9), "none": (0.0, 0.1), "FGM 0.5τ": (0.1, 0.7), "PGD τ": (0.2, 0.0)}
    rows = [
        {"kind": "adversary", "seed": 3, "name": name, "trained_radius": radius, "purity": value}
        for name, (radius, value) in purity.items()
    ]
    assert values(ATTACKERS, "stronger", rows) == pytest.approx([0.2])
    assert np.isnan(values(ATTACKERS, "stronger", [row | {"purity": None} for row in rows])).all()


def test_another_adversary_is_judged_by_what_it_adds():
    purity = {"none": 0.7, "PGD τ": 0.85, "SmoothAdv τ": 0.7}
    rows = [{"kind": "adversary", "seed": 0, "name": name, "purity": value} for name, value in purity.items()]
    assert values(ATTACKERS, "pgd", rows) == pytest.approx([0.15])
    assert values(ATTACKERS, "smooth", rows) == [0.0]


def test_perturbations_are_as_sparse_as_points_and_coefficients_in_units_of_the_theorem():
    setting = {"seed": 0, "dim": 100, "sparsity": 5, "large": 1.0, "small": 1.0}
    spread = {"kind": "density", "stage": "adversarial", "participation": 0.12, **setting}
    assert values(PERTURBATION_DENSITY, "after", [spread]) == pytest.approx([2.0])
    clean = {"kind": "network", "stage": "clean", "alpha": 0.5, **setting}
    assert own_coefficient(Rows.gather([clean])).tolist() == pytest.approx([0.5 * 100**0.001])


def test_both_sizes_of_the_inside_item_satisfy_what_their_claims_need():
    """All but `robust`: a gain needs Theorems E.1 and F.1, which exclude each other at these sizes."""
    for s in INSIDE.settings("quick"):
        problem = shared.coding(s, 0)
        rows = premise_rows(s, problem, shared.unseen(s, 0, 2000))
        failed = {row["id"] for row in rows if not row["holds"]}
        own = [
            claim.premises
            for claim in INSIDE.claims
            if claim.premises.fields["regime"] == s.regime and claim.name != "robust"
        ]
        needed = {name for premises in own for name in premises.ids}
        assert not {f for f in failed if f in needed or f.partition(".")[0] in needed}


def test_matching_pursuit_is_that_of_scikit_learn(generator):
    sparse_encode = pytest.importorskip("sklearn.decomposition").sparse_encode
    M = unit_rows(torch.randn(20, 20, generator=generator).double()).T
    x = torch.randn(30, 20, generator=generator).double()
    theirs = sparse_encode(x.numpy(), M.T.numpy(), algorithm="omp", n_nonzero_coefs=4)
    assert np.allclose(matching_pursuit(x, M, 4).numpy(), theirs, atol=1e-9)
