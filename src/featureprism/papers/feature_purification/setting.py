"""What the experiments on sparse coding data share: the data of a setting, the networks trained on it, and how they are attacked."""

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from featureprism.attacks import Along, AtRandom, along, fgm, pgd
from featureprism.attacks.gradient import FastGradient
from featureprism.data import SparseCoding, SparseSample, dictionary, label_weights, sample_sparse, two_level
from featureprism.data.sparse_coding import HiddenVector, power_law, three_level
from featureprism.geometry import LpBall
from featureprism.lab.experiment import fields_of
from featureprism.lab.rows import Row
from featureprism.networks import SymmetricNet, TwoLayerNet, symmetric_start
from featureprism.networks.symmetric import pure_net, reachable
from featureprism.papers.feature_purification import theory
from featureprism.seeds import generator_for
from featureprism.training import Phase, train_symmetric
from featureprism.training.symmetric import Draw, fresh
from featureprism.training.trajectory import Trajectory
from featureprism.verify import Budget, robust_radius

FAMILY = "feature-purification"  # experiments that share trained networks run in one process
SNAPSHOTS = 10  # of clean training, besides its end
EARLY = (2, 5, 10, 20, 40)  # steps at which the lottery is recorded, which is over early
WATCH = 10  # steps between checks of neurons that are far from opening
TWIN_SMOOTHING = 0.5  # σ_ρ ÷ b of a smoother twin that is attacked too, because its gradient vanishes nowhere

HIDDEN = ("two-level", "three-level", "power-law")
SPARSITY_EXPONENT = 0.36  # k = d^0.36, inside both windows of Corollary F.3: d^0.3334 to d^0.3999
WIDTH_EXPONENT = 1.2386  # m = d^(1 + c0), 3d at d = 100
SHARE_OF_THREE = 2 / 3  # with a third part between the levels, all three together have E‖z‖² = large + small
Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class SparseData:
    """The distribution x = Mz + ξ, y = sign⟨w*, z⟩, of which every training step draws new points."""

    dim: int = 100
    sparsity: float = 5  # k need not be whole: it is a rate
    hidden: str = "two-level"
    large: float = 1.0  # P(|z_i| = 1) = large/d
    small: float = 1.0  # P(|z_i| = 1/√k) = small·k/d
    noise: float = 1.0  # σ_x
    ties: str = "drop"  # an odd network cannot learn sign(0) = +1


@dataclass(frozen=True, kw_only=True)
class Training(SparseData, theory.Sizes):
    """The network, Algorithm 1, and the steps and the radius τ of Algorithm 2."""

    width: int = 300
    start: float = 5e-3  # σ_0
    start_bias: float = 0.79  # b(0) in units of σ_0 √(2 ln d), a Θ(1) in Section 4
    bias_growth: float = 0.012  # c_b: a twentieth of the rate of a winner, as in the proof of Lemma C.8
    bias_cap: float = 0.5  # in units of 1/√k
    smoothing: float = 0.05  # σ_ρ in units of b
    penalty: float = 0.1  # λ in units of 1/d
    step_size: float = 3.0
    step_per_bias: float = 1.0  # the step is at most this times b·d: time runs slowly while the bias is small
    steps: int = 1400
    batch: int = 500
    adversarial_steps: int = 100
    radius: float = 0.15

    @property
    def training(self) -> "Training":
        """The training alone: what trained networks depend on, however they are tested."""
        return _only(Training, self)

    @property
    def first_bias(self) -> float:
        """b(0)."""
        return self.start_bias * math.sqrt(2 * math.log(self.dim)) * self.start

    @property
    def final_bias(self) -> float:
        """Where the bias stops growing."""
        return self.bias_cap / math.sqrt(self.sparsity)

    @property
    def clean_time(self) -> float:
        """Sum of the step sizes of Algorithm 1, the clock of Theorem 5.1."""
        phase, bias, time = clean_phase(self), self.first_bias, 0.0
        for _ in range(self.steps):
            step = phase.step_at(bias)
            time, bias = time + step, min(phase.bias_cap, bias + step * phase.bias_growth)
        return time

    @property
    def adversarial_time(self) -> float:
        """Sum of the step sizes of Algorithm 2, the clock of Theorem 5.3."""
        return self.adversarial_steps * self.step_size


@dataclass(frozen=True, kw_only=True)
class Battery(Training):
    """A training, and how its networks are tested."""

    test_points: int = 300
    attack_steps: int = 12


def battery(dim: int, **changes: Any) -> Battery:
    """Assumption 2.1 at one size, everything else at the rates of the theorems.

    k = d^0.36 (rounded, or as it is given), m = d^(1 + c0) with one c0, σ_0 and λ ∝ 1/d, steps ∝ d (so that as many of them take a time
    ∝ d), batches ∝ d (or their noise would grow with the steps). The caps of b√k and τ√k fall as 1/√k, for the theorems need both to
    vanish.
    """
    k: float = changes.get("sparsity") or round(dim**SPARSITY_EXPONENT)
    rates: dict[str, Any] = {
        "dim": dim,
        "sparsity": k,
        "width": round(dim**WIDTH_EXPONENT),
        "start": 0.5 / dim,
        "step_size": 0.03 * dim,
        "batch": 5 * dim,
        "bias_cap": round(0.5 * math.sqrt(5 / k), 3),
        "radius": round(0.75 / k, 3),
    }
    return Battery(**(rates | changes))


