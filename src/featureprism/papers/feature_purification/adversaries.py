"""Other adversaries: the ℓ∞ ball, weaker and stronger ones in training."""

import math
from itertools import pairwise
from typing import Any

from featureprism.attacks import ProjectedGradient, SmoothAdversary, along
from featureprism.data import DICTIONARIES, dictionary, dictionary_norms
from featureprism.geometry import LpBall
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.purification import (
    minus,
    of_stage,
    shape_row,
    theory_setting,
)
from featureprism.papers.feature_purification.setting import (
    PROBE_POINTS,
    accuracy,
    coding,
    fast_gradient,
    later_phase,
    probe_points,
    robustness,
    scales,
    test_set,
    train,
    trained,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory


def measure_linf(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Clean and ℓ∞-trained networks in the ℓ∞ ball, and what dictionaries do to it."""
    problem, test, seen = coding(setting, seed), test_set(setting, seed), probe_points(setting, seed)
    radius, before = setting["linf_radius"], trained(setting, seed, "clean")
    adversary = fast_gradient(setting, math.inf, radius)
    after = train(setting, before, [later_phase(setting, perturb=adversary)], seed, "linf").last
    progress(0.6)
    rows: list[Row] = []
    for stage, net in (("clean", before), ("adversarial", after)):
        facts = robustness(net, test, problem, setting, seed, radius, math.inf).row
        rows.append({"kind": "network", "stage": stage, **facts, **shape_row(net, seen, problem)})
    for kind in DICTIONARIES:
        M = dictionary(kind, setting["dim"], generator=generator_for("dictionary", seed))
        rows.append({"kind": "dictionary", "dictionary": kind, **dictionary_norms(M)._asdict()})
    premises = theory.linf_premises(theory_setting(setting), dictionary_norms(problem.M), radius)
    progress(1.0)
    return rows + [p.as_row() for p in premises]


def _claims_linf(rows: list[Row]) -> list[Claim]:
    return [
        judge(
            "l-infinity.clean-robust",
            "Theorem 5.4",
            "robust accuracy in the ℓ∞ ball after clean training",
            of_stage(rows, "clean", "worst"),
            "<=",
            0.3,
        ),
        judge(
            "l-infinity.adversarial-robust",
            "Theorem 5.4",
            "robust accuracy in the ℓ∞ ball after adversarial training with ℓ∞ FGM",
            of_stage(rows, "adversarial", "worst"),
            ">=",
            0.75,
        ),
        judge(
            "l-infinity.purity",
            "Theorem 5.4",
            "norm-weighted purity: after minus before",
            minus(of_stage(rows, "adversarial", "purity"), of_stage(rows, "clean", "purity")),
            ">",
            0.3,
        ),
    ]


def _adversaries(setting: Row, seed: int) -> dict[str, tuple[float, Any]]:
    """Names, radii and perturbation algorithms: FGM at four radii, PGD and SmoothAdv at the largest."""
    top = setting["radius"]
    found: dict[str, tuple[float, Any]] = {
        f"FGM {share:g}τ": (share * top, fast_gradient(setting, radius=share * top))
        for share in (0.25, 0.5, 0.75, 1.0)
    }
    noise = generator_for("smooth", seed)
    found["PGD τ"] = (top, ProjectedGradient(LpBall(2, top), steps=3))
    found["SmoothAdv τ"] = (top, SmoothAdversary(top, setting["smooth_sigma"], noise, samples=2, steps=2))
    return found


def measure_attackers(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Purity after adversarial training against each adversary, all from the same clean network."""
    problem, before = coding(setting, seed), trained(setting, seed, "clean")
    test = test_set({**setting, "test_points": PROBE_POINTS}, seed)
    rows: list[Row] = [
        {
            "kind": "adversary",
            "name": "none",
            "trained_radius": 0.0,
            **_purified(before, setting, problem, test),
        }
    ]
    smaller = {**setting, "batch": setting["attacker_batch"]}
    adversaries = _adversaries(setting, seed)
    for index, (name, (radius, adversary)) in enumerate(adversaries.items()):
        phase = later_phase(smaller, setting["attacker_steps"], perturb=adversary)
        net = train(smaller, before, [phase], seed, "attackers").last
        rows.append(
            {
                "kind": "adversary",
                "name": name,
                "trained_radius": radius,
                **_purified(net, setting, problem, test),
            }
        )
        progress((index + 1) / len(adversaries))
    return rows


def _purified(net: SymmetricNet, setting: Row, problem, test) -> Row:
    outcome = along(problem.dense_direction)(net, test.x, test.y, LpBall(2, setting["radius"]))
    return {
        **shape_row(net, test.x, problem),
        "universal": float((~outcome.flipped).double().mean()),
        "clean": accuracy(net, test.x, test.y),
    }


def _claims_attackers(rows: list[Row]) -> list[Claim]:
    def steps(seed: int) -> float:
        own = [
            r
            for r in rows_of(rows, "adversary", seed=seed)
            if r["name"] == "none" or r["name"].startswith("FGM")
        ]
        purity = [r["purity"] for r in sorted(own, key=lambda r: r["trained_radius"])]
        return min(b - a for a, b in pairwise(purity))

    def least(name: str) -> list[float]:
        return [r["purity"] for r in rows_of(rows, "adversary", name=name)]

    return [
        judge(
            "attackers.stronger",
            "Figure 13",
            "a stronger FGM adversary purifies more: least gain in purity from one radius to the next",
            [steps(seed) for seed in seeds_of(rows)],
            ">",
            0.0,
        ),
        judge("attackers.pgd", "Theorem 5.3(a)", "purity after PGD training", least("PGD τ"), ">=", 0.6),
        judge(
            "attackers.smooth",
            "Theorem 5.3(a)",
            "purity after SmoothAdv training",
            least("SmoothAdv τ"),
            ">=",
            0.6,
        ),
    ]


L_INFINITY = Experiment(
    id="feature-purification/l-infinity",
    source="Allen-Zhu & Li 2020, Theorem 5.4",
    title="The same in the ℓ∞ ball",
    scales=scales(linf_radius=0.015),
    measure=measure_linf,
    claims=_claims_linf,
    about=(
        "M = I, where an ℓ∞ ball meets single features; the norms of other dictionaries, which Theorem 5.4 limits, stand beside. It"
        " has a radius of τ/√d of the ℓ2 items, rounded up."
    ),
)
ATTACKERS = Experiment(
    id="feature-purification/attackers",
    source="Allen-Zhu & Li 2020, Figure 13",
    title="The stronger the adversary in training, the purer the features",
    scales=scales(attacker_steps=120, attacker_batch=200, smooth_sigma=0.01),
    measure=measure_attackers,
    claims=_claims_attackers,
    about="One clean network, trained on against FGM at four radii, PGD, and SmoothAdv-PGD with Gaussian input noise.",
)
