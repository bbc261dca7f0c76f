"""Figure 5: feature averaging with more training points."""

from featureprism.lab import Claim, Experiment, at_least, at_most
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
        source="Figure 5",
        says="More training points do not keep a network with two labels from averaging features.",
        quantity="mean cosine of a neuron with the centres of its class ÷ the cosine that averaging predicts, least over the"
        " numbers of points",
        bound=at_least(AVERAGES),
        because=AVERAGES_READ,
        value=least_share,
    ),
    Claim(
        "radius",
        source="beside Figure 5",
        says="More training points do not make a network with two labels more robust than √(d/k).",
        quantity="|radius at which an attack breaks half of the test points ÷ √(d/k) - 1|, largest over the numbers of points",
        bound=at_most(0.1),
        because="a tenth; radii of points spread by 6 %",
        value=radius_error,
        origin="featureprism",
    ),
)

FIGURE_5 = Experiment(
    id="feature-averaging/figure-5",
    source="Li et al. 2025, Figure 5",
    title="More data does not stop averaging",
    scales=ablations(
        "points", {"quick": (1000, 5000), "standard": (1000, 10_000), "paper": (1000, 10_000, 50_000)}
    ),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Cosine matrices of the two-class network for more training points; under each the mean own-class cosine and the 50 %"
    " radius.",
)
