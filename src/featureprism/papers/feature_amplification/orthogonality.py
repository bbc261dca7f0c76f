"""Section 1: does a neuron become orthogonal to the centres of the other label? Along C, on the edge of every assumption."""

from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data import NoisySample, sample_in_span
from featureprism.data.dataset import Dataset
from featureprism.data.xor import XOR_LABELS, with_flips
from featureprism.lab import Claim, Experiment, Rows, below, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.critical_c import Edge, on_every_edge
from featureprism.papers.feature_amplification.lemmas import CAPTURED
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

ORTHOGONAL = 0.1  # the cosine below which a neuron counts as orthogonal
CONSTANTS = (16.0, 36.0, 64.0, 100.0, 144.0, 196.0, 256.0, 324.0)  # T = 1 + √C/2


@dataclass(frozen=True)
class Drawn:
    """A sample and a start in coordinates of the sample's span; `outside` has the squared lengths of the neurons outside it."""

    sample: NoisySample
    net: TwoLayerNet
    outside: Float[Tensor, " h"]

    def cosines(self, W: Float[Tensor, "h r"]) -> Float[Tensor, "4 h"]:
        """Of the four centres with neurons whose part outside the span is that of the start."""
        return self.sample.data.centres @ W.T / (W.square().sum(dim=1) + self.outside).sqrt()


def drawn_in_span(s: Edge, seed: int) -> Drawn:
    """Gaussian XOR clusters and a Gaussian start, exact in law: n + 2 coordinates instead of d. Training leaves the rest alone."""
    generator = generator_for("span", seed)
    plain = sample_in_span(s.dim, 1, 1, s.points, generator=generator)
    noise = plain.x - plain.centres[plain.cluster]
    first, second = torch.eye(2, s.points + 2, dtype=torch.float64)
    centres = torch.stack([first, -first, second, -second])
    cluster = torch.randint(4, (s.points,), generator=generator)
    clean = torch.tensor(XOR_LABELS, dtype=torch.float64)[cluster]
    flipped = torch.rand(s.points, generator=generator, dtype=torch.float64) < s.noise_rate
    data = Dataset(centres[cluster] + s.sigma * noise, clean, cluster, centres)
    W = s.start * torch.randn(s.width, s.points + 2, generator=generator, dtype=torch.float64)
    freedom = s.dim - s.points - 2
    entropy = int(torch.randint(2**62, (1,), generator=generator))
    outside = s.start**2 * torch.from_numpy(np.random.default_rng(entropy).chisquare(freedom, s.width))
    a = torch.ones(s.width, dtype=torch.float64) / sqrt(s.width)
    a[s.width // 2 :] *= -1
    net = TwoLayerNet(W, a, activation=ReLU())
    return Drawn(with_flips(NoisySample(data, clean, flipped), flipped), net, outside)


def measure(s: Edge, seed: int, context: Context) -> list[Row]:
    """The largest cosine with a centre of the other label, after T steps, of neurons that the first step turned to a centre."""
    drawn = drawn_in_span(s, seed)
    data = drawn.sample.data
    run = first_layer_descent(
        drawn.net,
        data.x,
        data.y,
        step_size=s.step_size,
        steps=s.steps,
        record=(0, 1),
        representation="patterns",
        progress=context.progress,
    )
    before, turned, after = (drawn.cosines(net.W.detach()) for net in run.snapshots)
    a = drawn.net.a.detach()
    votes = torch.stack([a > 0, a > 0, a < 0, a < 0])
    neurons = votes & (before >= 1 / (3 * theory.C0 * sqrt(s.dim))) & (turned >= CAPTURED)
    first, second = neurons[:2].any(dim=0), neurons[2:].any(dim=0)
    across = torch.cat([after[2][first], after[0][second]]).abs()
    row = {
        "kind": "cosine",
        "across": float(across.max()) if len(across) else nan,
        "median_across": float(across.median()) if len(across) else nan,
    }
    premises = [*theory.assumptions(s, s.constant), theory.stopping_time(s)]
    return [row, *(premise.as_row() for premise in premises)]


def _first_note(rows: Rows) -> str:
    """The first C from which on the mean over seeds stays below what counts as orthogonal."""
    means = {
        C: part.column("across").mean() for C, part in sorted(rows.of("cosine").groups("constant").items())
    }
    above = [C for C, mean in means.items() if mean >= ORTHOGONAL]
    later = [C for C in means if not above or above[-1] < C]
    words = ", ".join(f"{mean:.2f} at C = {C:g}" for C, mean in means.items())
    first = f"below {ORTHOGONAL:g} from C = {later[0]:g} on" if later else f"nowhere below {ORTHOGONAL:g}"
    return f"mean over seeds {words}: {first}"


CLAIMS = (
    Claim(
        "vanishes",
        source="Section 1",
        says="A neuron that is highly correlated with a centre after the first step becomes orthogonal to the centres of the other"
        " label, for C large.",
        quantity=f"exponent in C of the largest |cosine| with a centre of the other label after training, over neurons with a cosine of"
        f" {CAPTURED:g} or more after one step",
        bound=below(0.0),
        because="'for C sufficiently large' is a statement about a limit, judged by its rate; T gains along the centre of its"
        " cluster beside one"
        " along the other make 1/√(1+T²), and T = 1 + √C/2",
        value=lambda rows: rate(rows.of("cosine"), x="constant", y="across"),
        premises=requires("assumption", "theorem-3-1"),
        note=_first_note,
    ),
)


def draw(rows: Rows) -> Any:
    """The cosine across against C, beside the law of one gain across for T along."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels, plain_ticks

    figure, (axes,) = panels(1, width=4.6, height=3.0)
    for colour, (name, text) in zip(
        COLOURS, {"across": "largest", "median_across": "median"}.items(), strict=False
    ):
        band(axes, *over_seeds(rows.of("cosine"), "constant", name), colour, f"{text} over neurons")
    constants, steps = (np.array(rows.of("cosine").distinct(name)) for name in ("constant", "steps"))
    axes.plot(constants, 1 / np.sqrt(1 + steps**2), ":", color="black", label="1/√(1+T²)")
    guide(axes, ORTHOGONAL, "0.1", along="y")
    axes.set(xscale="log", yscale="log", xlabel="C", ylabel="|cosine| with the other label's centres")
    plain_ticks(axes, [C for C in (16, 36, 100, 324, 900) if constants.max() >= C])
    plain_ticks(axes, (0.05, 0.1, 0.2, 0.4), along="y")
    axes.legend()
    return figure


def _settings(*constants: float) -> list[Edge]:
    return [on_every_edge(C, 1) for C in constants]


ORTHOGONALITY = Experiment(
    id="feature-amplification/orthogonality",
    source="Frei et al. 2023, Section 1",
    title="How orthogonal neurons become to the other label",
    scales={
        "quick": _settings(*CONSTANTS),
        "standard": _settings(*CONSTANTS, 400.0, 576.0, 900.0),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "(A1)-(A7) met with equality for each C, up to d = 40 000 (standard: 134 000): the sample and the start are drawn in"
        " coordinates of the sample's span, exact in law. A neuron that is on a centre gains along it at every step; along the other"
        " direction it is thrown to and fro by one gain, so that its cosine with the other label's centres falls as 1/T, T = 1 + √C/2."
    ),
)
