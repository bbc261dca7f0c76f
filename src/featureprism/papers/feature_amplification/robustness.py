"""How robust amplified features are: beyond the paper."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

from featureprism.lab import Claim, Experiment, Rows, at_least
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import C, NoisyXor, clean_error, problem, trained
from featureprism.probes import self_test
from featureprism.progress import part
from featureprism.verify import Budget, robust_radius

BEST = 1 / sqrt(2)  # the distance of a centre from the boundary of f*
NOISE = 0.1  # share of flipped labels


@dataclass(frozen=True, kw_only=True)
class Bracketed(NoisyXor):
    """How many test points get a bracket of their radius, and the branches that each may cost."""

    radius_points: int
    max_branches: int


def measure(s: Bracketed, seed: int, context: Context) -> list[Row]:
    """Bracketed radii of clean test points after T = 1 + 1/(4α) steps and after long training."""
    data = problem(s, seed)
    run = trained(s, data.train, seed, (s.theorem_steps, s.steps), part(context.progress, 0, 0.4))
    x, y = data.test.data.x[: s.radius_points], data.test.clean[: s.radius_points]
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        share = part(context.progress, 0.4 + 0.3 * len(rows), 0.7 + 0.3 * len(rows))
        bracket = robust_radius(
            net, x, y, gap=0.02, budget=Budget(branches=s.max_branches), max_radius=3.0, progress=share
        )
        rows.append(
            {
                "kind": "radius",
                "time": time,
                "stage": "theorem" if time == s.theorem_steps else "long",
                "half_radius": bracket.half_radius[1],
                "certified_half_radius": bracket.half_radius[0],
                "clean_error": clean_error(net, data.test),
                "zero_gradient_share": bracket.zero_gradient_share,
                "blind_share": bracket.blind_share,
                "self_test_passed": self_test().passed,
            }
        )
    return rows


def _long_note(rows: Rows) -> str:
    theorem, long = (rows.of("radius", stage=stage).per_seed("half_radius") for stage in ("theorem", "long"))
    return (
        f"attacked: {(theorem / BEST).mean():.2f} of 1/√2; after long training {(long / theorem).mean():.2f} times that,"
        f" {(long / theorem).min():.2f} to {(long / theorem).max():.2f} over seeds"
    )


CLAIMS = (
    Claim(
        "proven",
        source="beyond the paper",
        says="After the theorem's few steps, half of the test points are provably robust up to more than half of the largest radius"
        " that any classifier can have at a centre.",
        quantity="proven radius at which half of the test points still hold ÷ 1/√2",
        bound=at_least(0.5),
        because="1/√2 is the distance of a centre from the boundary between the clusters",
        value=lambda rows: rows.of("radius", stage="theorem").per_seed("certified_half_radius") / BEST,
        origin="featureprism",
        note=_long_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Proven to attacked 50 % radius after the theorem's steps and after long training."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=4.6, height=2.4)
    names = {"theorem": "after 1 + 1/(4α) steps", "long": "after long training"}
    for height, (stage, text) in enumerate(names.items()):
        radii = rows.of("radius", stage=stage)
        low, high = (radii.column(end).mean() for end in ("certified_half_radius", "half_radius"))
        axes.plot([low, high], [height, height], color=COLOURS[height], linewidth=6)
        axes.plot(high, height, "|", color="black", markersize=12)
        axes.text(-0.01, height, text, ha="right", va="center", fontsize=8)
    guide(axes, BEST, "1/√2 (f*)")
    axes.set(xlabel="50 % radius: proven to attacked", xlim=(0, 0.85), yticks=[])
    axes.set_ylim(1.6, -0.6)
    return figure


_SIZES = {  # dim, points, width, steps, points with a bracket and branches for each
    "quick": (50, 800, 40, 1000, 20, 20),
    "standard": (200, 1000, 80, 2000, 60, 60),
    "paper": (200, 2000, 100, 3000, 120, 120),
}


def _settings(dim: int, points: int, width: int, steps: int, num: int, branches: int) -> list[Bracketed]:
    sizes = {"dim": dim, "points": points, "width": width, "steps": steps, "noise_rate": NOISE}
    return [Bracketed.on_edge(C, radius_points=num, max_branches=branches, **sizes)]


ROBUSTNESS = Experiment(
    id="feature-amplification/robustness",
    source="beyond the paper",
    title="How robust amplified features are",
    scales={scale: _settings(*sizes) for scale, sizes in _SIZES.items()},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Radii of test points under their clean labels, bracketed: after the steps of Theorem 3.1 and after long training.",
)
