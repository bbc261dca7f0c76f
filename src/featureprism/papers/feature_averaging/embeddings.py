"""Figures 2 (c, d) and 10: embeddings of CIFAR-10 as clusters, and what two-layer heads with two labels and ten learn of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.context import Context, Progress, part, silent
from featureprism.data.images import DIGITS, EMBEDDINGS
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.geometry import unit_rows
from featureprism.lab import SCALES, Bound, Claim, Experiment, Rows, Values, above, at_most, requires
from featureprism.networks import GroupedNet, grouped_start
from featureprism.papers.feature_averaging.setting import ours
from featureprism.probes import cosines
from featureprism.records import Premise, Row, picture
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

NUM_CLASSES = 10
GROUPS = (torch.arange(NUM_CLASSES) >= 5).long()  # the first five classes against the last five, Section 6.1
WIDTH = 30  # neurons of either network, Section 6.1: 15 for each of two labels, h = 3 for each of ten
SIGNIFICANT = 0.1  # the least gap of mean cosines that we call significant
DIAGONAL = 0.25  # the most that entries off the diagonal of a nearly diagonal matrix may have, of those on it
CLIP_DIMENSIONS = 512  # of an embedding by CLIP ViT-B/32, Section 6.1
OF_CLIP = requires("clip")
START = 1e-5  # standard deviation of the first weights, as in the synthetic experiments
NEARLY_ORTHOGONAL = (
    0.09  # the largest cosine of two centres that the paper still calls nearly orthogonal, Figure 9
)
PIXELS = 4  # of the drawn matrix of Figure 10: embeddings averaged in each direction
TWO, TEN = "two-class", "ten-class"


@dataclass(frozen=True, kw_only=True)
class Descent:
    """How many embeddings the networks of Section 6.1 are trained on, and how long."""

    data: str = EMBEDDINGS
    train_points: int
    step_size: float = 100.0
    descent_steps: int


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How many embeddings of each class are compared. Caption of Figure 10."""

    data: str = EMBEDDINGS
    per_class: int = 100


def embeddings(name: str, folder: Path | None) -> Split:
    """The embeddings where they are at hand, else the pixels of scikit-learn's digits; the rows' `source` says which."""
    split = real_data(name, folder) or real_data(DIGITS)
    assert split is not None  # the digits are always there
    if set(np.unique(split.y_train)) != set(range(NUM_CLASSES)):
        raise ValueError("These embeddings cannot be used here: the item needs the labels 0 to 9.")
    return split


def clip_premise(split: Split) -> Premise:
    """What the paper says of embeddings it says of CLIP's; other networks are told by their dimensions."""
    off = abs(split.x_train.shape[1] - CLIP_DIMENSIONS)
    name = f"dimensions of an embedding more or less than CLIP's {CLIP_DIMENSIONS}"
    return Premise("clip.dimensions", name, off, "<=", 0, "Section 6.1")


