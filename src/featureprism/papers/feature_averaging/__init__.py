"""Li et al., "Feature Averaging: An Implicit Bias of Gradient Descent Leading to Non-Robustness in Neural Networks", ICLR 2025.

The synthetic figures have their printed sizes at every scale (k = 10, d = 3072, n = 1000, m = 5, η = 0.001, σ_w = 1e-5, T = 100;
Figure 5 up to 50 000 points at the paper scale), so that scales differ in test points and in the values of an ablation. The theorems
print no sizes.
"""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.appendix import APPENDIX
from featureprism.papers.feature_averaging.decomposition import DECOMPOSITION
from featureprism.papers.feature_averaging.dynamics import DYNAMICS
from featureprism.papers.feature_averaging.figure_1 import FIGURE_1
from featureprism.papers.feature_averaging.figure_2 import FIGURE_2
from featureprism.papers.feature_averaging.figure_2_embeddings import FIGURE_2_EMBEDDINGS
from featureprism.papers.feature_averaging.figure_3 import FIGURE_3
from featureprism.papers.feature_averaging.figure_3_cifar import FIGURE_3_CIFAR
from featureprism.papers.feature_averaging.figure_3_mnist import FIGURE_3_MNIST
from featureprism.papers.feature_averaging.figure_5 import FIGURE_5
from featureprism.papers.feature_averaging.figure_6 import FIGURE_6
from featureprism.papers.feature_averaging.figure_7 import FIGURE_7
from featureprism.papers.feature_averaging.figure_8 import FIGURE_8
from featureprism.papers.feature_averaging.figure_9 import FIGURE_9
from featureprism.papers.feature_averaging.figure_10 import FIGURE_10
from featureprism.papers.feature_averaging.lemma_5_3 import LEMMA_5_3
from featureprism.papers.feature_averaging.optimisers import OPTIMISERS_COMPARED
from featureprism.papers.feature_averaging.proposition_4_8 import PROPOSITION_4_8
from featureprism.papers.feature_averaging.regime import REGIME
from featureprism.papers.feature_averaging.scaling import SCALING
from featureprism.papers.feature_averaging.second_layer import SECOND_LAYER
from featureprism.papers.feature_averaging.theorem_4_5 import THEOREM_4_5
from featureprism.papers.feature_averaging.theorem_4_6 import THEOREM_4_6
from featureprism.papers.feature_averaging.theorem_4_7 import THEOREM_4_7

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
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8,
        FIGURE_9,
        THEOREM_4_5,
        THEOREM_4_6,
        THEOREM_4_7,
        PROPOSITION_4_8,
        LEMMA_5_3,
        DECOMPOSITION,
        APPENDIX,
        REGIME,
        SECOND_LAYER,
        OPTIMISERS_COMPARED,
        DYNAMICS,
        SCALING,
    ),
    story=Path(__file__).with_name("story.md"),
    theorems=theory.THEOREMS,
)
