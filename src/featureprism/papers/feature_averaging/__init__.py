"""Li et al., "Feature Averaging: An Implicit Bias of Gradient Descent Leading to Non-Robustness in Neural Networks", ICLR 2025.

The synthetic figures have their printed sizes at every scale (k = 10, d = 3072, n = 1000, m = 5, η = 0.001, σ_w = 1e-5, T = 100;
Figure 5 up to 50 000 points at the paper scale), so that scales differ in test points and in the values of an ablation. The theorems
print no sizes.
"""

from featureprism.lab import Paper
from featureprism.papers.feature_averaging.ablations import ABLATIONS
from featureprism.papers.feature_averaging.appendix import APPENDIX
from featureprism.papers.feature_averaging.approach import THEOREM_4_6
from featureprism.papers.feature_averaging.boundaries import FIGURE_1
from featureprism.papers.feature_averaging.constructions import PROPOSITION_4_8
from featureprism.papers.feature_averaging.dynamics import DECOMPOSITION, DYNAMICS
from featureprism.papers.feature_averaging.embedding_heads import EMBEDDING_HEADS
from featureprism.papers.feature_averaging.embeddings import FIGURE_2_EMBEDDINGS, FIGURE_10
from featureprism.papers.feature_averaging.figures import FIGURE_2, FIGURE_3
from featureprism.papers.feature_averaging.images import FIGURE_3_CIFAR, FIGURE_3_MNIST
from featureprism.papers.feature_averaging.lemmas import LEMMA_5_3
from featureprism.papers.feature_averaging.regime import REGIME
from featureprism.papers.feature_averaging.scaling import SCALING
from featureprism.papers.feature_averaging.second_layer import SECOND_LAYER
from featureprism.papers.feature_averaging.theorems import THEOREM_4_5, THEOREM_4_7

PAPER = Paper(
    "feature-averaging",
    str(__doc__),
    (
        FIGURE_1,
        FIGURE_2,
        FIGURE_3,
        FIGURE_2_EMBEDDINGS,
        FIGURE_3_MNIST,
        FIGURE_3_CIFAR,
        FIGURE_10,
        EMBEDDING_HEADS,
        *ABLATIONS,
        THEOREM_4_5,
        THEOREM_4_6,
        THEOREM_4_7,
        PROPOSITION_4_8,
        LEMMA_5_3,
        DECOMPOSITION,
        APPENDIX,
        REGIME,
        SECOND_LAYER,
        DYNAMICS,
        SCALING,
    ),
)
