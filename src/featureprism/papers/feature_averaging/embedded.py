"""What Figures 2 (c, d) and 10, and Figure 3 on images, share: ten classes of CIFAR-10 merged into two, and their embeddings."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.data.images import DIGITS
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.lab import Rows, requires
from featureprism.lab.premise import Premise

NUM_CLASSES = 10
GROUPS = (torch.arange(NUM_CLASSES) >= 5).long()  # the first five classes against the last five, Section 6.1
TWO, TEN = "two-class", "ten-class"
CLIP_DIMENSIONS = 512  # of an embedding by CLIP ViT-B/32, Section 6.1
OF_CLIP = requires("clip")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
WHERE = (
    " The paper's embeddings are CLIP's (`featureprism embed`), which is a premise of its claims; our published numbers are of"
    " EfficientNet-Lite0 features, reduced by PCA to 256 dimensions and so centred: nothing about raw against centred means can be"
    " learned from them. Where no embeddings are at hand, scikit-learn's digits stand in: `source` says which it was."
)


def embeddings(name: str, folder: Path | None) -> Split:
    """The embeddings where they are at hand, else the pixels of scikit-learn's digits; the rows' `source` says which."""
    split = real_data(name, folder) or real_data(DIGITS)
    assert split is not None  # the digits are always there
    if set(np.unique(split.y_train)) != set(range(NUM_CLASSES)):
        raise ValueError("These embeddings cannot be used here: the item needs the labels 0 to 9.")
    return split


def clip_premise(split: Split) -> Premise:
    """What the paper says of embeddings it says of CLIP's, which have 512 dimensions: a necessary condition, not a sufficient one."""
    off = abs(split.x_train.shape[1] - CLIP_DIMENSIONS)
    name = f"dimensions of an embedding more or less than CLIP's {CLIP_DIMENSIONS}"
    return Premise("clip.dimensions", name, off, "<=", 0, "Section 6.1")


class Gaps(NamedTuple):
    """Mean cosines of a matrix (weights × features): within the merged class and across, on the diagonal and off it."""

    same: float
    opposite: float
    diagonal: float
    off_diagonal: float

    @property
    def averaging(self) -> float:
        """How much more a weight has of its own merged class than of the other."""
        return self.same - self.opposite

    @property
    def decoupling(self) -> float:
        """How much more a weight has of its own feature than of all others."""
        return self.diagonal - self.off_diagonal


def gaps(table: Float[Tensor, "k k"], groups: Int[Tensor, " k"]) -> Gaps:
    """The four means of cos(w_j, μ_i); `groups` gives the merged class of weight and feature alike."""
    same, own = groups.unsqueeze(1) == groups, torch.eye(len(table), dtype=torch.bool)
    return Gaps(*(float(table[chosen].mean()) for chosen in (same, ~same, own, ~own)))


def drawn(split: Split, num: int, seed: int) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """A seed's draw of training embeddings, rows scaled to norm 1."""
    order = np.random.default_rng(seed).permutation(len(split.x_train))[:num]
    return torch.as_tensor(unit_norm(split.x_train[order])), torch.as_tensor(
        split.y_train[order].astype(np.int64)
    )


def source_of(rows: Rows) -> str:
    """What the rows were measured on."""
    return rows[0].get("source", "unknown") if len(rows) else "none"


def short_source(rows: Rows) -> str:
    """The source as the title of a drawing."""
    return str(rows[0].get("source", "")).split(",")[0].removesuffix(".npz").replace("_", " ")


def class_names(rows: Rows) -> tuple[str, ...]:
    """Names of the classes: those of CIFAR-10 where the file says so, else numbers."""
    return CLASSES if str(rows[0].get("source")).startswith("cifar10") else tuple("0123456789")
