"""What the usual attacks claim about two networks, and what is true: a proven bracket beside every tool's word."""

from dataclasses import dataclass
from functools import partial
from math import inf, nan

import numpy as np
import torch

from featureprism.attacks import pgd, structured_starts
from featureprism.brackets import RadiusBracket, lower_median
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import PolynomialReLU
from featureprism.papers.beyond.networks import Trained, averaging_network, mixture_network
from featureprism.papers.beyond.peers import Answer, Question, answers
from featureprism.probes import self_test
from featureprism.progress import part
from featureprism.verify import Budget, robust_radius
from featureprism.verify.bounds.linear_relaxation import crown_radius
from featureprism.verify.one_layer.form import power_form

BEYOND = 1.05  # the radius asked about, in units of the largest attacked radius: no point is robust there
SOURCE = "beyond the papers"
finding = partial(Claim, source=SOURCE, origin="featureprism")


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """The two-class network of feature-averaging."""

    network: str = "feature averaging"
    dim: int
    test_points: int
    max_cells: int

    def trained(self, seed: int) -> Trained:
        """The network of a seed."""
        return averaging_network(self.dim, self.test_points, seed)


@dataclass(frozen=True, kw_only=True)
class Mixture(Averaging):
    """The pReLU network of gmm-flow, Figure 2."""

    network: str = "pReLU"
    per_cluster: int

    def trained(self, seed: int) -> Trained:
        """The network of a seed."""
        activation = PolynomialReLU(3.0)
        return mixture_network(activation, 1e-3, 0.5, self.dim, self.per_cluster, self.test_points, seed)


def measure(s: Averaging | Mixture, seed: int, context: Context) -> list[Row]:
    """Bracket the network, ask every tool, and put their words beside the truth."""
    net, clusters, test = s.trained(seed)
    context.progress(0.2)
    x, y = test.x, test.y
    bracket = robust_radius(
        net,
        x,
        y,
        starts=structured_starts(net, clusters.mu, clusters.labels),
        budget=Budget(branches=s.max_cells),
        progress=part(context.progress, 0.2, 0.5),
    )
    form = power_form(net)
    assert form is not None
    crown = crown_radius(
        form, x @ form.W.T + form.b, y.unsqueeze(1) * form.weight, 2, torch.from_numpy(bracket.attacked)
    )
    eps = BEYOND * float(bracket.attacked.max())
    plain = pgd(net, x, y, LpBall(2, eps), steps=50)
    radius = torch.where(plain.flipped, plain.delta.norm(dim=1), torch.full_like(y, inf))
    told = [Answer("PGD without starts", "50 steps", radius), *answers(Question(net, x, y, eps))]
    context.progress(1.0)
    return [
        _truth(bracket, crown, eps),
        *(claimed(answer, torch.from_numpy(bracket.attacked), eps) for answer in told),
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
        "asked_radius": eps,
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
    return chosen.per_seed(lambda own: float(np.median(own.column("claimed_accuracy"))))


def _over_crown(own: Rows) -> float:
    return (own.column("certified_half_radius") / own.column("crown_half_radius")).min()


CLAIMS = (
    finding(
        "prelu-pgd",
        says="foolbox L2PGD with its defaults calls the pReLU network robust where no point is (claimed robust accuracy)",
        value=lambda rows: _claimed_by_pgd(rows, "defaults"),
        bound=above(0.5),
        note="unknown where foolbox is not installed",
    ),
    finding(
        "prelu-pgd-tuned",
        says="200 steps and 10 restarts do not cure it (claimed robust accuracy)",
        value=lambda rows: _claimed_by_pgd(rows, "tuned"),
        bound=above(0.5),
        note="unknown where foolbox is not installed",
    ),
    finding(
        "ours",
        says="our attacked radius is at most that of every tool on every point (largest ratio ours ÷ theirs)",
        value=lambda rows: _working(rows).largest("ours_over_theirs"),
        bound=at_most(1 + 1e-4),
        aggregate="worst",
    ),
    finding(
        "proof",
        says="and a proof meets it: median gap of the bracket, the wider of the two networks",
        value=lambda rows: rows.of("truth").largest("median_gap"),
        bound=at_most(0.02),
    ),
    finding(
        "crown",
        says="the proof goes beyond CROWN (median certified radius ÷ CROWN's, the smaller of the two networks)",
        value=lambda rows: rows.of("truth").per_seed(_over_crown),
        bound=above(1.0),
    ),
)


def _settings(dim: int, per_cluster: int, test_points: int, max_cells: int) -> list[Averaging]:
    return [
        Mixture(dim=dim, per_cluster=per_cluster, test_points=test_points, max_cells=max_cells),
        Averaging(dim=dim, test_points=test_points, max_cells=max_cells),
    ]


BLIND_ATTACKS = Experiment(
    id="beyond/blind-attacks",
    source=SOURCE,
    title="What the usual attacks claim, and what is true",
    scales={
        "quick": _settings(400, 50, 8, 60),
        "standard": _settings(1000, 100, 12, 60),
        "paper": _settings(2000, 1000, 25, 60),  # the mixture of Figure 2 of gmm-flow
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Each installed tool is asked about a pReLU network (gmm-flow, Figure 2) and a feature-averaging network at a radius where a"
        " verified perturbation flips every point, so every robust accuracy above 0 is false. Modes: the ±1 network as it is (single"
        " output); a [0, 1] box; two logits in a wide box with the tool's defaults; the same with more steps and restarts."
        " Carlini-Wagner runs 300 and 500 steps instead of its 10 000. Minimal-norm attacks (DDN, DeepFool, Carlini-Wagner) are"
        " judged by the perturbation they return. Beside them our bracket: proven below, witnessed above."
    ),
)