QUICK = battery(100)
TESTED: dict[str, Any] = {"test_points": 400, "attack_steps": 20}
# the paper has no synthetic experiment of its own; the scales differ in size alone
SIZES = {"quick": QUICK, "standard": battery(160, **TESTED), "paper": battery(256, **TESTED)}


def scales(kind: type[Kind], **changes: Any) -> dict[str, list[Kind]]:
    """One setting of an item at three sizes."""
    return {scale: [extended(base, kind, **changes)] for scale, base in SIZES.items()}


def extended(base: Battery, kind: type[Kind], **changes: Any) -> Kind:
    """The setting of an item with the values of a base, and its own."""
    return kind(**(fields_of(base) | changes))


def _only(kind: type[Kind], setting: Any) -> Kind:
    return kind(**{f.name: getattr(setting, f.name) for f in fields(kind)})  # type: ignore[arg-type]


def hidden_vector(s: SparseData) -> HiddenVector:
    """The law of z, by name; all of them have E‖z‖² = large + small."""
    if s.hidden not in HIDDEN:
        raise ValueError(f"Unknown hidden vector {s.hidden!r}; choose one of {', '.join(HIDDEN)}.")
    if s.hidden == "two-level":
        return two_level(s.dim, s.sparsity, s.large, s.small)
    family = three_level if s.hidden == "three-level" else power_law
    share = SHARE_OF_THREE
    between = (1 - share) * (s.large + s.small)
    return family(s.dim, s.sparsity, share * s.large, share * s.small, between)


def coding(s: SparseData, seed: int) -> SparseCoding:
    """The distribution of a setting: M = I, for every ℓ2 question is alike in any orthogonal M, and signs for w*."""
    return SparseCoding(
        dictionary("identity", s.dim, generator=generator_for("dictionary", seed)),
        label_weights("signs", s.dim, generator=generator_for("labels", seed)),
        hidden_vector(s),
        noise=s.noise,
        ties=s.ties,
    )


def unseen(s: SparseData, seed: int, num_points: int) -> SparseSample:
    """Points that no network was trained on."""
    return sample_sparse(coding(s, seed), num_points, generator=generator_for("test", seed))


def test_set(s: Battery, seed: int) -> SparseSample:
    """The points that attacks are tried on."""
    return unseen(s, seed, s.test_points)


def start(s: Training, seed: int, peer: int = 0) -> SymmetricNet:
    """The random network before training; peers share the data's distribution and nothing else."""
    smoothing, generator = s.smoothing * s.first_bias, generator_for(f"start {peer}", seed)
    return symmetric_start(s.width, s.dim, s.start, s.first_bias, smoothing, generator=generator)


def pure_start(s: Training, seed: int) -> SymmetricNet:
    """The pure network w_j = sign(w*_j) M_j with the bias and the smoothing of the trained ones."""
    problem = coding(s, seed)
    return pure_net(problem.M, problem.w, s.final_bias, s.smoothing * s.final_bias)


def clean_phase(s: Training) -> Phase:
    """Algorithm 1 of a setting."""
    return Phase(
        s.steps,
        step_size=s.step_size,
        smoothing=s.smoothing,
        step_per_bias=s.step_per_bias * s.dim,
        bias_growth=s.bias_growth / s.dim,
        bias_cap=s.final_bias,
    )


def later_phase(s: Training, perturb: Any = None) -> Phase:
    """Steps of constant length with the bias where it is: Algorithm 2 if there is an adversary."""
    return Phase(s.adversarial_steps, step_size=s.step_size, smoothing=s.smoothing, perturb=perturb)


def fast_gradient(s: Training, p: float = 2, radius: float | None = None) -> FastGradient:
    """FGM at the radius of the setting, with the paper's rule for vanished gradients."""
    return FastGradient(LpBall(p, s.radius if radius is None else radius), zero=s.dim**-4.0)


def draws(s: Training, seed: int, stage: str, peer: int = 0) -> Draw:
    """New points for every step, in the order of a stage."""
    return fresh(coding(s, seed), s.batch, generator=generator_for(f"batches {stage} {peer}", seed))


def train(
    s: Training,
    net: SymmetricNet,
    phases: list[Phase],
    seed: int,
    stage: str,
    peer: int = 0,
    watch: int = WATCH,
    **options: Any,
) -> Trajectory[SymmetricNet]:
    """Run phases on the points of a setting; the stage names the order of the batches."""
    draw, penalty = draws(s, seed, stage, peer), s.penalty / s.dim
    return train_symmetric(net, draw, phases, penalty=penalty, watch=watch, **options)


