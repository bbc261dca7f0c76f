"""
Sweep a function of your own
============================

Sweep your own function on two workers, kill it if you like, and fit how its rows scale.
"""

import tempfile
from pathlib import Path

import featureprism as fp
from featureprism.report.phase import exponents, phase_of, power
from featureprism.sweep import Limits, Local, Rules, Store, grid, of_function, sweep


def measure(setting: dict, seed: int) -> list[dict]:
    """Length of the mean of n noisy points: σ √(d/n)."""
    clusters = fp.orthonormal_clusters(
        setting["dim"], 1, 1, setting["alpha"], generator=fp.generator_for("centres", seed)
    )
    data = fp.sample_balanced(clusters, setting["points"], generator=fp.generator_for("train", seed))
    noise = (data.x - clusters.mu[data.cluster])[data.cluster == 0].mean(dim=0)
    return [{"length": float(noise.norm()), "predicted": setting["alpha"] / setting["points"] ** 0.5}]


if __name__ == "__main__":
    settings = grid(dim=[50], alpha=[0.1, 0.4], points=[10, 40, 160])
    asked = of_function(measure, settings, seeds=range(3), rules=Rules(Limits(seconds=60)))
    with tempfile.TemporaryDirectory() as folder:
        summary = sweep(asked, Path(folder), Local(2))
        with Store(Path(folder)) as store:
            rows = list(store.rows(asked.what))
    print(f"{summary.done} of {summary.total} units are finished, {len(rows)} rows")
    for fit in exponents(phase_of(rows, "points", "alpha", "length")):
        print(f"alpha = {fit.y}: length ∝ {power(fit, 'points')}, predicted -0.5")
# from a file, and with a picture: featureprism sweep SPEC.toml --out DIR; featureprism phase DIR --x points --y alpha --value length
