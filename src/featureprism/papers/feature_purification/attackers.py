"""Figure 13 on sparse coding data: the stronger the adversary in training, the purer the features."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from featureprism.attacks.gradient import ProjectedGradient, SmoothAdversary
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, above, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.measures import (
    PURIFIED,
    bench,
    premise_rows,
    shape_row,
    under_universal,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    fast_gradient,
    later_phase,
    scales,
    train,
    trained,
)
from featureprism.seeds import generator_for


@dataclass(frozen=True, kw_only=True)
class AttackerSetting(Battery):
    """The input noise of SmoothAdv; the printed values are for images."""

    smooth_sigma: float = 0.01


def _adversaries(s: AttackerSetting, seed: int) -> dict[str, tuple[float, Any]]:
    """Names, radii and perturbation algorithms: FGM at four radii, PGD and SmoothAdv at the largest."""
    shares, noise = (0.25, 0.5, 0.75, 1.0), generator_for("smooth", seed)
    return {
        **{f"FGM {q:g}τ": (q * s.radius, fast_gradient(s, radius=q * s.radius)) for q in shares},
        "PGD τ": (s.radius, ProjectedGradient(LpBall(2, s.radius), steps=3)),
        "SmoothAdv τ": (s.radius, SmoothAdversary(s.radius, s.smooth_sigma, noise, samples=2, steps=2)),
    }


def measure(s: AttackerSetting, seed: int, context: Context) -> list[Row]:
    """Purity after adversarial training against each adversary, all from one clean network."""
    on, before = bench(s, seed), trained(s, seed, "clean")
    nets = {"none": (0.0, before)}
    adversaries = _adversaries(s, seed)
    for index, (name, (radius, adversary)) in enumerate(adversaries.items()):
        nets[name] = (radius, train(s, before, [later_phase(s, adversary)], seed, "attackers").last)
        context.progress((index + 1) / len(adversaries))
    rows: list[Row] = [
        {
            "kind": "adversary",
            "name": name,
            "trained_radius": radius,
            **shape_row(net, on.many.x, on.problem),
            "universal": under_universal(net, on, LpBall(2, s.radius)),
        }
        for name, (radius, net) in nets.items()
    ]
    return rows + premise_rows(s, on)


def _least_gain(rows: Rows) -> Values:
    """The least gain in purity from one radius of FGM to the next, beginning without an adversary."""
    chosen = rows.of("adversary").where(lambda row: row["name"] == "none" or row["name"].startswith("FGM"))

    def least(one: Rows) -> float:
        return np.diff(one.column("purity")[np.argsort(one.column("trained_radius"))]).min()

    return chosen.per_seed(least)


def _gained(algorithm: str):
    def value(rows: Rows) -> Values:
        after, before = (rows.of("adversary", name=n).per_seed("purity") for n in (f"{algorithm} τ", "none"))
        return after - before

    return value


PURITY_GAIN = "largest |cosine| of a neuron with one feature, weighted by ‖w‖²"
CLAIMS = (
    Claim(
        "stronger",
        source="Figure 13",
        says="A stronger FGM adversary in training purifies more.",
        quantity=f"{PURITY_GAIN}: least gain from one of four radii to the next",
        bound=above(0.0),
        because="more at every radius",
        value=_least_gain,
    ),
    Claim(
        "pgd",
        source="Section 5.1, after Theorem 5.3",
        says="Training against PGD purifies the features as training against FGM does.",
        quantity=f"{PURITY_GAIN}: after training against PGD minus before",
        bound=above(0.0),
        because="purer is any gain",
        value=_gained("PGD"),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "smooth",
        source="Section 5.1, after Theorem 5.3",
        says="Training against SmoothAdv purifies the features as training against FGM does.",
        quantity=f"{PURITY_GAIN}: after training against SmoothAdv minus before",
        bound=above(0.0),
        because="purer is any gain",
        value=_gained("SmoothAdv"),
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """Purity and universal accuracy after training against each adversary."""
    from featureprism.lab.style import panels
    from featureprism.papers.feature_purification.drawing import bars, mean

    figure, (axes,) = panels(1, width=6.4, height=3.0)
    parts = rows.of("adversary").groups("name")
    keys = {"purity": "purity", "universal direction": "universal"}
    groups = {text: [mean(part, key) for part in parts.values()] for text, key in keys.items()}
    bars(axes, list(parts), groups, "purity; accuracy at τ")
    return figure


ATTACKERS = Experiment(
    id="feature-purification/attackers",
    source="Allen-Zhu & Li 2020, Figure 13",
    title="Purity of the features after training against weaker and stronger adversaries",
    scales=scales(AttackerSetting),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about="One clean network, trained on against FGM at four radii, PGD, and SmoothAdv-PGD with Gaussian input noise.",
)
