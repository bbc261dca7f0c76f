"""What fools these networks: the density of perturbations, transfer, and attacks that are blind."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from featureprism.attacks import transfer
from featureprism.context import Context
from featureprism.data import SparseCoding
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_least, at_most, requires
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    BROKEN,
    PURE,
    PURIFIED,
    bench,
    premise_rows,
)
from featureprism.papers.feature_purification.orders import NEARLY_ALL
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Setting,
    accuracy,
    clean_phase,
    fast_gradient,
    robustness,
    scales,
    start,
    train,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.seeds import generator_for

USUAL_GUARD = 1e-12  # what attack libraries put under a gradient's norm before they divide by it
COLLAPSED_SMOOTHING = 0.1  # σ_ρ/b: gradients of a dead network are near Φ(-10) = 10⁻²³
SHARES = torch.linspace(0, 1, 21, dtype=torch.float64)


def measure_density(s: Setting, seed: int, context: Context) -> list[Row]:
    """PGD perturbations before and after adversarial training, written in the dictionary."""
    problem, test, _ = bench(s, seed)
    y = test.y.double()
    rows: list[Row] = []
    for stage in ("clean", "adversarial"):
        net = trained(s, seed, stage)
        context.progress(0.4 if stage == "clean" else 0.9)
        delta = robustness(net, test, problem, s, seed).delta
        spread = probes.participation(delta, problem.M) / s.dim
        on_support = probes.mass_on_support(delta, test.z, problem.M)
        direction = -y.unsqueeze(1) * problem.dense_direction.double()
        rows.append(
            {
                "kind": "density",
                "stage": stage,
                "participation": float(spread.median()),
                "on_support": float(on_support.median()),
                "along_dense": float(torch.nn.functional.cosine_similarity(delta, direction).median()),
            }
        )
        rows += [
            {"kind": "quantile", "stage": stage, "share": q, "participation": v}
            for q, v in zip(SHARES.tolist(), torch.quantile(spread, SHARES).tolist(), strict=True)
        ]
    return rows + premise_rows(s, problem, test)


def density(stage: str, key: str) -> Callable[[Rows], Values]:
    """The value of a claim: what was measured of the perturbations of a network."""
    return lambda rows: rows.of("density", stage=stage).per_seed(key)


def _over_support(rows: Rows) -> Values:
    """Features that a perturbation of the purified network is spread over ÷ those that a point has, E‖z‖₀ = large + small·k."""
    spread, d, k, large, small = (
        density("adversarial", key)(rows) for key in ("participation", "dim", "sparsity", "large", "small")
    )
    return spread * d / (large + small * k)


CLAIMS_DENSITY = (
    Claim(
        "before",
        "Section 5.1, Figure 7",
        "perturbations of the clean network are dense: participation ratio ÷ d, median; a Gaussian vector has 1/3",
        density("clean", "participation"),
        at_least(1 / 3),
        premises=requires(*BROKEN),
    ),
    Claim(
        "after",
        "Section 5.1, Figure 7",
        "after adversarial training they are sparse, as points are: median participation ratio ÷ E‖z‖₀",
        _over_support,
        at_most(2.0),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "support",
        "Section 5.1, Figure 7",
        "and sit on features that the point has: their share of ‖δ‖², after minus before",
        lambda rows: density("adversarial", "on_support")(rows) - density("clean", "on_support")(rows),
        above(0.2),
        premises=requires(*PURIFIED),
    ),
)


def measure_transfer(s: Setting, seed: int, context: Context) -> list[Row]:
    """Perturbations of one clean network on another with its own start and data, and on the purified one."""
    problem, test, _ = bench(s, seed)
    x, y, ball = test.x.double(), test.y.double(), LpBall(2, s.radius)
    net, peer = trained(s, seed, "clean"), trained(s, seed, "clean", peer=1)
    context.progress(0.6)
    noise = torch.randn(x.shape, generator=generator_for("direction", seed), dtype=torch.float64)
    moves = {
        "attack": robustness(net, test, problem, s, seed).delta,
        "random": ball.stretch(noise),
    }
    targets = {"itself": net, "another seed": peer, "purified": trained(s, seed, "adversarial")}
    rows: list[Row] = [
        {
            "kind": "transfer",
            "target": target,
            "source": source,
            "accuracy": float((~transfer(delta, other, x, y, ball).flipped).double().mean()),
            "clean": accuracy(other, test.x, test.y),
        }
        for target, other in targets.items()
        for source, delta in moves.items()
    ]
    return rows + premise_rows(s, problem, test)


def _left(target: str, moved: str) -> Callable[[Rows], Values]:
    """Accuracy of a network under perturbations ÷ without them."""
    own = {"target": target, "source": moved}
    return lambda rows: (
        rows.of("transfer", **own).per_seed("accuracy") / rows.of("transfer", **own).per_seed("clean")
    )


def _carried(rows: Rows) -> Values:
    """The loss of accuracy on another network ÷ that on the network the perturbations were made for."""
    return (1 - _left("another seed", "attack")(rows)) / (1 - _left("itself", "attack")(rows))


CLAIMS_TRANSFER = (
    Claim(
        "accuracy",
        "Section 6.2",
        "perturbations of one clean network carry over to another start and other data: loss of accuracy there ÷ at home",
        _carried,
        at_least(0.7),
        premises=requires(*BROKEN),
    ),
    Claim(
        "random",
        "control",
        "random perturbations of the same norm: accuracy with ÷ without them",
        _left("another seed", "random"),
        at_least(0.97),
        origin="featureprism",
    ),
    Claim(
        "purified",
        "Theorem 5.3(b)",
        "accuracy of the adversarially trained network under perturbations of the clean one is 1 - o(1)",
        lambda rows: rows.of("transfer", target="purified", source="attack").per_seed("accuracy"),
        at_least(NEARLY_ALL),
        note=lambda rows: f"{_left('purified', 'attack')(rows).mean():.2f} of its accuracy without them",
        premises=requires(*PURIFIED),
    ),
)


@torch.no_grad()
def guarded_pgd(net: SymmetricNet, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    """PGD from zero as libraries run it: the gradient is divided by max(‖g‖, 10⁻¹²), so that a tiny one moves nothing."""
    delta = torch.zeros_like(x)
    for _ in range(steps):
        gradient = y.unsqueeze(1) * net.input_gradient(x + delta)[1]
        size = torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp_min(USUAL_GUARD)
        delta = LpBall(2, eps).project(delta - 2.5 * eps / steps * gradient / size)
    return delta


def collapsed(s: Setting, seed: int) -> SymmetricNet:
    """Adversarial training from scratch at the full radius: every neuron dies."""
    phase = replace(
        clean_phase(s), steps=s.steps // 2, smoothing=COLLAPSED_SMOOTHING, perturb=fast_gradient(s)
    )
    return train(s, start(s, seed), [phase], seed, "collapse").last


def measure_masking(s: Setting, seed: int, context: Context) -> list[Row]:
    """The collapsed network under attacks that stop at tiny gradients and under those that do not."""
    (problem, test, many), net = bench(s, seed), collapsed(s, seed)
    context.progress(0.7)
    x, y = test.x.double(), test.y.double()
    double = net.with_weights(net.W.double())
    plain = guarded_pgd(double, x, y, s.radius, s.attack_steps)
    one_step, _ = fast_gradient(s)(double, x, y)
    gradient = torch.linalg.vector_norm(double.input_gradient(x)[1], dim=1)
    row: Row = {
        "kind": "masking",
        **robustness(net, test, problem, s, seed).row,
        "guarded_pgd": accuracy(double, x + plain, y),
        "guarded_fgm": accuracy(double, one_step, y),
        "log10_gradient": float(gradient.clamp_min(1e-300).log10().median()),
        "largest_over_bias": float((x @ double.W.detach().T).abs().max() / net.bias),
        "alive": int((probes.firing(net, many.x) > 0).sum()),
        "covered": _covered(net, many.x, problem),
    }
    return [row, *premise_rows(s, problem, many)]


def _covered(net: SymmetricNet, x: Tensor, problem: SparseCoding) -> float:
    """Share of the features that some neuron which fires holds alone."""
    W = net.W.detach()
    own = (probes.purity(W, problem.M) > PURE) & (probes.firing(net, x) > 0)
    return len((W[own] @ problem.M).abs().argmax(dim=1).unique()) / problem.M.shape[1]


def _gradient_note(rows: Rows) -> str:
    exponent = rows.of("masking").column("log10_gradient").mean()
    return f"gradients are near 10^{exponent:.0f}; PGD with the usual guard of 10⁻¹² under its division does not move"


def _masked(name: str, attack: str, text: str, note: str | Callable[[Rows], str] = "") -> Claim:
    """What an attack calls robust and is not."""
    return Claim(
        name,
        "Algorithm 2 from scratch",
        f"accuracy under {text} minus worst-case accuracy of the collapsed network",
        lambda rows: rows.of("masking").per_seed(attack) - rows.of("masking").per_seed("worst"),
        above(0.2),
        origin="featureprism",
        note=note,
    )


CLAIMS_MASKING = (
    Claim(
        "from-scratch",
        "Section 4, Figure 9",
        "adversarial training from a random start learns features without mixtures: share of features that a neuron holds alone",
        lambda rows: rows.of("masking").per_seed("covered"),
        at_least(0.5),
        note="the adversary at full radius from the first step; after a clean lottery it works: figure-9.after-lottery",
        premises=requires(*PURIFIED),
    ),
    _masked("gap", "guarded_pgd", "PGD", _gradient_note),
    _masked("fgm", "guarded_fgm", "FGM with the paper's rule for tiny gradients"),
    Claim(
        "dead",
        "Algorithm 2 from scratch",
        "neurons of the collapsed network that fire on a test point",
        lambda rows: rows.of("masking").per_seed("alive"),
        at_most(0.0),
        origin="featureprism",
    ),
)

PERTURBATION_DENSITY = Experiment(
    id="feature-purification/perturbation-density",
    source="Allen-Zhu & Li 2020, Figure 7",
    title="Adversarial perturbations are dense before adversarial training and sparse after",
    scales=scales(Setting),
    measure=measure_density,
    claims=CLAIMS_DENSITY,
    family=FAMILY,
    about=(
        "Participation ratio (Σc²)²/Σc⁴ of the coefficients of PGD perturbations in the dictionary: d for a perturbation spread over"
        " all features, 1 for a single one."
    ),
)
TRANSFER = Experiment(
    id="feature-purification/transfer",
    source="Allen-Zhu & Li 2020, Section 6.2",
    title="Perturbations travel from one clean network to another",
    scales=scales(Setting),
    measure=measure_transfer,
    claims=CLAIMS_TRANSFER,
    family=FAMILY,
    about="The dense direction does not depend on the start or the sample: what fools one clean network fools all of them.",
)
GRADIENT_MASKING = Experiment(
    id="feature-purification/gradient-masking",
    source="Allen-Zhu & Li 2020, Algorithm 2",
    title="A collapsed network that FGM and PGD call robust",
    scales=scales(Setting, test_points=150),
    measure=measure_masking,
    claims=CLAIMS_MASKING,
    family=FAMILY,
    about=(
        "Adversarial training from scratch at the full radius kills all neurons. What is left has gradients too small for"
        " attacks that guard their division; directions are still there, and attacks that use them find the truth."
    ),
)
