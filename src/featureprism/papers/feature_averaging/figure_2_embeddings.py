"""Figure 2 (c), (d): what two-layer heads with two labels and with ten learn of embeddings of CIFAR-10."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._progress import Progress, no_progress, part
from featureprism.data.images import EMBEDDINGS
from featureprism.data.real import unit_norm
from featureprism.lab import Claim, Experiment, Rows, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import grouped_start
from featureprism.networks.grouped import GroupedNet
from featureprism.papers.feature_averaging.embedded import (
    GROUPS,
    NUM_CLASSES,
    OF_CLIP,
    TEN,
    TWO,
    WHERE,
    class_names,
    clip_premise,
    drawn,
    embeddings,
    gaps,
    source_of,
)
from featureprism.probes import cosines
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

WIDTH = 30  # neurons of either network, Section 6.1: 15 for each of two labels, h = 3 for each of ten
START = 1e-5  # standard deviation of the first weights, as in the synthetic experiments


@dataclass(frozen=True, kw_only=True)
class EmbeddingTraining:
    """How many embeddings the networks of Section 6.1 are trained on, and how long."""

    data: str = EMBEDDINGS
    train_points: int
    step_size: float = 100.0
    descent_steps: int


def class_means(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 d"]:
    """μ_i, the mean embedding of each class: the paper does not say what its feature vector is."""
    return torch.stack([x[y == c].mean(dim=0) for c in range(NUM_CLASSES)])


def trained(
    k: int,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    s: EmbeddingTraining,
    seed: int,
    progress: Progress = no_progress,
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


def merged_accuracy(net: GroupedNet, x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> float:
    """Accuracy of the merged decision: the group whose probabilities sum to more."""
    with torch.no_grad():
        p = net(x).softmax(dim=1)
    half = p.shape[1] // 2
    return float(((p[:, half:].sum(dim=1) > 0.5) == (GROUPS[y] == 1)).double().mean())


def measure(s: EmbeddingTraining, seed: int, context: Context) -> list[Row]:
    """Cosines between class means and weights, for heads trained with two labels and with ten."""
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


def least_gap(own: Rows) -> float:
    """The least cosine of a weight with a feature of its own merged class minus the largest with one of the other."""
    same = own.column("cluster") // 5 == own.column("neuron") // 5
    return float(own.column("cosine")[same].min() - own.column("cosine")[~same].max())


def off_diagonal_share(own: Rows) -> float:
    """Mean size of the cosines off the diagonal ÷ mean of those on it."""
    on, cosine = own.column("cluster") == own.column("neuron"), own.column("cosine")
    return float(np.abs(cosine[~on]).mean() / cosine[on].mean())


CLAIMS = (
    Claim(
        "uniform",
        source="Figure 2 (c)",
        says="On embeddings, a head trained with two labels points more towards every class of its merged class than towards any"
        " class of the other.",
        quantity="least cosine of a weight with a class mean of its merged class minus the largest with one of the other",
        bound=above(0.0),
        because="uniformly larger means that no pair is an exception",
        value=lambda rows: rows.of("cosine", network=TWO, means="raw").per_seed(least_gap),
        aggregate="worst",
        premises=OF_CLIP,
    ),
    Claim(
        "larger-in-the-mean",
        source="beside Figure 2 (c)",
        says="On embeddings, a head trained with two labels points more towards the classes of its merged class than towards the"
        " others, on average.",
        quantity="mean cosine of a weight with the class means of its merged class minus with those of the other",
        bound=above(0.3),
        because="three times the gap of 0.1 that we call significant",
        value=lambda rows: rows.of("summary", network=TWO, means="raw").per_seed("averaging"),
        origin="featureprism",
        note=lambda rows: (
            f"it falls as training goes on, from 0.41 at 300 steps to 0.31 at 3000; points: {source_of(rows)}"
        ),
    ),
    Claim(
        "diagonal",
        source="Figure 2 (d)",
        says="On embeddings, every weight of a head trained with ten labels points along the mean of its class and hardly along"
        " others.",
        quantity="mean absolute cosine with the means of other classes ÷ mean cosine with the mean of the weight's class",
        bound=at_most(0.25),
        because="nearly diagonal is read as a quarter or less",
        value=lambda rows: rows.of("cosine", network=TEN, means="raw").per_seed(off_diagonal_share),
        premises=OF_CLIP,
        note=lambda rows: (
            f"it rises as training goes on, from 0.21 at 300 steps to 0.25 at 3000; points: {source_of(rows)}"
        ),
    ),
)


def draw(rows: Rows) -> Any:
    """Cosines between class means and weights, averaged over seeds."""
    from featureprism.lab.style import panels

    figure, axes = panels(2, width=3.9, height=3.5)
    titles = {
        TWO: ("averaging", "two labels: own merged class minus other"),
        TEN: ("decoupling", "ten labels: own feature minus others"),
    }
    image = None
    for panel, (network, (field, text)) in zip(axes, titles.items(), strict=True):
        table = np.zeros((NUM_CLASSES, NUM_CLASSES))
        cosine_rows = rows.of("cosine", network=network, means="raw")
        for r in cosine_rows:
            table[r["cluster"], r["neuron"]] += r["cosine"] * table.size / len(cosine_rows)
        image = panel.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1)
        gap = rows.of("summary", network=network, means="raw").column(field).mean()
        panel.set_title(f"{text} {gap:.2f}", fontsize=8)
        panel.set_xticks([2, 7], ["weights 1-5", "weights 6-10"], fontsize=7)
        names = class_names(rows) if network == TWO else [""] * NUM_CLASSES
        panel.set_yticks(range(NUM_CLASSES), names, fontsize=7)
        panel.tick_params(length=0)
        panel.axhline(4.5, color="black", linewidth=0.6)
        panel.axvline(4.5, color="black", linewidth=0.6)
        panel.spines[["left", "bottom"]].set_visible(False)
    assert image is not None
    figure.colorbar(image, ax=axes, label="cosine", shrink=0.8)
    return figure


def _settings(num: int, steps: int) -> list[EmbeddingTraining]:
    return [EmbeddingTraining(train_points=num, descent_steps=steps)]


FIGURE_2_EMBEDDINGS = Experiment(
    id="feature-averaging/figure-2-embeddings",
    source="Li et al. 2025, Figure 2 (c), (d)",
    title="Two labels against ten on embeddings",
    scales={
        "quick": _settings(10_000, 300),
        "standard": _settings(50_000, 1000),
        "paper": _settings(50_000, 3000),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Cosines between the class means of CIFAR-10 embeddings, rows scaled to norm 1, and the weights of bias-free two-layer ReLU"
        " networks of 30 neurons with a fixed second layer, trained by full-batch descent from small weights: once with the first"
        " five classes against the last five, once with all ten. Three neurons at a time are averaged to ten weights. The paper does"
        " not say whether its class means are centred: both are measured, the matrices show them as they are."
        + WHERE
    ),
)
