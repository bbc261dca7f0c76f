"""The figures of feature-purification, drawn from rows."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featureprism.records import Row
from featureprism.report.style import COLOURS, band, guide, of_kind, over_seeds, panels

STAGES = {
    "clean": "clean training",
    "control": "as many extra clean steps",
    "adversarial": "adversarial training",
    "pure": "pure network (ceiling)",
    "linear": "linear classifier (floor)",
}


def mean(rows: Sequence[Row], key: str) -> float:
    """Mean of a value over the rows that have it."""
    values = [r[key] for r in rows if r.get(key) is not None]
    return sum(values) / len(values) if values else float("nan")


def bars(axes: Axes, names: Sequence[str], groups: Mapping[str, Sequence[float]], xlabel: str) -> None:
    """Horizontal bars, one group of colours for each name, names on the left."""
    height = 0.8 / len(groups)
    for place, (label, values) in enumerate(groups.items()):
        axes.barh(
            [i + (place - (len(groups) - 1) / 2) * height for i in range(len(names))],
            list(values),
            height=height * 0.9,
            color=COLOURS[place],
            label=label if len(groups) > 1 else None,
        )
    axes.set_yticks(range(len(names)), list(names), fontsize=8)
    axes.set(xlabel=xlabel)
    axes.set_ylim(len(names) - 0.4, -0.6)
    if len(groups) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def purification(rows: list[Row]) -> Figure:
    """Robust accuracy against the radius, and how fast the coefficients of a neuron fall off."""
    figure, (left, right) = panels(2, width=4.2, height=3.2)
    for colour, (stage, text) in zip(COLOURS, STAGES.items(), strict=False):
        x, low, middle, high = over_seeds(of_kind(rows, "curve", stage=stage), "radius", "worst")
        band(left, x, low, middle, high, colour, text, dashed=stage in ("pure", "linear"))
        own = of_kind(rows, "profile", stage=stage)
        if own:
            x, low, middle, high = over_seeds(own, "rank", "size")
            band(right, x, low, middle, high, colour, None)
    left.set(xlabel="ℓ2 radius τ", ylabel="robust accuracy (all attacks)", ylim=(0, 1.03))
    right.set(
        xscale="log", yscale="log", xlabel="rank of a feature in a neuron", ylabel="share of the largest"
    )
    left.set_xticks(sorted({r["radius"] for r in of_kind(rows, "curve")}))
    left.legend(fontsize=7)
    return figure


def strict(rows: list[Row]) -> Figure:
    """Accuracies without conditioning, between floor and ceiling."""
    figure, (axes,) = panels(1, width=6.0, height=2.6)
    stages = [s for s in STAGES if of_kind(rows, "network", stage=s)]
    groups = {
        text: [mean(of_kind(rows, "network", stage=s), key) for s in stages]
        for text, key in (("no attack", "clean"), ("all attacks", "worst"))
    }
    bars(axes, [STAGES[s] for s in stages], groups, "accuracy")
    return figure


def figure_3(rows: list[Row]) -> Figure:
    """The three units, and the accuracy of their classifiers against noise."""
    figure, (left, right) = panels(2, width=3.6, height=2.9)
    for colour, model in zip(COLOURS, ("linear", "indicator", "soft"), strict=False):
        x, _, middle, _ = over_seeds(of_kind(rows, "unit", model=model), "input", "output")
        left.plot(x, middle, color=colour, label=model)
        x, low, middle, high = over_seeds(of_kind(rows, "noise", model=model), "sigma", "accuracy")
        band(right, x, low, middle, high, colour, None)
    left.set(xlabel="⟨M_j, x⟩", ylabel="what the unit passes on", xlim=(-0.5, 0.5), ylim=(-0.5, 0.5))
    right.set(xlabel="noise σ_x", ylabel="accuracy")
    left.legend()
    return figure


def figure_8(rows: list[Row]) -> Figure:
    """Signed correlations of one winner with the features, and the sets of tickets along training."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    seed = min(r["seed"] for r in rows)
    own = [r for r in of_kind(rows, "ticket") if r["seed"] == seed]
    for feature in dict.fromkeys(r["feature"] for r in own):
        path = [r for r in own if r["feature"] == feature]
        won = path[0]["won"]
        left.plot(
            [r["time"] for r in path],
            [r["value"] for r in path],
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
        x, low, middle, high = over_seeds(of_kind(rows, "sets"), "time", key)
        band(right, x, low, middle, high, colour, text)
    right.set(xlabel="steps of clean training", ylabel="share", ylim=(-0.03, 1.03))
    right.legend(fontsize=7)
    return figure


def figure_9(rows: list[Row]) -> Figure:
    """Purity and accuracies at the end of every path."""
    figure, (axes,) = panels(1, width=7.0, height=3.4)
    stages = list(dict.fromkeys(r["stage"] for r in of_kind(rows, "network")))
    keys = {"purity": "purity", "universal direction": "universal", "all attacks": "worst"}
    groups = {
        text: [mean(of_kind(rows, "network", stage=s), key) for s in stages] for text, key in keys.items()
    }
    bars(axes, stages, groups, "purity; accuracy at τ")
    return figure


def dense_mixture(rows: list[Row]) -> Figure:
    """Mean β and the weight on the dense direction along clean training."""
    figure, (left, right) = panels(2, width=3.8, height=3.0)
    runs = dict.fromkeys((r["family"], r["dim"], r["sparsity"]) for r in of_kind(rows, "time"))
    for colour, (family, dim, k) in zip(COLOURS, runs, strict=False):
        own = of_kind(rows, "time", family=family, dim=dim, sparsity=k)
        for panel, key in ((left, "kappa"), (right, "dense_share")):
            x, low, middle, high = over_seeds(own, "time", key)
            band(panel, x, low, middle, high, colour, f"{family}, d = {dim}, k = {k}")
    left.set(xlabel="steps of clean training", ylabel="mean β ÷ (‖z‖₀/d)")
    right.set(xlabel="steps of clean training", ylabel="share of Σ‖w_i‖² along Mw*", yscale="log")
    left.legend()
    return figure


def perturbation_density(rows: list[Row]) -> Figure:
    """Distribution of the participation ratio before and after adversarial training."""
    figure, (axes,) = panels(1, width=4.4, height=2.9)
    for colour, stage in zip(COLOURS, ("clean", "adversarial"), strict=False):
        q, _, middle, _ = over_seeds(of_kind(rows, "quantile", stage=stage), "share", "participation")
        axes.plot(middle, q, color=colour, label=STAGES[stage])
    axes.set(
        xlabel="participation ratio of perturbations ÷ d", ylabel="share of points below", xlim=(0, 1.03)
    )
    axes.legend()
    return figure


def sparse_reconstruction(rows: list[Row]) -> Figure:
    """Error against the number of neurons used: points, and perturbations."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    pairs = dict.fromkeys((r["target"], r["atoms"]) for r in of_kind(rows, "lasso"))
    places = {left: 0, right: 0}
    for target, atoms in pairs:
        panel = left if target == "point" else right
        own = of_kind(rows, "lasso", target=target, atoms=atoms)
        used, error = (over_seeds(own, "lasso_penalty", key)[2] for key in ("used", "error"))
        panel.plot(
            used,
            error,
            "o-",
            markersize=3,
            color=COLOURS[places[panel]],
            label=atoms if panel is left else target,
        )
        places[panel] += 1
    for panel, text in ((left, "points"), (right, "perturbations")):
        panel.set(xlabel=f"neurons used for {text}", ylabel="relative squared error", ylim=(0, 1.03))
        panel.legend(fontsize=7)
    return figure


def transfer(rows: list[Row]) -> Figure:
    """Accuracy of three networks under the perturbations of one, and under random ones."""
    figure, (axes,) = panels(1, width=6.0, height=2.4)
    targets = list(dict.fromkeys(r["target"] for r in of_kind(rows, "transfer")))
    groups = {
        text: [mean(of_kind(rows, "transfer", target=t, source=source), "accuracy") for t in targets]
        for text, source in (("its perturbations", "attack"), ("random ones", "random"))
    }
    bars(axes, targets, groups, "accuracy")
    return figure


def baselines(rows: list[Row]) -> Figure:
    """Accuracies of every model, on both data sets."""
    families = list(dict.fromkeys(r["family"] for r in of_kind(rows, "model")))
    figure, axes = panels(len(families), width=6.0, height=4.2)
    for panel, family in zip(axes, families, strict=True):
        own = of_kind(rows, "model", family=family)
        pairs = list(dict.fromkeys((r["model"], r["training"]) for r in own))
        groups = {
            text: [mean([r for r in own if (r["model"], r["training"]) == pair], key) for pair in pairs]
            for text, key in (("no attack", "clean"), ("all attacks", "worst"))
        }
        names = [model if training == "none" else f"{model}, {training}" for model, training in pairs]
        bars(panel, names, groups, "accuracy")
        panel.set_title(family)
    return figure


def l_infinity(rows: list[Row]) -> Figure:
    """Accuracies and purity before and after ℓ∞ training."""
    figure, (axes,) = panels(1, width=6.0, height=2.4)
    stages = ("clean", "adversarial")
    keys = {"no attack": "clean", "all attacks": "worst", "purity": "purity"}
    groups = {
        text: [mean(of_kind(rows, "network", stage=s), key) for s in stages] for text, key in keys.items()
    }
    bars(axes, [STAGES[s] for s in stages], groups, "accuracy at τ; purity")
    return figure


def attackers(rows: list[Row]) -> Figure:
    """Purity and universal accuracy after training against each adversary."""
    figure, (axes,) = panels(1, width=6.4, height=3.0)
    names = list(dict.fromkeys(r["name"] for r in of_kind(rows, "adversary")))
    keys = {"purity": "purity", "universal direction": "universal"}
    groups = {
        text: [mean(of_kind(rows, "adversary", name=n), key) for n in names] for text, key in keys.items()
    }
    bars(axes, names, groups, "purity; accuracy at τ")
    return figure


def gradient_masking(rows: list[Row]) -> Figure:
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
        {"": [mean(of_kind(rows, "masking"), key) for key in names]},
        "accuracy at τ",
    )
    guide(axes, 0.5, "chance")
    return figure


DRAWINGS: dict[str, Callable[[list[Row]], Figure]] = {
    "feature-purification/purification": purification,
    "feature-purification/strict": strict,
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
