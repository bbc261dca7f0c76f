"""Proposition B.1: the Rademacher complexity of ReLU networks whose first layer has a bounded norm."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification import laws, theory
from featureprism.papers.feature_amplification.setting import C, NoisyXor, problem
from featureprism.seeds import generator_for

DIM = 200
RANDOM_STARTS, ROUNDS = 8, 15  # of the ascent


@dataclass(frozen=True, kw_only=True)
class Signs(NoisyXor):
    """How many sign vectors the complexity is the mean of."""

    draws: int


def measure(s: Signs, seed: int, context: Context) -> list[Row]:
    """The complexity for R = 1, from below: with H± = sup over ‖u‖ = 1 of ±Σ ε_i φ(⟨u, x_i⟩) it is E √((H₊² + H₋²)/2)/n.

    By homogeneity a neuron has a direction and a norm; all neurons of one vote have the same best direction, and norms ∝ H± are the
    best by Cauchy-Schwarz. H± come from an ascent, so each is a lower bound.
    """
    x = problem(s, seed).train.data
    generator = generator_for("signs", seed)
    signs = torch.randint(2, (s.draws, s.points), generator=generator).double() * 2 - 1
    starts = torch.cat([_corners(x.centres), torch.randn(RANDOM_STARTS, s.dim, generator=generator).double()])
    reached = torch.stack([largest_sums(x.x, side * signs, starts) for side in (1, -1)])  # (2, draws)
    complexity = float(((reached**2).sum(dim=0) / 2).sqrt().mean()) / s.points
    bound = theory.rademacher_bound(s, float((x.x**2).sum(dim=1).mean()))
    context.progress(1.0)
    law = laws.rademacher_limit() / sqrt(s.points)
    return [
        {
            "kind": "complexity",
            "complexity": complexity,
            "bound": bound,
            "over_bound": complexity / bound,
            "over_law": complexity / law,
        }
    ]


def _corners(centres: Float[Tensor, "4 d"]) -> Float[Tensor, "8 d"]:
    """The centres and the sums of two of different labels."""
    sums = [centres[i] + centres[j] for i in (0, 1) for j in (2, 3)]
    return torch.cat([centres, torch.stack(sums)])


def largest_sums(
    x: Float[Tensor, "n d"], signs: Float[Tensor, "e n"], starts: Float[Tensor, "s d"]
) -> Float[Tensor, " e"]:
    """The largest Σ ε_i φ(⟨u, x_i⟩) found over ‖u‖ = 1, for each sign vector: from each start, u ← ∇/‖∇‖ some rounds."""
    u = unit_rows(starts).repeat(len(signs), 1)  # (e·s, d)
    each = signs.repeat_interleave(len(starts), dim=0)
    best = torch.zeros(len(u), dtype=x.dtype)
    for _ in range(ROUNDS):
        z = u @ x.T
        best = torch.maximum(best, (each * z.clamp_min(0)).sum(dim=1))
        u = unit_rows((each * (z > 0)) @ x)
    return best.reshape(len(signs), -1).amax(dim=1)


def _bound_note(rows: Rows) -> str:
    times = 1 / rows.of("complexity").column("over_bound").mean()
    return f"the bound of the proposition, 2R√(E‖x‖²/n), is {times:.1f} times as large"


CLAIMS = (
    Claim(
        "law",
        source="Proposition B.1, sharp",
        says="On tight XOR clusters the Rademacher complexity of networks whose first layer has norm R is"
        f" {laws.rademacher_limit():.3f} R/√n, from the sums of random signs over the four clusters.",
        quantity="complexity found by ascent ÷ law, mean over n",
        formula=r"\mathfrak R(\mathcal F_R) = \frac{R}{\sqrt{8n}}\,\mathbb E\sqrt{Q_1 + Q_2}",
        bound=between(0.96, 1.04),
        because="four percent; the ascent finds a lower bound",
        value=lambda rows: rows.of("complexity").mean("over_law"),
        origin="featureprism",
        note=_bound_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Complexity against n, with the bound of the paper and the law."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (axes,) = panels(1, width=4.0, height=3.0)
    band(axes, *over_seeds(rows.of("complexity"), "points", "complexity"), COLOURS[0], "measured, from below")
    x, _, bound, _ = over_seeds(rows.of("complexity"), "points", "bound")
    axes.plot(x, bound, "--", color="0.5", label="2√(E‖x‖²/n)")
    axes.plot(x, laws.rademacher_limit() / np.sqrt(x), ":", color="black", label="law")
    axes.set(xscale="log", yscale="log", xlabel="points n", ylabel="Rademacher complexity, R = 1")
    axes.legend()
    return figure


def _settings(points: tuple[int, ...], draws: int) -> list[Signs]:
    sizes = {"dim": DIM, "width": 2, "draws": draws, "test_points": 1}
    return [Signs.on_edge(C, points=n, **sizes) for n in points]


PROPOSITION_B_1 = Experiment(
    id="feature-amplification/proposition-b-1",
    source="Frei et al. 2023, Proposition B.1",
    title="How complex networks of bounded norm are on XOR clusters",
    scales={
        "quick": _settings((100, 400, 1600), 120),
        "standard": _settings((100, 400, 1600), 200),
        "paper": _settings((100, 400, 1600, 6400), 120),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The empirical Rademacher complexity behind part 2 of Theorem 3.1, by ascent over directions from the clusters and from random"
        " starts, for random signs. The proposition holds for any data and any width."
    ),
)
