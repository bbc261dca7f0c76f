"""The main battery: clean training leaves a network that breaks, adversarial training purifies it."""

import torch
from torch import Tensor

from featureprism.networks import LinearClassifier, SymmetricNet
from featureprism.papers.feature_purification.setting import (
    STANDARD,
    clean_phase,
    coding,
    probe_points,
    pure_start,
    robustness,
    scales,
    start,
    test_set,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of
from featureprism.theory import feature_purification as theory

STAGES = ("clean", "control", "adversarial")
RADII = (0.1, 0.2, 0.3)
CURVE_POINTS = 80  # of the test set, for accuracy against the radius
PURE = 0.7  # a neuron with more of its norm on one feature counts as that feature
RANKS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400)


def theory_setting(setting: Row) -> theory.Setting:
    """The setting as the theory wants it; times are sums of step sizes."""
    phase, bias, time = clean_phase(setting), start(setting, 0).bias, 0.0
    for _ in range(setting["steps"]):
        rate = phase.step_at(bias)
        time, bias = time + rate, min(phase.bias_cap, bias + rate * phase.bias_growth)
    return theory.Setting(
        setting["dim"],
        setting["sparsity"],
        setting["width"],
        setting["noise"],
        setting["penalty"] / setting["dim"],
        setting["radius"],
        time,
        setting["adversarial_steps"] * setting["step_size"],
    )


def shape_row(net: SymmetricNet, x: Tensor, problem) -> Row:
    """What the neurons look like."""
    W = net.W.detach()
    parts = probes.mixture(W, problem)
    fires = probes.firing(net, x)
    pure = (probes.purity(W, problem.M) > PURE) & (fires > 0)
    features = (W @ problem.M).abs().argmax(dim=1)[pure]
    return {
        "purity": probes.weighted_purity(W, problem.M),
        "mixture": parts.relative_mass,
        "alive": int((fires > 0).sum()),
        "pure_neurons": int(pure.sum()),
        "features_covered": len(features.unique()),
        "firing": float(fires.mean()),
    }


def profile_rows(net: SymmetricNet, x: Tensor, problem) -> list[Row]:
    """Sorted |⟨w_i, M_j⟩| over the largest, median over alive neurons: how fast the coefficients of a neuron fall off."""
    W = net.W.detach()[probes.firing(net, x) > 0]
    A = (W @ problem.M).abs().sort(dim=1, descending=True).values
    typical = (A / A[:, :1]).median(dim=0).values if len(A) else torch.zeros(problem.M.shape[1])
    return [{"kind": "profile", "rank": r, "size": float(typical[r - 1])} for r in RANKS if r <= len(typical)]


