"""Figure 8: feature averaging at other signal-to-noise ratios."""

from featureprism.lab import Claim, Experiment, at_least, at_most
from featureprism.lab.experiment import SCALES
from featureprism.papers.feature_averaging.ablation import (
    AVERAGES,
    AVERAGES_READ,
    ablations,
    draw,
    least_share,
    measure,
    radius_error,
)

CLAIMS = (
    Claim(
        "averages",
        source="Figure 8",
        says="A network with two labels averages features at every constant signal-to-noise ratio.",
        quantity="mean cosine of a neuron with the centres of its class ÷ the cosine that averaging predicts, least over the"
        " signal-to-noise ratios",
        bound=at_least(AVERAGES),
        because=AVERAGES_READ,
        value=least_share,
    ),
    Claim(
        "radius",
        source="beside Figure 8",
        says="A network with two labels breaks at α√(d/k), whatever the signal-to-noise ratio α.",
        quantity="|radius at which an attack breaks half of the test points ÷ α√(d/k) - 1|, largest over the signal-to-noise ratios",
        bound=at_most(0.1),
        because="a tenth; radii of points spread by 6 %",
        value=radius_error,
        origin="featureprism",
    ),
)

FIGURE_8 = Experiment(
    id="feature-averaging/figure-8",
    source="Li et al. 2025, Figure 8",
    title="Averaging at any constant signal-to-noise ratio",
    scales=ablations("signal", dict.fromkeys(SCALES, (0.5, 1.0, 2.0))),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Centres of norm α√d with noise N(0, I): the ratio α is varied. Radii in units of α√(d/k).",
)
