"""
Sweep a function of your own
============================

Sweep your own function on two workers, kill it if you like, and fit how its rows scale.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import featureprism as fp
from featureprism.lab import Limits, Local, Rules, Store, grid, of_function, sweep
from featureprism.lab.phase import phase_of, power, rates


def measure(setting: dict, seed: int) -> list[dict]:
    """Length of the mean of n noisy points: σ √(d/n)."""
    clusters = fp.data.orthonormal_clusters(
        setting["dim"], 1, 1, setting["alpha"], generator=fp.generator_for("centres", seed)
    )
    data = fp.data.sample_balanced(clusters, setting["points"], generator=fp.generator_for("train", seed))
    noise = (data.x - clusters.mu[data.cluster])[data.cluster == 0].mean(dim=0)
    return [{"length": float(noise.norm()), "predicted": setting["alpha"] / setting["points"] ** 0.5}]


if __name__ == "__main__":
    settings = grid(dim=[50], alpha=[0.1, 0.4], points=[10, 40, 160])
    plan = of_function(measure, settings, seeds=range(3), rules=Rules(Limits(seconds=60)))
    with tempfile.TemporaryDirectory() as folder:
        summary = sweep(plan, Path(folder), Local(2))
        with Store(Path(folder)) as store:
            rows = list(store.rows(plan.name))
    print(f"{summary.done} of {summary.total} units are finished, {len(rows)} rows")
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for alpha, fit in rates(phase_of(rows, "points", "alpha", "length")).items():
        print(f"alpha = {alpha}: length ∝ {power(fit, 'points')}, predicted -0.5")
        line = [row for row in rows if row["alpha"] == alpha]
        (dots,) = axes.loglog(
            [r["points"] for r in line], [r["length"] for r in line], "o", label=f"α = {alpha}"
        )
        line = sorted(line, key=lambda row: row["points"])
        axes.plot([r["points"] for r in line], [r["predicted"] for r in line], color=dots.get_color())
    axes.set(xlabel="points", ylabel="length of the mean noise")
    axes.legend()
    plt.show()
# from a file, and with a picture: featureprism sweep SPEC.toml --out DIR; featureprism phase DIR --x points --y alpha --value length
