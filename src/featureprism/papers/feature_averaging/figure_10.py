"""Figure 10: embeddings of CIFAR-10 as clusters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.data.images import EMBEDDINGS
from featureprism.data.real import Split
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.images import as_image, picture
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging.embedded import (
    GROUPS,
    NUM_CLASSES,
    OF_CLIP,
    WHERE,
    class_names,
    clip_premise,
    drawn,
    embeddings,
    gaps,
    source_of,
)

SIGNIFICANT = 0.1  # the least gap of mean cosines that we call significant
NEARLY_ORTHOGONAL = 0.09  # the largest cosine of two centres that the paper still calls so, Figure 9
PIXELS = 4  # of the drawn matrix: embeddings averaged in each direction


@dataclass(frozen=True, kw_only=True)
class EmbeddedClasses:
    """How many embeddings of each class are compared. Caption of Figure 10."""

    data: str = EMBEDDINGS
    per_class: int = 100


def block_cosines(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> Float[Tensor, "10 10"]:
    """Mean cos(z_i, z_j) over each pair of classes, a point with itself left out. Appendix E.2."""
    table, mean = unit_rows(x) @ unit_rows(x).T, torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=x.dtype)
    for a in range(NUM_CLASSES):
        for b in range(NUM_CLASSES):
            block = table[y == a][:, y == b]
            mean[a, b] = (block if a != b else block[~torch.eye(len(block), dtype=torch.bool)]).mean()
    return mean


def block_rows(x: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> list[Row]:
    """Block means of the cosines of points as they are and centred: within classes, between them, and the extremes."""
    rows: list[Row] = []
    for means_are, points in (("raw", x), ("centred", x - x.mean(dim=0))):
        mean = block_cosines(points, y)
        sizes = gaps(mean, GROUPS)
        summary = {"within": sizes.diagonal, "between": sizes.off_diagonal, "gap": sizes.decoupling}
        least = float((mean.diagonal() - (mean - 2 * torch.eye(NUM_CLASSES)).amax(dim=1)).min())
        largest = float((mean - torch.diag(mean.diagonal())).abs().max())
        summary |= {"least_gap": least, "largest_between": largest, "per_class": len(x) // NUM_CLASSES}
        rows.append({"kind": "summary", "means": means_are, **summary})
    return rows


def chosen_points(split: Split, per_class: int, seed: int) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """So many points of each class (fewer where there are not enough), sorted by class, rows scaled to norm 1."""
    x, y = drawn(split, len(split.x_train), seed)
    num = min(per_class, int(torch.bincount(y, minlength=NUM_CLASSES).min()))
    num -= num % PIXELS
    chosen = torch.cat([torch.nonzero(y == c)[:num, 0] for c in range(NUM_CLASSES)])
    return x[chosen], y[chosen]


def measure(s: EmbeddedClasses, seed: int, context: Context) -> list[Row]:
    """Cosines of embeddings, so many of each class: block means, and the matrix itself in small squares for the drawing."""
    split = embeddings(s.data, context.data)
    x, y = chosen_points(split, s.per_class, seed)
    context.progress(0.5)
    rows = block_rows(x, y)
    table = unit_rows(x) @ unit_rows(x).T
    small = torch.nn.functional.avg_pool2d(table[None, None], PIXELS)[0, 0]
    matrix = {"kind": "matrix", **picture((small.unsqueeze(0) + 1) / 2)}
    return [*rows, matrix, clip_premise(split).as_row()]


def _note(rows: Rows) -> str:
    raw, centred = (rows.of("summary", means=means) for means in ("raw", "centred"))
    within, between = raw.column("within").mean(), raw.column("between").mean()
    return (
        f"within {within:.3f}, between {between:.3f}; centred: {centred.column('gap').mean():.3f};"
        f" points: {source_of(rows)}"
    )


CLAIMS = (
    Claim(
        "blocks",
        source="Figure 10",
        says="Embeddings of one class are significantly more alike than embeddings of different classes.",
        quantity="mean cosine of two embeddings of the same class minus of different classes",
        bound=above(SIGNIFICANT),
        because=f"a gap above {SIGNIFICANT} is called significant",
        value=lambda rows: rows.of("summary", means="raw").per_seed("gap"),
        premises=OF_CLIP,
        note=_note,
    ),
    Claim(
        "every-class",
        source="Figure 10",
        says="Embeddings of every class are more alike than they are to embeddings of any other class.",
        quantity="mean cosine within a class minus with the nearest other class, for the class where that is least",
        bound=above(0.0),
        because="no class may be an exception",
        value=lambda rows: rows.of("summary", means="raw").per_seed("least_gap"),
        aggregate="worst",
        premises=OF_CLIP,
        note=_note,
    ),
    Claim(
        "orthogonal",
        source="Figure 10",
        says="Embeddings of different classes are nearly orthogonal.",
        quantity="largest absolute mean cosine of two classes",
        bound=at_most(NEARLY_ORTHOGONAL),
        because=f"{NEARLY_ORTHOGONAL} is the largest cosine of centres that the paper calls nearly orthogonal (Figure 9)",
        value=lambda rows: rows.of("summary", means="raw").per_seed("largest_between"),
        premises=OF_CLIP,
        note=_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Cosines of embeddings sorted by class, first seed."""
    from featureprism.lab.style import panels

    figure, (axes,) = panels(1, width=4.9, height=3.9)
    matrix = rows.of("matrix", seed=rows.seeds[0])[0]
    table = 2 * as_image(matrix)[:, :, 0].numpy() - 1
    top = float(np.quantile(np.abs(table), 0.99))
    image = axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="cosine")
    centres = (np.arange(NUM_CLASSES) + 0.5) * len(table) / NUM_CLASSES - 0.5
    axes.set_yticks(centres, class_names(rows), fontsize=7)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    raw = rows.of("summary", means="raw")
    within, between = raw.column("within").mean(), raw.column("between").mean()
    axes.set_title(f"same class {within:.3f}, different {between:.3f}")
    return figure


FIGURE_10 = Experiment(
    id="feature-averaging/figure-10",
    source="Li et al. 2025, Figure 10",
    title="Embeddings of one class lie closer to each other than to other classes",
    scales={scale: [EmbeddedClasses()] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Cosines of 100 training embeddings of each class of CIFAR-10, sorted by class." + WHERE,
)
