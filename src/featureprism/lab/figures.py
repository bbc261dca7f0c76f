"""Draw an experiment's figure from its rows and save it."""

from math import isfinite
from pathlib import Path
from typing import Any

from featureprism.lab.experiment import Experiment
from featureprism.lab.rows import Rows
from featureprism.lab.verdict import Outcome, Verdict


def draw(experiment: Experiment, rows: Rows) -> Any:
    """The figure of an experiment: its drawing or, for want of one, its claims."""
    return experiment.draw(rows) if experiment.draw else draw_verdicts(experiment.judge(rows))


def draw_verdicts(verdicts: list[Verdict]) -> Any:
    """Every claim as its interval relative to its bound: the grey band is where it holds."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=6.0, height=0.6 + 0.35 * max(1, len(verdicts)))
    colours = {Outcome.HOLDS: COLOURS[2], Outcome.FAILS: COLOURS[1], Outcome.NOT_MEASURED: "0.6"}
    for height, verdict in enumerate(verdicts):
        bound, colour = verdict.claim.bound, colours.get(verdict.outcome, COLOURS[4])
        ends = [end for end in (bound.low, bound.high) if isfinite(end)]
        unit = max(map(abs, ends)) or 1.0
        right = max(ends) / unit if isfinite(bound.high) else 2
        left = min(ends) / unit if isfinite(bound.low) else 0
        axes.barh(height, right - left, left=left, color="0.92")
        axes.plot([end / unit for end in verdict.interval], [height, height], color=colour)
        axes.plot(verdict.measured / unit, height, "o", color=colour, markersize=4)
    axes.set_yticks(range(len(verdicts)), [verdict.id for verdict in verdicts])
    axes.set(xlabel="measured ÷ bound")
    return figure


def save_figure(experiment: Experiment, rows: Rows, folder: Path) -> None:
    """figure.png and figure.svg of an experiment, in its folder."""
    import matplotlib.pyplot as plt

    from featureprism.lab.style import SETTINGS

    with plt.rc_context(SETTINGS):
        figure = draw(experiment, rows)
        figure.savefig(folder / "figure.png", metadata={"Software": None})
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    plt.close(figure)
