"""Theorem 5.3(b) speaks of all perturbations: robust accuracy proven, not only attacked."""

from dataclasses import dataclass
from typing import Any

from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks.symmetric import reachable, unsmoothed
from featureprism.papers.feature_purification.measures import (
    GAINED,
    NEARLY_ALL,
    O_NEARLY,
    PURIFIED,
    bench,
    ceiling,
    ceiling_row,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    attacked,
    certified_share,
    in_double,
    scales,
    trained,
)


@dataclass(frozen=True, kw_only=True)
class CertifiedSetting(Battery):
    """With how many branches each point is proven."""

    max_cells: int = 24


def measure(s: CertifiedSetting, seed: int, context: Context) -> list[Row]:
    """Accuracy at σ_ρ = 0 without attack and attacked at τ, of both networks; the robust one proven."""
    on, ball = bench(s, seed), LpBall(2, s.radius)
    x, y, direction = on.test.x.double(), on.test.y.double(), on.problem.dense_direction
    rows: list[Row] = []
    for stage in ("clean", "adversarial"):
        plain = in_double(trained(s, seed, stage), 0.0)
        found = attacked(plain, x, y, direction, ball, s.attack_steps, seed)
        row: Row = {"kind": "network", "stage": stage}
        row |= {"clean": found.row["clean"], "attacked": found.row["worst"]}
        if stage == "adversarial":
            within = unsmoothed(reachable(plain, x, ball))
            row["certified"] = certified_share(within, x, y, s.radius, s.max_cells)
        rows.append(row)
        context.progress(0.5 * len(rows))
    return [*rows, ceiling_row(on, s, seed), *premise_rows(s, on)]


def _of(stage: str, key: str):
    def value(rows: Rows) -> Values:
        return rows.of("network", stage=stage).per_seed(key)

    return value


CLAIMS = (
    Claim(
        "all",
        source="Theorem 5.3(b)",
        says="After adversarial training nearly every point is proven to withstand every perturbation of length τ.",
        quantity="share of test points proven robust at τ after adversarial training",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=_of("adversarial", "certified"),
        ceiling=ceiling("worst"),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "closed",
        source="Theorem 5.3(b)",
        says="Attack and proof agree on nearly every point: robustness at τ is decided, not estimated.",
        quantity="share of test points that are neither proven nor flipped at τ, after adversarial training",
        bound=at_most(0.05),
        because="one point in twenty may need more branches than allowed",
        value=lambda rows: _of("adversarial", "attacked")(rows) - _of("adversarial", "certified")(rows),
        origin="featureprism",
    ),
    Claim(
        "gain",
        source="Theorems 5.1(c) and 5.3(b)",
        says="Adversarial training makes a network more robust by a margin that no better attack can undo.",
        quantity="accuracy proven after adversarial training minus accuracy attacked after clean training",
        bound=above(0.0),
        because="any gain at all, between a proven and an attacked number",
        value=lambda rows: _of("adversarial", "certified")(rows) - _of("clean", "attacked")(rows),
        premises=requires(*GAINED),
    ),
)


def draw(rows: Rows) -> Any:
    """Accuracy without attack, attacked and proven at τ."""
    from featureprism.papers.feature_purification.drawing import stage_bars

    keys = {"without attack": "clean", "attacked at τ": "attacked", "proven at τ": "certified"}
    return stage_bars(rows, ("clean", "adversarial"), keys, "accuracy")


CERTIFIED = Experiment(
    id="feature-purification/certified",
    source="Allen-Zhu & Li 2020, Theorem 5.3(b)",
    title="How much of the robustness at τ can be proven",
    scales=scales(CertifiedSetting, test_points=160),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "The networks of the main battery at σ_ρ = 0 are sums of shifted ReLUs. Each point that the strongest attack"
        " leaves standing is given"
        " to CROWN and to branch and bound at the radius τ of training; every proof has passed the checker."
    ),
)
