"""What the experiments of the paper share: data of a setting, the networks trained on it, and how they stand up to attacks."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from featureprism.attacks import Along, AtRandom, along, fgm, pgd, transfer
from featureprism.attacks.adversaries import FastGradient
from featureprism.data import (
    SparseCoding,
    SparseSample,
    dictionary,
    label_weights,
    sample_sparse,
    two_level,
)
from featureprism.geometry import LpBall
from featureprism.networks import SymmetricNet, pure_net, symmetric_start
from featureprism.records import Row, Trajectory
from featureprism.seeds import generator_for
from featureprism.training import Draw, Phase, from_pool, train_symmetric

QUICK: Row = {
    # data: x = Mz + ξ, y = sign⟨w*, z⟩
    "dim": 200,
    "sparsity": 20,
    "large": 0.7,  # P(|z_i| = 1) = large/d
    "small": 0.5,  # P(|z_i| = 1/√k) = small·k/d
    "noise": 0.3,  # σ_x
    "margin": 1.25,  # hidden vectors with |⟨w*, z⟩| below it are drawn again
    "ties": "drop",
    "pool": 15000,
    # network and Algorithm 1
    "width": 600,
    "start": 1e-3,  # σ_0
    "start_bias": 1.2,  # b(0) in units of σ_0 √(2 ln d)
    "bias_growth": 0.16,  # per unit of time, in units of 1/d
    "bias_cap": 0.4,  # in units of 1/√k
    "smoothing": 0.2,  # σ_ρ in units of b
    "penalty": 0.1,  # λ in units of 1/d
    "step_size": 10.0,
    "step_per_bias": 0.05,  # the step is at most this times b·d
    "steps": 500,
    "batch": 300,
    # Algorithm 2, and attacks
    "adversarial_steps": 200,
    "radius": 0.2,  # τ
    "test_points": 300,
    "attack_steps": 12,
}
STANDARD: Row = {
    **QUICK,
    "width": 800,
    "steps": 800,
    "adversarial_steps": 600,
    "batch": 500,
    "pool": 40000,
    "test_points": 1000,
    "attack_steps": 40,
}
PAPER: Row = {**STANDARD, "dim": 400, "width": 1600, "steps": 1000, "adversarial_steps": 1200, "pool": 80000}
PROBE_POINTS = 2000
SNAPSHOTS = 10  # of clean training, besides its end
DATA = ("dim", "sparsity", "large", "small", "noise", "margin", "ties", "pool")
TRAINING = tuple(key for key in QUICK if key not in ("test_points", "attack_steps"))


def scales(**more: Any) -> dict[str, list[Row]]:
    """The same item at three sizes. The paper has no synthetic experiment of its own; "paper" is the largest we offer."""
    return {
        "quick": [{**QUICK, **more}],
        "standard": [{**STANDARD, **more}],
        "paper": [{**PAPER, **more}],
    }


def coding(setting: Row, seed: int, **changes: Any) -> SparseCoding:
    """The distribution of a setting: M = I, for every ℓ2 question is alike in any orthogonal M, and signs for w*."""
    dim = setting["dim"]
    return SparseCoding(
        dictionary("identity", dim, generator=generator_for("dictionary", seed)),
        label_weights("signs", dim, generator=generator_for("labels", seed)),
        two_level(dim, setting["sparsity"], setting["large"], setting["small"]),
        **{"noise": setting["noise"], "margin": setting["margin"], "ties": setting["ties"]} | changes,
    )


def test_set(setting: Row, seed: int) -> SparseSample:
    """Points that no network was trained on."""
    return sample_sparse(coding(setting, seed), setting["test_points"], generator=generator_for("test", seed))


def probe_points(setting: Row, seed: int) -> Tensor:
    """Points enough to see every neuron fire that ever does: the rarest signal comes once in 300."""
    return test_set({**setting, "test_points": PROBE_POINTS}, seed).x


def start(setting: Row, seed: int, peer: int = 0) -> SymmetricNet:
    """The random network before training; peers share the data's distribution and nothing else."""
    dim, std = setting["dim"], setting["start"]
    bias = setting["start_bias"] * math.sqrt(2 * math.log(dim)) * std
    generator = generator_for(f"start {peer}", seed)
    return symmetric_start(setting["width"], dim, std, bias, setting["smoothing"] * bias, generator=generator)


def clean_phase(setting: Row, steps: int | None = None, **changes: Any) -> Phase:
    """Algorithm 1 of a setting."""
    rules: dict[str, Any] = {
        "step_size": setting["step_size"],
        "smoothing": setting["smoothing"],
        "step_per_bias": setting["step_per_bias"] * setting["dim"],
        "bias_growth": setting["bias_growth"] / setting["dim"],
        "bias_cap": final_bias(setting),
    }
    return Phase(setting["steps"] if steps is None else steps, **(rules | changes))


def later_phase(setting: Row, steps: int | None = None, **changes: Any) -> Phase:
    """Steps of constant length with the bias where it is: Algorithm 2 if there is an adversary."""
    rules: dict[str, Any] = {"step_size": setting["step_size"], "smoothing": setting["smoothing"]}
    return Phase(setting["adversarial_steps"] if steps is None else steps, **(rules | changes))


