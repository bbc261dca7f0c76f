"""The mechanisms of the proofs: what makes winners grow, who opens, what couples them, what pulls them to the dense direction."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.data import SparseCoding, SparseSample
from featureprism.data.sparse_coding import HiddenVector
from featureprism.geometry import row_norms
from featureprism.lab import Experiment
from featureprism.networks import SymmetricNet
from featureprism.networks.gates import gates
from featureprism.papers.feature_purification.mechanism_claims import CLAIMS
from featureprism.papers.feature_purification.regime import (
    FAMILY,
    Regime,
    clean_run,
    coding,
    in_double,
    premise_rows,
    trained,
    unseen,
)
from featureprism.probes import growth as probes
from featureprism.probes.coupling import frozen
from featureprism.probes.purification import pull_to_dense
from featureprism.records import Row
from featureprism.theory import feature_purification_mechanisms as laws
from featureprism.training.symmetric import loss_gradient

FEW_POINTS = 150  # for quantities that need one evaluation per feature
WINNING = 1.1  # ⟨w_i, M_j⟩ ÷ b from which the large level surely opens a neuron
COUPLED = 1.5  # |⟨w_i, M_j⟩| ÷ √k b of the neurons compared; none reaches the 2 of Lemma C.18
FEW_PAIRS = 1000  # of a neuron and a feature, for the law of growth
BLOCKS = (125, 250, 500, 1000, 2000)  # sizes of samples


@dataclass(frozen=True, kw_only=True)
class Mechanisms(Regime):
    """How many points expectations are taken over."""

    points: int = 8000
    least_winners: int = 20  # for a snapshot to count


def measure(s: Mechanisms, seed: int, context: Context) -> list[Row]:
    """Growth along clean training, then openings, coupling and pull at its end."""
    problem, sample = coding(s, seed), unseen(s, seed, s.points)
    sample = sample._replace(x=sample.x.double(), y=sample.y.double(), z=sample.z.double())
    run = clean_run(s, seed)
    rows: list[Row] = []
    for time, snapshot in zip(run.times, run.snapshots, strict=True):
        rows.append(
            {
                "kind": "growth",
                "time": float(time) / s.steps,
                **_growth(in_double(snapshot), sample, problem, s),
            }
        )
    context.progress(0.6)
    net = in_double(trained(s, seed, "clean"))
    rows += [_openings(net, sample, s), _lipschitz(net, sample, problem, s)]
    rows += [_coupled(net, sample, problem, s), _reference(net, sample, problem)]
    rows += [
        _pulled(net, sample, problem, s),
        _noise(net, sample, problem, s),
        _settled(net, sample, problem, s),
    ]
    rows += _sampling(net, sample)
    return rows + premise_rows(s, seed)


def _growth(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
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


def _openings(net: SymmetricNet, sample: SparseSample, s: Mechanisms) -> Row:
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


def _lipschitz(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
    """L_j beside Σ_{N_i ∋ j} |⟨w_i, M_j⟩|; the size of f and of ℓ'. Lemmas C.20 to C.22."""
    few = sample._replace(x=sample.x[:FEW_POINTS], y=sample.y[:FEW_POINTS], z=sample.z[:FEW_POINTS])
    L = probes.coordinate_lipschitz(net, few, problem.M.double(), (-1.0, -0.5, 0.5, 1.0))
    A = (net.W.detach() @ problem.M.double()).abs()
    own = (A.amax(dim=1, keepdim=True) == A) & (net.bias <= A)
    with torch.no_grad():
        f = net(sample.x)
    pull = torch.sigmoid(-sample.y * f)
    return {
        "kind": "lipschitz",
        "excess": float((L - (A * own).sum(dim=0)).mean()) / (s.sparsity / math.sqrt(s.dim)),
        "largest": float(L.max()),
        "size": float(f.abs().quantile(0.999)) / math.log(s.dim),
        "loss": float(pull.mean()) * float(L.max()) * math.log(s.dim),
    }


def _coupled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
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


def _pulled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
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
def _noise(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
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
def _settled(net: SymmetricNet, sample: SparseSample, problem: SparseCoding, s: Mechanisms) -> Row:
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


@torch.no_grad()
def _sampling(net: SymmetricNet, sample: SparseSample) -> list[Row]:
    """Mean error of loss and gradient of disjoint blocks of N points, against all of them. Lemma A.2.

    Without replacement the error of a block is smaller by √(1 - N/total), which is divided out.
    """
    total = len(sample.y)
    _, opened, pulls = loss_gradient(
        net.W.detach(), sample.x, sample.y, lambda u: gates(u, net.bias, net.smoothing)
    )
    losses = torch.nn.functional.softplus(-sample.y * net(sample.x))
    rows: list[Row] = []
    for size in BLOCKS:
        blocks = total // size
        parts = [t[: blocks * size].reshape(blocks, size, -1) for t in (opened, pulls * total)]
        gradients = parts[0].transpose(1, 2) @ parts[1] / size
        gap = torch.linalg.vector_norm(gradients - gradients.mean(dim=0), dim=(1, 2)).mean()
        loss = losses[: blocks * size].reshape(blocks, size).mean(dim=1)
        shrunk = math.sqrt(1 - 1 / blocks)
        error = float((loss - losses.mean()).square().mean().sqrt())
        rows.append({"kind": "sampling", "N": size, "gradient": float(gap) / shrunk, "loss": error / shrunk})
    return rows


QUICK = Mechanisms()
MECHANISMS = Experiment(
    id="feature-purification/mechanisms",
    source="Allen-Zhu & Li 2020, Appendices A, C, D, E",
    title="What makes winners grow, who opens, and what pulls all of them to the dense direction",
    scales={
        "quick": [QUICK],
        "standard": [replace(QUICK, points=12000)],
        "paper": [replace(QUICK, dim=256, sparsity=7, width=640)],
    },
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Expectations of the lemmas, on fresh points along clean training and at its end, beside the order that is printed and,"
        " where the law of the hidden vector fixes it, the number itself."
    ),
)
