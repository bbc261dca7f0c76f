"""The figures of feature-amplification, drawn from rows."""

from collections.abc import Callable
from math import sqrt

import numpy as np
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels, plain_ticks
from featureprism.theory.amplification_laws import rademacher_limit


def figure_1(rows: Rows) -> Figure:
    """Boundary and points of the first seed at two times, and the agreement with f* along training."""
    first = rows.having(seed=rows.seeds[0])
    times = sorted(first.of("boundary").distinct("time"))
    figure, axes = panels(len(times) + 1, width=3.3, height=3.1)
    for panel, time in zip(axes, times, strict=False):
        grid = first.of("boundary", time=time)
        x = sorted(grid.distinct("x1"))
        values = {(r["x1"], r["x2"]): r["value"] for r in grid}
        table = np.array([[values[a, b] for a in x] for b in x])
        panel.contourf(x, x, np.sign(table), levels=[-2, 0, 2], colors=["#f5c9b0", "#bcd9ec"])
        for label, marker in ((1.0, "+"), (-1.0, "_")):
            for flipped in (False, True):
                points = first.of("point", label=label, flipped=flipped)
                colour = "black" if flipped else COLOURS[0 if label > 0 else 1]
                panel.scatter(
                    points.column("x1"),
                    points.column("x2"),
                    marker=marker,
                    s=14,
                    linewidths=0.8,
                    color=colour,
                )
        panel.set(xlim=(-2, 2), ylim=(-2, 2), title=f"t = {time:g} (black: flipped labels)", aspect="equal")
    x, low, mean, high = over_seeds(rows.of("time"), "time", "agreement")
    band(axes[-1], x, low, mean, high, COLOURS[0], None)
    axes[-1].set(xscale="log", xlabel="steps", ylabel="agreement with f*", ylim=(0.4, 1.02))
    return figure


def theorem_3_1(rows: Rows) -> Figure:
    """Correlation and alignment along the few steps, one line for each d."""
    figure, (left, right) = panels(2, width=3.6, height=2.8)
    steps = rows.of("step", family="dimension")
    for colour, dim in zip(COLOURS, sorted(steps.distinct("dim")), strict=False):
        own = steps.having(dim=dim)
        for panel, key in ((left, "correlation"), (right, "aligned")):
            x, low, mean, high = over_seeds(own, "time", key)
            band(panel, x, low, mean, high, colour, f"d = {dim}")
    left.set(xlabel="steps", ylabel="median cos(w_j, μ) over J")
    right.set(xlabel="steps", ylabel="share of J aligned")
    left.legend()
    return figure


def amplification(rows: Rows) -> Figure:
    """Distribution of correlations before and after one step for each d, and against the start."""
    figure, (left, right) = panels(2, width=3.8, height=3.0)
    quantiles = rows.of("quantile", family="dimension")
    for colour, dim in zip(COLOURS, sorted(quantiles.distinct("dim")), strict=False):
        for time, style in ((0, ":"), (1, "-")):
            q, _, mean, _ = over_seeds(quantiles.having(dim=dim, time=time), "quantile", "correlation")
            left.plot(mean, q, style, color=colour, label=f"d = {dim}" if time else None)
    left.set(xlabel="cos(w_j, μ) over J: dotted t = 0, full t = 1", ylabel="share of neurons below")
    left.legend()
    starts = rows.of("summary", family="start")
    x, low, mean, high = over_seeds(starts, "start", "after")
    band(right, x, low, mean, high, COLOURS[0], None)
    right.set(
        xscale="log", xlabel="initialisation scale ω", ylabel="median correlation at t = 1", ylim=(0, 1)
    )
    return figure


def proposition_3_2(rows: Rows) -> Figure:
    """Feature change against the start, with the slope -1."""
    figure, (axes,) = panels(1, width=4.0, height=3.0)
    starts = rows.of("change", family="start")
    x, low, mean, high = over_seeds(starts, "start", "change")
    band(axes, x, low, mean, high, COLOURS[0], "measured")
    axes.plot(x, mean[0] * x[0] / x, ":", color="black", label="slope -1")
    x, _, bound, _ = over_seeds(starts, "start", "bound")
    axes.plot(x, bound, "--", color="0.5", label="1/(Cω√(md)), C = 16")
    axes.set(
        xscale="log", yscale="log", xlabel="initialisation scale ω", ylabel="least relative feature change"
    )
    axes.legend()
    return figure


def proposition_b_1(rows: Rows) -> Figure:
    """Complexity against n, with the bound of the paper and the law."""
    figure, (axes,) = panels(1, width=4.0, height=3.0)
    x, low, mean, high = over_seeds(rows.of("complexity"), "points", "complexity")
    band(axes, x, low, mean, high, COLOURS[0], "measured, from below")
    x, _, bound, _ = over_seeds(rows.of("complexity"), "points", "bound")
    axes.plot(x, bound, "--", color="0.5", label="2√(E‖x‖²/n)")
    axes.plot(x, rademacher_limit() / np.sqrt(x), ":", color="black", label="law")
    axes.set(xscale="log", yscale="log", xlabel="points n", ylabel="Rademacher complexity, R = 1")
    axes.legend()
    return figure


