"""The figures of our own findings, drawn from rows."""

from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, panels
from featureprism.papers.beyond.curves import FAR, extrapolated
from featureprism.report.audit import pareto
from featureprism.report.phase import draw_map, draw_slices, phase_of
from featureprism.theory.gmm_flow import critical_start
from featureprism.theory.gmm_flow_phases import critical_power


def blind_attacks(rows: Rows) -> Figure:
    """Claimed robust accuracy of every tool where the truth is 0, one panel for each network; means over seeds."""
    networks = rows.groups("network")
    figure, axes = panels(len(networks), width=5.0, height=4.2)
    for panel, (network, own) in zip(axes, networks.items(), strict=True):
        answers = own.of("claimed").groups("tool", "mode")
        for position, answer in enumerate(answers.values()):
            _answer(panel, position, answer)
        names = [f"{tool}, {mode}" for tool, mode in answers]
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.set_ylim(len(names) - 0.4, -0.6)
        truth = own.of("truth")
        low, high = (truth.column(f"{side}_half_radius").mean() for side in ("certified", "attacked"))
        panel.set(
            xlabel="claimed robust accuracy (true: 0)",
            xlim=(0, 1.6),
            title=f"{network}: truth in [{low:.4g}, {high:.4g}]",
        )
        panel.set_xticks([0, 0.5, 1])
    return figure


def _answer(panel: Axes, position: int, answer: Rows) -> None:
    """The bar of a tool in one mode with its median radius, or its complaint."""
    told = answer.where(lambda row: not row["error"])
    if not len(told):
        complaint = f" {answer[0]['error'].rstrip(': ')[:44]}"
        panel.annotate(complaint, (0, position), va="center", fontsize=7, color="0.4")
        return
    mean = told.column("claimed_accuracy").mean()
    panel.barh(position, mean, color=COLOURS[1] if mean > 0 else COLOURS[2], height=0.6)
    radius = median(answer.column("half_radius"))
    text = f"median radius {radius:.3g}" if np.isfinite(radius) else "finds nothing"
    panel.annotate(text, (mean, position), xytext=(3, -3), textcoords="offset points", fontsize=7)


def phase_diagram(
    x: str,
    y: str,
    value: str,
    *,
    theory: str | None = None,
    boundary: Callable[[Rows], Callable[[float], float]] | None = None,
    label: str = "theory",
    levels: tuple[float, ...] = (),
) -> Callable[[Rows], Figure]:
    """The drawing of a phase item: its map with the theory's line or contours, and slices along x."""

    def draw(rows: Rows) -> Figure:
        phase = phase_of(rows.of("cell"), x, y, value, theory=theory)
        figure, (left, right) = panels(2, width=5.0, height=3.8)
        draw_map(left, phase, boundary=boundary(rows) if boundary else None, label=label, levels=levels)
        draw_slices(right, phase)
        return figure

    return draw


def phase_scaling(rows: Rows) -> Figure:
    """Effect and cost of each paper against d, with fitted powers, extrapolated."""
    figure, axes = panels(2, width=5.0, height=3.8)
    cells = rows.of("cell")
    for panel, column in zip(axes, ("effect", "operations"), strict=True):
        draw_slices(panel, phase_of(cells, "dim", "paper", column))
        for colour, (_, own) in zip(COLOURS, sorted(cells.groups("paper").items()), strict=False):
            dims, values = own.column("dim"), own.column(column)
            line = [dims.max(), FAR]
            far = [extrapolated(dims, values, dim) for dim in line]
            panel.plot(line, far, color=colour, linestyle=":", linewidth=1.2)
        panel.set_yscale("log")
    return figure


def _critical_std(rows: Rows) -> Callable[[float], float]:
    size = rows[0]
    per_cluster = size["width"] / (size["positive"] + size["negative"])
    return lambda p: critical_start(size["dim"], per_cluster, p)


def phase_cosine(rows: Rows) -> Figure:
    """The share of the best radius over cosine and power, with the predicted power; the flows with unequal clusters are left out."""
    size = rows[0]
    predicted = partial(critical_power, positive=size["positive"], negative=size["negative"])
    draw = phase_diagram("cosine", "p", "share", boundary=lambda _rows: predicted, label="predicted power")
    return draw(rows.having(smallest=1.0, shortest=1.0))


def contest(rows: Rows) -> Figure:
    """Accuracy against radius, a panel for each data set and number of classes."""
    return pareto(
        [{**row, "data": f"{row['data']}, {row['classes']} classes"} for row in rows if row["kind"] == "head"]
    )


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
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
    "beyond/phase-cosine": phase_cosine,
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
    "beyond/contest": contest,
}
