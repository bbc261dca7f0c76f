"""
A phase diagram
===============

Where does a pReLU network stop being robust? A small sweep over the power p and the size of the start, kept unit by unit so that it
can be stopped and goes on, drawn as a map.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import featureprism as fp
from featureprism.lab import Serial, Store, grid, of_function, sweep


def measure(setting: dict, seed: int) -> list[dict]:
    """Median attacked radius, in units of the best possible √2/2."""
    clusters = fp.data.orthonormal_clusters(60, 3, 3, 0.1, generator=fp.generator_for("centres", seed))
    train = fp.data.sample_balanced(clusters, 30, generator=fp.generator_for("train", seed))
    test = fp.data.sample(clusters, 8, generator=fp.generator_for("test", seed))
    start = fp.networks.gaussian_start(
        40,
        60,
        setting["std"],
        fp.networks.PolynomialReLU(setting["p"]),
        generator=fp.generator_for("start", seed),
    )
    run = fp.training.gradient_descent(
        start, train.x, train.y, loss=fp.training.Loss("square", "mean"), step_size=0.7, steps=600
    )
    starts = fp.attacks.structured_starts(run.last, clusters.mu, clusters.labels)
    found = fp.attacks.minimal_radius(run.last, test.x, test.y, starts=starts, upper=1.0, rounds=3)
    return [{"radius": float(found.radius.median()) / 0.5**0.5}]


if __name__ == "__main__":
    powers, stds = [1.0, 2.0, 3.0, 4.0], [0.001, 0.03, 0.1, 0.3]
    plan = of_function(measure, grid(p=powers, std=stds), seeds=range(1))
    with tempfile.TemporaryDirectory() as folder:
        summary = sweep(plan, Path(folder), Serial())
        with Store(Path(folder)) as store:
            rows = list(store.rows(plan.name))
    print(f"{summary.done} of {summary.total} units are finished")
    values = {(row["p"], row["std"]): row["radius"] for row in rows}
    table = np.array([[values[p, std] for p in powers] for std in stds])
    print(f"radius ÷ √2/2 from {table.min():.2f} to {table.max():.2f}")

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    drawn = axes.imshow(table, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(powers)), [f"{p:g}" for p in powers])
    axes.set_yticks(range(len(stds)), [f"{s:g}" for s in stds])
    axes.set(xlabel="power p", ylabel="entry std of the start")
    figure.colorbar(drawn, label="50 % radius ÷ √2/2")
    plt.show()
