"""The figures of our own findings, drawn from rows."""

from collections.abc import Callable

from matplotlib.figure import Figure

from featureprism.records import Row
from featureprism.report.audit import pareto
from featureprism.report.style import COLOURS, panels


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


DRAWINGS: dict[str, Callable[[list[Row]], Figure]] = {
    "beyond/blind-attacks": blind_attacks,
    "beyond/robust-heads": pareto,
}
