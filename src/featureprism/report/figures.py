"""Draw an experiment's figure from its rows and save it."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from featureprism.lab import Experiment, Rows
from featureprism.lab.figures import draw as draw_by_itself
from featureprism.lab.figures import save_figure as save
from featureprism.lab.style import SETTINGS
from featureprism.report import feature_amplification

DRAWINGS = feature_amplification.DRAWINGS


def draw(experiment: Experiment, rows: Rows) -> Figure:
    """The figure of an experiment; drawings in this package are those of papers that do not draw themselves yet."""
    drawing = experiment.draw or DRAWINGS.get(experiment.id)
    return drawing(rows) if drawing else draw_by_itself(experiment, rows)


def save_figure(experiment: Experiment, rows: Rows, folder: Path) -> None:
    """figure.png and figure.svg of an experiment, in its folder."""
    with plt.rc_context(SETTINGS):
        figure = draw(experiment, rows)
    save(figure, folder)
