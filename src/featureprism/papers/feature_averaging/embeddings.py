"""Figures 2 (c, d) and 10: embeddings of CIFAR-10 as clusters, and what two-layer heads with two labels and ten learn of them."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.data.images import DIGITS, EMBEDDINGS
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.geometry import unit_rows
from featureprism.networks import GroupedNet, grouped_start
from featureprism.probes import cosines
from featureprism.records import Claim, Experiment, Progress, Row, judge, picture, rows_of, silent
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

NUM_CLASSES = 10
GROUPS = (torch.arange(NUM_CLASSES) >= 5).long()  # the first five classes against the last five, Section 6.1
WIDTH = 30  # neurons of either network, Section 6.1: 15 for each of two labels, h = 3 for each of ten
LEAST = 0.1  # the least gap of cosines that counts
START = 1e-5  # standard deviation of the first weights, as in the synthetic experiments
PIXELS = 4  # of the drawn matrix of Figure 10: embeddings averaged in each direction


def embeddings() -> Split:
    """The CIFAR-10 embeddings where they are at hand, else the pixels of scikit-learn's digits; the rows' `source` says which."""
    found = real_data(EMBEDDINGS) or real_data(DIGITS)
    assert found is not None  # the digits are always there
    if set(np.unique(found.y_train)) != set(range(NUM_CLASSES)):
        raise ValueError("These embeddings cannot be used here: the item needs the labels 0 to 9.")
    return found


def class_means(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 d"]:
    """μ_i, the mean embedding of each class: the paper does not say what its feature vector is."""
    return torch.stack([x[y == c].mean(dim=0) for c in range(NUM_CLASSES)])


def trained(
    k: int,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    setting: Row,
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
        step_size=setting["step_size"],
        steps=setting["descent_steps"],
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
    return Gaps(*(float(table[part].mean()) for part in (same, ~same, own, ~own)))


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


def measure_2(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Cosines between class means and weights, for heads that were told two labels and ten."""
    split = embeddings()
    x, y = drawn(split, setting["train_points"], seed)
    test = torch.as_tensor(unit_norm(split.x_test)), torch.as_tensor(split.y_test.astype(np.int64))
    means = {"raw": class_means(x, y)}
    means["centred"] = means["raw"] - x.mean(dim=0)
    rows = []
    for place, (name, k) in enumerate((("two-class", 2), ("ten-class", NUM_CLASSES))):
        targets = GROUPS[y] if k == 2 else y
        net = trained(k, x, targets, setting, seed, lambda s, place=place: progress((place + 0.95 * s) / 2))
        for means_are, mu in means.items():
            table = cosines(equivalent_weights(net), mu)
            found = gaps(table, GROUPS)
            about = {"network": name, "means": means_are}
            told = {**found._asdict(), "averaging": found.averaging, "decoupling": found.decoupling}
            rows.append({"kind": "summary", **about, **told, "accuracy": merged_accuracy(net, *test)})
            rows += [
                {"kind": "cosine", **about, "cluster": i, "neuron": j, "cosine": float(table[j, i])}
                for i in range(NUM_CLASSES)
                for j in range(NUM_CLASSES)
            ]
    return rows


def _claims_2(rows: list[Row]) -> list[Claim]:
    source = rows[0].get("source", "unknown") if rows else "none"

    def found(network: str, means: str = "raw") -> list[Row]:
        return rows_of(rows, "summary", network=network, means=means)

    def mean(network: str, key: str, means: str = "raw") -> float:
        return float(np.mean([r[key] for r in found(network, means)])) if found(network) else float("nan")

    def note(network: str, key: str) -> str:
        return (
            f"class means as they are; centred: {mean(network, key, 'centred'):.3f}; two-class test accuracy"
            f" {mean(network, 'accuracy'):.3f}; points: {source}"
        )

    pairs = list(zip(found("two-class"), found("ten-class"), strict=True))
    return [
        judge(
            "figure-2-embeddings.averaging-two",
            "Figure 2 (c)",
            "two labels: mean cosine of a weight with the features of its own merged class, minus with those of the other",
            [r["averaging"] for r in found("two-class")],
            ">",
            LEAST,
            note("two-class", "averaging"),
        ),
        judge(
            "figure-2-embeddings.averaging-ten",
            "Figure 2 (d)",
            "ten labels: mean cosine of a weight with its own feature, minus with all others",
            [r["decoupling"] for r in found("ten-class")],
            ">",
            LEAST,
            note("ten-class", "decoupling"),
        ),
        judge(
            "figure-2-embeddings.averaging",
            "Figure 2 (c), (d)",
            "ten labels set their feature apart more than two labels set their class apart: second gap minus first",
            [ten["decoupling"] - two["averaging"] for two, ten in pairs],
            ">",
            0.0,
            f"{mean('ten-class', 'decoupling'):.3f} and {mean('two-class', 'averaging'):.3f};"
            f" own feature minus others with two labels: {mean('two-class', 'decoupling'):.3f}",
        ),
    ]


