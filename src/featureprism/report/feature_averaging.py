"""The figures of feature-averaging, drawn from rows."""

from collections.abc import Callable
from math import sqrt

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

NETWORKS = {
    "two-class": "two labels",
    "ten-class": "ten labels",
    "ten-class-max": "ten labels, largest logits",
    "ten-class-sum": "ten labels, summed logits",
    "k-class": "a label for each cluster",
}


def mean_of(rows: Rows, name: str) -> float:
    """Mean of a value over rows."""
    return float(rows.column(name).mean())


def table_of(rows: Rows, name: str) -> np.ndarray:
    """A value for every feature (down) and neuron (across), averaged over seeds."""
    clusters, neurons = (rows.column(key).astype(int) for key in ("cluster", "neuron"))
    table = np.zeros((1 + clusters.max(), 1 + neurons.max()))
    np.add.at(table, (clusters, neurons), rows.column(name))
    return table / len(rows.distinct("seed"))


def matrix(axes: Axes, rows: Rows, title: str) -> None:
    """A cosine matrix, features down and neurons across, averaged over seeds."""
    table = table_of(rows, "cosine")
    axes.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set(xlabel="neuron", ylabel="feature", title=title, xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)


def slices(rows: Rows) -> Figure:
    """Both decision boundaries on the plane of the universal direction and a centre, first seed."""
    rows = rows.having(seed=rows.seeds[0])
    names = rows.of("slice").distinct("network")
    figure, axes = panels(len(names), width=3.6, height=3.3)
    for panel, name in zip(axes, names, strict=True):
        own = rows.of("slice", network=name)
        root, k = sqrt(own[0]["dim"]), own[0]["positive"] + own[0]["negative"]
        along, across = (sorted(own.distinct(key)) for key in ("along", "across"))
        values = {(r["along"], r["across"]): r["value"] for r in own}
        grid = np.array([[values[a, c] for a in along] for c in across])
        panel.contourf(
            np.array(along) / root,
            np.array(across) / root,
            np.sign(grid),
            levels=[-2, 0, 2],
            colors=["#f5c9b0", "#bcd9ec"],
        )
        (centre,) = rows.of("centre", network=name)
        x, y = centre["along"] / root, centre["across"] / root
        panel.plot(x, y, "o", color="black", markersize=5)
        panel.annotate("μ₁", (x, y), xytext=(4, 4), textcoords="offset points")
        panel.annotate("", (x - 1 / sqrt(k), y), (x, y), arrowprops={"arrowstyle": "->", "color": "black"})
        panel.set(
            xlabel="along Σ y_j μ_j (units of √d)", ylabel="across", title=NETWORKS[name], aspect="equal"
        )
    return figure


def matrices(rows: Rows) -> Figure:
    """Figure 2: the two cosine matrices."""
    figure, axes = panels(2, width=3.2, height=3.1)
    summary = rows.of("summary")
    texts = [
        f"two labels: own class {mean_of(summary, 'same_class'):.3f}",
        f"ten labels: diagonal {mean_of(summary, 'diagonal'):.3f}",
    ]
    for panel, name, text in zip(axes, ("two-class", "ten-class"), texts, strict=True):
        matrix(panel, rows.of("cosine", network=name), text)
    return figure


def ablation(rows: Rows) -> Figure:
    """Figures 5 to 9: a cosine matrix for each value, its numbers below."""
    values = sorted(rows.of("summary").distinct("value"))
    figure, axes = panels(len(values), width=2.1, height=2.8)
    for panel, value in zip(axes, values, strict=True):
        own = rows.of("summary", value=value)
        matrix(panel, rows.of("cosine", value=value), f"{own[0]['varied'].replace('_', ' ')} = {value:g}")
        same, law, other, radius = (
            mean_of(own, name) for name in ("same_class", "law", "opposite", "radius")
        )
        told = f"own class {same:.3f} (law {law:.3f})\nother {other:.3f}\nradius {radius:.2f} √(d/k)"
        panel.set_xlabel(told, fontsize=7)
        panel.set_ylabel("")
    return figure


