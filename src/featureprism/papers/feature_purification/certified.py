"""Theorem 5.3(b) speaks of all perturbations: robust accuracy proven, not only attacked."""

from dataclasses import dataclass, replace

from torch import Tensor

from featureprism.context import Context
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, above, at_least, at_most, requires
from featureprism.networks import TwoLayerNet
from featureprism.networks.symmetric import reachable, unsmoothed
from featureprism.papers.feature_purification.orders import NEARLY_ALL
from featureprism.papers.feature_purification.regime import (
    FAMILY,
    GAINED,
    PURIFIED,
    Regime,
    accuracy,
    attacked,
    coding,
    in_double,
    premise_rows,
    pure,
    trained,
    unseen,
)
from featureprism.records import Row
from featureprism.verify import Budget, robust_radius

STAGES = ("clean", "adversarial", "pure")


@dataclass(frozen=True, kw_only=True)
class Certified(Regime):
    """How many points are proven, and with how many cells each."""

    points: int = 160
    max_cells: int = 24


def measure(s: Certified, seed: int, context: Context) -> list[Row]:
    """Accuracy at σ_ρ = 0 without attack and attacked at τ, of all networks; the robust one proven."""
    problem, test = coding(s, seed), unseen(s, seed, s.points)
    x, y = test.x.double(), test.y.double()
    rows: list[Row] = []
    for stage in STAGES:
        net = in_double(pure(s, problem) if stage == "pure" else trained(s, seed, stage))
        plain = in_double(net, 0.0)
        delta = attacked(plain, x, y, problem.dense_direction, LpBall(2, s.radius), s.attack_steps)
        same = float(((net(x) > 0) == (plain(x) > 0)).double().mean())
        shares = {"clean": accuracy(plain, x, y), "attacked": accuracy(plain, x + delta, y)}
        row: Row = {"kind": "network", "stage": stage, "same_sign": same, **shares}
        if stage == "adversarial":
            within = unsmoothed(reachable(plain, x, LpBall(2, s.radius)))
            row["certified"] = _certified_share(within, x, y, s)
        rows.append(row)
        context.progress(len(rows) / len(STAGES))
    return rows + premise_rows(s, seed)


def _certified_share(net: TwoLayerNet, x: Tensor, y: Tensor, s: Certified) -> float:
    """Share of the points that are proven to keep their label within τ."""
    budget = Budget(branches=s.max_cells)
    return float((robust_radius(net, x, y, eps=s.radius, budget=budget).certified >= s.radius).mean())


def _of(stage: str, key: str):
    return lambda rows: rows.of("network", stage=stage).per_seed(key)


CLAIMS = (
    Claim(
        "all",
        "Theorem 5.3(b)",
        "1 - o(1) of the points withstand every perturbation of size τ after adversarial training: share proven",
        _of("adversarial", "certified"),
        at_least(NEARLY_ALL),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "half",
        "finding",
        "share of the points proven to withstand every perturbation of size τ, after adversarial training",
        _of("adversarial", "certified"),
        at_least(0.5),
        origin="featureprism",
        note=lambda rows: f"the pure network is attacked down to {_of('pure', 'attacked')(rows).mean():.2f}",
        premises=requires(*PURIFIED),
    ),
    Claim(
        "closed",
        "finding",
        "share of the points that are neither proven nor flipped at τ, after adversarial training",
        lambda rows: _of("adversarial", "attacked")(rows) - _of("adversarial", "certified")(rows),
        at_most(0.1),
        origin="featureprism",
    ),
    Claim(
        "gain",
        "Theorems 5.1(c) and 5.3(b)",
        "proven after adversarial training minus attacked after clean training: a gain that no better attack can undo",
        lambda rows: _of("adversarial", "certified")(rows) - _of("clean", "attacked")(rows),
        above(0.0),
        premises=requires(*GAINED),
    ),
)

QUICK = Certified()
CERTIFIED = Experiment(
    id="feature-purification/certified",
    source="Allen-Zhu & Li 2020, Theorem 5.3(b)",
    title="Robustness at τ proven: no perturbation flips what adversarial training made robust",
    scales={
        "quick": [QUICK],
        "standard": [replace(QUICK, points=300, max_cells=64)],
        "paper": [replace(QUICK, dim=200, sparsity=7, width=600, points=300, max_cells=64)],
    },
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "The networks of the regime at σ_ρ = 0 are sums of shifted ReLUs. Each point that the strongest attack leaves standing is given"
        " to CROWN and to branch and bound at the radius τ of training; every proof has passed the checker."
    ),
)