def block_cosines(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 10"]:
    """Mean cos(z_i, z_j) over each pair of classes, a point with itself left out. Appendix E.2."""
    table, mean = unit_rows(x) @ unit_rows(x).T, torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=x.dtype)
    for a in range(NUM_CLASSES):
        for b in range(NUM_CLASSES):
            block = table[y == a][:, y == b]
            mean[a, b] = (block if a != b else block[~torch.eye(len(block), dtype=torch.bool)]).mean()
    return mean


def measure_10(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Cosines of embeddings, so many of each class: block means, and the matrix itself in small squares for the drawing."""
    split = embeddings()
    x, y = drawn(split, len(split.x_train), seed)
    num = min(setting["per_class"], int(torch.bincount(y, minlength=NUM_CLASSES).min()))
    num -= num % PIXELS
    chosen = torch.cat([torch.nonzero(y == c)[:num, 0] for c in range(NUM_CLASSES)])
    x, y = x[chosen], y[chosen]
    progress(0.5)
    rows = []
    for means_are, points in (("raw", x), ("centred", x - x.mean(dim=0))):
        mean = block_cosines(points, y)
        found = gaps(mean, GROUPS)
        summary = {"within": found.diagonal, "between": found.off_diagonal, "gap": found.decoupling}
        least = float((mean.diagonal() - (mean - 2 * torch.eye(NUM_CLASSES)).amax(dim=1)).min())
        size = float((mean - torch.diag(mean.diagonal())).abs().max())
        extra = {"least_gap": least, "largest_between": size, "per_class": num}
        rows.append({"kind": "summary", "means": means_are, **summary, **extra})
    table = unit_rows(x) @ unit_rows(x).T
    small = torch.nn.functional.avg_pool2d(table[None, None], PIXELS)[0, 0]
    return [*rows, {"kind": "matrix", **picture((small.unsqueeze(0) + 1) / 2)}]


def _claims_10(rows: list[Row]) -> list[Claim]:
    raw, centred = (rows_of(rows, "summary", means=m) for m in ("raw", "centred"))

    def mean(found: list[Row], key: str) -> float:
        return float(np.mean([r[key] for r in found])) if found else float("nan")

    source = rows[0].get("source", "unknown") if rows else "none"
    return [
        judge(
            "figure-10.blocks",
            "Figure 10",
            "mean cosine of two embeddings of the same class minus of different classes",
            [r["gap"] for r in raw],
            ">",
            0.0,
            f"within {mean(raw, 'within'):.3f}, between {mean(raw, 'between'):.3f}; centred: {mean(centred, 'gap'):.3f};"
            f" points: {source}",
        ),
        judge(
            "figure-10.every-class",
            "Figure 10",
            "the same for the class with the least gap to its nearest other class",
            [r["least_gap"] for r in raw],
            ">",
            0.0,
            f"largest mean cosine of two classes in size: {mean(raw, 'largest_between'):.3f} (orthogonal clusters would have 0)",
        ),
    ]


_WHERE = " Where the embeddings are not at hand, scikit-learn's digits stand in: `source` says which it was."

FIGURE_2_EMBEDDINGS = Experiment(
    id="feature-averaging/figure-2-embeddings",
    source="Li et al. 2025, Figure 2 (c), (d)",
    title="On embeddings, two labels average the classes and ten tell them apart",
    scales={
        scale: [{"data": EMBEDDINGS, "train_points": num, "step_size": 100.0, "descent_steps": steps}]
        for scale, num, steps in (
            ("quick", 10_000, 300),
            ("standard", 50_000, 1000),
            ("paper", 50_000, 3000),
        )
    },
    measure=measure_2,
    claims=_claims_2,
    about=(
        "Cosines between the class means of CIFAR-10 embeddings, rows scaled to norm 1, and the weights of bias-free two-layer ReLU"
        " networks of 30 neurons with a fixed second layer, trained by full-batch descent from small weights: once with the first"
        " five classes against the last five, once with all ten. Three neurons at a time are averaged to ten weights. The paper does"
        " not say whether its class means are centred: both are measured, the matrices show them as they are."
        + _WHERE
    ),
)
FIGURE_10 = Experiment(
    id="feature-averaging/figure-10",
    source="Li et al. 2025, Figure 10",
    title="Embeddings of one class lie closer to each other than to other classes",
    scales={scale: [{"data": EMBEDDINGS, "per_class": 100}] for scale in ("quick", "standard", "paper")},
    measure=measure_10,
    claims=_claims_10,
    about="Cosines of 100 training embeddings of each class of CIFAR-10, sorted by class." + _WHERE,
)