def measure_purification(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Accuracies, purity and movement of the networks of the three stages, between the floor and the ceiling."""
    problem, test, seen = coding(setting, seed), test_set(setting, seed), probe_points(setting, seed)
    nets = {stage: trained(setting, seed, stage) for stage in STAGES}
    progress(0.5)
    rows: list[Row] = []
    for stage, net in nets.items():
        facts = robustness(net, test, problem, setting, seed).row
        rows.append({"kind": "network", "stage": stage, **facts, **shape_row(net, seen, problem)})
        rows += [{**r, "stage": stage} for r in profile_rows(net, seen, problem)]
    rows.append(_movement(nets, start(setting, seed).W.detach(), seen))
    progress(0.7)
    few = test._replace(x=test.x[:CURVE_POINTS], y=test.y[:CURVE_POINTS], z=test.z[:CURVE_POINTS])
    for name, net in {**nets, "pure": pure_start(setting, seed)}.items():
        for radius in RADII:
            worst = robustness(net, few, problem, setting, seed, radius).row["worst"]
            rows.append({"kind": "curve", "stage": name, "radius": radius, "worst": worst})
    linear = LinearClassifier(problem.dense_direction.double()).exact_radius(test.x.double(), test.y.double())
    for radius in RADII:
        rows += [
            {
                "kind": "curve",
                "stage": "linear",
                "radius": radius,
                "worst": float((linear > radius).double().mean()),
            }
        ]
    floor = theory.linear_robust_accuracy(test.z @ problem.w, problem.w, setting["noise"], setting["radius"])
    rows.append(
        {"kind": "floor", "predicted": floor, "measured": float((linear > setting["radius"]).double().mean())}
    )
    return rows + premise_rows(setting, problem, test)


def premise_rows(setting: Row, problem, test) -> list[Row]:
    """The conditions of Assumption 2.1 and Theorems 5.1 and 5.3 beside the setting."""
    s = theory_setting(setting)
    premises = theory.hidden_vector_premises(problem.hidden, test.z) + theory.sparsity_premises(s)
    premises += theory.clean_premises(s) + theory.adversarial_premises(s)
    return [p.as_row() for p in premises]


def _movement(nets: dict[str, SymmetricNet], W0: Tensor, x: Tensor) -> Row:
    """Cosines from stage to stage over alive neurons, ratios of Theorem 5.1(a), drift of Theorem 5.3(c)."""
    clean, adversarial = nets["clean"].W.detach(), nets["adversarial"].W.detach()
    alive = (probes.firing(nets["clean"], x) > 0) & (probes.firing(nets["adversarial"], x) > 0)
    kept = probes.same_direction(clean, adversarial)
    turned = probes.turning(clean, W0)
    return {
        "kind": "movement",
        "alive": int(alive.sum()),
        "start_to_clean": float(probes.same_direction(W0, clean)[alive].median()),
        "start_to_adversarial": float(probes.same_direction(W0, adversarial)[alive].median()),
        "start_to_clean_weighted": probes.weighted_mean(probes.same_direction(W0, clean), clean),
        "clean_to_adversarial": float(kept[alive].median()),
        "clean_to_adversarial_weighted": probes.weighted_mean(kept, clean),
        "pairs_clean": float(probes.pairwise(clean[alive]).median()),
        "pairs_adversarial": float(probes.pairwise(adversarial[alive]).median()),
        "kept_from_start": turned.from_start,
        "together": turned.together,
        "together_adversarial": probes.turning(adversarial, W0).together,
        "drift": probes.drift(adversarial, clean),
        "drift_control": probes.drift(nets["control"].W.detach(), clean),
    }


def of_stage(rows: list[Row], stage: str, key: str) -> list[float]:
    """One value per seed of the network of a stage."""
    return [r[key] for r in rows_of(rows, "network", stage=stage)]


def minus(first: list[float], second: list[float]) -> list[float]:
    """Differences, seed by seed."""
    return [a - b for a, b in zip(first, second, strict=True)]


def over(first: list[float], second: list[float]) -> list[float]:
    """Ratios, seed by seed."""
    return [a / b for a, b in zip(first, second, strict=True)]


def _movements(rows: list[Row], key: str) -> list[float]:
    return [r[key] for r in rows_of(rows, "movement")]


def _claims_purification(rows: list[Row]) -> list[Claim]:
    item, stage = "purification", of_stage
    wide = any(r.get("adversarial_steps", 0) >= STANDARD["adversarial_steps"] for r in rows)
    both = [
        min(pair)
        for pair in zip(stage(rows, "clean", "clean"), stage(rows, "adversarial", "clean"), strict=True)
    ]
    ratio = over(stage(rows, "clean", "mixture"), stage(rows, "adversarial", "mixture"))
    drift = (
        f"o(1) does not show at this size; {average(_movements(rows, 'drift_control')):.2g} for the control"
    )
    purified = average(_movements(rows, "together_adversarial"))
    lines = [
        (
            "clean-accuracy",
            "Theorem 5.1(b)",
            "accuracy without attack, the lower of both networks",
            both,
            ">=",
            0.98,
            "",
        ),
        (
            "clean-robust",
            "Theorem 5.1(c)",
            "robust accuracy at τ after clean training",
            stage(rows, "clean", "worst"),
            "<=",
            0.3,
            "",
        ),
        (
            "control-robust",
            "Section 6.2",
            "robust accuracy at τ after as many extra clean steps",
            stage(rows, "control", "worst"),
            "<=",
            0.3,
            "",
        ),
        (
            "adversarial-robust",
            "Theorem 5.3(b)",
            "robust accuracy at τ after adversarial training with FGM",
            stage(rows, "adversarial", "worst"),
            ">=",
            0.85 if wide else 0.75,
            "",
        ),
        (
            "purity-before",
            "Theorem 5.2",
            "largest share of one feature in a neuron, weighted by norm: clean training",
            stage(rows, "clean", "purity"),
            "<=",
            0.3,
            "",
        ),
        (
            "purity-after",
            "Theorem 5.3",
            "largest share of one feature in a neuron, weighted by norm: adversarial training",
            stage(rows, "adversarial", "purity"),
            ">=",
            0.65,
            "",
        ),
        (
            "mixture-ratio",
            "Theorem 5.2",
            "relative mass of the dense mixtures Σβ/Σα, before ÷ after adversarial training",
            ratio,
            ">=",
            4.0,
            "N_i is the largest feature of a neuron",
        ),
        (
            "same-feature",
            "Section 1",
            "cosine of a neuron before and after adversarial training, median over alive neurons",
            _movements(rows, "clean_to_adversarial"),
            ">=",
            0.75,
            "alive: fires on a test point before and after",
        ),
        (
            "far-from-start",
            "Theorem 5.1(a)",
            "Σ⟨w_i, w_i⁰⟩²/Σ‖w_i‖²‖w_i⁰‖² after clean training",
            _movements(rows, "kept_from_start"),
            "<=",
            0.1,
            "",
        ),
        (
            "together",
            "Theorem 5.1(a)",
            "Σ_ij⟨w_i, w_j⟩²/(Σ‖w_i‖²)² after clean training is not small",
            _movements(rows, "together"),
            ">=",
            0.1,
            f"o(1) does not show at this size, few dense neurons carry most of the norm; {purified:.2g} after adversarial training",
        ),
        (
            "floor",
            "Section 3",
            "robust accuracy of the linear classifier: measured minus predicted from the hidden vectors",
            [abs(r["measured"] - r["predicted"]) for r in rows_of(rows, "floor")],
            "<=",
            0.05,
            "",
        ),
        (
            "drift",
            "Theorem 5.3(c)",
            "Σ‖w_i - w_i'‖²/Σ‖w_i‖² under adversarial training is not small",
            _movements(rows, "drift"),
            ">=",
            0.1,
            drift,
        ),
    ]
    return [judge(f"{item}.{name}", *rest) for name, *rest in lines]


def average(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


PURIFICATION = Experiment(
    id="feature-purification/purification",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3",
    title="Clean training leaves dense mixtures that break, adversarial training removes them",
    scales=scales(),
    measure=measure_purification,
    claims=_claims_purification,
    about=(
        "A network of smoothed neurons on sparse coding data, trained clean, then adversarially, with a control of as many extra clean"
        " steps. Robust accuracy is the minimum over the universal direction, FGM and multi-start PGD. Hidden vectors near a tie are"
        " drawn again; the item strict does without that."
    ),
)
