"""Sparse coding: clean training leaves a haze of other features on every neuron, adversarial training takes it away."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from featureprism.data import SparseCoding
from featureprism.lab.rows import Row
from featureprism.networks import SymmetricNet
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification import setting as paper
from featureprism.papers.feature_purification.demonstration import START, won_features
from featureprism.probes import purification as probes
from featureprism.training import train_symmetric

SIDE = 10  # features are drawn as a square
CLEAN, ADVERSARIAL, PER_FRAME = 400, 160, 10  # steps
SHOWN = 16  # neurons
RADII = (0.0, 0.04, 0.08, 0.13, 0.2, 0.3)
TEST_POINTS = 200


@dataclass(frozen=True)
class Sparse:
    """`hidden`: the law of the hidden vector; `radius`: that of the adversary in training."""

    hidden: str = "two-level"
    radius: float = 0.13
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hidden not in paper.HIDDEN:
            raise ValueError(f"hidden must be one of {', '.join(paper.HIDDEN)}, got {self.hidden!r}.")
        if not 0.02 <= self.radius <= 0.3:
            raise ValueError(f"radius must be between 0.02 and 0.3, got {self.radius:g}.")
        if not 0 <= self.seed <= 999:
            raise ValueError(f"seed must be between 0 and 999, got {self.seed}.")

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Sparse":
        """The choice of a query, defaults for what it leaves out."""
        try:
            return cls(
                words.get("hidden", cls.hidden),
                float(words.get("radius", cls.radius)),
                int(words.get("seed", cls.seed)),
            )
        except ValueError as error:
            raise ValueError(f"Sparse coding: {error}") from error

    @property
    def setting(self) -> paper.Battery:
        """Neurons that have won their features, as in the item `demonstration`: large mixtures after clean training, none after."""
        return won_features(
            SIDE**2,
            9,
            0.4,
            hidden=self.hidden,
            steps=CLEAN,
            adversarial_steps=ADVERSARIAL,
            test_points=TEST_POINTS,
            radius=self.radius,
        )


def purification(choice: Sparse) -> Iterator[Row]:
    """How far training is, then every frame at once (the neurons shown are those that clean training made large), then the curves."""
    s, film = choice.setting, []
    coding = paper.coding(s, choice.seed)
    total = (CLEAN + ADVERSARIAL) // PER_FRAME + 1
    for moment in _moments(s, choice.seed):
        film.append(moment)
        yield {"kind": "progress", "done": round(len(film) / total, 3)}
    at_clean = CLEAN // PER_FRAME
    chosen = largest(film[at_clean][1], coding)
    yield {
        "kind": "opening",
        "side": SIDE,
        "clean": at_clean,
        "chosen": chosen.tolist(),
        "signs": coding.w.int().tolist(),
    }
    for step, net in film:
        yield picture(step, net, coding, chosen)
    yield from curves({"clean": film[at_clean][1], "adversarial": film[-1][1]}, s, choice.seed)


def _moments(s: paper.Battery, seed: int) -> Iterator[tuple[int, SymmetricNet]]:
    """Clean, then adversarial training, a few steps at a time."""
    problem, bias = paper.coding(s, seed), s.final_bias
    net, step = pure_net(problem.M, problem.w, bias, s.smoothing * bias, scale=START), 0
    yield step, net
    stages = (
        ("clean", CLEAN, paper.later_phase(s)),
        ("adversarial", ADVERSARIAL, paper.later_phase(s, paper.fast_gradient(s))),
    )
    for stage, steps, phase in stages:
        draw, part = paper.draws(s, seed, stage), replace(phase, steps=PER_FRAME)
        for _ in range(steps // PER_FRAME):
            net = train_symmetric(net, draw, [part], penalty=s.penalty / s.dim).last
            step += PER_FRAME
            yield step, net


def largest(net: SymmetricNet, coding: SparseCoding) -> Tensor:
    """The neurons with the largest coefficients, one for each feature, in the order of the features."""
    size, feature = (net.W.detach() @ coding.M).abs().max(dim=1)
    kept: dict[int, int] = {}
    for neuron in size.argsort(descending=True).tolist():
        kept.setdefault(int(feature[neuron]), neuron)
        if len(kept) == SHOWN:
            break
    return torch.tensor([kept[j] for j in sorted(kept)])


def picture(step: int, net: SymmetricNet, coding: SparseCoding, chosen: Tensor) -> Row:
    """The chosen neurons in coordinates of the features, in units of the largest of each: bytes in base64; and how pure all are."""
    W = net.W.detach()
    A = (W[chosen] @ coding.M) * coding.w
    A = A * torch.sign(A.gather(1, A.abs().argmax(dim=1, keepdim=True)))
    scaled = (127 * A / A.abs().amax(dim=1, keepdim=True).clamp_min(1e-30)).round().to(torch.int8)
    return {
        "kind": "frame",
        "step": step,
        "stage": "clean" if step <= CLEAN else "adversarial",
        "neurons": base64.b64encode(scaled.numpy().tobytes()).decode(),
        "purity": round(pure := probes.weighted_purity(W, coding.M), 4),
        "haze": round(1 - pure**2, 5),  # share of the energy that lies in other features
    }


def curves(nets: Mapping[str, SymmetricNet], s: paper.Battery, seed: int) -> Iterator[Row]:
    """Robust accuracy of both networks at every radius, under the strongest of the attacks."""
    test, coding = paper.test_set(s, seed), paper.coding(s, seed)
    for stage, net in nets.items():
        for radius in RADII:
            if radius == 0:
                worst = paper.accuracy(net, test.x, test.y)
            else:
                worst = paper.robustness(net, test, coding, s, seed, radius).row["worst"]
            yield {"kind": "accuracy", "stage": stage, "radius": radius, "worst": round(worst, 4)}
