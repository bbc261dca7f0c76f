"""Every item at a tiny size: the rows are complete, the claims judge them, the figure can be drawn."""

import pytest
import torch

from featureprism.data import SparseSample
from featureprism.networks import SymmetricNet
from featureprism.papers import PAPERS
from featureprism.papers.feature_purification import setting as shared
from featureprism.papers.feature_purification.mixtures import half_radius
from featureprism.papers.feature_purification.perturbations import guarded_pgd
from featureprism.papers.feature_purification.reconstruction import lasso_codes, sparsity_curve, used_at
from featureprism.report.figures import DRAWINGS
from featureprism.sweep import run

EXPERIMENTS = {e.id.split("/")[1]: e for e in PAPERS["feature-purification"] if not e.long}
TINY = {
    "dim": 40,
    "sparsity": 6,
    "width": 60,
    "steps": 40,
    "adversarial_steps": 10,
    "batch": 50,
    "pool": 400,
    "test_points": 20,
    "attack_steps": 3,
}
OWN = {
    "baselines": {"baseline_steps": 5, "tangent_width": 10, "baseline_batch": 20},
    "attackers": {"attacker_steps": 4, "attacker_batch": 20},
    "sparse-reconstruction": {"reconstructed": 3},
}
EXPECTED = {
    "purification": {
        "clean-accuracy",
        "clean-robust",
        "control-robust",
        "adversarial-robust",
        "purity-before",
        "purity-after",
        "mixture-ratio",
        "same-feature",
        "far-from-start",
        "together",
        "floor",
        "drift",
    },
    "figure-3": {"noise", "linear", "soft"},
    "figure-8": {"match", "auc", "sign", "tickets"},
    "figure-9": {
        "pure-start",
        "pure-start-after",
        "pure-start-mixture",
        "pure-start-purified",
        "from-scratch",
    },
    "dense-mixture": {"pull", "growth", "response", "dimension", "radius", "not-uniform"},
    "perturbation-density": {"before", "after", "support", "linear"},
    "sparse-reconstruction": {"random", "clean", "random-start", "perturbation"},
    "transfer": {"accuracy", "random", "purified"},
    "baselines": {"linear", "ntk-even", "ntk-clean", "ntk-adversarial", "network", "lower-bound"},
    "l-infinity": {"clean-robust", "adversarial-robust", "purity"},
    "attackers": {"stronger", "pgd", "smooth"},
    "strict": {"clean-accuracy", "gain", "purity", "printed"},
    "gradient-masking": {"gap", "fgm", "dead"},
}


def test_all_items_are_expected():
    assert EXPERIMENTS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("item", EXPECTED)
def test_every_item_runs_is_judged_and_drawn(item, tmp_path):
    experiment = EXPERIMENTS[item]
    settings = [{**s, **TINY, **OWN.get(item, {})} for s in experiment.scales["quick"]]
    small = type(experiment)(**{**experiment.__dict__, "scales": {"quick": settings}})
    result = run(small, "quick", [0], tmp_path)
    assert {c.id.removeprefix(f"{item}.") for c in result.claims} == EXPECTED[item]
    assert DRAWINGS[experiment.id](result.rows)


@pytest.mark.slow
def test_the_claims_hold_at_the_quick_scale(tmp_path):
    for item, experiment in EXPERIMENTS.items():
        result = run(experiment, "quick", [0, 1, 2], tmp_path)
        assert [c.id for c in result.claims if not c.holds] == [], item


def test_training_is_done_once_and_depends_on_nothing_else():
    setting = {**shared.QUICK, **TINY}
    first = shared.trained(setting, 0, "clean")
    assert shared.trained({**setting, "test_points": 5, "attack_steps": 1}, 0, "clean") is first
    other = shared.trained({**setting, "steps": 41}, 0, "clean")
    assert not torch.equal(other.W, first.W)
    again = shared.train(setting, shared.start(setting, 0), [shared.clean_phase(setting)], 0, "clean").last
    assert torch.equal(again.W, first.W)
    assert not torch.equal(shared.trained(setting, 0, "clean", peer=1).W, first.W)


def test_the_worst_accuracy_is_the_least_of_all_attacks():
    setting = {**shared.QUICK, **TINY}
    problem, test = shared.coding(setting, 0), shared.test_set(setting, 0)
    for radius in (0.05, 0.3):
        row = shared.robustness(shared.pure_start(setting, 0), test, problem, setting, 0, radius).row
        assert row["worst"] <= min(row["clean"], row["universal"], row["fgm"], row["pgd"])


def test_the_universal_direction_breaks_a_network_that_is_nothing_else():
    setting = {**shared.QUICK, **TINY}
    problem, test = shared.coding(setting, 0), shared.test_set(setting, 0)
    dense = SymmetricNet(problem.dense_direction.unsqueeze(0), 0.0, 0.0)
    few = SparseSample(*(test[:3]), test.acceptance, test.tie_share)
    row = shared.robustness(dense, few, problem, setting, 0, radius=2.0).row
    assert row["clean"] == 1.0
    assert row["universal"] == 0.0


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
