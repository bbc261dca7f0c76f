"""Draw an experiment's figure from its rows and save it."""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from featureprism.records import RadiusBracket, Row
from featureprism.report import (
    beyond,
    double_edged,
    feature_amplification,
    feature_averaging,
    feature_averaging_real,
    feature_purification,
    feature_purification_deep,
    gmm_flow,
)
from featureprism.report.style import COLOURS, SETTINGS, panels

DRAWINGS = {
    **gmm_flow.DRAWINGS,
    **feature_averaging.DRAWINGS,
    **feature_averaging_real.DRAWINGS,
    **feature_amplification.DRAWINGS,
    **double_edged.DRAWINGS,
    **feature_purification.DRAWINGS,
    **feature_purification_deep.DRAWINGS,
    **beyond.DRAWINGS,
}


def save_curve(certified: Tensor, attacked: Tensor, folder: Path) -> None:
    """curve.png and curve.svg: robust accuracy against radius, as a band between certified and attacked."""
    finite = attacked[torch.isfinite(attacked)]
    radii = torch.linspace(0, 1.1 * float(finite.max()) if len(finite) else 1.0, 200, dtype=torch.float64)
    low, high = RadiusBracket(certified, attacked).accuracy(radii)
    with plt.rc_context(SETTINGS):
        figure, (axes,) = panels(1, width=4.6, height=3.0)
        axes.fill_between(radii, low, high, color=COLOURS[0], alpha=0.3, linewidth=0)
        axes.plot(radii, high, color=COLOURS[0], label="attacked")
        axes.plot(radii, low, color=COLOURS[1], linestyle=(0, (4, 2)), label="proven")
        axes.set(xlabel="radius", ylabel="robust accuracy", ylim=(0, 1.03))
        axes.legend()
        figure.savefig(folder / "curve.png")
        figure.savefig(folder / "curve.svg", metadata={"Date": None})
    plt.close(figure)


def save_figure(experiment_id: str, rows: list[Row], folder: Path) -> None:
    """figure.png and figure.svg of an experiment, in its folder."""
    with plt.rc_context(SETTINGS):
        figure = DRAWINGS[experiment_id](rows)
        figure.savefig(folder / "figure.png", metadata={"Software": None})
        figure.savefig(folder / "figure.svg", metadata={"Date": None})
    plt.close(figure)
