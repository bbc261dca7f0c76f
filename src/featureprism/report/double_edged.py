"""The figures of double-edged, drawn from rows."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels, plain_ticks

NAMES = {"usual": "orthogonal means, σ = 1", "sphere": "means on the sphere, σ = 1", "within": "σ = 1/√d"}
FREE = {
    "balance": "unequal classes",
    "balance-inside": "the same, inside",
    "correlated": "correlated means",
    "both": "both",
    "norms": "unequal norms",
    "noise": "other noise",
    "loud": "σ = 2, 3",
}


def kkt(rows: Rows) -> Figure:
    """Stationarity along training for each method, and the margin it has reached, in the usual setting."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    audited = rows.of("path", case="usual").where(lambda row: "stationarity" in row)
    for colour, (path, own) in zip(COLOURS, audited.groups("path").items(), strict=False):
        x, low, mean, high = over_seeds(own, "time", "stationarity")
        _, least, share, most = over_seeds(own, "time", "margin_share")
        if len(x) > 1:
            band(left, x, low, mean, high, colour, path)
            band(right, x, 1 - most, 1 - share, 1 - least, colour, path)
        else:
            left.plot(x, mean, "o", color=colour, label=path)
            right.plot(x, 1 - share, "o", color=colour, label=path)
    hard = rows.of("solution", case="usual").column("hard_stationarity")
    if len(hard):
        guide(left, hard.mean(), "exact point, derivatives 0 or 1", along="y")
    left.set(xscale="log", yscale="log", xlabel="steps", ylabel="stationarity residual ÷ ‖θ‖")
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="1 - margin ÷ largest margin")
    for panel in (left, right):
        plain_ticks(panel, sorted(audited.distinct("time")))
    left.legend()
    return figure


def kkt_lab(rows: Rows) -> Figure:
    """ε on the points that stay, with and without the ascent step."""
    figure, (axes,) = panels(1, width=4.8, height=2.8)
    for place, own in enumerate(rows.of("forget").groups("case").values()):
        for key, marker, colour in (("epsilon_before", "o", COLOURS[0]), ("epsilon_after", "D", COLOURS[1])):
            values = own.column(key)
            name = (
                None if place else {"epsilon_before": "doing nothing", "epsilon_after": "after the step"}[key]
            )
            axes.plot(np.full(len(values), place), values, marker, color=colour, alpha=0.7, label=name)
    cases = rows.of("forget").distinct("case")
    axes.set_xticks(
        range(len(cases)),
        [
            {**NAMES, "alone": "single points", "usual": "clusters, σ = 1", "within": "clusters, σ = 1/√d"}[
                case
            ]
            for case in cases
        ],
    )
    axes.set(yscale="log", ylabel="ε on the other points", xlim=(-0.5, max(len(cases), 1) - 0.5))
    axes.legend()
    return figure


def theorem_3_1(rows: Rows) -> Figure:
    """Residual and test error of every network; test error against n/k beside that of lost clusters."""
    figure, (axes, samples) = panels(2, width=4.2, height=3.0)
    for colour, (case, own) in zip(COLOURS, rows.of("point").groups("case").items(), strict=False):
        residual = own.column("stationarity").clip(min=1e-16)
        axes.plot(residual, own.column("error"), "o", color=colour, label=NAMES[case], alpha=0.6)
    axes.set(xscale="log", xlabel="stationarity residual ÷ ‖θ‖", ylabel="test error", ylim=(-0.001, 0.02))
    axes.legend()
    for colour, (case, own) in zip(COLOURS, rows.of("sample").groups("case").items(), strict=False):
        x, low, mean, high = over_seeds(own, "ratio", "error")
        samples.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=case)
    x, _, law, _ = over_seeds(rows.of("sample"), "ratio", "law")
    samples.plot(x, law, "--", color="0.4", label="½(1 - 1/k)^n")
    samples.set(xlabel="training points for each cluster, n/k", ylabel="test error")
    samples.legend()
    return figure