def class_means(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 d"]:
    """μ_i, the mean embedding of each class: the paper does not say what its feature vector is."""
    return torch.stack([x[y == c].mean(dim=0) for c in range(NUM_CLASSES)])


def trained(
    k: int,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    s: Descent,
    seed: int,
    progress: Progress = silent,
) -> GroupedNet:
    """f_j(z) = (1/h) Σ_r [⟨w_{j,r}, z⟩]₊ with k groups of 30/k neurons, by full-batch descent from small weights.

    The paper does not name an optimiser here; this is the one of its theorems. Source: feature-averaging, Section 6.1.
    """
    start = grouped_start(k, WIDTH // k, x.shape[1], START, generator=generator_for(f"{k} labels", seed))
    run = first_layer_descent(
        start.float(),
        x.float(),
        y,
        step_size=s.step_size,
        steps=s.descent_steps,
        progress=progress,
    )
    return run.last.double()


def equivalent_weights(net: GroupedNet) -> Float[Tensor, "10 d"]:
    """Ten weights w_j = (1/3) Σ_r w_{j,r}; of two labels the 15 neurons of each are split into five. Section 6.1."""
    return net.W.detach().reshape(NUM_CLASSES, WIDTH // NUM_CLASSES, -1).mean(dim=1)


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


def merged_accuracy(net: GroupedNet, x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> float:
    """Accuracy of the merged decision: the group whose probabilities sum to more."""
    with torch.no_grad():
        p = net(x).softmax(dim=1)
    half = p.shape[1] // 2
    return float(((p[:, half:].sum(dim=1) > 0.5) == (GROUPS[y] == 1)).double().mean())


def drawn(split: Split, num: int, seed: int) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """A seed's draw of training embeddings, rows scaled to norm 1."""
    order = np.random.default_rng(seed).permutation(len(split.x_train))[:num]
    return torch.as_tensor(unit_norm(split.x_train[order])), torch.as_tensor(
        split.y_train[order].astype(np.int64)
    )


def measure_2(s: Descent, seed: int, context: Context) -> list[Row]:
    """Cosines between class means and weights, for heads that were told two labels and ten."""
    split = embeddings(s.data, context.data)
    x, y = drawn(split, s.train_points, seed)
    test = torch.as_tensor(unit_norm(split.x_test)), torch.as_tensor(split.y_test.astype(np.int64))
    means = {"raw": class_means(x, y)}
    means["centred"] = means["raw"] - x.mean(dim=0)
    rows = []
    for name, k, begin in ((TWO, 2, 0.0), (TEN, NUM_CLASSES, 0.5)):
        targets = GROUPS[y] if k == 2 else y
        net = trained(k, x, targets, s, seed, part(context.progress, begin, begin + 0.475))
        for means_are, mu in means.items():
            table = cosines(equivalent_weights(net), mu)
            about = {"network": name, "means": means_are}
            mean = gaps(table, GROUPS)
            sizes = {**mean._asdict(), "averaging": mean.averaging, "decoupling": mean.decoupling}
            rows.append({"kind": "summary", **about, **sizes, "accuracy": merged_accuracy(net, *test)})
            rows += [
                {"kind": "cosine", **about, "cluster": i, "neuron": j, "cosine": float(table[j, i])}
                for i in range(NUM_CLASSES)
                for j in range(NUM_CLASSES)
            ]
    return [*rows, clip_premise(split).as_row()]


def source_of(rows: Rows) -> str:
    """What the rows were measured on."""
    return rows[0].get("source", "unknown") if len(rows) else "none"


def _summary(rows: Rows, network: str, means: str = "raw") -> Rows:
    return rows.of("summary", network=network, means=means)


def _note_2(rows: Rows) -> str:
    def mean(network: str, field: str, means: str = "raw") -> str:
        return f"{_summary(rows, network, means).column(field).mean():.3f}"

    return (
        f"two-class test accuracy {mean(TWO, 'accuracy')} and {mean(TEN, 'accuracy')}; with centred class means the gaps are"
        f" {mean(TWO, 'averaging', 'centred')} and {mean(TEN, 'decoupling', 'centred')}; own feature minus others with two labels:"
        f" {mean(TWO, 'decoupling')}; points: {source_of(rows)}"
    )


def least_gap(own: Rows) -> float:
    """The least cosine of a weight with a feature of its own merged class minus the largest with one of the other."""
    same = own.column("cluster") // 5 == own.column("neuron") // 5
    return float(own.column("cosine")[same].min() - own.column("cosine")[~same].max())


def off_diagonal_share(own: Rows) -> float:
    """Mean size of the cosines off the diagonal ÷ mean of those on it."""
    on, cosine = own.column("cluster") == own.column("neuron"), own.column("cosine")
    return float(np.abs(cosine[~on]).mean() / cosine[on].mean())


def _of_matrix(network: str, value: Callable[[Rows], float]) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("cosine", network=network, means="raw").per_seed(value)


CLAIMS_2 = (
    Claim(
        "uniform",
        "Figure 2 (c)",
        "two labels: cosines with the features of the own merged class are uniformly larger: least own minus largest other",
        _of_matrix(TWO, least_gap),
        above(0.0),
        premises=OF_CLIP,
        aggregate="worst",
    ),
    ours(
        "larger-in-the-mean",
        "beside Figure 2 (c)",
        "they are larger in the mean: mean cosine with the features of the own merged class, minus with those of the other",
        lambda rows: _summary(rows, TWO).per_seed("averaging"),
        above(0.3),
    ),
    Claim(
        "diagonal",
        "Figure 2 (d)",
        "ten labels: the matrix is nearly diagonal: mean size of cosines off the diagonal ÷ mean of those on it",
        _of_matrix(TEN, off_diagonal_share),
        at_most(DIAGONAL),
        note="nearly: a quarter or less",
        premises=OF_CLIP,
    ),
    ours(
        "averaging",
        "beside Figure 2 (c), (d)",
        "ten labels set their feature apart more than two labels set their class apart: second gap minus first",
        lambda rows: _summary(rows, TEN).per_seed("decoupling") - _summary(rows, TWO).per_seed("averaging"),
        above(0.0),
        note=_note_2,
    ),
)


def block_cosines(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 10"]:
    """Mean cos(z_i, z_j) over each pair of classes, a point with itself left out. Appendix E.2."""
    table, mean = unit_rows(x) @ unit_rows(x).T, torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=x.dtype)
    for a in range(NUM_CLASSES):
        for b in range(NUM_CLASSES):
            block = table[y == a][:, y == b]
            mean[a, b] = (block if a != b else block[~torch.eye(len(block), dtype=torch.bool)]).mean()
    return mean


def block_rows(x: Float[Tensor, "n d"], y: Int[Tensor, " n"], kind: str) -> list[Row]:
    """Block means of the cosines of points as they are and centred: within classes, between them, and the extremes."""
    rows: list[Row] = []
    for means_are, points in (("raw", x), ("centred", x - x.mean(dim=0))):
        mean = block_cosines(points, y)
        sizes = gaps(mean, GROUPS)
        summary = {"within": sizes.diagonal, "between": sizes.off_diagonal, "gap": sizes.decoupling}
        least = float((mean.diagonal() - (mean - 2 * torch.eye(NUM_CLASSES)).amax(dim=1)).min())
        largest = float((mean - torch.diag(mean.diagonal())).abs().max())
        summary |= {"least_gap": least, "largest_between": largest, "per_class": len(x) // NUM_CLASSES}
        rows.append({"kind": kind, "means": means_are, **summary})
    return rows


def chosen_points(split: Split, per_class: int, seed: int) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """So many points of each class (fewer where there are not enough), sorted by class, rows scaled to norm 1."""
    x, y = drawn(split, len(split.x_train), seed)
    num = min(per_class, int(torch.bincount(y, minlength=NUM_CLASSES).min()))
    num -= num % PIXELS
    chosen = torch.cat([torch.nonzero(y == c)[:num, 0] for c in range(NUM_CLASSES)])
    return x[chosen], y[chosen]


def measure_10(s: Blocks, seed: int, context: Context) -> list[Row]:
    """Cosines of embeddings, so many of each class: block means, and the matrix itself in small squares for the drawing.

    Beside them those of pixels, which are not centred: what centring does can only be seen there.
    """
    split = embeddings(s.data, context.data)
    x, y = chosen_points(split, s.per_class, seed)
    context.progress(0.5)
    pixels = real_data(DIGITS)
    assert pixels is not None  # the digits are always there
    rows = block_rows(x, y, "summary") + block_rows(*chosen_points(pixels, s.per_class, seed), "pixels")
    table = unit_rows(x) @ unit_rows(x).T
    small = torch.nn.functional.avg_pool2d(table[None, None], PIXELS)[0, 0]
    matrix = {"kind": "matrix", **picture((small.unsqueeze(0) + 1) / 2)}
    return [*rows, matrix, clip_premise(split).as_row()]


def _moved_by_centring(rows: Rows, kind: str) -> Values:
    """Mean cosine of points of different classes: as they are minus centred."""
    raw, centred = (rows.of(kind, means=means).per_seed("between") for means in ("raw", "centred"))
    return raw - centred


def _note_10(rows: Rows) -> str:
    raw, centred = (rows.of("summary", means=means) for means in ("raw", "centred"))
    within, between = raw.column("within").mean(), raw.column("between").mean()
    return (
        f"within {within:.3f}, between {between:.3f}; centred: {centred.column('gap').mean():.3f};"
        f" points: {source_of(rows)}"
    )


def _claim_10(
    name: str, field: str, bound: Bound, statement: str, aggregate: Literal["mean", "worst"] = "mean"
) -> Claim:
    def value(rows: Rows) -> Values:
        return rows.of("summary", means="raw").per_seed(field)

    return Claim(
        name, "Figure 10", statement, value, bound, note=_note_10, premises=OF_CLIP, aggregate=aggregate
    )


_SAME = "embeddings of one class are significantly more alike: mean cosine of two of the same class minus of different classes"
_LEAST = "the same for the class with the least gap to its nearest other class"
_ORTHOGONAL = "classes are orthogonal, as nearly as the centres of Figure 9: the largest mean cosine of two of them in size"
CLAIMS_10 = (
    _claim_10("blocks", "gap", above(SIGNIFICANT), _SAME),
    _claim_10("every-class", "least_gap", above(0.0), _LEAST, aggregate="worst"),
    _claim_10("orthogonal", "largest_between", at_most(NEARLY_ORTHOGONAL), _ORTHOGONAL),
    ours(
        "already-centred",
        "beside Figure 10",
        "PCA has centred these embeddings: mean cosine of different classes, as they are minus centred once more, in size",
        lambda rows: np.abs(_moved_by_centring(rows, "summary")),
        at_most(0.01),
        note=lambda rows: f"so the two columns cannot differ; points: {source_of(rows)}",
    ),
    ours(
        "not-centred",
        "beside Figure 10",
        "where nothing is centred it decides: the same for pixels (scikit-learn's digits)",
        lambda rows: _moved_by_centring(rows, "pixels"),
        above(0.3),
        note="orthogonality of classes, and with it Assumption 3.2, is a matter of centring there",
    ),
)
WHERE = (
    " The paper's embeddings are CLIP's (`featureprism embed`), which is a premise of its claims; our published numbers are of"
    " EfficientNet-Lite0 features, reduced by PCA to 256 dimensions and so centred: nothing about raw against centred means can be"
    " learned from them. Where no embeddings are at hand, scikit-learn's digits stand in: `source` says which it was."
)

FIGURE_2_EMBEDDINGS = Experiment(
    id="feature-averaging/figure-2-embeddings",
    source="Li et al. 2025, Figure 2 (c), (d)",
    title="On embeddings, two labels average the classes and ten tell them apart",
    scales={
        scale: [Descent(train_points=num, descent_steps=steps)]
        for scale, num, steps in (
            ("quick", 10_000, 300),
            ("standard", 50_000, 1000),
            ("paper", 50_000, 3000),
        )
    },
    measure=measure_2,
    claims=CLAIMS_2,
    about=(
        "Cosines between the class means of CIFAR-10 embeddings, rows scaled to norm 1, and the weights of bias-free two-layer ReLU"
        " networks of 30 neurons with a fixed second layer, trained by full-batch descent from small weights: once with the first"
        " five classes against the last five, once with all ten. Three neurons at a time are averaged to ten weights. The paper does"
        " not say whether its class means are centred: both are measured, the matrices show them as they are (see figure-10 for data"
        " that is not centred)." + WHERE
    ),
)
FIGURE_10 = Experiment(
    id="feature-averaging/figure-10",
    source="Li et al. 2025, Figure 10",
    title="Embeddings of one class lie closer to each other than to other classes",
    scales={scale: [Blocks()] for scale in SCALES},
    measure=measure_10,
    claims=CLAIMS_10,
    about="Cosines of 100 training embeddings of each class of CIFAR-10, sorted by class." + WHERE,
)
