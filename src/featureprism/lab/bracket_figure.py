"""A bracket drawn: robust accuracy against radius, with the truth in the band."""

from io import StringIO
from math import inf
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from featureprism.brackets import RadiusBracket
from featureprism.lab.style import COLOURS, SETTINGS, panels

POINTS = 200  # of the curve


def curve(bracket: RadiusBracket) -> Figure:
    """Proven and attacked robust accuracy, up to a little beyond the largest radius."""
    finite = bracket.attacked[np.isfinite(bracket.attacked)]
    largest = 1.1 * float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    radii = np.linspace(0, largest, POINTS)
    low, high = bracket.accuracy(radii)
    with plt.rc_context(SETTINGS):
        figure, (axes,) = panels(1, width=4.6, height=3.0)
        if bracket.certified.any():
            axes.fill_between(radii, low, high, color=COLOURS[0], alpha=0.3, linewidth=0)
        axes.plot(radii, high, color=COLOURS[0], label="attacked")
        if bracket.certified.any():  # nothing is "proven to be 0" where no proof was tried
            axes.plot(radii, low, color=COLOURS[1], linestyle=(0, (4, 2)), label="proven")
        axes.set(xlabel=_axis(bracket), ylabel=f"robust accuracy of {len(bracket)} points", ylim=(0, 1.03))
        axes.legend()
    return figure


def _axis(bracket: RadiusBracket) -> str:
    """The norm and the unit of radii."""
    norm = {2: "ℓ2 radius", inf: "ℓ∞ radius"}.get(bracket.norm, "radius")
    return norm + (" in standard deviations" if bracket.unit == "std" else " in the units of the data")


def curve_as_svg(bracket: RadiusBracket) -> str:
    """The same as text that a page can hold."""
    figure, text = curve(bracket), StringIO()
    with plt.rc_context(SETTINGS):
        figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]


def save_curve(bracket: RadiusBracket, folder: Path) -> None:
    """curve.png and curve.svg."""
    figure = curve(bracket)
    with plt.rc_context(SETTINGS):
        figure.savefig(folder / "curve.png")
        figure.savefig(folder / "curve.svg", metadata={"Date": None})
    plt.close(figure)