def critical_c(rows: Rows) -> Figure:
    """The share of runs in which each conclusion holds, against C."""
    figure, (axes,) = panels(1, width=4.8, height=3.0)
    shares = rows.of("share", law="gaussian")
    for colour, name in zip(COLOURS, shares.distinct("conclusion"), strict=False):
        x, low, mean, high = over_seeds(shares.having(conclusion=name), "constant", "share")
        band(axes, x, low, mean, high, colour, name)
    guide(axes, 0.8, "1 - 4δ", along="y")
    axes.set(xscale="log", xlabel="C", ylabel="share of runs", ylim=(-0.02, 1.02))
    plain_ticks(axes, (4, 8, 16, 24))
    axes.legend()
    return figure


def label_noise(rows: Rows) -> Figure:
    """Clean points lost against the noise rate, for each kind of noise."""
    figure, (axes,) = panels(1, width=4.6, height=3.0)
    sweeps = rows.of("rate", family="breakdown")
    for colour, kind in zip(COLOURS, sweeps.distinct("noise"), strict=False):
        x, low, mean, high = over_seeds(sweeps.having(noise=kind), "rate", "clean_lost")
        band(axes, x, low, mean, high, colour, kind)
    axes.set(xlabel="noise rate η", ylabel="clean training points lost", ylim=(-0.02, 1.02))
    axes.legend()
    return figure


def linear(rows: Rows) -> Figure:
    """Errors of the best linear classifiers, through the origin and with a bias, for each law of the clusters."""
    figure, (axes,) = panels(1, width=4.0, height=2.8)
    laws = rows.of("linear").distinct("law")
    for place, (key, text) in enumerate({"origin": "through the origin", "bias": "with a bias"}.items()):
        errors = [rows.of("linear", through=key, law=law).column("error").mean() for law in laws]
        heights = [index + 0.4 * place for index in range(len(laws))]
        axes.barh(heights, errors, height=0.35, color=COLOURS[place], label=text)
    axes.set_yticks([index + 0.2 for index in range(len(laws))], laws)
    axes.set(xlabel="test error of the best linear classifier", xlim=(0, 1))
    guide(axes, 0.5, "chance")
    axes.legend(loc="upper right")
    return figure


def baselines(rows: Rows) -> Figure:
    """Errors of three ways to learn in tight and in wide clusters, and how three layers amplify."""
    figure, (left, right) = panels(2, width=3.8, height=2.8)
    names = rows.of("error").distinct("name")
    for place, clusters in enumerate(("tight", "wide")):
        errors = [rows.of("error", clusters=clusters, name=name).column("error").mean() for name in names]
        heights = [index + 0.4 * place for index in range(len(names))]
        left.barh(heights, errors, height=0.35, color=COLOURS[place], label=f"{clusters} clusters")
    left.set_yticks([index + 0.2 for index in range(len(names))], names)
    left.set(xlabel="test error under clean labels", xlim=(0, 0.55))
    left.legend()
    x, low, mean, high = over_seeds(rows.of("step", clusters="tight"), "time", "correlation")
    band(right, x, low, mean, high, COLOURS[2], None)
    right.set(xlabel="steps", ylabel="three layers: cosine to the nearest centre", ylim=(0, 1))
    return figure


def robustness(rows: Rows) -> Figure:
    """Proven to attacked 50 % radius after the theorem's steps and after long training."""
    figure, (axes,) = panels(1, width=4.6, height=2.4)
    names = {"theorem": "after 1 + 1/(4α) steps", "long": "after long training"}
    for height, (stage, text) in enumerate(names.items()):
        radii = rows.of("radius", stage=stage)
        low, high = (radii.column(end).mean() for end in ("certified_half_radius", "half_radius"))
        axes.plot([low, high], [height, height], color=COLOURS[height], linewidth=6)
        axes.plot(high, height, "|", color="black", markersize=12)
        axes.text(-0.01, height, text, ha="right", va="center", fontsize=8)
    guide(axes, 1 / sqrt(2), "1/√2 (f*)")
    axes.set(xlabel="50 % radius: proven to attacked", xlim=(0, 0.85), yticks=[])
    axes.set_ylim(1.6, -0.6)
    return figure


def memorisation(rows: Rows) -> Figure:
    """Flipped labels fitted and clean test error along long training."""
    figure, (left, right) = panels(2, width=3.7, height=2.9)
    for colour, dim in zip(COLOURS, sorted(rows.of("time").distinct("dim")), strict=False):
        own = rows.of("time", dim=dim)
        for panel, key in ((left, "fitted_share"), (right, "clean_error")):
            x, low, mean, high = over_seeds(own, "time", key)
            band(panel, x, low, mean, high, colour, f"d = {dim}, n = {own[0]['points']}")
            panel.set(xscale="log", xlabel="steps")
    left.set(ylabel="flipped labels fitted", ylim=(-0.02, 1.02))
    right.set(ylabel="clean test error", ylim=(-0.02, 0.6))
    left.legend()
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-amplification/figure-1": figure_1,
    "feature-amplification/theorem-3-1": theorem_3_1,
    "feature-amplification/amplification": amplification,
    "feature-amplification/proposition-3-2": proposition_3_2,
    "feature-amplification/proposition-b-1": proposition_b_1,
    "feature-amplification/critical-c": critical_c,
    "feature-amplification/label-noise": label_noise,
    "feature-amplification/linear": linear,
    "feature-amplification/baselines": baselines,
    "feature-amplification/robustness": robustness,
    "feature-amplification/memorisation": memorisation,
}
