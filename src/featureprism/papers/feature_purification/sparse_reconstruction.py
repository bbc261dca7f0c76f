"""Figures 4 and 12 on sparse coding data: how few neurons give a point, or a perturbation, back."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.measures import PURIFIED, bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    robustness,
    scales,
    start,
    trained,
)

PENALTIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # λ, for targets of norm 1
BASIS = "pure start, purified"  # one neuron for each feature, so that no dense neuron gives a perturbation at once
ERROR = 0.2  # relative squared error at which sparsities are compared


@dataclass(frozen=True, kw_only=True)
class ReconstructionSetting(Battery):
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


def measure(s: ReconstructionSetting, seed: int, context: Context) -> list[Row]:
    """Lasso paths of points by the neurons of several networks, and of perturbations by purified neurons."""
    on = bench(s, seed)
    nets = {
        "random": start(s, seed),
        "clean": trained(s, seed, "clean"),
        "purified": trained(s, seed, "adversarial"),
        "pure start, clean": trained(s, seed, "pure clean"),
        BASIS: trained(s, seed, "pure adversarial"),
    }
    context.progress(0.3)
    deltas = {
        stage: robustness(trained(s, seed, stage), on.test, on.problem, s, seed).delta
        for stage in ("clean", "adversarial")
    }
    tasks = [("point", name, on.test.x) for name in nets]
    tasks += [(f"{stage} perturbation", BASIS, delta) for stage, delta in deltas.items()]
    rows: list[Row] = []
    for index, (target, name, points) in enumerate(tasks):
        curve = sparsity_curve(nets[name].W.detach(), points[: s.reconstructed])
        same = {"kind": "lasso", "target": target, "atoms": name}
        rows += [{**same, "lasso_penalty": p, "used": used, "error": error} for p, used, error in curve]
        context.progress(0.4 + 0.6 * (index + 1) / len(tasks))
    return rows + premise_rows(s, on)


def atoms_used(rows: Rows, target: str, atoms: str) -> Values:
    """Atoms used at the common error, for each seed."""

    def used(one: Rows) -> float:
        return used_at(list(zip(one.column("used"), one.column("error"), strict=True)), ERROR)

    return rows.of("lasso", target=target, atoms=atoms).per_seed(used)


FIFTH = "a fifth more neurons is clear of the noise over points"
CLAIMS = (
    Claim(
        "random",
        source="Figures 4 and 12",
        says="Purified neurons give a point back with fewer terms than random neurons.",
        quantity=f"neurons needed to {ERROR:.0%} error of a point, random ÷ purified",
        bound=above(1.2),
        because=FIFTH,
        value=lambda rows: atoms_used(rows, "point", "random") / atoms_used(rows, "point", "purified"),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "clean",
        source="Figures 4 and 12",
        says="Purified neurons give a point back with fewer terms than the dense neurons that clean training makes of pure features.",
        quantity=f"neurons needed to {ERROR:.0%} error of a point, clean ÷ purified, both from a pure start",
        bound=above(1.2),
        because=FIFTH,
        value=lambda rows: atoms_used(rows, "point", "pure start, clean") / atoms_used(rows, "point", BASIS),
        premises=requires(*PURIFIED),
        note=lambda rows: (
            f"from a random start {(atoms_used(rows, 'point', 'clean') / atoms_used(rows, 'point', 'purified')).mean():.2f}"
        ),
    ),
    Claim(
        "perturbation",
        source="Figures 4 and 12",
        says="Purified neurons give the perturbations of a purified network back with fewer terms than those of a clean network.",
        quantity=f"purified neurons needed to {ERROR:.0%} error of a perturbation, of the clean ÷ of the purified network",
        bound=above(1.2),
        because=FIFTH,
        value=lambda rows: (
            atoms_used(rows, "clean perturbation", BASIS)
            / atoms_used(rows, "adversarial perturbation", BASIS)
        ),
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """Error against the number of neurons used: points, and perturbations."""
    from featureprism.lab.style import COLOURS, over_seeds, panels

    figure, (left, right) = panels(2, width=3.9, height=3.0)
    drawn = {left: 0, right: 0}
    for (target, atoms), part in rows.of("lasso").groups("target", "atoms").items():
        panel = left if target == "point" else right
        used, error = (over_seeds(part, "lasso_penalty", key)[2] for key in ("used", "error"))
        label = atoms if panel is left else target
        panel.plot(used, error, "o-", markersize=3, color=COLOURS[drawn[panel]], label=label)
        drawn[panel] += 1
    for panel, text in ((left, "points"), (right, "perturbations")):
        panel.set(xlabel=f"neurons used for {text}", ylabel="relative squared error", ylim=(0, 1.03))
        panel.legend(fontsize=7)
    return figure


SPARSE_RECONSTRUCTION = Experiment(
    id="feature-purification/sparse-reconstruction",
    source="Allen-Zhu & Li 2020, Figures 4 and 12",
    title="How many neurons it takes to reconstruct points and perturbations",
    scales=scales(ReconstructionSetting, test_points=200),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Lasso of points and of PGD perturbations on all neurons of a network, each brought to norm 1, for many penalties. Dead neurons"
        " are random directions and stay among the atoms, so that every network offers equally many."
    ),
)
