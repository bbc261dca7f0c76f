"""The figures of feature-purification, drawn from rows."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

STAGES = {
    "clean": "clean training",
    "control": "as many extra clean steps",
    "adversarial": "adversarial training",
    "pure": "pure network (ceiling)",
    "linear": "linear classifier (floor)",
}


def mean(rows: Rows, key: str) -> float:
    """Mean of a value over the rows that have it."""
    values = rows.column(key)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else math.nan


def network_means(rows: Rows, stages: Sequence[str], keys: Mapping[str, str]) -> dict[str, list[float]]:
    """Mean values of the networks of every stage, by the text that stands for a key."""
    return {
        text: [mean(rows.of("network", stage=stage), key) for stage in stages] for text, key in keys.items()
    }


def bars(axes: Axes, names: Sequence[str], groups: Mapping[str, Sequence[float]], xlabel: str) -> None:
    """Horizontal bars, one group of colours for each name, names on the left."""
    height = 0.8 / len(groups)
    for index, (label, values) in enumerate(groups.items()):
        axes.barh(
            [i + (index - (len(groups) - 1) / 2) * height for i in range(len(names))],
            list(values),
            height=height * 0.9,
            color=COLOURS[index],
            label=label if len(groups) > 1 else None,
        )
    axes.set_yticks(range(len(names)), list(names), fontsize=8)
    axes.set(xlabel=xlabel)
    axes.set_ylim(len(names) - 0.4, -0.6)
    if len(groups) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def purification(rows: Rows) -> Figure:
    """Robust accuracy against the radius, and how fast the coefficients of a neuron fall off."""
    figure, (left, right) = panels(2, width=4.2, height=3.2)
    for colour, (stage, text) in zip(COLOURS, STAGES.items(), strict=False):
        x, low, middle, high = over_seeds(rows.of("curve", stage=stage), "radius", "worst")
        band(left, x, low, middle, high, colour, text, dashed=stage in ("pure", "linear"))
        own = rows.of("profile", stage=stage).having(hidden="two-level")
        if len(own):
            x, low, middle, high = over_seeds(own, "rank", "size")
            band(right, x, low, middle, high, colour, None)
    left.set(xlabel="ℓ2 radius τ", ylabel="robust accuracy (all attacks)", ylim=(0, 1.03))
    right.set(
        xscale="log", yscale="log", xlabel="rank of a feature in a neuron", ylabel="share of the largest"
    )
    left.set_xticks(sorted(rows.of("curve").distinct("radius")))
    left.legend(fontsize=7)
    return figure


def scaling(rows: Rows) -> Figure:
    """What falls with the dimension and what does not, on logarithmic axes: random starts full, won features dashed."""
    figure, axes = panels(3, width=3.4, height=3.0)
    groups = (
        {"share": "mixture β/(α k)", "together": "Q1"},
        {"drift": "drift, adversarial", "drift_control": "drift, more clean steps"},
        {"worst_clean": "clean training", "worst_adversarial": "adversarial training"},
    )
    titles = ("Theorems 5.1(a), 5.2", "Theorem 5.3(c)", "worst accuracy ÷ pure network")
    for panel, names, title in zip(axes, groups, titles, strict=True):
        for colour, (key, text) in zip(COLOURS, names.items(), strict=False):
            band(panel, *over_seeds(rows.of("size", path="random"), "dim", key), colour, text)
            dim, _, middle, _ = over_seeds(rows.of("size", path="pure"), "dim", key)
            panel.plot(dim, middle, "--", color=colour)
        panel.set(xscale="log", yscale="log", xlabel="dimension d", title=title)
        panel.legend(fontsize=7)
    return figure


def bias_schedule(rows: Rows) -> Figure:
    """Features that are won against the rate of the bias, in units of the rate of a winner."""
    figure, (axes,) = panels(1, width=5.0, height=3.0)
    band(axes, *over_seeds(rows.of("rate"), "share", "covered"), COLOURS[0], None)
    axes.set(
        xscale="log", xlabel="c_b ÷ rate of a winner", ylabel="share of the features won", ylim=(-0.03, 1.03)
    )
    guide(axes, 1.0, "as fast as a winner")
    return figure


def linear_shortcut(rows: Rows) -> Figure:
    """Accuracies, and how linear the networks are."""
    figure, (axes,) = panels(1, width=6.0, height=2.6)
    stages = ("clean", "adversarial", "pure")
    keys = {"no attack": "clean", "all attacks": "worst", "R² with ⟨Mw*, x⟩": "linear_share"}
    bars(axes, [STAGES[stage] for stage in stages], network_means(rows, stages, keys), "accuracy; R²")
    return figure


def figure_3(rows: Rows) -> Figure:
    """The three units, and the accuracy of their classifiers against noise."""
    figure, (left, right) = panels(2, width=3.6, height=2.9)
    for colour, model in zip(COLOURS, ("linear", "indicator", "soft"), strict=False):
        x, _, middle, _ = over_seeds(rows.of("unit", model=model), "input", "output")
        left.plot(x, middle, color=colour, label=model)
        x, low, middle, high = over_seeds(rows.of("noise", model=model), "sigma", "accuracy")
        band(right, x, low, middle, high, colour, None)
    left.set(xlabel="⟨M_j, x⟩", ylabel="what the unit passes on", xlim=(-0.5, 0.5), ylim=(-0.5, 0.5))
    right.set(xlabel="noise σ_x", ylabel="accuracy")
    left.legend()
    return figure


def figure_8(rows: Rows) -> Figure:
    """Signed correlations of one winner with the features, and the sets of tickets along training."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    for path in rows.of("ticket", seed=rows.seeds[0]).groups("feature").values():
        won = path[0]["won"]
        left.plot(
            path.column("time"),
            path.column("value"),
            color=COLOURS[1] if won else "0.7",
            zorder=3 if won else 1,
            label="the feature it learns" if won else None,
        )
    left.set(xlabel="steps of clean training", ylabel="sign(w*_j)⟨w_i, M_j⟩ ÷ bias")
    left.legend()
    names = {
        "sure_stay": "sure winners still sure",
        "no_new_potential": "potential winners known at the start",
        "sure_win": "sure winners at 2√k b or more",
    }
    for colour, (key, text) in zip(COLOURS, names.items(), strict=False):
        x, low, middle, high = over_seeds(rows.of("sets"), "time", key)
        band(right, x, low, middle, high, colour, text)
    right.set(xlabel="steps of clean training", ylabel="share", ylim=(-0.03, 1.03))
    right.legend(fontsize=7)
    return figure


