"""Draw an experiment's figure from its rows and save it."""

from math import isfinite
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from featureprism.files import write_whole
from featureprism.lab import Experiment, Rows, Verdict
from featureprism.lab.style import COLOURS, SETTINGS, panels
from featureprism.papers import all_papers
from featureprism.report import (
    beyond,
    feature_amplification,
    feature_averaging,
    feature_averaging_lemmas,
    feature_averaging_real,
    gmm_flow,
)
from featureprism.report.contest import contest_page

DRAWINGS = {
    **gmm_flow.DRAWINGS,
    **feature_averaging.DRAWINGS,
    **feature_averaging_lemmas.DRAWINGS,
    **feature_averaging_real.DRAWINGS,
    **feature_amplification.DRAWINGS,
    **beyond.DRAWINGS,
}


def draw(experiment: Experiment, rows: Rows) -> Figure:
    """The figure of an experiment: our own drawing, that of a paper from outside, or, for want of one, its claims."""
    drawing = (
        experiment.draw
        or DRAWINGS.get(experiment.id)
        or all_papers()[experiment.paper].drawings.get(experiment.item)
    )
    return drawing(rows) if drawing else verdicts(experiment.judge(rows))


def verdicts(judged: list[Verdict]) -> Figure:
    """Every claim as its interval relative to its bound: the grey band is where it holds."""
    figure, (axes,) = panels(1, width=6.0, height=0.6 + 0.35 * max(1, len(judged)))
    colours = {"holds": COLOURS[2], "fails": COLOURS[1], "undecided": COLOURS[4], "not measured": "0.6"}
    for height, verdict in enumerate(judged):
        bound = verdict.claim.bound
        ends = [end for end in (bound.low, bound.high) if isfinite(end)]
        unit = max(map(abs, ends)) or 1.0
        axes.barh(
            height,
            max(ends) / unit if isfinite(bound.high) else 2,
            left=min(ends) / unit if isfinite(bound.low) else 0,
            color="0.92",
        )
        axes.plot([end / unit for end in verdict.interval], [height, height], color=colours[verdict.outcome])
        axes.plot(verdict.measured / unit, height, "o", color=colours[verdict.outcome], markersize=4)
    axes.set_yticks(range(len(judged)), [verdict.id for verdict in judged])
    axes.set(xlabel="measured ÷ bound")
    return figure


PAGES = {"beyond/contest": contest_page}  # experiments whose rows make a page of the documentation


def save_figure(experiment: Experiment, rows: Rows, folder: Path) -> None:
    """figure.png and figure.svg of an experiment, in its folder; page.md where its rows make one."""
    if experiment.id in PAGES:
        write_whole(folder / "page.md", PAGES[experiment.id](rows))
    with plt.rc_context(SETTINGS):
        figure = draw(experiment, rows)
        figure.savefig(folder / "figure.png", metadata={"Software": None})
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    plt.close(figure)
