"""Figure 7: feature averaging from larger initial weights."""

from featureprism.lab import Claim, Experiment, below, between
from featureprism.papers.feature_averaging.ablation import (
    AVERAGES,
    AVERAGES_READ,
    ablations,
    draw,
    measure,
    share_at,
)
from featureprism.papers.feature_averaging.setting import summary

# 1e-5 to 1e-3 are those of the figure
STARTS = (1e-5, 1e-4, 1e-3, 1e-2)
MORE_STARTS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2)

CLAIMS = (
    Claim(
        "weakens",
        source="Figure 7",
        says="A small initialisation is necessary for feature averaging: from weights of standard deviation 0.001 the cosines with the"
        " centres of the class are smaller.",
        quantity="mean cosine of a neuron with the centres of its class ÷ the cosine that averaging predicts, from initial"
        " weights of standard deviation 0.001",
        bound=below(AVERAGES),
        because=AVERAGES_READ,
        value=lambda rows: share_at(rows, 1e-3),
    ),
    Claim(
        "radius",
        source="beside Figure 7",
        says="A larger initialisation hides feature averaging in noise but does not make the network more robust.",
        quantity="radius at which an attack breaks half of the test points ÷ √(d/k), from initial weights of standard deviation 0.001",
        bound=between(0.9, 1.05),
        because="within a tenth below and five percent above the radius of the averaging classifier",
        value=summary("radius", value=1e-3),
        origin="featureprism",
    ),
)

FIGURE_7 = Experiment(
    id="feature-averaging/figure-7",
    source="Li et al. 2025, Figure 7",
    title="A larger initialisation hides the averaging in noise",
    scales=ablations("start", {"quick": STARTS, "standard": MORE_STARTS, "paper": MORE_STARTS}),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Neurons keep the noise they start from, so cosines fall; the function, and its radius, hardly change until the start drowns"
        " what was learned."
    ),
)