def figure_9(rows: Rows) -> Figure:
    """Purity and accuracies at the end of every path."""
    figure, (axes,) = panels(1, width=7.0, height=3.4)
    stages = rows.of("network").distinct("stage")
    keys = {"purity": "purity", "universal direction": "universal", "all attacks": "worst"}
    bars(axes, stages, network_means(rows, stages, keys), "purity; accuracy at τ")
    return figure


def dense_mixture(rows: Rows) -> Figure:
    """Mean β and the weight on the dense direction along clean training."""
    figure, (left, right) = panels(2, width=3.8, height=3.0)
    runs = rows.of("time").groups("family", "dim", "sparsity")
    for colour, ((family, dim, k), own) in zip(COLOURS, runs.items(), strict=False):
        for panel, key in ((left, "kappa"), (right, "dense_share")):
            x, low, middle, high = over_seeds(own, "time", key)
            band(panel, x, low, middle, high, colour, f"{family}, d = {dim}, k = {k}")
    left.set(xlabel="steps of clean training", ylabel="mean β ÷ (‖z‖₀/d)")
    right.set(xlabel="steps of clean training", ylabel="share of Σ‖w_i‖² along Mw*", yscale="log")
    left.legend()
    return figure


def perturbation_density(rows: Rows) -> Figure:
    """Distribution of the participation ratio before and after adversarial training."""
    figure, (axes,) = panels(1, width=4.4, height=2.9)
    for colour, stage in zip(COLOURS, ("clean", "adversarial"), strict=False):
        q, _, middle, _ = over_seeds(rows.of("quantile", stage=stage), "share", "participation")
        axes.plot(middle, q, color=colour, label=STAGES[stage])
    axes.set(
        xlabel="participation ratio of perturbations ÷ d", ylabel="share of points below", xlim=(0, 1.03)
    )
    axes.legend()
    return figure


