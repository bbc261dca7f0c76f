"""Section 2 on natural images: sparse codes of image patches in a learned dictionary as hidden vectors, both algorithms on them."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from featureprism.data import two_level
from featureprism.data.images import load_images
from featureprism.geometry import LpBall, unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.setting import (
    Battery,
    attacked,
    clean_phase,
    fast_gradient,
    later_phase,
    start,
)
from featureprism.probes import purification as probes
from featureprism.seeds import generator_for
from featureprism.training import from_pool, train_symmetric

ENERGY = 2.0  # E‖z‖², that of the two-level hidden vector with large = small = 1
FLAT = 0.3  # patches with a smaller share of the typical contrast have no structure to code
PENALTY = 0.2  # of the ℓ1 norm, while the dictionary is learned
FLOOR = 0.01  # of the mean variance, added before whitening


@dataclass(frozen=True, kw_only=True)
class RealCodesSetting(Battery):
    """Patches of `side` × `side` pixels in all colours; `sparsity` of the codes is exact. `learned`: x = Dz + ξ, else x = z + ξ."""

    data: str = "cifar10"
    side: int = 7
    patches: int = 5000
    learning: int = 2000  # patches that the dictionary is learned from
    epochs: int = 3
    learned: bool = False


class Codes(NamedTuple):
    """Codes z with E‖z‖² = 2, the dictionary with unit columns, and the share of the whitened patches that Dz explains."""

    z: Tensor
    M: Tensor
    explained: float


def patches(images: Tensor, side: int, num: int, *, generator: torch.Generator) -> Tensor:
    """Random patches as rows, each with its mean removed; flat ones are left out."""
    pieces = images.unfold(2, side, 1).unfold(3, side, 1)  # (n, c, rows, columns, side, side)
    n, _, rows, columns = pieces.shape[:4]
    at = [torch.randint(size, (2 * num,), generator=generator) for size in (n, rows, columns)]
    patch = pieces[at[0], :, at[1], at[2]].flatten(1).double()
    centred = patch - patch.mean(dim=1, keepdim=True)
    contrast = torch.linalg.vector_norm(centred, dim=1)
    return centred[contrast > FLAT * contrast.median()][:num]


def whitened(x: Tensor) -> Tensor:
    """Rows with equal variance in all directions (small ones are not blown up), of unit length."""
    values, vectors = torch.linalg.eigh(x.T @ x / len(x))
    return unit_rows(x @ (vectors / (values + FLOOR * values.mean()).sqrt()) @ vectors.T)


def matching_pursuit(x: Tensor, M: Tensor, sparsity: int) -> Tensor:
    """Orthogonal matching pursuit, all points together: the atom that fits the residual best joins, then all are fitted anew."""
    gram, fit = M.T @ M, x @ M
    chosen = torch.empty(len(x), 0, dtype=torch.long)
    z = torch.zeros_like(fit)
    for _ in range(sparsity):
        rest = (fit - z @ gram).abs().scatter_(1, chosen, -1.0)
        chosen = torch.cat([chosen, rest.argmax(dim=1, keepdim=True)], dim=1)
        own = gram[chosen.unsqueeze(2), chosen.unsqueeze(1)]  # (n, j, j)
        values = torch.linalg.solve(own, fit.gather(1, chosen).unsqueeze(2)).squeeze(2)
        z = torch.zeros_like(fit).scatter_(1, chosen, values)
    return z


@lru_cache(maxsize=4)
def _learned_codes(s: RealCodesSetting, folder: Path | None, seed: int) -> Codes:
    from sklearn.decomposition import MiniBatchDictionaryLearning

    images = load_images(s.data, folder).x_train
    x = whitened(patches(images, s.side, s.patches, generator=generator_for("patches", seed))).numpy()
    learner = MiniBatchDictionaryLearning(
        n_components=x.shape[1],
        alpha=PENALTY,  # pyright: ignore[reportArgumentType]
        fit_algorithm="cd",
        batch_size=250,
        max_iter=s.epochs,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codes on the way to a dictionary need no duality gap of 1e-8
        atoms = learner.fit(x[: s.learning]).components_
    atoms = atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1e-12)
    M, points = torch.from_numpy(atoms.T.copy()), torch.from_numpy(x)
    z = matching_pursuit(points, M, round(s.sparsity))
    explained = 1 - (points - z @ M.T).square().sum() / points.square().sum()
    z = z * math.sqrt(ENERGY / float(z.square().sum(dim=1).mean()))
    return Codes(z.float(), M.float(), float(explained))


def real_codes(s: RealCodesSetting, folder: Path | None, seed: int) -> Codes:
    """A dictionary of as many atoms as dimensions, learned on whitened patches, and their codes of k atoms (matching pursuit)."""
    return _learned_codes(replace(s, learned=False), folder, seed)


def measure(s: RealCodesSetting, seed: int, context: Context) -> list[Row]:
    """Statistics of the codes, and both algorithms on x = Mz + ξ, y = sign⟨w*, z⟩."""
    codes = real_codes(s, context.data, seed)
    dim = codes.z.shape[1]
    s = replace(s, dim=dim)
    M = codes.M if s.learned else torch.eye(dim)
    generator = generator_for("labels", seed)
    w = (torch.randint(0, 2, (dim,), generator=generator) * 2 - 1).float()
    x = codes.z @ M.T + s.noise / math.sqrt(dim) * torch.randn(codes.z.shape, generator=generator)
    y = torch.where(codes.z @ w > 0, 1.0, -1.0)
    held = len(x) - s.test_points
    stages: dict[str, SymmetricNet] = {"pure": pure_net(M, w, s.final_bias, s.smoothing * s.final_bias)}
    net = start(s, seed)
    for stage, phase in (("clean", clean_phase(s)), ("adversarial", later_phase(s, fast_gradient(s)))):
        points = from_pool(x[:held], y[:held], s.batch, generator=generator_for(f"batches {stage}", seed))
        stages[stage] = net = train_symmetric(net, points, [phase], penalty=s.penalty / dim).last
    context.progress(0.7)
    rows: list[Row] = [_statistics(codes, w)]
    for stage, net in stages.items():
        found = attacked(net, x[held:], y[held:], M @ w, LpBall(2, s.radius), s.attack_steps, seed).row
        row: Row = {"kind": "network", "stage": stage, "purity": probes.weighted_purity(net.W.detach(), M)}
        rows.append({**row, "clean": found["clean"], "worst": found["worst"]})
    premises = theory.hidden_vector_premises(two_level(dim, s.sparsity), codes.z[held:], w)
    return rows + [premise.as_row() for premise in premises]


def _statistics(codes: Codes, w: Tensor) -> Row:
    """How far the codes are from Assumption 2.1: equal moments, symmetry, independence."""
    z = codes.z.double()
    second = (z**2).mean(dim=0)
    score = z @ w.double()
    gram = (codes.M.T @ codes.M).abs().fill_diagonal_(0)
    return {
        "kind": "codes",
        "explained": codes.explained,
        "largest_moment": float(second.max() / second.mean()),
        "least_moment": float(second.min() / second.mean()),
        "asymmetry": float((z.mean(dim=0).abs() / second.sqrt().clamp_min(1e-12)).mean()),
        "dependence": float(score.var() / z.var(dim=0).sum()),
        "coherence": float(gram.max()),
    }


def _value(stage: str, key: str, learned: bool):
    def value(rows: Rows) -> Values:
        return rows.of("network", stage=stage, learned=learned).per_seed(key)

    return value


def _gain(key: str, learned: bool):
    return lambda rows: _value("adversarial", key, learned)(rows) - _value("clean", key, learned)(rows)


def _codes_note(rows: Rows) -> str:
    part = rows.of("codes")
    words = {"largest_moment": "largest E z_j² ÷ mean", "dependence": "Var⟨w*, z⟩ ÷ Σ Var z_j"}
    return ", ".join(f"{text} {part.column(key).mean():.2f}" for key, text in words.items())


CODES = {
    "orthogonal": (False, "on orthogonal features"),
    "learned": (True, "in the dictionary that was learned from them"),
}


def _purity(label: str) -> Claim:
    learned, words = CODES[label]
    return Claim(
        f"{label}-purity",
        source="Section 3",
        says=f"Adversarial training purifies features also for the sparse codes of natural image patches {words}.",
        quantity="largest |cosine| of a neuron with one feature, weighted by ‖w‖²: after minus before adversarial training",
        bound=above(0.02),
        because="a fiftieth is several times the spread over seeds",
        value=_gain("purity", learned),
        origin="featureprism",
        note=_codes_note,
        premises=requires("assumption-2-1", learned=learned),
    )


def _robust(label: str) -> Claim:
    learned, words = CODES[label]
    return Claim(
        f"{label}-robust",
        source="Theorems 5.1(c) and 5.3(b)",
        says=f"Adversarial training makes a network more robust also for the sparse codes of natural image patches {words}.",
        quantity="robust accuracy ÷ that of the pure network, after adversarial minus after clean training",
        bound=above(0.0),
        because="any gain at all",
        value=lambda rows: _gain("worst", learned)(rows) / _value("pure", "worst", learned)(rows),
        origin="featureprism",
        premises=requires("assumption-2-1", learned=learned),
    )


CLAIMS = (_purity("orthogonal"), _robust("orthogonal"), _purity("learned"), _robust("learned"))


def draw(rows: Rows) -> Any:
    """Accuracies and purity on real codes and orthogonal features."""
    from featureprism.papers.feature_purification.drawing import stage_bars

    keys = {"without attack": "clean", "attacked at τ": "worst", "purity": "purity"}
    return stage_bars(rows.having(learned=False), ("clean", "adversarial", "pure"), keys, "accuracy; purity")


QUICK = RealCodesSetting(
    sparsity=6,
    penalty=0.07,
    start_bias=0.76,
    bias_growth=0.15,
    step_size=5.0,
    step_per_bias=1e6,
    steps=500,
    adversarial_steps=400,
    batch=300,
    test_points=250,
)
MORE: dict[str, Any] = {
    "patches": 20000,
    "learning": 10000,
    "epochs": 20,
    "steps": 1500,
    "width": 600,
    "attack_steps": 40,
}
REAL_CODES = Experiment(
    id="feature-purification/real-codes",
    source="Allen-Zhu & Li 2020, Section 2",
    title="Sparse codes of natural image patches as hidden vectors: how much of purification survives",
    scales={
        scale: [replace(QUICK, learned=learned, **more) for learned in (False, True)]
        for scale, more in (("quick", {}), ("standard", MORE), ("paper", MORE))
    },
    measure=measure,
    claims=CLAIMS,
    family="real codes",  # both settings learn one dictionary
    draw=draw,
    about=(
        "A dictionary is learned on whitened 7 × 7 patches of CIFAR-10 (or of digits); codes of k = 6 atoms are the hidden"
        " vectors, scaled to E‖z‖² = 2, on orthogonal features or on the learned atoms. Labels are sign⟨w*, z⟩, noise σ_x = 1."
        " Patches of 7 × 7 pixels have 147 dimensions at every scale."
    ),
)
