"""What the usual attacks claim about two networks, and what is true: a proven bracket beside every tool's answer."""

from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from featureprism._progress import part
from featureprism.attacks import pgd, structured_starts
from featureprism.brackets import RadiusBracket, lower_median
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.models import read_model
from featureprism.networks import PolynomialReLU
from featureprism.papers.beyond.networks import Trained, averaging_network, mixture_network
from featureprism.papers.beyond.peers import Answer, AttackTask, answers
from featureprism.probes.self_test import self_test
from featureprism.verify import Budget, robust_radius
from featureprism.verify.bounds import crown_radius

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVERSHOOT = 1.05  # the radius of the attack in units of the largest attacked radius: no point is robust there
SOURCE = "beyond the papers"
WITHOUT_FOOLBOX = "not measured where foolbox is not installed"


@dataclass(frozen=True, kw_only=True)
class AveragingNetwork:
    """The two-class network of feature-averaging."""

    network: str = "feature averaging"
    dim: int
    test_points: int
    max_branches: int

    def trained(self, seed: int) -> Trained:
        """The network of a seed."""
        return averaging_network(self.dim, self.test_points, seed)


@dataclass(frozen=True, kw_only=True)
class PReLUNetwork(AveragingNetwork):
    """The pReLU network of gmm-flow, Figure 2."""

    network: str = "pReLU"
    per_cluster: int

    def trained(self, seed: int) -> Trained:
        """The network of a seed."""
        activation = PolynomialReLU(3.0)
        return mixture_network(activation, 1e-3, 0.5, self.dim, self.per_cluster, self.test_points, seed)


def measure(s: AveragingNetwork | PReLUNetwork, seed: int, context: Context) -> list[Row]:
    """Bracket the network, run every tool, and put their answers beside the truth."""
    net, clusters, test = s.trained(seed)
    context.progress(0.2)
    x, y = test.x, test.y
    bracket = robust_radius(
        net,
        x,
        y,
        starts=structured_starts(net, clusters.mu, clusters.labels),
        budget=Budget(branches=s.max_branches),
        progress=part(context.progress, 0.2, 0.5),
    )
    form = read_model(net).one_layer
    assert form is not None
    crown = crown_radius(
        form, x @ form.W.T + form.b, y.unsqueeze(1) * form.weight, 2, torch.from_numpy(bracket.attacked)
    )
    eps = OVERSHOOT * float(bracket.attacked.max())
    plain = pgd(net, x, y, LpBall(2, eps), steps=50)
    radius = torch.where(plain.flipped, plain.delta.norm(dim=1), torch.full_like(y, inf))
    all_answers = [Answer("PGD without starts", "50 steps", radius), *answers(AttackTask(net, x, y, eps))]
    context.progress(1.0)
    return [
        _truth(bracket, crown, eps),
        *(claimed(answer, torch.from_numpy(bracket.attacked), eps) for answer in all_answers),
    ]


def _truth(bracket: RadiusBracket, crown: torch.Tensor, eps: float) -> Row:
    """The bracket of the median radius, and CROWN's proof beside ours."""
    return {
        "kind": "truth",
        "certified_half_radius": bracket.half_radius[0],
        "attacked_half_radius": bracket.half_radius[1],
        "attacked_accuracy": float((bracket.attacked > eps).mean()),
        "median_gap": lower_median(bracket.gap),
        "crown_half_radius": float(crown.median()),
        "attack_radius": eps,
        "zero_gradient_share": bracket.zero_gradient_share,
        "blind_share": bracket.blind_share,
        "self_test_passed": self_test().passed,
    }


def claimed(answer: Answer, attacked: torch.Tensor, eps: float) -> Row:
    """A tool's claim as a row: its robust accuracy at eps (the truth is 0), its median radius, and how far ours is from it."""
    return {
        "kind": "claimed",
        "tool": answer.tool,
        "mode": answer.mode,
        "claimed_accuracy": nan
        if answer.error
        else float((answer.radius > eps * (1 + 1e-6)).double().mean()),
        "half_radius": float(answer.radius.median()),
        "ours_over_theirs": float((attacked / answer.radius).max()),
        "error": answer.error,
    }


def _working(rows: Rows, **fields: str) -> Rows:
    """What tools claim in the modes that can work: two logits, a wide box."""
    modes = ("defaults", "tuned", "50 steps")
    return rows.of("claimed", **fields).where(lambda row: row["mode"] in modes)


def _claimed_by_pgd(rows: Rows, mode: str) -> Values:
    """The robust accuracy of the pReLU network that foolbox's PGD claims in a mode."""
    chosen = _working(rows, network="pReLU", mode=mode).where(lambda row: "PGD" in row["tool"])
    return chosen.per_seed(lambda run: float(np.median(run.column("claimed_accuracy"))))


def _over_crown(run: Rows) -> float:
    return (run.column("certified_half_radius") / run.column("crown_half_radius")).min()