def robust_accuracy(rows: Rows) -> Figure:
    """Figure 3: bands from proven to attacked accuracy, and the universal direction alone."""
    figure, (axes,) = panels(1, width=5.6, height=3.4)
    for colour, name in zip(COLOURS, rows.of("curve").distinct("network"), strict=False):
        own = rows.of("curve", network=name)
        x, _, attacked, _ = over_seeds(own, "radius", "attacked_accuracy")
        certified = over_seeds(own, "radius", "certified_accuracy")[2]
        band(axes, x, certified, attacked, attacked, colour, NETWORKS[name])
        if name not in ("two-class", "ten-class"):
            continue
        x, _, universal, _ = over_seeds(rows.of("universal", network=name), "radius", "accuracy")
        axes.plot(x, universal, ":", color=colour, label=f"{NETWORKS[name]}, one universal direction")
    first = rows.of("summary")[0]
    k = first["positive"] + first["negative"]
    guide(axes, 1 / sqrt(k), f"√(d/{k})")
    guide(axes, sqrt(1 / (1 + first["negative"])), f"√(d/{1 + first['negative']})", height=0.8)
    guide(axes, sqrt(0.5), "√(d/2)")
    passed = all(r["self_test_passed"] for r in rows.of("summary"))
    axes.set_title(f"attack self-test: {'passed' if passed else 'FAILED'}", color="0.3", fontsize=8)
    axes.set(
        xlabel="ℓ2 radius (units of √d)",
        ylabel="robust accuracy: proven to attacked",
        xlim=(0, 1),
        ylim=(0, 1.03),
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def theorem_4_5(rows: Rows) -> Figure:
    """The conclusions as bars: clean accuracy, what is proven below √(d/k), and what an attack leaves above."""
    figure, (axes,) = panels(1, width=4.6, height=2.3)
    summary = rows.of("summary")
    names = {
        "clean": "clean_accuracy",
        "proven at 0.8 √(d/k)": "certified_below",
        "attacked at 1.2 √(d/k)": "attacked_above",
    }
    for position, (text, key) in enumerate(names.items()):
        axes.barh(position, mean_of(summary, key), color=COLOURS[0], height=0.6)
        axes.annotate(
            f" {mean_of(summary, key):.3f}", (mean_of(summary, key), position), va="center", fontsize=8
        )
        axes.text(-0.02, position, text, ha="right", va="center", fontsize=8)
    axes.set(xlabel="accuracy", xlim=(0, 1.15), yticks=[])
    axes.set_ylim(len(names) - 0.4, -0.6)
    return figure


def theorem_4_7(rows: Rows) -> Figure:
    """Proven and attacked 50 % radius of each seed between √d/10 and √(d/2)."""
    figure, (axes,) = panels(1, width=4.6, height=2.6)
    for r in rows.of("summary"):
        root = sqrt(r["dim"])
        axes.plot(
            [r["certified_half_radius"] / root, r["half_radius"] / root],
            [r["seed"]] * 2,
            color=COLOURS[0],
            linewidth=5,
        )
    guide(axes, 0.1, "√d/10 (proof)")
    guide(axes, sqrt(0.5), "√(d/2)")
    axes.set(xlabel="50 % radius (units of √d): proven to attacked", ylabel="seed", xlim=(0, 0.8))
    axes.margins(y=0.3)
    return figure


def constructions(rows: Rows) -> Figure:
    """Proven to attacked 50 % radius of the constructions, in units of what is predicted."""
    figure, (axes,) = panels(1, width=5.0, height=2.6)
    units = {
        "averaging": "f_FA ÷ √(d/k)",
        "decoupled": "f_dec ÷ √d",
        "shared": "shared features ÷ 2√(d/(k+6))",
    }
    for position, (name, text) in enumerate(units.items()):
        own = rows.of("summary", network=name)
        low, high = mean_of(own, "certified_radius"), mean_of(own, "radius")
        axes.plot([low, high], [position, position], color=COLOURS[position], linewidth=5)
        axes.plot(high, position, "|", color="black", markersize=12)
        axes.text(-0.02, position, text, ha="right", va="center", fontsize=8)
    guide(axes, 1.0, "predicted")
    axes.set(xlabel="50 % radius: proven to attacked", xlim=(0, 1.15), yticks=[])
    axes.set_ylim(len(units) - 0.4, -0.6)
    return figure


def decomposition(rows: Rows) -> Figure:
    """λ of every neuron and cluster, first seed."""
    figure, (axes,) = panels(1, width=3.9, height=3.1)
    table = table_of(rows.of("feature", seed=rows.seeds[0]), "coefficient")
    top = np.abs(table).max()
    shown = axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top)
    axes.figure.colorbar(shown, ax=axes, label="λ")
    axes.set(xlabel="neuron", ylabel="cluster", title="coefficients of the features")
    return figure


def growth(rows: Rows) -> Figure:
    """Margins along training and their laws."""
    figure, (axes,) = panels(1, width=4.4, height=3.0)
    for colour, name in zip(COLOURS, ("two-class", "k-class"), strict=False):
        own = rows.of("growth", network=name)
        x, low, mean, high = over_seeds(own, "time", "margin")
        band(axes, x, low, mean, high, colour, NETWORKS[name])
        x, _, law, _ = over_seeds(own, "time", "law")
        axes.plot(x, law, ":", color="black", label="law" if name == "k-class" else None)
    axes.set(xlabel="steps", ylabel="mean margin")
    axes.legend()
    return figure


def scaling(rows: Rows) -> Figure:
    """Radius against k, equal and unequal classes."""
    figure, axes = panels(2, width=3.8, height=3.0)
    for panel, split in zip(axes, ("equal", "unequal"), strict=True):
        for colour, name in zip(COLOURS, ("two-class", "k-class"), strict=False):
            own = rows.of("radius", network=name, split=split)
            if own:
                x, _, attacked, _ = over_seeds(own, "clusters", "radius")
                certified = over_seeds(own, "clusters", "certified_radius")[2]
                band(panel, x, certified, attacked, attacked, colour, NETWORKS[name])
                panel.plot(x, attacked, "o", color=colour, markersize=4)
                if name == "two-class":
                    panel.plot(x, 1 / np.sqrt(x), ":", color="black", label="√(d/k)")
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="clusters k",
            ylabel="50 % radius ÷ √d",
            title=f"{split} classes",
        )
    axes[0].legend()
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-averaging/figure-1": slices,
    "feature-averaging/figure-2": matrices,
    "feature-averaging/figure-3": robust_accuracy,
    **{f"feature-averaging/figure-{n}": ablation for n in range(5, 10)},
    "feature-averaging/theorem-4-5": theorem_4_5,
    "feature-averaging/theorem-4-7": theorem_4_7,
    "feature-averaging/proposition-4-8": constructions,
    "feature-averaging/decomposition": decomposition,
    "feature-averaging/dynamics": growth,
    "feature-averaging/scaling": scaling,
}