def fast_gradient(setting: Row, p: float = 2, radius: float | None = None) -> FastGradient:
    """FGM at the radius of the setting, with the paper's rule for vanished gradients."""
    return FastGradient(
        LpBall(p, setting["radius"] if radius is None else radius), zero=setting["dim"] ** -4.0
    )


def final_bias(setting: Row) -> float:
    """Where the bias stops growing."""
    return setting["bias_cap"] / math.sqrt(setting["sparsity"])


@lru_cache(maxsize=16)
def _pool(key: tuple[tuple[str, Any], ...], seed: int, peer: int) -> tuple[Tensor, Tensor]:
    setting = dict(key)
    generator = generator_for(f"train {peer}", seed)
    found = sample_sparse(coding(setting, seed), setting["pool"], generator=generator)
    return found.x, found.y


def train(
    setting: Row, net: SymmetricNet, phases: list[Phase], seed: int, stage: str, peer: int = 0, **options: Any
) -> Any:
    """Run phases on the pool of a setting; the stage names the order of the batches."""
    draw = draws(setting, seed, stage, peer)
    return train_symmetric(net, draw, phases, penalty=setting["penalty"] / setting["dim"], **options)


def draws(setting: Row, seed: int, stage: str, peer: int = 0) -> Draw:
    """Batches from the pool of a setting, in the order of a stage."""
    x, y = _pool(_key(setting, DATA), seed, peer)
    generator = generator_for(f"batches {stage} {peer}", seed)
    return from_pool(x, y, setting["batch"], generator=generator)


def _key(setting: Row, names: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, setting[name]) for name in names)


@lru_cache(maxsize=12)
def _clean_run(key: tuple[tuple[str, Any], ...], seed: int, peer: int) -> Trajectory[SymmetricNet]:
    setting = dict(key)
    record = [round(setting["steps"] * share / SNAPSHOTS) for share in range(SNAPSHOTS)]
    return train(
        setting, start(setting, seed, peer), [clean_phase(setting)], seed, "clean", peer, record=record
    )


def clean_run(setting: Row, seed: int) -> Trajectory[SymmetricNet]:
    """Clean training from the random start to the end, seen at evenly spaced times."""
    return _clean_run(_key(setting, TRAINING), seed, 0)


@lru_cache(maxsize=64)
def _trained(key: tuple[tuple[str, Any], ...], seed: int, stage: str, peer: int) -> SymmetricNet:
    setting = dict(key)
    if stage == "clean":
        return _clean_run(key, seed, peer).last
    before = _trained(key, seed, "clean", peer)
    adversary = fast_gradient(setting) if stage == "adversarial" else None
    return train(setting, before, [later_phase(setting, perturb=adversary)], seed, stage, peer).last


def trained(setting: Row, seed: int, stage: str, peer: int = 0) -> SymmetricNet:
    """The network after a stage: "clean", then "adversarial" or "control" (as many extra clean steps).

    A pure function of its arguments, trained once in a process however many items ask for it.
    """
    return _trained(_key(setting, TRAINING), seed, stage, peer)


def pure_start(setting: Row, seed: int) -> SymmetricNet:
    """The pure network w_j = sign(w*_j) M_j with the bias and the smoothing of the trained ones: the ceiling."""
    problem, bias = coding(setting, seed), final_bias(setting)
    return pure_net(problem.M, problem.w, bias, setting["smoothing"] * bias)


class Robustness(NamedTuple):
    """Accuracies without and under attacks at one radius, and the perturbations of PGD."""

    row: Row
    delta: Tensor


def robustness(
    net: Any,
    test: SparseSample,
    problem: SparseCoding,
    setting: Row,
    seed: int,
    radius: float | None = None,
    p: float = 2,
) -> Robustness:
    """`worst` is the minimum over the universal direction, FGM and multi-start PGD, point by point.

    PGD starts at zero, at random and along Mw*; once more on a twin with the smoothing raised to b/2, whose gradient vanishes nowhere.
    """
    ball = LpBall(p, setting["radius"] if radius is None else radius)
    x, y, direction = test.x.double(), test.y.double(), problem.dense_direction.double()
    starts = (Along(direction), AtRandom(1, generator_for("attack", seed)))
    outcomes = {
        "universal": along(direction)(net, x, y, ball),
        "fgm": fgm(net, x, y, ball),
        "pgd": pgd(net, x, y, ball, starts=starts, steps=setting["attack_steps"]),
    }
    flipped = torch.stack([o.flipped for o in outcomes.values()]).any(dim=0)
    if isinstance(net, SymmetricNet):
        twin = SymmetricNet(net.W, net.bias, max(net.smoothing, net.bias / 2))
        found = pgd(twin, x, y, ball, steps=setting["attack_steps"]).delta
        flipped |= transfer(found, net, x, y, ball).flipped
    row: Row = {"radius": float(ball.eps), "clean": accuracy(net, x, y)}
    row |= {name: float((~o.flipped).double().mean()) for name, o in outcomes.items()}
    row |= {
        "worst": float((~flipped).double().mean()),
        "zero_gradient_share": outcomes["pgd"].zero_gradient_share,
    }
    return Robustness(row, outcomes["pgd"].delta)


@torch.no_grad()
def accuracy(net: Any, x: Tensor, y: Tensor) -> float:
    """Share of points with y f > 0."""
    dtype = next(t.dtype for t in (*net.parameters(), *net.buffers()))
    return float((y * net(x.to(dtype)) > 0).double().mean())
