"""What fools these networks: the density of perturbations, transfer, and attacks that are blind."""

import torch
from torch import Tensor

from featureprism.attacks import transfer
from featureprism.geometry import LpBall
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.purification import minus
from featureprism.papers.feature_purification.setting import (
    accuracy,
    clean_phase,
    coding,
    fast_gradient,
    probe_points,
    robustness,
    scales,
    start,
    test_set,
    train,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of
from featureprism.seeds import generator_for

USUAL_GUARD = 1e-12  # what attack libraries put under a gradient's norm before they divide by it
COLLAPSED_SMOOTHING = 0.1  # σ_ρ/b: gradients of a dead network are near Φ(-10) = 10⁻²³
SHARES = torch.linspace(0, 1, 21, dtype=torch.float64)


def measure_density(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """PGD perturbations before and after adversarial training, written in the dictionary."""
    problem, test = coding(setting, seed), test_set(setting, seed)
    rows: list[Row] = []
    for stage in ("clean", "adversarial"):
        net = trained(setting, seed, stage)
        progress(0.4 if stage == "clean" else 0.9)
        delta = robustness(net, test, problem, setting, seed).delta
        spread = probes.participation(delta, problem.M) / setting["dim"]
        on_support = probes.mass_on_support(delta, test.z, problem.M)
        gap = probes.linearisation_gap(net, test.x.double(), delta)
        size = accuracy_scale(net, test.x.double())
        direction = -test.y.double().unsqueeze(1) * problem.dense_direction.double()
        rows.append(
            {
                "kind": "density",
                "stage": stage,
                "participation": float(spread.median()),
                "on_support": float(on_support.median()),
                "along_dense": float(torch.nn.functional.cosine_similarity(delta, direction).median()),
                "linearisation_gap": float(gap.median() / size),
            }
        )
        rows += [
            {"kind": "quantile", "stage": stage, "share": q, "participation": v}
            for q, v in zip(SHARES.tolist(), torch.quantile(spread, SHARES).tolist(), strict=True)
        ]
    return rows


@torch.no_grad()
def accuracy_scale(net: SymmetricNet, x: Tensor) -> float:
    """Median |f|, the unit of the linearisation gap."""
    return float(SymmetricNet(net.W.double(), net.bias, net.smoothing)(x).abs().median())


def _densities(rows: list[Row], stage: str, key: str) -> list[float]:
    return [r[key] for r in rows_of(rows, "density", stage=stage)]


def _claims_density(rows: list[Row]) -> list[Claim]:
    source = "Section 5.1, figure 7"
    return [
        judge(
            "perturbation-density.before",
            source,
            "perturbations of the clean network are dense: participation ratio ÷ d, median",
            _densities(rows, "clean", "participation"),
            ">=",
            0.8,
        ),
        judge(
            "perturbation-density.after",
            source,
            "after adversarial training they are sparse: participation ratio ÷ d, median",
            _densities(rows, "adversarial", "participation"),
            "<=",
            0.3,
        ),
        judge(
            "perturbation-density.support",
            source,
            "and sit on features that the point has: their share of ‖δ‖², after minus before",
            minus(_densities(rows, "adversarial", "on_support"), _densities(rows, "clean", "on_support")),
            ">",
            0.2,
        ),
        judge(
            "perturbation-density.linear",
            "Theorem 5.3(b)",
            "|f(x+δ) - f(x) - ⟨∇f, δ⟩| ÷ median |f| after adversarial training, median over points",
            _densities(rows, "adversarial", "linearisation_gap"),
            "<=",
            0.5,
            "O(1/ln d) in the paper",
        ),
    ]


def measure_transfer(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Perturbations of one clean network on another with its own start and data, and on the purified one."""
    problem, test = coding(setting, seed), test_set(setting, seed)
    x, y, ball = test.x.double(), test.y.double(), LpBall(2, setting["radius"])
    net, peer = trained(setting, seed, "clean"), trained(setting, seed, "clean", peer=1)
    progress(0.6)
    delta = robustness(net, test, problem, setting, seed).delta
    noise = ball.stretch(
        torch.randn(x.shape, generator=generator_for("direction", seed), dtype=torch.float64)
    )
    targets = {"itself": net, "another seed": peer, "purified": trained(setting, seed, "adversarial")}
    rows: list[Row] = []
    for target, other in targets.items():
        for source, moved in (("attack", delta), ("random", noise)):
            flipped = transfer(moved, other, x, y, ball).flipped
            rows.append(
                {
                    "kind": "transfer",
                    "target": target,
                    "source": source,
                    "accuracy": float((~flipped).double().mean()),
                    "clean": accuracy(other, test.x, test.y),
                }
            )
    progress(1.0)
    return rows


def _transfers(rows: list[Row], target: str, source: str) -> list[float]:
    return [r["accuracy"] for r in rows_of(rows, "transfer", target=target, source=source)]


def _claims_transfer(rows: list[Row]) -> list[Claim]:
    return [
        judge(
            "transfer.accuracy",
            "Section 6.2",
            "accuracy of another seed's clean network under these perturbations",
            _transfers(rows, "another seed", "attack"),
            "<=",
            0.35,
        ),
        judge(
            "transfer.random",
            "Section 6.2",
            "accuracy of the same network under random perturbations of the same norm",
            _transfers(rows, "another seed", "random"),
            ">=",
            0.98,
        ),
        judge(
            "transfer.purified",
            "Section 5.1",
            "accuracy of the purified network under the perturbations of the clean one",
            _transfers(rows, "purified", "attack"),
            ">=",
            0.9,
        ),
    ]


@torch.no_grad()
def guarded_pgd(net: SymmetricNet, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    """PGD from zero as libraries run it: the gradient is divided by max(‖g‖, 10⁻¹²), so that a tiny one moves nothing."""
    delta = torch.zeros_like(x)
    for _ in range(steps):
        gradient = y.unsqueeze(1) * net.input_gradient(x + delta)[1]
        size = torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp_min(USUAL_GUARD)
        delta = LpBall(2, eps).project(delta - 2.5 * eps / steps * gradient / size)
    return delta


def collapsed(setting: Row, seed: int) -> SymmetricNet:
    """Adversarial training from scratch at the full radius: every neuron dies."""
    quiet = {"smoothing": COLLAPSED_SMOOTHING, "perturb": fast_gradient(setting)}
    return train(
        setting,
        start(setting, seed),
        [clean_phase(setting, setting["steps"] // 2, **quiet)],
        seed,
        "collapse",
    ).last


def measure_masking(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The collapsed network under attacks that stop at tiny gradients and under those that do not."""
    problem, test = coding(setting, seed), test_set(setting, seed)
    net = collapsed(setting, seed)
    progress(0.7)
    x, y, radius = test.x.double(), test.y.double(), setting["radius"]
    double = SymmetricNet(net.W.double(), net.bias, net.smoothing)
    plain = guarded_pgd(double, x, y, radius, setting["attack_steps"])
    one_step, _ = fast_gradient(setting)(double, x, y)
    facts = robustness(net, test, problem, setting, seed).row
    gradient = torch.linalg.vector_norm(double.input_gradient(x)[1], dim=1)
    rows: list[Row] = [
        {
            "kind": "masking",
            **facts,
            "guarded_pgd": accuracy(double, x + plain, y),
            "guarded_fgm": accuracy(double, one_step, y),
            "log10_gradient": float(gradient.clamp_min(1e-300).log10().median()),
            "largest_over_bias": float((x @ double.W.detach().T).abs().max() / net.bias),
            "alive": int((probes.firing(net, probe_points(setting, seed)) > 0).sum()),
        }
    ]
    progress(1.0)
    return rows


def _claims_masking(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "masking")
    exponent = sum(r["log10_gradient"] for r in found) / max(1, len(found))
    return [
        judge(
            "gradient-masking.gap",
            "Section 4, Algorithm 2 from scratch",
            "PGD accuracy minus worst-case accuracy of the collapsed network",
            [r["guarded_pgd"] - r["worst"] for r in found],
            ">",
            0.2,
            f"gradients are near 10^{exponent:.0f}; PGD with the usual guard of 10⁻¹² under its division does not move",
        ),
        judge(
            "gradient-masking.fgm",
            "Section 4",
            "the same for FGM with the paper's rule for tiny gradients",
            [r["guarded_fgm"] - r["worst"] for r in found],
            ">",
            0.2,
        ),
        judge(
            "gradient-masking.dead",
            "Section 4",
            "neurons of the collapsed network that fire on a test point",
            [r["alive"] for r in found],
            "<=",
            0.0,
        ),
    ]


PERTURBATION_DENSITY = Experiment(
    id="feature-purification/perturbation-density",
    source="Allen-Zhu & Li 2020, Figure 7",
    title="Adversarial perturbations are dense before adversarial training and sparse after",
    scales=scales(),
    measure=measure_density,
    claims=_claims_density,
    about=(
        "Participation ratio (Σc²)²/Σc⁴ of the coefficients of PGD perturbations in the dictionary: d for a perturbation spread over"
        " all features, 1 for a single one."
    ),
)
TRANSFER = Experiment(
    id="feature-purification/transfer",
    source="Allen-Zhu & Li 2020, Section 6.2",
    title="Perturbations travel from one clean network to another",
    scales=scales(),
    measure=measure_transfer,
    claims=_claims_transfer,
    about="The dense direction does not depend on the start or the sample: what fools one clean network fools all of them.",
)
GRADIENT_MASKING = Experiment(
    id="feature-purification/gradient-masking",
    source="Allen-Zhu & Li 2020, Algorithm 2",
    title="A collapsed network that FGM and PGD call robust",
    scales=scales(test_points=150),
    measure=measure_masking,
    claims=_claims_masking,
    about=(
        "Adversarial training from scratch at the full radius kills all neurons. What is left has gradients too small for"
        " attacks that guard their division; directions are still there, and attacks that use them find the truth."
    ),
)
