"""The figures of double-edged, drawn from rows."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from featureprism.records import Row
from featureprism.report.style import COLOURS, band, guide, of_kind, over_seeds, panels, plain_ticks

NAMES = {"usual": "orthogonal means, σ = 1", "sphere": "means on the sphere, σ = 1", "within": "σ = 1/√d"}


def _mean(rows: list[Row], key: str) -> float:
    return sum(r[key] for r in rows) / len(rows)


def kkt(rows: list[Row]) -> Figure:
    """Stationarity along training for each method, and the margin it has reached, in the usual setting."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    own = [r for r in of_kind(rows, "path", name="usual") if "stationarity" in r]
    paths = list(dict.fromkeys(r["path"] for r in own))
    for colour, path in zip(COLOURS, paths, strict=False):
        found = of_kind(own, "path", path=path)
        x, low, mean, high = over_seeds(found, "time", "stationarity")
        _, least, share, most = over_seeds(found, "time", "margin_share")
        if len(x) > 1:
            band(left, x, low, mean, high, colour, path)
            band(right, x, 1 - most, 1 - share, 1 - least, colour, path)
        else:
            left.plot(x, mean, "o", color=colour, label=path)
            right.plot(x, 1 - share, "o", color=colour, label=path)
    hard = of_kind(rows, "solution", name="usual")
    if hard:
        guide(left, _mean(hard, "hard_stationarity"), "exact point, derivatives 0 or 1", along="y")
    left.set(xscale="log", yscale="log", xlabel="steps", ylabel="stationarity residual ÷ ‖θ‖")
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="1 - margin ÷ largest margin")
    for panel in (left, right):
        plain_ticks(panel, sorted({r["time"] for r in own}))
    left.legend()
    return figure


def theorem_3_1(rows: list[Row]) -> Figure:
    """Residual and test error of every network."""
    figure, (axes,) = panels(1, width=4.8, height=3.0)
    points = of_kind(rows, "point")
    for colour, name in zip(COLOURS, dict.fromkeys(r["name"] for r in points), strict=False):
        own = [r for r in points if r["name"] == name]
        axes.plot(
            [max(r["stationarity"], 1e-16) for r in own],
            [r["error"] for r in own],
            "o",
            color=colour,
            label=NAMES[name],
            alpha=0.6,
        )
    axes.set(xscale="log", xlabel="stationarity residual ÷ ‖θ‖", ylabel="test error", ylim=(-0.001, 0.02))
    axes.legend()
    return figure


def theorem_4_1(rows: list[Row]) -> Figure:
    """Certified and attacked median radius of the constructed network."""
    figure, (axes,) = panels(1, width=4.8, height=2.2)
    found = of_kind(rows, "radius")
    names = list(dict.fromkeys(r["name"] for r in found))
    for place, name in enumerate(names):
        own = [r for r in found if r["name"] == name]
        ends = [_mean(own, k) for k in ("certified_half_radius", "half_radius")]
        axes.plot(ends, [place, place], color=COLOURS[place], linewidth=6)
        axes.plot(ends[1], place, "|", color="black", markersize=12)
        axes.text(-0.01, place, NAMES[name], ha="right", va="center", fontsize=8)
    guide(axes, 0.125, "promised √d/8")
    guide(axes, 0.5, "√d/2")
    axes.set(xlabel="median radius ÷ √d: proven to attacked", xlim=(0, 0.7), yticks=[])
    axes.set_ylim(len(names) - 0.4, -0.6)
    return figure


def theorem_4_2(rows: list[Row]) -> Figure:
    """Flip rate against the norm of z, exact and trained."""
    figure, (axes,) = panels(1, width=4.8, height=3.0)
    found = of_kind(rows, "rate")
    for colour, name in zip(COLOURS, dict.fromkeys(r["name"] for r in found), strict=False):
        for network, dashed in (("exact", False), ("trained", True)):
            own = of_kind(found, "rate", name=name, network=network)
            x, low, mean, high = over_seeds(own, "share", "rate")
            band(axes, x, low, mean, high, colour, f"{NAMES[name]}, {network}", dashed=dashed)
    guide(axes, 1.0, "√(d/k)")
    axes.set(xlabel="‖z‖ ÷ √(d/k)", ylabel="test points flipped", ylim=(-0.02, 1.04))
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


