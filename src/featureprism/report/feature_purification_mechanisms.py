"""The figures of the mechanisms, certificates and variants of feature-purification, drawn from rows."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, guide, panels
from featureprism.report.feature_purification import bars, mean

STAGES = {"clean": "clean training", "adversarial": "adversarial training", "pure": "pure network"}


def linearisation(rows: Rows) -> Figure:
    """The gap against τ on logarithmic axes, beside τ²."""
    figure, axes = panels(2)
    for axis, (norm, title) in zip(axes, {"l2": "ℓ2 FGM", "linf": "ℓ∞ FGM"}.items(), strict=True):
        part = rows.of("gap", norm=norm)
        for colour, (key, text) in zip(COLOURS, {"gap": "E_ρ f", "drawn": "ρ drawn"}.items(), strict=False):
            axis.plot(part.column("tau"), part.column(key), "o", color=colour, label=text, markersize=4)
        tau = np.sort(part.column("tau"))
        first = mean(part, "gap") / max(np.mean(tau**2), 1e-300)
        axis.plot(tau, first * tau**2, color="0.6", label="∝ τ²")
        axis.set(xscale="log", yscale="log", xlabel="τ", ylabel="linearisation gap", title=title)
        axis.legend()
    return figure


def mechanisms(rows: Rows) -> Figure:
    """Growth along training beside its law; the sampling error against N."""
    figure, (left, right) = panels(2)
    part = rows.of("growth")
    for colour, name in zip(COLOURS, ("signal", "idle"), strict=False):
        left.plot(part.column("time"), part.column(name), "o", color=colour, label=name, markersize=4)
        left.plot(part.column("time"), part.column(f"{name}_law"), "x", color=colour, label=f"{name}, law")
    left.set(xlabel="share of clean training", ylabel="d E[y 1{open} z_j] w*_j")
    left.legend()
    part = rows.of("sampling")
    right.plot(part.column("N"), part.column("gradient"), "o", color=COLOURS[0])
    right.set(xscale="log", yscale="log", xlabel="samples N", ylabel="error of the gradient")
    return figure


def _by_stage(rows: Rows, keys: dict[str, str], stages: Sequence[str] = tuple(STAGES)) -> Figure:
    figure, (axes,) = panels(1)
    values = {text: [mean(rows.of("network", stage=s), key) for s in stages] for key, text in keys.items()}
    bars(axes, [STAGES[s] for s in stages], values, "accuracy")
    return figure


def certified(rows: Rows) -> Figure:
    """Accuracy without attack, attacked and proven at τ."""
    keys = {"clean": "without attack", "attacked": "attacked at τ", "certified": "proven at τ"}
    return _by_stage(rows, keys)


def inside(rows: Rows) -> Figure:
    """Accuracies and purity of every stage in the sizes that the premises of clean and of robust training allow."""
    figure, axes = panels(2, width=5.0)
    keys = {"clean": "accuracy", "worst": "robust accuracy at τ", "purity": "purity"}
    for axis, regime in zip(axes, ("clean", "robust"), strict=True):
        part = rows.of("network", regime=regime)
        values = {text: [mean(part.having(stage=s), key) for s in STAGES] for key, text in keys.items()}
        bars(axis, list(STAGES.values()), values, "share")
        axis.set(title=f"premises of {regime} training")
    return figure


def variants(rows: Rows) -> Figure:
    """Purity before and after adversarial training in every variant."""
    names = rows.of("network").distinct("name")
    figure, (axes,) = panels(1, width=9.0)
    stages = ("clean", "adversarial")
    values = {STAGES[s]: [mean(rows.of("network", stage=s, name=n), "purity") for n in names] for s in stages}
    bars(axes, names, values, "purity")
    return figure


def lower_bounds(rows: Rows) -> Figure:
    """Robust accuracy of every model on both dictionaries."""
    figure, axes = panels(2, width=9.0)
    for axis, name in zip(axes, ("identity", "hadamard"), strict=True):
        part = rows.of("model", name=name)
        models = part.distinct("model")
        trainings = ("clean", "adversarial", "none")
        values = {t: [mean(part.having(model=m, training=t), "worst") for m in models] for t in trainings}
        bars(axis, models, values, "robust accuracy")
        guide(axis, 0.5, "one half")
    return figure


def real_codes(rows: Rows) -> Figure:
    """Accuracies and purity on real codes and orthogonal features."""
    keys = {"clean": "without attack", "worst": "attacked at τ", "purity": "purity"}
    return _by_stage(rows.having(learned=False), keys)


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-purification/linearisation": linearisation,
    "feature-purification/mechanisms": mechanisms,
    "feature-purification/certified": certified,
    "feature-purification/inside": inside,
    "feature-purification/variants": variants,
    "feature-purification/lower-bounds": lower_bounds,
    "feature-purification/real-codes": real_codes,
}
