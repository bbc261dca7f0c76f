"""Settings of every experiment of `beyond` that are as small as its claims allow."""

from dataclasses import replace
from typing import Any

from featureprism.papers.beyond import PAPER
from featureprism.papers.beyond.phase_noise import _settings as _noise
from featureprism.papers.feature_amplification import setting as amplification
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.gmm_flow.theorem_1 import ClosestApproach

QUICK: dict[str, list[Any]] = {e.item: list(e.settings("quick")) for e in PAPER.experiments}


def smaller(item: str, **changes: Any) -> list[Any]:
    """The quick settings of an item with other sizes, each once."""
    return list(dict.fromkeys(replace(s, **changes) for s in QUICK[item]))


FEW: dict[type, dict[str, int]] = {
    ClosestApproach: {"positive": 1, "negative": 1, "per_cluster": 5, "num_times": 1},
    averaging.Baseline: {"points": 30, "steps": 10, "test_points": 1},
    amplification.NoisyXor: {"points": 30, "width": 50},
}
SLOW = (
    *("beyond/blind-attacks", "beyond/robust-heads", "beyond/contest"),  # foolbox and ten heads take seconds
    *(
        "beyond/phase-noise",
        "beyond/phase-cosine",
    ),  # flows, as those of phase-initialisation and phase-scaling
)
TINY: dict[str, list[Any]] = {
    "beyond/blind-attacks": [
        replace(QUICK["blind-attacks"][0], dim=30, per_cluster=3, test_points=1, max_cells=1)
    ],
    "beyond/phase-initialisation": [
        replace(s, p=p, std=std)
        for s in smaller("phase-initialisation", dim=20, positive=1, negative=1, width=8, test_points=1)[:1]
        for p, std in ((2.0, 1e-3), (3.0, 1e-3), (3.0, 2.0))
    ],
    "beyond/phase-noise": [
        replace(s, positive=1, negative=1, neurons_per_cluster=1) for s in _noise(20, (0.4, 0.2), 2)
    ],
    "beyond/phase-cosine": [
        replace(s, dim=10, per_cluster=8, positive=2, negative=2, test_points=1)
        for s in QUICK["phase-cosine"]
        if s.smallest == 0.5
        or s.shortest == 0.8
        or (not s.unequal and s.cosine in (0.0, 0.6) and s.p in (2.2, 9.0))
    ],
    "beyond/phase-supervision": [
        s
        for s in smaller("phase-supervision", dim=40, points=30, steps=10, test_points=1)
        if s.num_clusters <= 8 and s.labels in (2, s.num_clusters)
    ],
    "beyond/phase-learning-rate": smaller("phase-learning-rate", dim=40, points=30, steps=5, test_points=1)[
        :1
    ],
    "beyond/phase-label-noise": [
        s
        for s in smaller("phase-label-noise", width=20, samples=4, test_points=100)
        if s.points in (32, 64) and s.noise_rate in (0.0, 0.45)
    ],
    "beyond/phase-purification": [
        s
        for s in smaller("phase-purification", steps=20, adversarial_steps=10, test_points=10)
        if s.dim == 100 and s.sparsity <= 20
    ],
    "beyond/phase-scaling": [replace(s, dim=s.dim // 10, **FEW[type(s)]) for s in QUICK["phase-scaling"]],
    "beyond/contest": [replace(QUICK["contest"][-1], width=4, epochs=1, num_subclasses=2, test_points=3)],
    "beyond/robust-heads": [
        replace(
            QUICK["robust-heads"][-1],
            train_points=200,
            held_points=100,
            width=4,
            epochs=1,
            num_subclasses=2,
            test_points=3,
            kernel_points=60,
        )
    ],
}
