"""The regime of the theorems at moderate size: independent z, σ_x = 1, k = d^0.35, and the networks trained in it.

What the mechanisms of the proofs, the certificates and the variants share.
"""

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from featureprism.attacks import Along, along, fgm, pgd
from featureprism.attacks.adversaries import FastGradient
from featureprism.data import SparseCoding, SparseSample, dictionary, label_weights, sample_sparse, two_level
from featureprism.geometry import LpBall
from featureprism.networks import SymmetricNet, pure_net, symmetric_start
from featureprism.networks.symmetric import reachable
from featureprism.records import Row, Trajectory
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory
from featureprism.training import Phase, from_pool, train_symmetric

FAMILY = "feature-purification regime"  # its experiments share trained networks
SNAPSHOTS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6)  # of clean training, besides its end
INFLATED = 0.5  # σ_ρ ÷ b of the twin that is attacked too: its gradient vanishes nowhere
WATCH = 10  # steps between looks at neurons that rest
LEARNED = ("assumption-2-1", "section-2", "theorem-5-1", "theorem-c-2")
PURIFIED = (*LEARNED, "theorem-5-3", "theorem-f-1")
GAINED = (*PURIFIED, "theorem-e-1")


@dataclass(frozen=True, kw_only=True)
class Regime(theory.Setting):
    """Data, network and both algorithms. Biases in units of their names, step sizes as they are."""

    dim: int = 100
    sparsity: int = 5
    width: int = 300
    noise: float = 1.0
    penalty: float = 0.07  # λ in units of 1/d
    radius: float = 0.15
    large: float = 1.0  # P(|z_i| = 1) = large/d
    small: float = 1.0  # P(|z_i| = 1/√k) = small·k/d
    start: float = 0.005  # σ_0
    start_bias: float = 2.4  # b(0) in units of σ_0
    bias_growth: float = 0.15  # per unit of time, in units of 1/d
    bias_cap: float = 0.5  # in units of 1/√k
    smoothing: float = 0.05  # σ_ρ in units of b
    step_size: float = 5.0
    steps: int = 500
    adversarial_steps: int = 400
    batch: int = 300
    pool: int = 30000
    attack_steps: int = 40  # of PGD

    @property
    def regime(self) -> "Regime":
        """The data and the training alone: what trained networks depend on."""
        return Regime(**{f.name: getattr(self, f.name) for f in fields(Regime)})

    @property
    def final_bias(self) -> float:
        """Where the bias stops growing."""
        return self.bias_cap / math.sqrt(self.sparsity)


def coding(s: Regime, seed: int) -> SparseCoding:
    """M = I, for every ℓ2 question is alike in any orthogonal M; random signs for w*; ties are drawn again."""
    return SparseCoding(
        dictionary("identity", s.dim, generator=generator_for("dictionary", seed)),
        label_weights("signs", s.dim, generator=generator_for("labels", seed)),
        two_level(s.dim, s.sparsity, s.large, s.small),
        noise=s.noise,
    )


def unseen(s: Regime, seed: int, num_points: int) -> SparseSample:
    """Points that no network was trained on."""
    return sample_sparse(coding(s, seed), num_points, generator=generator_for("test", seed))


def first_net(s: Regime, seed: int) -> SymmetricNet:
    """The random network before training."""
    bias = s.start_bias * s.start
    generator = generator_for("start", seed)
    return symmetric_start(s.width, s.dim, s.start, bias, s.smoothing * bias, generator=generator)


def pure(s: Regime, problem: SparseCoding, smoothing: float = 0.0) -> SymmetricNet:
    """The pure network with the bias of the trained ones: the ceiling."""
    return pure_net(problem.M, problem.w, s.final_bias, smoothing)


def clean_phase(s: Regime) -> Phase:
    """Algorithm 1."""
    growth = s.bias_growth / s.dim
    return Phase(
        s.steps,
        step_size=s.step_size,
        smoothing=s.smoothing,
        bias_growth=growth,
        bias_cap=s.final_bias,
    )