def theorem_4_1(rows: Rows) -> Figure:
    """Certified and attacked median radius of the constructed network."""
    figure, (axes,) = panels(1, width=4.8, height=2.2)
    cases = rows.of("radius").groups("case")
    for height, (case, own) in enumerate(cases.items()):
        ends = [own.column(end).mean() for end in ("certified_half_radius", "half_radius")]
        axes.plot(ends, [height, height], color=COLOURS[height], linewidth=6)
        axes.plot(ends[1], height, "|", color="black", markersize=12)
        axes.text(-0.01, height, NAMES[case], ha="right", va="center", fontsize=8)
    guide(axes, 0.125, "promised √d/8")
    guide(axes, 0.5, "√d/2")
    axes.set(xlabel="median radius ÷ √d: proven to attacked", xlim=(0, 0.7), yticks=[])
    axes.set_ylim(len(cases) - 0.4, -0.6)
    return figure


def theorem_4_2(rows: Rows) -> Figure:
    """Flip rate against the norm of z, exact and trained; and the breaking norm over its law where parameters are free."""
    figure, (axes, free) = panels(2, width=4.4, height=3.0)
    for colour, (case, rates) in zip(COLOURS, rows.of("rate").groups("case").items(), strict=False):
        for network, dashed in (("exact", False), ("trained", True)):
            x, low, mean, high = over_seeds(rates.having(network=network), "share", "rate")
            band(axes, x, low, mean, high, colour, f"{NAMES[case]}, {network}", dashed=dashed)
    guide(axes, 1.0, "‖u‖/k")
    axes.set(xlabel="‖z‖ ÷ (‖u‖/k)", ylabel="test points flipped", ylim=(-0.02, 1.04))
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))
    others = rows.of("critical", network="exact").where(lambda row: row["case"] not in NAMES)
    for height, (case, own) in enumerate(others.groups("case").items()):
        values = own.column("norm")
        free.plot(values, np.full(len(values), height), "o", color=COLOURS[height % len(COLOURS)], alpha=0.6)
        free.text(0.74, height, FREE[case], ha="right", va="center", fontsize=8)
    guide(free, 1.0, "‖u‖/k")
    free.set(xlabel="norm that flips half ÷ (‖u‖/k)", xlim=(0.75, 1.25), yticks=[], ylim=(6.6, -1.6))
    return figure


def initialisation(rows: Rows) -> Figure:
    """The radius along the flow from a robust network, certified and attacked, against ln(1/L) over the law's passage."""
    figure, (axes,) = panels(1, width=5.6, height=3.2)
    laws = {(row["case"], row["dim"], row["seed"]): row["law"] for row in rows.of("passage")}
    flows = rows.of("flow").groups("case", "dim", "seed")
    shown: dict[tuple, str] = {}
    for (case, dim, seed), own in flows.items():
        colour = shown.setdefault((case, dim), COLOURS[len(shown) % len(COLOURS)])
        x, name = own.column("clock") / laws[case, dim, seed], f"{case}, d = {dim}"
        axes.fill_between(x, own.column("certified"), own.column("radius"), color=colour, alpha=0.25)
        axes.plot(x, own.column("radius"), color=colour, label=name if seed == rows.seeds[0] else None)
    guide(axes, 1.0, "law: passes 1.1 √(d/k)")
    guide(axes, 0.5, "√d/2, the start", along="y")
    axes.set(
        xscale="log", xlabel="ln(1/L) ÷ the law's passage", ylabel="median radius ÷ √d", ylim=(0.3, 0.75)
    )
    axes.legend()
    return figure


def transfer(rows: Rows) -> Figure:
    """Flip rates of one perturbation on networks that never met."""
    figure, axes = panels(2, width=4.4, height=2.6)
    for panel, direction in zip(axes, ("u", "found on A"), strict=True):
        flips = rows.of("flip", direction=direction)
        nets, cases = flips.distinct("network"), flips.groups("case")
        height = 0.8 / max(1, len(cases))
        for shift, (case, own) in enumerate(cases.items()):
            values = [own.having(network=net).column("rate").mean() for net in nets]
            panel.barh(
                np.arange(len(nets)) + shift * height,
                values,
                height=height,
                color=COLOURS[shift],
                label=NAMES[case],
            )
        panel.set_yticks(np.arange(len(nets)) + 0.4 - height / 2, nets)
        panel.invert_yaxis()
        panel.set(xlabel="fresh points flipped", xlim=(0, 1.02), title=f"z along {direction}")
    axes[1].legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


