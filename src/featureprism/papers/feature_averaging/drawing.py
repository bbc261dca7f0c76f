"""What several drawings share. Nothing here imports matplotlib: axes are handed over."""

from typing import Any

import numpy as np

from featureprism.lab import Rows

NETWORKS = {
    "two-class": "two labels",
    "ten-class": "ten labels",
    "ten-class-max": "ten labels, largest logits",
    "ten-class-sum": "ten labels, summed logits",
    "k-class": "a label for each cluster",
}


def mean_of(rows: Rows, name: str) -> float:
    """Mean of a value over rows."""
    return float(rows.column(name).mean())


def table_of(rows: Rows, name: str) -> np.ndarray:
    """A value for every feature (down) and neuron (across), averaged over seeds."""
    clusters, neurons = (rows.column(key).astype(int) for key in ("cluster", "neuron"))
    table = np.zeros((1 + clusters.max(), 1 + neurons.max()))
    np.add.at(table, (clusters, neurons), rows.column(name))
    return table / len(rows.distinct("seed"))


def cosine_matrix(axes: Any, rows: Rows, title: str) -> None:
    """A cosine matrix, features down and neurons across, averaged over seeds."""
    axes.imshow(table_of(rows, "cosine"), cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set(xlabel="neuron", ylabel="feature", title=title, xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)


def premise_ratios(axes: Any, rows: Rows, holds: str, fails: str) -> None:
    """Every premise as measured ÷ required, means over seeds; full where it holds in every seed; two colours."""
    groups = rows.of("premise").groups("id")
    for height, own in enumerate(groups.values()):
        ratio = own.column("measured") / np.where(own.column("required") == 0, 1, own.column("required"))
        all_hold = all(row["holds"] for row in own)
        axes.plot(
            max(abs(ratio.mean()), 1e-12),
            height,
            "o",
            color=holds if all_hold else fails,
            fillstyle="full" if all_hold else "none",
        )
        axes.annotate(
            f"{own[0]['relation']} 1",
            (1.0, height),
            xytext=(3, -3),
            textcoords="offset points",
            fontsize=6,
            color="0.5",
        )
    axes.axvline(1, color="0.7", linewidth=0.8)
    axes.set_yticks(range(len(groups)), list(groups), fontsize=6)
    axes.set(xscale="log", xlabel="measured ÷ required")
