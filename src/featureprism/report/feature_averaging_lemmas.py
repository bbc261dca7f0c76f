"""The lemmas of feature-averaging and the theorem's regime, drawn from rows."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels


def approach(rows: Rows) -> Figure:
    """The gap to f_FA beside its law, and the opposite-class λ beside its own, one colour for each size."""
    figure, axes = panels(2, width=3.6, height=3.1)
    gaps = rows.of("gap")
    pairs = (("law", "gap", "sup|C f_FA - f| ÷ sup|f|"), ("floor", "opposite", "opposite λ ÷ own λ"))
    for panel, (law, measured, name) in zip(axes, pairs, strict=True):
        for index, (size, own) in enumerate(gaps.groups("size").items()):
            panel.plot(
                own.column(law), own.column(measured), "o", color=COLOURS[index % len(COLOURS)], label=size
            )
        ends = [gaps.column(law).min(), gaps.column(law).max()]
        panel.plot(ends, ends, ":", color="black")
        panel.set(xscale="log", yscale="log", xlabel="law", ylabel=name)
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
    return figure


def margins(rows: Rows) -> Figure:
    """Gaps of margins along training, overall and within clusters, and the spread within clusters beside its law."""
    figure, (axes,) = panels(1, width=4.4, height=3.0)
    spreads = rows.of("spread")
    names = {"gap": "largest gap", "cluster_gap": "largest gap in a cluster", "within": "spread in clusters"}
    for colour, (name, text) in zip(COLOURS, names.items(), strict=False):
        x, low, mean, high = over_seeds(spreads, "time", name)
        band(axes, x, low, mean, high, colour, text)
    x, _, law, _ = over_seeds(spreads, "time", "within_law")
    axes.plot(x, law, ":", color="black", label="λ√(|J|/d)")
    guide(axes, 1.0, "1", along="y")
    axes.set(xscale="log", xlabel="steps", ylabel="margin")
    axes.legend()
    return figure


def premises(rows: Rows) -> Figure:
    """Every premise and event as measured ÷ required, means over seeds; full where it holds in every seed."""
    groups = rows.of("premise").groups("id")
    figure, (axes,) = panels(1, width=4.6, height=0.7 + 0.22 * max(1, len(groups)))
    for height, own in enumerate(groups.values()):
        ratio = own.column("measured") / np.where(own.column("required") == 0, 1, own.column("required"))
        holds = all(row["holds"] for row in own)
        colour = COLOURS[2] if holds else COLOURS[1]
        axes.plot(
            max(abs(ratio.mean()), 1e-12), height, "o", color=colour, fillstyle="full" if holds else "none"
        )
        told = f"{own[0]['relation']} 1"
        axes.annotate(
            told, (1.0, height), xytext=(3, -3), textcoords="offset points", fontsize=6, color="0.5"
        )
    axes.axvline(1, color="0.7", linewidth=0.8)
    axes.set_yticks(range(len(groups)), list(groups), fontsize=6)
    axes.set(xscale="log", xlabel="measured ÷ required")
    return figure


def layers(rows: Rows) -> Figure:
    """Cosines, radii and gaps of networks with a second layer that stays and one that moves."""
    figure, (axes,) = panels(1, width=4.2, height=2.6)
    names = {
        "share": "cosine ÷ law",
        "radius": "radius ÷ √(d/k)",
        "gap": "gap to f_FA",
        "votes_moved": "votes moved",
    }
    for shift, (colour, part) in enumerate(zip(COLOURS, ("first", "both"), strict=False)):
        own = rows.of("summary", layers=part)
        for position, name in enumerate(names):
            value = own.column(name).mean()
            axes.barh(
                position + 0.35 * shift, value, color=colour, height=0.3, label=part if not position else None
            )
    axes.set_yticks([position + 0.17 for position in range(len(names))], list(names.values()), fontsize=8)
    axes.legend(title="layers trained", fontsize=8)
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-averaging/theorem-4-6": approach,
    "feature-averaging/lemma-5-3": margins,
    "feature-averaging/regime": premises,
    "feature-averaging/appendix": premises,
    "feature-averaging/second-layer": layers,
}