@lru_cache(maxsize=12)
def _clean_run(s: Training, seed: int, peer: int) -> Trajectory[SymmetricNet]:
    record = [*EARLY, *(round(s.steps * share / SNAPSHOTS) for share in range(SNAPSHOTS))]
    return train(s, start(s, seed, peer), [clean_phase(s)], seed, "clean", peer, record=record)


def clean_run(s: Training, seed: int) -> Trajectory[SymmetricNet]:
    """Clean training from the random start to the end, recorded at early and at evenly spaced times."""
    return _clean_run(s.training, seed, 0)


@lru_cache(maxsize=64)
def _trained(s: Training, seed: int, stage: str, peer: int) -> SymmetricNet:
    if stage == "clean":
        return _clean_run(s, seed, peer).last
    if stage == "pure clean":
        return train(s, pure_start(s, seed), [later_phase(s)], seed, stage).last
    before = _trained(s, seed, "pure clean" if stage == "pure adversarial" else "clean", peer)
    adversary = None if stage == "control" else fast_gradient(s)
    return train(s, before, [later_phase(s, adversary)], seed, stage, peer).last


def trained(s: Training, seed: int, stage: str, peer: int = 0) -> SymmetricNet:
    """The network after a stage: "clean", then "adversarial" or "control" (as many extra clean steps).

    From a start of pure features: "pure clean", then "pure adversarial". A pure function of its arguments, trained once in a process
    however many items ask for it.
    """
    return _trained(s.training, seed, stage, peer)


def in_double(net: SymmetricNet, smoothing: float | None = None) -> SymmetricNet:
    """The network in double precision, with another smoothing if one is given."""
    return SymmetricNet(net.W.double(), net.thresholds, net.smoothing if smoothing is None else smoothing)


class Robustness(NamedTuple):
    """Accuracies without and under attacks at one radius, the perturbations of PGD, and of each point the one of least margin."""

    row: Row
    delta: Tensor
    strongest: Tensor


def attacked(
    net: Any, x: Tensor, y: Tensor, direction: Tensor, ball: LpBall, steps: int, seed: int
) -> Robustness:
    """`worst` is the accuracy under the strongest of four attacks, point by point.

    The attacks are the universal direction, FGM, and PGD from zero, at random and along Mw*; PGD is run once more on a twin whose
    smoothing is raised to half of the bias.
    """
    if isinstance(net, SymmetricNet):
        net = reachable(in_double(net), x, ball)
    x, y, direction = x.double(), y.double(), direction.double()
    starts = (Along(direction), AtRandom(1, generator_for("attack", seed)))
    outcomes = {
        "universal": along(direction)(net, x, y, ball),
        "fgm": fgm(net, x, y, ball),
        "pgd": pgd(net, x, y, ball, starts=starts, steps=steps),
    }
    deltas = [outcome.delta for outcome in outcomes.values()]
    if isinstance(net, SymmetricNet):
        twin = in_double(net, max(net.smoothing, TWIN_SMOOTHING * net.level))
        deltas.append(pgd(twin, x, y, ball, steps=steps).delta)
    with torch.no_grad():
        margins = torch.stack([y * _output(net, x + delta) for delta in deltas])
    strongest = torch.stack(deltas)[margins.argmin(dim=0), torch.arange(len(x))]
    row: Row = {"radius": float(ball.eps), "clean": accuracy(net, x, y)}
    row |= {name: float((~o.flipped).double().mean()) for name, o in outcomes.items()}
    flipped = (margins <= 0).any(dim=0)
    for outcome in outcomes.values():
        flipped |= outcome.flipped
    row |= {
        "worst": float((~flipped).double().mean()),
        "zero_gradient_share": outcomes["pgd"].zero_gradient_share,
    }
    return Robustness(row, outcomes["pgd"].delta, strongest)


def robustness(
    net: Any,
    test: SparseSample,
    problem: SparseCoding,
    s: Battery,
    seed: int,
    radius: float | None = None,
    p: float = 2,
) -> Robustness:
    """`attacked` on test points of a battery, at its radius or another."""
    ball = LpBall(p, s.radius if radius is None else radius)
    return attacked(net, test.x, test.y, problem.dense_direction, ball, s.attack_steps, seed)


def _output(net: Any, x: Tensor) -> Tensor:
    return net(x.to(next(t.dtype for t in (*net.parameters(), *net.buffers()))))


@torch.no_grad()
def accuracy(net: Any, x: Tensor, y: Tensor) -> float:
    """Share of points with y f > 0."""
    return float((y * _output(net, x) > 0).double().mean())


def certified_share(net: TwoLayerNet, x: Tensor, y: Tensor, radius: float, max_branches: int) -> float:
    """Share of the points that are proven to keep their label within the radius."""
    bracket = robust_radius(net, x, y, eps=radius, budget=Budget(branches=max_branches))
    return float((bracket.certified >= radius).mean())
