"""The two pictures of the front page, drawn anew by `python docs/_ext/front_pictures.py` (a minute); the README shows them too."""

import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

import featureprism as fp
from featureprism.lab.style import COLOURS, SETTINGS, panels
from featureprism.networks import BinaryReadout, grouped_start, voting_start
from featureprism.training import first_layer_descent

STATIC = Path(__file__).parents[1] / "_static" / "front"
DIM, CLUSTERS = 1024, 10


def averaging() -> Any:
    """What the neurons learned, and what one shared direction does to every point."""
    clusters = fp.data.orthogonal_clusters(DIM, 5, 5, 1.0, generator=fp.generator_for("centres", 0))
    train = fp.data.sample(clusters, 500, generator=fp.generator_for("train", 0))
    test = fp.data.sample(clusters, 500, generator=fp.generator_for("test", 0))
    two = voting_start(5, DIM, 1e-5, fp.networks.ReLU(), generator=fp.generator_for("two", 0))
    two = first_layer_descent(two, train.x, train.y, step_size=3e-3, steps=200).last
    ten = grouped_start(CLUSTERS, 1, DIM, 1e-5, generator=fp.generator_for("ten", 0))
    ten = first_layer_descent(ten, train.x, train.cluster, step_size=3e-3, steps=200).last
    networks = {
        "two labels": (two, two.W),
        "a label for each cluster": (BinaryReadout(ten, clusters.labels), ten.W.flatten(0, 1)),
    }

    figure, (left, middle, right) = panels(3, width=3.1, height=2.9)
    for axes, (name, (_, weights)) in zip((left, middle), networks.items(), strict=True):
        cosines = (
            torch.nn.functional.normalize(weights.double(), dim=1) @ clusters.mu.double().T / math.sqrt(DIM)
        )
        axes.imshow(cosines.detach(), cmap="PuOr_r", vmin=-1, vmax=1)
        axes.set(xlabel="cluster", ylabel="neuron", title=f"Trained with {name}", xticks=[], yticks=[])
    u = clusters.labels @ clusters.mu
    steps = np.linspace(0, 0.75, 60)
    for colour, (name, (net, _)) in zip(COLOURS, networks.items(), strict=False):
        moved = (test.x - test.y[:, None] * float(t) * math.sqrt(DIM) * u / u.norm() for t in steps)
        right.plot(
            steps, [float((net(x) * test.y > 0).double().mean()) for x in moved], color=colour, label=name
        )
    right.set(
        xlabel="length of one step for all points, ÷ √d",
        ylabel="points still right",
        title="The same step against every point",
        ylim=(-0.03, 1.05),
    )
    right.legend(loc="center right")
    return figure


def your_model() -> Any:
    """The bracket of every point of a scikit-learn network, and the curve that they make."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    cancer: Any = load_breast_cancer()
    X, y = StandardScaler().fit_transform(cancer.data), cancer.target
    model = MLPClassifier((16, 16), alpha=1.0, max_iter=500, random_state=0).fit(X[:400], y[:400])
    bracket = fp.robust_radius(model, X[400:460], y[400:460], budget=fp.Budget(branches=4))
    order = np.argsort(bracket.attacked)
    figure, (left, right) = panels(2, width=4.2, height=2.9)
    left.vlines(range(len(order)), 0, bracket.certified[order], color=COLOURS[2], alpha=0.35, linewidth=3)
    left.plot(
        bracket.certified[order], "_", color=COLOURS[2], label="proven: nothing closer changes the answer"
    )
    left.plot(
        bracket.attacked[order], ".", color=COLOURS[1], markersize=4, label="attacked: this change does"
    )
    left.set(
        xlabel="points, most fragile first",
        ylabel="distance (standard deviations)",
        title="How far is each point from another answer?",
        xticks=[],
        ylim=(0, 1.25 * float(bracket.attacked.max())),
    )
    left.legend(loc="upper left")
    radii = np.linspace(0, float(bracket.attacked.max()), 300)
    proven, attacked = bracket.accuracy(radii)
    right.fill_between(radii, proven, attacked, color=COLOURS[0], alpha=0.3, linewidth=0)
    right.plot(radii, attacked, color=COLOURS[1], label="at most (attacked)")
    right.plot(radii, proven, color=COLOURS[2], label="at least (proven)")
    right.set(
        xlabel="size of the change (standard deviations)",
        ylabel="accuracy under every change",
        title="What an attacker of that strength leaves",
        ylim=(0, 1.03),
    )
    right.legend(loc="upper right")
    return figure


if __name__ == "__main__":
    STATIC.mkdir(exist_ok=True)
    for draw in (averaging, your_model):
        with plt.rc_context(SETTINGS):
            draw().savefig(STATIC / f"{draw.__name__}.webp", dpi=170)