def scaling(rows: Rows) -> Figure:
    """Flipping norm against k and against d, with the predicted lines."""
    figure, panel = panels(2, width=3.6, height=2.9)
    for axes, family, key in zip(panel, ("clusters", "dimension"), ("clusters", "dim"), strict=True):
        norms = rows.of("norm", family=family)
        for colour, (case, own) in zip(COLOURS, norms.groups("case").items(), strict=False):
            x, low, mean, high = over_seeds(own, key, "norm")
            axes.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=NAMES[case])
        x, _, law, _ = over_seeds(norms, key, "predicted")
        axes.plot(x, law, "--", color="0.4", label="√(d/k)")
        axes.set(xscale="log", yscale="log", xlabel="clusters k" if key == "clusters" else "dimension d")
        plain_ticks(axes, x)
        plain_ticks(axes, (5, 10, 20, 40), along="y")
    panel[0].set(ylabel="norm that flips half of the points")
    panel[0].legend()
    return figure


def many_clusters(rows: Rows) -> Figure:
    """Median radii of the network and of the nearest neighbour, in every setting."""
    figure, (axes,) = panels(1, width=5.2, height=2.8)
    settings = list(rows.of("neighbour").groups("case", "dim", "clusters"))
    for height, (case, dim, k) in enumerate(settings):
        known = {"case": case, "dim": dim, "clusters": k}
        near = rows.of("neighbour", **known).column("certified") * np.sqrt(0.5)
        own = rows.of("network", **known).column("radius") / np.sqrt(dim)
        for values, marker, colour, name in (
            (near, "D", COLOURS[1], "nearest neighbour, proven"),
            (own, "o", COLOURS[0], "network, attacked"),
        ):
            label = None if height else name
            axes.plot(values, np.full(len(values), height), marker, color=colour, alpha=0.7, label=label)
        axes.text(
            -0.01, height, f"{NAMES.get(case, case)}, d = {dim}, k = {k}", ha="right", va="center", fontsize=8
        )
    axes.set(xlabel="median radius ÷ √d", xlim=(0, 0.8), yticks=[], ylim=(len(settings) - 0.4, -1.2))
    axes.legend(loc="upper right")
    return figure


def assumption_2_2(rows: Rows) -> Figure:
    """How far inside or outside Assumption 2.2 each setting is: c' with the printed Δ and with that of the sample."""
    figure, (axes,) = panels(1, width=5.6, height=2.6)
    settings = rows.of("audit").groups("case", "dim", "clusters")
    for height, ((case, dim, k), own) in enumerate(settings.items()):
        for key, marker in (("crowding", "o"), ("measured_crowding", "D")):
            values = own.column(key)
            values = values[np.isfinite(values)]
            if len(values):
                axes.plot(values.mean(), height, marker, color=COLOURS[height % len(COLOURS)])
        axes.text(2e-3, height, f"{NAMES[case]}, d = {dim}, k = {k}", ha="right", va="center", fontsize=8)
    guide(axes, 0.1, "Assumption 2.2: at most 1/10")
    axes.set(
        xscale="log",
        xlim=(3e-3, 300),
        yticks=[],
        xlabel="c': circles printed Δ, diamonds Δ of the sample",
    )
    axes.set_ylim(len(settings) - 0.4, -0.6)
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "double-edged/kkt": kkt,
    "double-edged/kkt-lab": kkt_lab,
    "double-edged/theorem-3-1": theorem_3_1,
    "double-edged/theorem-4-1": theorem_4_1,
    "double-edged/theorem-4-2": theorem_4_2,
    "double-edged/initialisation": initialisation,
    "double-edged/transfer": transfer,
    "double-edged/scaling": scaling,
    "double-edged/many-clusters": many_clusters,
    "double-edged/assumption-2-2": assumption_2_2,
}