def transfer(rows: list[Row]) -> Figure:
    """Flip rates of one perturbation on networks that never met."""
    figure, axes = panels(2, width=4.4, height=2.6)
    for panel, direction in zip(axes, ("u", "found on A"), strict=True):
        found = of_kind(rows, "flip", direction=direction)
        nets = list(dict.fromkeys(r["network"] for r in found))
        names = list(dict.fromkeys(r["name"] for r in found))
        height = 0.8 / max(1, len(names))
        for shift, name in enumerate(names):
            values = [
                _mean([r for r in found if (r["network"], r["name"]) == (net, name)], "rate") for net in nets
            ]
            panel.barh(
                np.arange(len(nets)) + shift * height,
                values,
                height=height,
                color=COLOURS[shift],
                label=NAMES[name],
            )
        panel.set_yticks(np.arange(len(nets)) + 0.4 - height / 2, nets)
        panel.invert_yaxis()
        panel.set(xlabel="fresh points flipped", xlim=(0, 1.02), title=f"z along {direction}")
    axes[1].legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


def scaling(rows: list[Row]) -> Figure:
    """Flipping norm against k and against d, with the predicted lines."""
    figure, panel = panels(2, width=3.6, height=2.9)
    for axes, family, key in zip(panel, ("clusters", "dimension"), ("clusters", "dim"), strict=True):
        own = of_kind(rows, "norm", family=family)
        for colour, name in zip(COLOURS, dict.fromkeys(r["name"] for r in own), strict=False):
            x, low, mean, high = over_seeds(of_kind(own, "norm", name=name), key, "norm")
            axes.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=NAMES[name])
        x, _, law, _ = over_seeds(own, key, "predicted")
        axes.plot(x, law, "--", color="0.4", label="√(d/k)")
        axes.set(xscale="log", yscale="log", xlabel="clusters k" if key == "clusters" else "dimension d")
        plain_ticks(axes, x)
        plain_ticks(axes, (5, 10, 20, 40), along="y")
    panel[0].set(ylabel="norm that flips half of the points")
    panel[0].legend()
    return figure


def assumption_2_2(rows: list[Row]) -> Figure:
    """How far inside or outside Assumption 2.2 each setting is: c' with the printed Δ and with that of the sample."""
    figure, (axes,) = panels(1, width=5.6, height=2.6)
    found = of_kind(rows, "audit")
    settings = list(dict.fromkeys((r["name"], r["dim"], r["clusters"]) for r in found))
    for place, (name, dim, k) in enumerate(settings):
        own = [r for r in found if (r["name"], r["dim"], r["clusters"]) == (name, dim, k)]
        for key, marker in (("crowding", "o"), ("measured_crowding", "D")):
            values = [r[key] for r in own if r[key] is not None and np.isfinite(r[key])]
            if values:
                axes.plot(sum(values) / len(values), place, marker, color=COLOURS[place % len(COLOURS)])
        axes.text(2e-3, place, f"{NAMES[name]}, d = {dim}, k = {k}", ha="right", va="center", fontsize=8)
    guide(axes, 0.1, "Assumption 2.2: at most 1/10")
    axes.set(
        xscale="log",
        xlim=(3e-3, 300),
        yticks=[],
        xlabel="c': circles printed Δ, diamonds Δ of the sample",
    )
    axes.set_ylim(len(settings) - 0.4, -0.6)
    return figure


DRAWINGS: dict[str, Callable[[list[Row]], Figure]] = {
    "double-edged/kkt": kkt,
    "double-edged/theorem-3-1": theorem_3_1,
    "double-edged/theorem-4-1": theorem_4_1,
    "double-edged/theorem-4-2": theorem_4_2,
    "double-edged/transfer": transfer,
    "double-edged/scaling": scaling,
    "double-edged/assumption-2-2": assumption_2_2,
}
