"""The synthetic items of feature-averaging, small enough to run in about a second."""

from dataclasses import replace

from featureprism.papers.feature_averaging.ablations import ABLATIONS
from featureprism.papers.feature_averaging.appendix import APPENDIX
from featureprism.papers.feature_averaging.approach import THEOREM_4_6, size
from featureprism.papers.feature_averaging.boundaries import FIGURE_1
from featureprism.papers.feature_averaging.constructions import PROPOSITION_4_8
from featureprism.papers.feature_averaging.dynamics import DECOMPOSITION, DYNAMICS
from featureprism.papers.feature_averaging.figures import FIGURE_2, FIGURE_3
from featureprism.papers.feature_averaging.lemmas import LEMMA_5_3
from featureprism.papers.feature_averaging.regime import REGIME, Regime
from featureprism.papers.feature_averaging.scaling import SCALING, Split
from featureprism.papers.feature_averaging.second_layer import SECOND_LAYER
from featureprism.papers.feature_averaging.theorems import THEOREM_4_5, THEOREM_4_7

SIZES = {"dim": 100, "points": 40, "steps": 10, "step_size": 0.03, "test_points": 1}
# what an item varies, with the values its claims ask for
VARIED = {
    "feature-averaging/figure-5": {"values": (40, 150)},
    "feature-averaging/figure-6": {"values": (0.01, 0.1)},
    "feature-averaging/figure-7": {"values": (1e-5, 1e-3)},
    "feature-averaging/figure-8": {"values": (0.5, 1.0)},
    "feature-averaging/figure-9": {"values": (1e-3, 0.09)},
    "feature-averaging/lemma-5-3": {"times": (5, 10, 20)},
}
SINGLE = (
    *(FIGURE_1, FIGURE_2, FIGURE_3, *ABLATIONS),
    *(THEOREM_4_5, THEOREM_4_7, PROPOSITION_4_8, LEMMA_5_3, DECOMPOSITION, DYNAMICS),
    *(APPENDIX, SECOND_LAYER),
)

TINY: dict[str, list] = {
    **{e.id: [replace(e.scales["quick"][0], **SIZES, **VARIED.get(e.id, {}))] for e in SINGLE},
    THEOREM_4_6.id: [size(4, 100, 30, 2), size(4, 100, 60)],
    REGIME.id: [Regime(**{**SIZES, "positive": 2, "negative": 1, "per_class": 2, "growth": 0.2})],
    SCALING.id: [
        Split(split=split, positive=positive, negative=negative, **SIZES)
        for split, positive, negative in (
            ("equal", 2, 2),
            ("equal", 3, 3),
            ("unequal", 3, 1),
            ("unequal", 6, 2),
        )
    ],
}
