"""Figure 9: feature averaging when centres are only nearly orthogonal."""

from featureprism.lab import Claim, Experiment, at_least, at_most, between
from featureprism.lab.experiment import SCALES
from featureprism.papers.feature_averaging.ablation import (
    AVERAGES,
    AVERAGES_READ,
    ablations,
    draw,
    least_share,
    measure,
    radius_error,
    share_at,
)

LARGEST_COSINE = 0.09  # of the figure
CENTRE_COSINES = (1e-5, 1e-3, LARGEST_COSINE)

CLAIMS = (
    Claim(
        "averages",
        source="Figure 9",
        says="A network with two labels averages features also when the cluster centres are only nearly orthogonal.",
        quantity="mean cosine of a neuron with the centres of its class ÷ the cosine that averaging predicts, least over the"
        " cosines of the centres",
        bound=at_least(AVERAGES),
        because=AVERAGES_READ,
        value=least_share,
    ),
    Claim(
        "radius",
        source="beside Figure 9",
        says="When any two centres have the cosine c, a network with two labels breaks at √((1-c)d/k).",
        quantity="|radius at which an attack breaks half of the test points ÷ √((1-c)d/k) - 1|, largest over the cosines of the"
        " centres",
        bound=at_most(0.1),
        because="a tenth; radii of points spread by 6 %",
        value=radius_error,
        origin="featureprism",
    ),
    Claim(
        "law",
        source="Figure 9, sharp",
        says="When centres are correlated, neurons unlearn so much of the other class that they hardly see its points any more.",
        quantity="mean cosine of a neuron with the centres of its class ÷ the cosine that averaging predicts, at a cosine of"
        f" {LARGEST_COSINE} between centres",
        formula=r"w \propto \sum_{\text{own}} \mu_j - o \sum_{\text{other}} \mu_j,\qquad o\,(1+(|J|-1)c) = |J|c + o_0",
        bound=between(0.97, 1.03),
        because="three percent; without the unlearning the law would be off by a fifth",
        value=lambda rows: share_at(rows, LARGEST_COSINE),
        origin="featureprism",
    ),
)

FIGURE_9 = Experiment(
    id="feature-averaging/figure-9",
    source="Li et al. 2025, Figure 9",
    title="Centres need not be exactly orthogonal",
    scales=ablations("centre_cosine", dict.fromkeys(SCALES, CENTRE_COSINES)),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Centres with equal cosines c between any two. Neurons unlearn o of the other class, o(1+(|J|-1)c) = |J|c + o₀, which gives the"
        " law of the cosine; radii in units of √((1-c)d/k), where Σ y_j μ_j crosses the boundary."
    ),
)
