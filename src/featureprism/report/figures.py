"""Draw an experiment's figure from its rows and save it."""

from pathlib import Path

import matplotlib.pyplot as plt

from featureprism.records import Row
from featureprism.report import gmm_flow
from featureprism.report.style import SETTINGS

DRAWINGS = {**gmm_flow.DRAWINGS}


def save_figure(experiment_id: str, rows: list[Row], folder: Path) -> None:
    """figure.png and figure.svg of an experiment, in its folder."""
    with plt.rc_context(SETTINGS):
        figure = DRAWINGS[experiment_id](rows)
        figure.savefig(folder / "figure.png", metadata={"Software": None})
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    plt.close(figure)