CLAIMS = (
    Claim(
        "prelu-pgd",
        source=SOURCE,
        says="A standard PGD attack calls a pReLU network robust at a radius where every test point can be flipped.",
        quantity="share of test points that foolbox's L2PGD with its defaults leaves unflipped; the true share is 0",
        bound=above(0.5),
        because="an attack that misses most of the points is wrong about the network, whatever its number",
        value=lambda rows: _claimed_by_pgd(rows, "defaults"),
        origin="featureprism",
        headline=True,
        note=WITHOUT_FOOLBOX,
    ),
    Claim(
        "prelu-pgd-tuned",
        source=SOURCE,
        says="PGD with 200 steps and ten restarts still calls a pReLU network robust where every test point can be flipped.",
        quantity="share of test points that foolbox's tuned L2PGD leaves unflipped; the true share is 0",
        bound=above(0.5),
        because="an attack that misses most of the points is wrong about the network, whatever its number",
        value=lambda rows: _claimed_by_pgd(rows, "tuned"),
        origin="featureprism",
        note=WITHOUT_FOOLBOX,
    ),
    Claim(
        "ours",
        source=SOURCE,
        says="No tool finds a shorter perturbation than featureprism's attack on any test point.",
        quantity="featureprism's attacked radius divided by the tool's, largest over points, tools and networks",
        bound=at_most(1 + 1e-4),
        because="1, with the relative accuracy to which an attack is polished",
        value=lambda rows: _working(rows).largest("ours_over_theirs"),
        origin="featureprism",
        aggregate="worst",
    ),
    Claim(
        "crown",
        source=SOURCE,
        says="Branch and bound certifies a larger radius than the linear relaxation CROWN.",
        quantity="median certified radius divided by CROWN's, smaller of the two networks",
        bound=above(1.0),
        because="above 1 branch and bound proves more",
        value=lambda rows: rows.of("truth").per_seed(_over_crown),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Claimed robust accuracy of every tool where the truth is 0, one panel for each network; means over seeds."""
    from featureprism.lab.style import panels

    networks = rows.groups("network")
    figure, axes = panels(len(networks), width=5.0, height=4.2)
    for panel, (network, cells) in zip(axes, networks.items(), strict=True):
        answers = cells.of("claimed").groups("tool", "mode")
        for position, answer in enumerate(answers.values()):
            _draw_answer(panel, position, answer)
        names = [f"{tool}, {mode}" for tool, mode in answers]
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.set_ylim(len(names) - 0.4, -0.6)
        truth = cells.of("truth")
        low, high = (truth.column(f"{side}_half_radius").mean() for side in ("certified", "attacked"))
        panel.set(
            xlabel="claimed robust accuracy (true: 0)",
            xlim=(0, 1.6),
            title=f"{network}: truth in [{low:.4g}, {high:.4g}]",
        )
        panel.set_xticks([0, 0.5, 1])
    return figure


def _draw_answer(panel: "Axes", position: int, answer: Rows) -> None:
    """The bar of a tool in one mode with its median radius, or its error."""
    from featureprism.lab.style import COLOURS

    answered = answer.where(lambda row: not row["error"])
    if not len(answered):
        error = f" {answer[0]['error'].rstrip(': ')[:44]}"
        panel.annotate(error, (0, position), va="center", fontsize=7, color="0.4")
        return
    mean = answered.column("claimed_accuracy").mean()
    panel.barh(position, mean, color=COLOURS[1] if mean > 0 else COLOURS[2], height=0.6)
    radius = np.median(answer.column("half_radius"))
    text = f"median radius {radius:.3g}" if np.isfinite(radius) else "finds nothing"
    panel.annotate(text, (mean, position), xytext=(3, -3), textcoords="offset points", fontsize=7)


def _settings(dim: int, per_cluster: int, test_points: int) -> list[AveragingNetwork]:
    size: dict[str, Any] = {"dim": dim, "test_points": test_points, "max_branches": 60}
    return [PReLUNetwork(per_cluster=per_cluster, **size), AveragingNetwork(**size)]


BLIND_ATTACKS = Experiment(
    id="beyond/blind-attacks",
    source=SOURCE,
    title="What the usual attacks claim, and what is true",
    scales={
        "quick": _settings(400, 50, 8),
        "standard": _settings(1000, 100, 12),
        "paper": _settings(2000, 1000, 25),  # the mixture of Figure 2 of gmm-flow
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Each installed tool attacks a pReLU network (gmm-flow, Figure 2) and a feature-averaging network at a radius where a"
        " verified perturbation flips every point, so every robust accuracy above 0 is false. Modes: the ±1 network as it is (single"
        " output); a [0, 1] box; two logits in a wide box with the tool's defaults; the same with more steps and restarts."
        " Carlini-Wagner runs 300 and 500 steps instead of its 10 000. Minimal-norm attacks (DDN, DeepFool, Carlini-Wagner) are"
        " judged by the perturbation they return. Beside them our bracket: proven below, witnessed above."
    ),
)
