"""Sparse reconstruction: how few neurons give a point, or a perturbation, back (synthetic figures 4 and 12)."""

import torch
from sklearn.linear_model import Lasso
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.papers.feature_purification.setting import (
    coding,
    fast_gradient,
    later_phase,
    pure_start,
    robustness,
    scales,
    start,
    test_set,
    train,
    trained,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of

PENALTIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # λ, for targets of norm 1
BASIS = "pure start, purified"  # one neuron per feature: no dense neuron is left that would give a perturbation at once
ERROR = 0.2  # relative squared error at which sparsities are compared


def lasso_codes(atoms: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """argmin_c ½‖Σ_i c_i a_i - t‖² + λ‖c‖_1 for every target: atoms (h, d), targets (n, d), codes (n, h)."""
    model = Lasso(
        alpha=penalty / atoms.shape[1], fit_intercept=False, precompute=True, max_iter=20000, tol=1e-3
    )
    fitted = model.fit(atoms.double().T.numpy(), targets.double().T.numpy())
    return torch.from_numpy(fitted.coef_).reshape(len(targets), len(atoms))


def sparsity_curve(atoms: Tensor, targets: Tensor) -> list[tuple[float, float, float]]:
    """(λ, mean number of atoms used, mean relative squared error), atoms and targets brought to norm 1."""
    atoms, targets = unit_rows(atoms.double()), unit_rows(targets.double())
    curve = []
    for penalty in PENALTIES:
        codes = lasso_codes(atoms, targets, penalty)
        error = ((codes @ atoms - targets) ** 2).sum(dim=1)
        curve.append((penalty, float((codes != 0).double().sum(dim=1).mean()), float(error.mean())))
    return curve


def used_at(curve: list[tuple[float, float]], error: float) -> float:
    """Atoms used where the error first falls to a value, interpolated; the last of the curve if it never does."""
    before = curve[0]
    for used, now in curve:
        if now <= error:
            if before[1] == now:
                return used
            return before[0] + (used - before[0]) * (before[1] - error) / (before[1] - now)
        before = (used, now)
    return curve[-1][0]


def measure_reconstruction(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Points by random, clean and purified neurons; perturbations of both networks by purified neurons."""
    problem, test = coding(setting, seed), test_set(setting, seed)
    mixed = train(setting, pure_start(setting, seed), [later_phase(setting)], seed, "pure clean").last
    adversary = later_phase(setting, perturb=fast_gradient(setting))
    nets = {
        "random": start(setting, seed),
        "clean": trained(setting, seed, "clean"),
        "purified": trained(setting, seed, "adversarial"),
        "pure start, clean": mixed,
        "pure start, purified": train(setting, mixed, [adversary], seed, "pure adversarial").last,
    }
    atoms = {name: net.W.detach() for name, net in nets.items()}
    progress(0.3)
    few = setting["reconstructed"]
    deltas = {
        stage: robustness(trained(setting, seed, stage), test, problem, setting, seed).delta[:few]
        for stage in ("clean", "adversarial")
    }
    tasks = [("point", name, W, test.x[:few]) for name, W in atoms.items()]
    tasks += [(f"{stage} perturbation", BASIS, atoms[BASIS], delta) for stage, delta in deltas.items()]
    rows: list[Row] = []
    for index, (target, name, W, points) in enumerate(tasks):
        rows += [
            {
                "kind": "lasso",
                "target": target,
                "atoms": name,
                "lasso_penalty": p,
                "used": used,
                "error": error,
            }
            for p, used, error in sparsity_curve(W, points)
        ]
        progress(0.4 + 0.6 * (index + 1) / len(tasks))
    return rows


def used_by_seed(rows: list[Row], target: str, atoms: str) -> list[float]:
    """Atoms used at the common error, for each seed."""
    own = rows_of(rows, "lasso", target=target, atoms=atoms)
    seeds = sorted({r["seed"] for r in own})
    return [used_at([(r["used"], r["error"]) for r in own if r["seed"] == s], ERROR) for s in seeds]


def _claims_reconstruction(rows: list[Row]) -> list[Claim]:
    def ratio(target: str, atoms: str, other_target: str, other_atoms: str) -> list[float]:
        pairs = zip(
            used_by_seed(rows, target, atoms), used_by_seed(rows, other_target, other_atoms), strict=True
        )
        return [a / b for a, b in pairs]

    wanted = f"to {ERROR:.0%} error"
    return [
        judge(
            "sparse-reconstruction.random",
            "Figures 4 and 12",
            f"neurons needed for a point {wanted}: random ÷ purified",
            ratio("point", "random", "point", "purified"),
            ">",
            1.2,
        ),
        judge(
            "sparse-reconstruction.clean",
            "Figures 4 and 12",
            f"neurons needed for a point {wanted}, both from a pure start: clean ÷ purified",
            ratio("point", "pure start, clean", "point", BASIS),
            ">",
            1.2,
        ),
        judge(
            "sparse-reconstruction.random-start",
            "Figures 4 and 12",
            "the same from a random start: clean ÷ purified",
            ratio("point", "clean", "point", "purified"),
            "in",
            (0.8, 1.5),
            "no gain shows at this size: few neurons carry the mixture, and norms do not count here",
        ),
        judge(
            "sparse-reconstruction.perturbation",
            "Figure 12",
            f"purified neurons needed for a perturbation {wanted}: of the clean network ÷ of the purified one",
            ratio("clean perturbation", BASIS, "adversarial perturbation", BASIS),
            ">",
            1.2,
        ),
    ]


SPARSE_RECONSTRUCTION = Experiment(
    id="feature-purification/sparse-reconstruction",
    source="Allen-Zhu & Li 2020, Figures 4 and 12",
    title="Purified neurons give points back with few terms, and so the perturbations of purified networks",
    scales=scales(reconstructed=16, test_points=200),
    measure=measure_reconstruction,
    claims=_claims_reconstruction,
    about=(
        "Lasso of points and of PGD perturbations on all neurons of a network, each brought to norm 1, for many penalties. Dead neurons"
        " are random directions and stay among the atoms, so that every network offers equally many."
    ),
)
