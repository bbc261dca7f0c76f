"""The mechanisms of the proofs: what makes winners grow, who opens, what couples them, what pulls them to the dense direction."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.data import SparseCoding, SparseSample
from featureprism.data.sparse_coding import HiddenVector
from featureprism.geometry import row_norms
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification import theory_mechanisms as laws
from featureprism.papers.feature_purification.measures import LEARNED, O_SMALL, SMALL, bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    clean_run,
    coding,
    in_double,
    scales,
    trained,
    unseen,
)
from featureprism.probes import growth as probes
from featureprism.probes.coupling import frozen
from featureprism.probes.purification import pull_to_dense

FEW_POINTS = 150  # for quantities that need one evaluation for each feature
WINNING = 1.1  # ⟨w_i, M_j⟩ ÷ b from which the large level surely opens a neuron
COUPLED = 1.5  # |⟨w_i, M_j⟩| ÷ √k b of the neurons compared; few reach the 2 of Lemma C.18
FEW_PAIRS = 1000  # of a neuron and a feature, for the law of growth


@dataclass(frozen=True, kw_only=True)
class MechanismSetting(Battery):
    """How many points expectations are taken over."""

    points: int = 8000
    least_winners: int = 20  # for a snapshot to count


def measure(s: MechanismSetting, seed: int, context: Context) -> list[Row]:
    """Growth along clean training, then openings, coupling and pull at its end."""
    problem, sample = coding(s, seed), unseen(s, seed, s.points)
    sample = sample._replace(x=sample.x.double(), y=sample.y.double(), z=sample.z.double())
    run = clean_run(s, seed)
    rows: list[Row] = []
    for time, snapshot in zip(run.times, run.snapshots, strict=True):
        grown = _growth(in_double(snapshot), sample, problem, s)
        rows.append({"kind": "growth", "time": float(time) / s.steps, **grown})
    context.progress(0.6)
    net = in_double(trained(s, seed, "clean"))
    rows += [_openings(net, sample, s), _lipschitz(net, sample, problem, s)]
    rows += [_coupled(net, sample, problem, s), _reference(net, sample, problem)]
    rows += [_pulled(net, sample, problem, s), _noise(net, sample, problem, s)]
    rows.append(_settled(net, sample, problem, s))
    return rows + premise_rows(s, bench(s, seed))


def _growth(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """Mean d·E[y 1 z_j] w*_j of winners (feature j alone reaches the bias) and of pairs that do not reach it, beside the law."""
    w = problem.w.double()
    A = net.W.detach() @ problem.M.double() * w
    G = s.dim * probes.growth(net, sample) * w
    alone = ((A.abs() >= net.bias / WINNING).sum(dim=1) == 1).unsqueeze(1)
    winner = (WINNING * net.bias <= A) & alone
    idle = (A.abs() < net.bias / WINNING) & winner.any(dim=1, keepdim=True)
    opened = (probes.opening(net, sample.x, net.bias) / 2).unsqueeze(1).expand_as(G)  # by one of both halves
    parts = {"signal": winner, "idle": idle}
    unit = s.dim / (s.sparsity * math.log(s.dim))
    num = int(winner.sum())
    row: Row = {"winners": num, "counts": num >= s.least_winners, "opened": _mean(opened[idle]), "unit": unit}
    row["largest"] = float(G.max())
    for name, chosen in parts.items():
        few = chosen.nonzero()[:FEW_PAIRS]
        row |= {
            name: _mean(G[few[:, 0], few[:, 1]]),
            f"{name}_law": _mean(_law(net, A, few, problem.hidden, s.noise)),
        }
    return row


def _law(net: SymmetricNet, A: Tensor, pairs: Tensor, hidden: HiddenVector, noise: float) -> Tensor:
    """The law of growth for some pairs of a neuron and a feature, from A = ⟨w_i, M_j⟩ w*_j alone."""
    d, own = hidden.dim, A[pairs[:, 0], pairs[:, 1]]
    rows = A[pairs[:, 0]]
    mixture = (rows.sum(dim=1) - own) / (d - 1)
    scatter = (rows**2).sum(dim=1) - own**2 - (d - 1) * mixture**2
    squares = hidden.second_moment * scatter + noise**2 / d * (rows**2).sum(dim=1) + net.smoothing**2
    return laws.growth_law(hidden, own, mixture, squares.sqrt(), net.bias)


def _mean(values: Tensor) -> float:
    return float(values.mean()) if values.numel() else math.nan


def _openings(net: SymmetricNet, sample: SparseSample, s: MechanismSetting) -> Row:
    """How many neurons open at a point; how many noise alone lifts to b/10, beside its law."""
    W = net.W.detach()
    alive = row_norms(W) > net.bias
    level = net.bias / 10
    lifted = float((sample.x @ W[alive].T).abs().ge(level).double().mean())
    law = [laws.noise_reach(float(n), s.noise, s.dim, level) for n in row_norms(W[alive])]
    typical = float(row_norms(W[alive]).median())
    return {
        "kind": "openings",
        "open": float((sample.x @ W.T).abs().ge(net.bias).double().sum(dim=1).mean()),
        "lifted": lifted,
        "law": sum(law) / len(law),
        "lifted_count": lifted * int(alive.sum()),
        "expected": float((sample.z != 0).double().sum(dim=1).mean()) * float(alive.sum()) / s.dim,
        "needed_dim": laws.dimension_for_noise(typical, s.noise, level, s.width),
    }


def _lipschitz(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """L_j beside Σ_{N_i ∋ j} |⟨w_i, M_j⟩|; the size of f. Lemmas C.20 and C.21."""
    few = sample._replace(x=sample.x[:FEW_POINTS], y=sample.y[:FEW_POINTS], z=sample.z[:FEW_POINTS])
    L = probes.coordinate_lipschitz(net, few, problem.M.double(), (-1.0, -0.5, 0.5, 1.0))
    A = (net.W.detach() @ problem.M.double()).abs()
    own = (A.amax(dim=1, keepdim=True) == A) & (net.bias <= A)
    with torch.no_grad():
        f = net(sample.x)
    return {
        "kind": "lipschitz",
        "excess": float((L - (A * own).sum(dim=0)).mean()) / (s.sparsity / math.sqrt(s.dim)),
        "largest": float(L.max()),
        "size": float(f.abs().quantile(0.999)) / math.log(s.dim),
    }


def _coupled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """Winners of one feature that the least signal opens grow alike. Lemma C.18: up to O(k^1.5/d²) where |⟨w_i, M_j⟩| ≥ 2√k b."""
    A = (net.W.detach() @ problem.M.double()).abs()
    single, common = probes.weighted_growth(net, sample)
    least = math.sqrt(s.sparsity) * net.bias
    winner = COUPLED * least <= A
    gap, scale = (single - common).abs(), s.sparsity**1.5 / s.dim**2
    return {
        "kind": "coupled",
        "sure": int((2 * least <= A).sum()),
        "gap": _mean(gap[winner]) / scale,
        "relative": _mean(gap[winner]) / _mean(common.abs()),
    }


def _reference(net: SymmetricNet, sample: SparseSample, problem: SparseCoding) -> Row:
    """g(μ*)/α beside ⟨w*, z⟩, μ* shared by the neurons of each feature. Definition D.4, Lemma D.6."""
    A = net.W.detach() @ problem.M.double() * problem.w.double()
    owner = (A.amax(dim=1, keepdim=True) == A) & (net.bias <= A)
    share = owner.double() / owner.sum(dim=0).clamp_min(1)
    mu = share @ (problem.M * problem.w).T.double()
    # frozen is affine in its weights: twice minus once leaves the linear part, which is g(μ*)/α for large α
    g = frozen(net, 2 * mu, sample.x, sample.x) - frozen(net, mu, sample.x, sample.x)
    score = sample.z @ problem.w.double()
    return {
        "kind": "reference",
        "covered": float((owner.sum(dim=0) > 0).double().mean()),
        "error": float(((g - score) ** 2).mean().sqrt() / score.square().mean().sqrt()),
        "right": float((sample.y * g > 0).double().mean()),
    }


def _pulled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """⟨w_i, Mw*⟩ beside the balance of pull and penalty, λ(1 + ‖w_i‖)⟨w_i, Mw*⟩ = -⟨∇_i Loss, Mw*⟩. Lemma E.2."""
    W, direction = net.W.detach(), problem.dense_direction.double()
    along, norms = W @ direction, row_norms(W)
    pull = pull_to_dense(net, sample.x, sample.y, direction)
    big = norms > net.bias
    held = s.penalty / s.dim * (1 + norms) * along
    return {
        "kind": "pulled",
        "total": float(along.sum()) / (s.sparsity * s.dim),
        "least": float(along[big].min() / along[big].mean()),
        "positive": float((pull[big] > 0).double().mean()),
        "balance": float(held[big].sum() / pull[big].sum()),
    }


@torch.no_grad()
def _noise(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """What noise adds to the growth of winners, Lemma C.11, and to the pull to Mw*, in the order of Claim E.3."""
    M, w, direction = problem.M.double(), problem.w.double(), problem.dense_direction.double()
    A = net.W.detach() @ M * w
    winner = WINNING * net.bias <= A
    grown = (probes.noise_growth(net, sample, M, s.noise).measured * w)[winner]
    pulls = sample.y * torch.sigmoid(-sample.y * net(sample.x)) / len(sample.y)
    big = row_norms(net.W.detach()) > net.bias
    slopes, xi = net.slopes(sample.x)[:, big], sample.x - sample.z @ M.T
    whole, by_noise = (slopes.T @ (pulls * (points @ direction)) for points in (sample.x, xi))
    signal = (probes.growth(net, sample) * w)[winner]
    return {
        "kind": "noise",
        "share": _mean(grown) / _mean(signal),
        "dense": _mean(by_noise.abs()) / (s.sparsity**2 * s.noise**2 / s.dim**1.5),
        "dense_share": _mean(by_noise) / _mean(whole),
    }


@torch.no_grad()
def _settled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: MechanismSetting) -> Row:
    """Own coefficients at rest, λ(1 + ‖w_i‖)A_ij = E[y ℓ'(1 + 1)⟨x, M_j⟩]; how alike the winners of one feature are, (C.25)."""
    M, w, W = problem.M.double(), problem.w.double(), net.W.detach()
    A = W @ M * w
    owner = (A.amax(dim=1, keepdim=True) == A) & (WINNING * net.bias <= A)
    pulls = (sample.y * torch.sigmoid(-sample.y * net(sample.x)) / len(sample.y)).unsqueeze(1)
    grown = net.slopes(sample.x).T @ (pulls * (sample.x @ M)) * w
    held = s.penalty / s.dim * (1 + row_norms(W)).unsqueeze(1) * A
    least, largest = A.masked_fill(~owner, math.inf).amin(dim=0), A.masked_fill(~owner, 0).amax(dim=0)
    shared = owner.sum(dim=0) > 1
    return {
        "kind": "settled",
        "balance": float(held[owner].sum() / grown[owner].sum()),
        "size": _mean(A[owner]) * s.penalty,
        "alike": float((least / largest)[shared].median()) if bool(shared.any()) else math.nan,
    }


def _of(kind: str, key: str):
    def value(rows: Rows) -> Values:
        return rows.of(kind).per_seed(key)

    return value


def _while_winning(top: str, *units: str):
    """The mean of a value, divided by others, over the snapshots in which there are winners."""

    def mean(one: Rows) -> float:
        return float((one.column(top) / np.prod([one.column(name) for name in units], axis=0)).mean())

    return lambda rows: rows.of("growth", counts=True).per_seed(mean)


def _reach_note(rows: Rows) -> str:
    part = rows.of("openings")
    return f"noise alone lifts {part.column('law').mean():.0%} of them; to lift none takes d ≈ {part.column('needed_dim').mean():.0f}"


def _coupled_note(rows: Rows) -> str:
    shares = _of("coupled", "relative")(rows)
    alone = int(np.isnan(shares).sum())
    if alone:
        return f"in {alone} of {len(shares)} seeds no coefficient is so large"
    return f"{shares.mean():.0%} of the growth itself"


def _law_deviation(rows: Rows) -> Values:
    return np.abs(_while_winning("signal", "signal_law")(rows) - 1)


ORDER = "the order of the lemma with every constant set to 1"
CLAIMS = (
    Claim(
        "signal-law",
        source="Lemma C.8",
        says="The rate at which a winner grows follows from its weights and the law of z alone, with its constant.",
        quantity="|measured ÷ predicted - 1| of d·E[y 1{⟨w_i, x⟩ + ρ ≥ b} z_j], mean over winners and times",
        bound=at_most(0.1),
        because="the prediction has no free constant; its Gaussian part is an approximation",
        value=_law_deviation,
        origin="featureprism",
        note=lambda rows: f"the noise of x adds {_of('noise', 'share')(rows).mean():.0%} to it at the end",
    ),
    Claim(
        "growth-ratio",
        source="Lemmas C.8 and C.10",
        says="Winners grow faster than all other coefficients by a factor of the order d/(k log d).",
        quantity="rate of winners ÷ rate of coefficients that do not reach the bias, in units of d/(k ln d)",
        bound=at_least(0.5),
        because=ORDER + ", up to a factor of two",
        value=_while_winning("signal", "idle", "unit"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "largest-growth",
        source="Lemma C.9",
        says="No coefficient of any neuron grows faster than O(1/d).",
        quantity="largest rate of all coefficients ÷ mean rate of winners",
        bound=at_most(3.0),
        because="winners grow at Θ(1/d); O(1) is read as 3",
        value=_while_winning("largest", "signal"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "settled",
        source="Phase II.1, after (C.24)",
        says="The coefficients of won features grow to the order 1/(dλ) and stay there.",
        quantity="mean coefficient of won features in units of 1/(dλ)",
        bound=between(0.2, 5.0),
        because="Θ(1) is read as a constant between 1/5 and 5",
        value=_of("settled", "size"),
        note=lambda rows: (
            f"they are at rest: penalty ÷ growth is {_of('settled', 'balance')(rows).mean():.2f}"
        ),
        premises=requires(*LEARNED),
    ),
    Claim(
        "alike",
        source="(C.25)",
        says="Neurons that have won one and the same feature end with similar coefficients.",
        quantity="least ÷ largest coefficient of the winners of a feature, median over features",
        bound=at_least(0.5),
        because="the same up to a factor of two",
        value=_of("settled", "alike"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "openings",
        source="Lemma C.19",
        says="At a point only the neurons of the features in it, O(kΞ₂) of them, come near to opening.",
        quantity="neurons that reach b/10 at a point ÷ (its number of features × winners of a feature)",
        bound=at_most(2.0),
        because=ORDER + ", up to a factor of two",
        value=lambda rows: _of("openings", "lifted_count")(rows) / _of("openings", "expected")(rows),
        note=_reach_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "noise-reach",
        source="Lemma C.19",
        says="The input noise alone explains how many neurons come near to opening at moderate dimension.",
        quantity="|share of neurons that reach b/10 ÷ P(|N(0, σ_x²‖w‖²/d)| ≥ b/10) - 1|",
        bound=at_most(0.15),
        because="the mixtures add what is left",
        value=lambda rows: np.abs(_of("openings", "lifted")(rows) / _of("openings", "law")(rows) - 1),
        origin="featureprism",
    ),
    Claim(
        "lipschitz",
        source="Lemma C.20",
        says="Along a feature the network changes no faster than the neurons of this feature do, up to O(k/√d).",
        quantity="excess of the Lipschitz constant along a feature over Σ_i |⟨w_i, M_j⟩|, in units of k/√d",
        bound=at_most(1.0),
        because=ORDER,
        value=_of("lipschitz", "excess"),
        premises=requires(*LEARNED),
        note="the dense mixtures of all open neurons add up",
    ),
    Claim(
        "regular",
        source="Lemma C.21",
        says="The output of the network stays of the order of log d.",
        quantity="|f| that one point in a thousand exceeds ÷ ln d",
        bound=at_most(1.0),
        because=ORDER + " and Ξ₂ set to 1",
        value=_of("lipschitz", "size"),
        note=lambda rows: f"the largest Lipschitz constant is {_of('lipschitz', 'largest')(rows).mean():.1f}",
        premises=requires(*LEARNED),
    ),
    Claim(
        "coupled",
        source="Lemma C.18",
        says="Neurons that have won one and the same feature grow alike, up to O(k^1.5/d²).",
        quantity="mean difference of the growth of two winners of one feature in units of k^1.5/d², |⟨w_i, M_j⟩| ≥ 1.5√k b",
        bound=at_most(1.0),
        because=ORDER + "; the lemma has 2√k b, which few neurons reach",
        value=_of("coupled", "gap"),
        note=_coupled_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "reference",
        source="Lemma D.6(a)",
        says="The pure features with the activations of the trained network compute the score ⟨w*, z⟩.",
        quantity="relative root mean square error of g(μ*)/α beside ⟨w*, z⟩",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_of("reference", "error"),
        note=lambda rows: f"its sign is right on {_of('reference', 'right')(rows).mean():.0%} of the points",
        premises=requires(*LEARNED),
    ),
    Claim(
        "common-direction",
        source="Lemma E.2",
        says="All neurons together lean towards the dense direction Mw*.",
        quantity="Σ_i ⟨w_i, Mw*⟩ in units of kd",
        bound=at_least(0.5),
        because=ORDER + ", up to a factor of two",
        value=_of("pulled", "total"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "pull",
        source="Section 6.2, Lemma E.2",
        says="Clean training keeps pulling nearly every neuron towards the dense direction Mw*, also at its end.",
        quantity="share of large neurons with a positive pull of the loss along Mw*",
        bound=at_least(0.95),
        because="the lemma says all",
        value=_of("pulled", "positive"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "dense-noise",
        source="Claim E.3",
        says="The input noise contributes at most O(k²σ_x²/d^1.5) to the pull towards Mw*.",
        quantity="mean part of the noise in the pull on large neurons, in units of k²σ_x²/d^1.5",
        bound=at_most(1.0),
        because=ORDER,
        value=_of("noise", "dense"),
        note=lambda rows: (
            f"it pulls back: {-_of('noise', 'dense_share')(rows).mean():.1f} times what is left of the pull of the signal"
        ),
        premises=requires(*LEARNED),
    ),
    Claim(
        "balance",
        source="Lemma E.2",
        says="The penalty is what ends the growth of the mixtures: it balances the pull towards Mw*.",
        quantity="|λ(1 + ‖w_i‖)⟨w_i, Mw*⟩ ÷ the pull - 1|, both summed over large neurons",
        bound=at_most(0.4),
        because="at rest it is 0; the points of the expectation leave some noise",
        value=lambda rows: np.abs(_of("pulled", "balance")(rows) - 1),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Growth along training beside its law."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=5.0, height=3.0)
    part = rows.of("growth")
    for colour, name in zip(COLOURS, ("signal", "idle"), strict=False):
        axes.plot(part.column("time"), part.column(name), "o", color=colour, label=name, markersize=4)
        axes.plot(part.column("time"), part.column(f"{name}_law"), "x", color=colour, label=f"{name}, law")
    axes.set(xlabel="share of clean training", ylabel="d E[y 1{open} z_j] w*_j")
    axes.legend()
    return figure


MECHANISMS = Experiment(
    id="feature-purification/mechanisms",
    source="Allen-Zhu & Li 2020, Appendices C, D, E",
    title="What makes winners grow, who opens, and what pulls all of them to the dense direction",
    scales=scales(MechanismSetting),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Expectations of the lemmas, on fresh points along clean training and at its end, beside the order that is printed and,"
        " where the law of the hidden vector fixes it, the number itself."
    ),
)
