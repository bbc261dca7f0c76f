"""The figures of our own findings, drawn from rows."""

from collections.abc import Callable

from matplotlib.figure import Figure

from featureprism.papers.beyond.phase_scaling import BEYOND, extrapolated
from featureprism.records import Row
from featureprism.report.audit import pareto
from featureprism.report.phase import draw_map, draw_slices, phase_of
from featureprism.report.style import COLOURS, panels
from featureprism.theory.gmm_flow import critical_start


def blind_attacks(rows: list[Row]) -> Figure:
    """Claimed robust accuracy of every tool where the truth is 0, one panel for each network; means over seeds."""
    networks = list(dict.fromkeys(r["network"] for r in rows))
    figure, axes = panels(len(networks), width=5.0, height=4.2)
    for panel, network in zip(axes, networks, strict=True):
        own = [r for r in rows if r["network"] == network]
        claimed = [r for r in own if r["kind"] == "claimed"]
        names = list(dict.fromkeys((r["tool"], r["mode"]) for r in claimed))
        for place, (tool, mode) in enumerate(names):
            found = [r for r in claimed if (r["tool"], r["mode"]) == (tool, mode)]
            values = [r["claimed_accuracy"] for r in found if not r["error"]]
            if values:
                mean = sum(values) / len(values)
                panel.barh(place, mean, color=COLOURS[1] if mean > 0 else COLOURS[2], height=0.6)
                radius = sorted(r["half_radius"] for r in found)[len(found) // 2]
                text = "finds nothing" if radius == float("inf") else f"median radius {radius:.3g}"
                panel.annotate(text, (mean, place), xytext=(3, -3), textcoords="offset points", fontsize=7)
            else:
                panel.annotate(
                    f" {found[0]['error'].rstrip(': ')[:44]}",
                    (0, place),
                    va="center",
                    fontsize=7,
                    color="0.4",
                )
        panel.set_yticks(range(len(names)), [f"{tool}, {mode}" for tool, mode in names], fontsize=7)
        panel.set_ylim(len(names) - 0.4, -0.6)
        truth = [r for r in own if r["kind"] == "truth"]
        low = sum(r["certified_half_radius"] for r in truth) / len(truth)
        high = sum(r["attacked_half_radius"] for r in truth) / len(truth)
        panel.set(
            xlabel="claimed robust accuracy (true: 0)",
            xlim=(0, 1.6),
            title=f"{network}: truth in [{low:.4g}, {high:.4g}]",
        )
        panel.set_xticks([0, 0.5, 1])
    return figure


def phase_diagram(
    x: str,
    y: str,
    value: str,
    *,
    theory: str | None = None,
    boundary: Callable[[list[Row]], Callable[[float], float]] | None = None,
    label: str = "theory",
    levels: tuple[float, ...] = (),
) -> Callable[[list[Row]], Figure]:
    """The drawing of a phase item: its map with the theory's line or contours, and slices along x."""

    def draw(rows: list[Row]) -> Figure:
        phase = phase_of([r for r in rows if r["kind"] == "cell"], x, y, value, theory=theory)
        figure, (left, right) = panels(2, width=5.0, height=3.8)
        draw_map(left, phase, boundary=boundary(rows) if boundary else None, label=label, levels=levels)
        draw_slices(right, phase)
        return figure

    return draw


def phase_scaling(rows: list[Row]) -> Figure:
    """Effect and cost of each paper against d, with fitted powers, extrapolated."""
    figure, axes = panels(2, width=5.0, height=3.8)
    for panel, column in zip(axes, ("effect", "operations"), strict=True):
        draw_slices(panel, phase_of(rows, "dim", "paper", column))
        for line, paper in zip(COLOURS, sorted({r["paper"] for r in rows}), strict=False):
            own = [r for r in rows if r["paper"] == paper]
            ends = [max(r["dim"] for r in own), BEYOND]
            panel.plot(
                ends, [extrapolated(own, column, d) for d in ends], color=line, linestyle=":", linewidth=1.2
            )
        panel.set_yscale("log")
    return figure


def _critical_std(rows: list[Row]) -> Callable[[float], float]:
    size = rows[0]
    per_cluster = size["width"] / (size["positive"] + size["negative"])
    return lambda p: critical_start(size["dim"], per_cluster, p)


DRAWINGS: dict[str, Callable[[list[Row]], Figure]] = {
    "beyond/blind-attacks": blind_attacks,
    "beyond/phase-initialisation": phase_diagram(
        "p", "std", "half_radius", boundary=_critical_std, label="predicted largest start"
    ),
    "beyond/phase-noise": phase_diagram(
        "alpha",
        "per_cluster",
        "distance",
        theory="predicted_distance",
        boundary=lambda _rows: lambda alpha: alpha**-2,
        label="N = α⁻²",
    ),
    "beyond/phase-supervision": phase_diagram("clusters", "labels", "radius", theory="predicted_radius"),
    "beyond/phase-learning-rate": phase_diagram(
        "step_size", "start", "share", theory="predicted_share", levels=(0.3, 0.6, 0.9)
    ),
    "beyond/phase-label-noise": phase_diagram(
        "noise_rate", "points", "clean_error", theory="predicted_error", levels=(0.05, 0.2, 0.4)
    ),
    "beyond/phase-purification": phase_diagram("sparsity", "dim", "adversarial_robust", theory="ceiling"),
    "beyond/phase-scaling": phase_scaling,
    "beyond/robust-heads": pareto,
}
