"""Sparse reconstruction: how few neurons give a point, or a perturbation, back (synthetic figures 4 and 12)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, Values, above, requires
from featureprism.papers.feature_purification.measures import PURIFIED, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Setting,
    coding,
    robustness,
    scales,
    start,
    test_set,
    trained,
)
from featureprism.records import Row

PENALTIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # λ, for targets of norm 1
BASIS = "pure start, purified"  # one neuron per feature: no dense neuron is left that would give a perturbation at once
ERROR = 0.2  # relative squared error at which sparsities are compared


@dataclass(frozen=True, kw_only=True)
class Reconstruction(Setting):
    """How many points and perturbations are given back."""

    reconstructed: int = 16  # points, each of them at several penalties; the paper has 100 images


def lasso_codes(atoms: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """argmin_c ½‖Σ_i c_i a_i - t‖² + λ‖c‖_1 for every target: atoms (h, d), targets (n, d), codes (n, h)."""
    from sklearn.linear_model import Lasso  # takes a second

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


def measure(s: Reconstruction, seed: int, context: Context) -> list[Row]:
    """Points by random, clean and purified neurons; perturbations of both networks by purified neurons."""
    problem, test = coding(s, seed), test_set(s, seed)
    nets = {
        "random": start(s, seed),
        "clean": trained(s, seed, "clean"),
        "purified": trained(s, seed, "adversarial"),
        "pure start, clean": trained(s, seed, "pure clean"),
        BASIS: trained(s, seed, "pure adversarial"),
    }
    context.progress(0.3)
    deltas = {
        stage: robustness(trained(s, seed, stage), test, problem, s, seed).delta
        for stage in ("clean", "adversarial")
    }
    tasks = [("point", name, test.x) for name in nets]
    tasks += [(f"{stage} perturbation", BASIS, delta) for stage, delta in deltas.items()]
    rows: list[Row] = []
    for index, (target, name, points) in enumerate(tasks):
        rows += [
            {
                "kind": "lasso",
                "target": target,
                "atoms": name,
                "lasso_penalty": penalty,
                "used": used,
                "error": error,
            }
            for penalty, used, error in sparsity_curve(nets[name].W.detach(), points[: s.reconstructed])
        ]
        context.progress(0.4 + 0.6 * (index + 1) / len(tasks))
    return rows + premise_rows(s, problem, test)


def atoms_used(rows: Rows, target: str, atoms: str) -> Values:
    """Atoms used at the common error, for each seed."""

    def used(own: Rows) -> float:
        return used_at(list(zip(own.column("used"), own.column("error"), strict=True)), ERROR)

    return rows.of("lasso", target=target, atoms=atoms).per_seed(used)


def _sparser(name: str, statement: str, more: tuple[str, str], less: tuple[str, str], **kwargs) -> Claim:
    """Neurons used for one pair of target and atoms ÷ those for another."""
    return Claim(
        name,
        "Figures 4 and 12",
        f"neurons needed to {ERROR:.0%} error, {statement}",
        lambda rows: atoms_used(rows, *more) / atoms_used(rows, *less),
        above(1.2),
        premises=requires(*PURIFIED),
        **kwargs,
    )


CLAIMS = (
    _sparser("random", "for a point: random ÷ purified", ("point", "random"), ("point", "purified")),
    _sparser(
        "random-start",
        "for a point: clean ÷ purified",
        ("point", "clean"),
        ("point", "purified"),
        note="few neurons carry the mixture, and norms do not count here",
    ),
    _sparser(
        "clean",
        "for a point, both from a pure start: clean ÷ purified",
        ("point", "pure start, clean"),
        ("point", BASIS),
        origin="featureprism",
    ),
    _sparser(
        "perturbation",
        "purified neurons for a perturbation: of the clean network ÷ of the purified one",
        ("clean perturbation", BASIS),
        ("adversarial perturbation", BASIS),
    ),
)

SPARSE_RECONSTRUCTION = Experiment(
    id="feature-purification/sparse-reconstruction",
    source="Allen-Zhu & Li 2020, Figures 4 and 12",
    title="Purified neurons give points back with few terms, and so the perturbations of purified networks",
    scales=scales(Reconstruction, test_points=200),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Lasso of points and of PGD perturbations on all neurons of a network, each brought to norm 1, for many penalties. Dead neurons"
        " are random directions and stay among the atoms, so that every network offers equally many."
    ),
)