def adversarial_phase(s: Regime, p: float = 2, radius: float | None = None) -> Phase:
    """Algorithm 2 with FGM, the bias where it is."""
    adversary = FastGradient(LpBall(p, s.radius if radius is None else radius), zero=s.dim**-4.0)
    return Phase(s.adversarial_steps, step_size=s.step_size, smoothing=s.smoothing, perturb=adversary)


@lru_cache(maxsize=8)
def _pool(s: Regime, seed: int) -> tuple[Tensor, Tensor]:
    sample = sample_sparse(coding(s, seed), s.pool, generator=generator_for("train", seed))
    return sample.x, sample.y


@lru_cache(maxsize=8)
def _clean_run(s: Regime, seed: int) -> Trajectory[SymmetricNet]:
    draw = from_pool(*_pool(s, seed), s.batch, generator=generator_for("batches clean", seed))
    record = [round(share * s.steps) for share in SNAPSHOTS]
    start, penalty = first_net(s, seed), s.penalty / s.dim
    return train_symmetric(start, draw, [clean_phase(s)], penalty=penalty, record=record, watch=WATCH)


def clean_run(s: Regime, seed: int) -> Trajectory[SymmetricNet]:
    """Clean training, seen at the times of SNAPSHOTS and at its end."""
    return _clean_run(s.regime, seed)


@lru_cache(maxsize=16)
def _trained(s: Regime, seed: int, stage: str) -> SymmetricNet:
    before = _clean_run(s, seed).last
    if stage == "clean":
        return before
    draw = from_pool(*_pool(s, seed), s.batch, generator=generator_for("batches adversarial", seed))
    penalty = s.penalty / s.dim
    return train_symmetric(before, draw, [adversarial_phase(s)], penalty=penalty, watch=WATCH).last


def trained(s: Regime, seed: int, stage: str) -> SymmetricNet:
    """The network after a stage, "clean" or "adversarial"; trained once in a process."""
    return _trained(s.regime, seed, stage)


def in_double(net: SymmetricNet, smoothing: float | None = None) -> SymmetricNet:
    """The network in double precision, with another smoothing if one is given."""
    return SymmetricNet(net.W.double(), net.thresholds, net.smoothing if smoothing is None else smoothing)


def attacked(net: SymmetricNet, x: Tensor, y: Tensor, direction: Tensor, ball: LpBall, steps: int) -> Tensor:
    """The perturbation of least margin, point by point: along Mw*, FGM, PGD from both, and PGD on a smoother twin."""
    x, y, net = x.double(), y.double(), reachable(in_double(net), x, ball)
    direction = direction.double()
    twin = in_double(net, max(net.smoothing, INFLATED * net.level))
    starts = (Along(direction),)
    deltas = torch.stack(
        [
            along(direction)(net, x, y, ball).delta,
            fgm(net, x, y, ball).delta,
            pgd(net, x, y, ball, starts=starts, steps=steps).delta,
            pgd(twin, x, y, ball, starts=starts, steps=steps).delta,
        ]
    )
    with torch.no_grad():
        margins = torch.stack([y * net(x + delta) for delta in deltas])
    return deltas[margins.argmin(dim=0), torch.arange(len(x))]


@torch.no_grad()
def accuracy(net: Any, x: Tensor, y: Tensor) -> float:
    """Share of points with y f > 0."""
    return float((y * net(x) > 0).double().mean())


def premise_rows(s: Regime, seed: int, num_points: int = 2000) -> list[Row]:
    """The conditions of Assumption 2.1 and Theorems 5.1 and 5.3 beside the setting."""
    problem = coding(s, seed)
    premises = [
        *theory.hidden_vector_premises(problem.hidden, unseen(s, seed, num_points).z, problem.w),
        *theory.sparsity_premises(s),
        *theory.clean_premises(s, s.steps * s.step_size),
        *theory.adversarial_premises(s, s.adversarial_steps * s.step_size),
    ]
    return [premise.as_row() for premise in premises]