def sparse_reconstruction(rows: Rows) -> Figure:
    """Error against the number of neurons used: points, and perturbations."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    drawn = {left: 0, right: 0}
    for (target, atoms), own in rows.of("lasso").groups("target", "atoms").items():
        panel = left if target == "point" else right
        used, error = (over_seeds(own, "lasso_penalty", key)[2] for key in ("used", "error"))
        panel.plot(
            used,
            error,
            "o-",
            markersize=3,
            color=COLOURS[drawn[panel]],
            label=atoms if panel is left else target,
        )
        drawn[panel] += 1
    for panel, text in ((left, "points"), (right, "perturbations")):
        panel.set(xlabel=f"neurons used for {text}", ylabel="relative squared error", ylim=(0, 1.03))
        panel.legend(fontsize=7)
    return figure


def transfer(rows: Rows) -> Figure:
    """Accuracy of three networks under the perturbations of one, and under random ones."""
    figure, (axes,) = panels(1, width=6.0, height=2.4)
    targets = rows.of("transfer").distinct("target")
    groups = {
        text: [mean(rows.of("transfer", target=t, source=source), "accuracy") for t in targets]
        for text, source in (("its perturbations", "attack"), ("random ones", "random"))
    }
    bars(axes, targets, groups, "accuracy")
    return figure


def baselines(rows: Rows) -> Figure:
    """Accuracies of every model, on both data sets."""
    families = rows.of("model").groups("family")
    figure, axes = panels(len(families), width=6.0, height=4.2)
    for panel, (family, models) in zip(axes, families.items(), strict=True):
        parts = models.groups("model", "training")
        groups = {
            text: [mean(part, key) for part in parts.values()]
            for text, key in (("no attack", "clean"), ("all attacks", "worst"))
        }
        names = [model if training == "none" else f"{model}, {training}" for model, training in parts]
        bars(panel, names, groups, "accuracy")
        panel.set_title(family)
    return figure


def l_infinity(rows: Rows) -> Figure:
    """Accuracies and purity before and after ℓ∞ training."""
    figure, (axes,) = panels(1, width=6.0, height=2.4)
    stages = ("clean", "adversarial")
    keys = {"no attack": "clean", "all attacks": "worst", "purity": "purity"}
    groups = network_means(rows, stages, keys)
    bars(axes, [STAGES[stage] for stage in stages], groups, "accuracy at τ; purity")
    return figure


def attackers(rows: Rows) -> Figure:
    """Purity and universal accuracy after training against each adversary."""
    figure, (axes,) = panels(1, width=6.4, height=3.0)
    parts = rows.of("adversary").groups("name")
    keys = {"purity": "purity", "universal direction": "universal"}
    groups = {text: [mean(part, key) for part in parts.values()] for text, key in keys.items()}
    bars(axes, list(parts), groups, "purity; accuracy at τ")
    return figure


def gradient_masking(rows: Rows) -> Figure:
    """What attacks say of the collapsed network."""
    figure, (axes,) = panels(1, width=5.6, height=2.8)
    names = {
        "clean": "no attack",
        "guarded_fgm": "FGM, zero for tiny gradients",
        "guarded_pgd": "PGD, guarded division",
        "universal": "universal direction",
        "fgm": "FGM",
        "pgd": "PGD, many starts",
        "worst": "all attacks",
    }
    bars(
        axes,
        list(names.values()),
        {"": [mean(rows.of("masking"), key) for key in names]},
        "accuracy at τ",
    )
    guide(axes, 0.5, "chance")
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-purification/purification": purification,
    "feature-purification/scaling": scaling,
    "feature-purification/bias-schedule": bias_schedule,
    "feature-purification/linear-shortcut": linear_shortcut,
    "feature-purification/figure-3": figure_3,
    "feature-purification/figure-8": figure_8,
    "feature-purification/figure-9": figure_9,
    "feature-purification/dense-mixture": dense_mixture,
    "feature-purification/perturbation-density": perturbation_density,
    "feature-purification/sparse-reconstruction": sparse_reconstruction,
    "feature-purification/transfer": transfer,
    "feature-purification/baselines": baselines,
    "feature-purification/l-infinity": l_infinity,
    "feature-purification/attackers": attackers,
    "feature-purification/gradient-masking": gradient_masking,
}
