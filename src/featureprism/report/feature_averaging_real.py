"""The figures of feature-averaging on embeddings and images, drawn from rows."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels
from featureprism.records import as_image

LABELS = {"two-class": "two labels", "ten-class": "ten labels"}
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def _source(rows: Rows) -> str:
    return str(rows[0].get("source", "")).split(",")[0].removesuffix(".npz").replace("_", " ")


def _names(rows: Rows) -> tuple[str, ...]:
    """Names of the classes: those of CIFAR-10 where the file says so, else numbers."""
    return CLASSES if str(rows[0].get("source")).startswith("cifar10") else tuple("0123456789")


def embedding_matrices(rows: Rows) -> Figure:
    """Figure 2 (c, d): cosines between class means and weights, averaged over seeds."""
    figure, axes = panels(2, width=3.9, height=3.5)
    names, shown = _names(rows), None
    for panel, (network, text) in zip(axes, LABELS.items(), strict=True):
        table = np.zeros((10, 10))
        cosines = rows.of("cosine", network=network, means="raw")
        for r in cosines:
            table[r["cluster"], r["neuron"]] += r["cosine"] * 100 / len(cosines)
        shown = panel.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1)
        key, told = (
            ("averaging", "own merged class minus other")
            if network == "two-class"
            else ("decoupling", "own feature minus others")
        )
        gap = rows.of("summary", network=network, means="raw").column(key).mean()
        panel.set_title(f"{text}: {told} {gap:.2f}", fontsize=8)
        panel.set_xticks([2, 7], ["weights 1-5", "weights 6-10"], fontsize=7)
        panel.set_yticks(range(10), names if network == "two-class" else [""] * 10, fontsize=7)
        panel.tick_params(length=0)
        panel.axhline(4.5, color="black", linewidth=0.6)
        panel.axvline(4.5, color="black", linewidth=0.6)
        panel.spines[["left", "bottom"]].set_visible(False)
    figure.colorbar(shown, ax=axes, label="cosine", shrink=0.8)  # type: ignore[arg-type]
    return figure


def blocks(rows: Rows) -> Figure:
    """Figure 10: cosines of embeddings sorted by class, first seed."""
    figure, (axes,) = panels(1, width=4.9, height=3.9)
    matrix = rows.of("matrix", seed=rows.seeds[0])[0]
    table = 2 * as_image(matrix)[:, :, 0].numpy() - 1
    top = float(np.quantile(np.abs(table), 0.99))
    shown = axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
    figure.colorbar(shown, ax=axes, label="cosine")
    centres = (np.arange(10) + 0.5) * len(table) / 10 - 0.5
    axes.set_yticks(centres, _names(rows), fontsize=7)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    raw = rows.of("summary", means="raw")
    within, between = raw.column("within").mean(), raw.column("between").mean()
    axes.set_title(f"same class {within:.3f}, different {between:.3f}")
    return figure


def heads(rows: Rows) -> Figure:
    """Proven to attacked median radius of every head, and its clean accuracy beside it; means over seeds."""
    parts = rows.of("head").groups("head")
    names = list(parts)
    figure, (left, right) = panels(2, width=4.2, height=0.3 * len(names) + 0.9)
    for line, (name, own) in enumerate(parts.items()):
        colour = COLOURS[0] if "two" in name else COLOURS[1] if "ten" in name else COLOURS[2]
        proven, attacked = own.column("certified_radius"), own.column("attacked_radius")
        low, high = proven.mean(), attacked.mean()
        left.plot([low, high], [line, line], color=colour, linewidth=5, solid_capstyle="butt")
        left.plot(attacked, [line] * len(own), "|", color="black", markersize=9)
        right.plot(own.column("accuracy"), [line] * len(own), "o", color=colour, markersize=4)
    left.set_yticks(range(len(names)), names, fontsize=7)
    right.set_yticks(range(len(names)), [""] * len(names))
    for panel in (left, right):
        panel.set_ylim(len(names) - 0.4, -0.6)
        panel.grid(axis="y", color="0.93", linewidth=0.8)
        panel.set_axisbelow(True)
    left.set(xlabel="median ℓ2 radius: proven to attacked (ticks: seeds)", xlim=(0, None))
    right.xaxis.set_major_locator(MaxNLocator(5))
    right.set(xlabel="two-class test accuracy", title=f"points: {_source(rows)}")
    return figure


def image_curves(rows: Rows) -> Figure:
    """Figure 3: robust accuracy against the radius, bands over seeds or, for one seed, of the test images (95 %)."""
    figure, (axes,) = panels(1, width=5.8, height=3.5)
    styles = (
        ("two-class", "merged decision", COLOURS[0], "two labels"),
        ("ten-class", "both", COLOURS[1], "ten labels, the stronger of both attacks"),
        ("ten-class", "merged decision", COLOURS[2], "ten labels, attacked at the decision"),
        ("ten-class", "ten-class cross-entropy", COLOURS[4], "ten labels, attacked at the ten labels"),
    )
    one = len(rows.seeds) == 1
    for labels, attack, colour, text in styles:
        own = rows.of("curve", labels=labels, attack=attack)
        x, low, mean, high = over_seeds(own, "radius", "accuracy")
        if one:
            low, high = (over_seeds(own, "radius", side)[2] for side in ("low", "high"))
        if attack == "merged decision" and labels == "ten-class":
            axes.plot(x, mean, ":", color=colour, label=text)
        else:
            band(axes, x, low, mean, high, colour, text, dashed=attack == "ten-class cross-entropy")
    guide(axes, 0.5, "50 %", along="y")
    gain = rows.of("gain", attack="both").column("gain").mean()
    radius, accuracy = rows.of("curve").column("radius"), rows.of("curve").column("accuracy")
    last = radius[accuracy > 0.02].max(initial=0) or radius.max()
    axes.set(
        xlabel="ℓ2 radius",
        ylabel="robust accuracy (attacked)",
        title=f"{_source(rows)}: 50 % radius, ten labels ÷ two labels = {gain:.2f}",
        xlim=(0, last),
        ylim=(0, 1.03),
    )
    axes.legend(loc="upper right", fontsize=7)
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-averaging/figure-2-embeddings": embedding_matrices,
    "feature-averaging/figure-10": blocks,
    "feature-averaging/embeddings": heads,
    "feature-averaging/figure-3-mnist": image_curves,
    "feature-averaging/figure-3-cifar": image_curves,
}
