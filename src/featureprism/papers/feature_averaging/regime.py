"""A run inside Assumption 4.3: d = k¹⁰, n = k⁷, η = d⁻², in coordinates of the span and lumps of steps. T is outside Theorem 4.5."""

from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.context import Context
from featureprism.data import class_labels, sample_in_span
from featureprism.lab import SCALES, Claim, Experiment, Rows, at_least, between, requires
from featureprism.networks import ReLU, TwoLayerNet, voting_start
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import premise_ratios
from featureprism.papers.feature_averaging.features import class_shares, feature_fit, sphere_gap
from featureprism.papers.feature_averaging.margins import spread_of
from featureprism.papers.feature_averaging.setting import (
    APPENDIX_A,
    ASSUMPTIONS,
    LITTLE_O,
    LITTLE_O_READ,
    OF_APPENDIX_B,
    OF_THEOREM_4_5,
    Baseline,
    summary,
)
from featureprism.probes import from_updates
from featureprism.records import Dataset, Row, Trajectory
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent, growing_lumps

STARTS = 100  # starts on which Proposition A.12 and Lemma B.1 are tried


@dataclass(frozen=True, kw_only=True)
class AsymptoticSizes(Baseline):
    """Lumps of steps are this share of all steps before."""

    growth: float = 1 / 20


def inside(k: int, positive: int) -> AsymptoticSizes:
    """The least sizes of Assumption 4.3 with constants 1: d = k¹⁰, n = k⁷, m = k, η = d⁻², T = 1/η, and the start of Lemma A.13."""
    d, n, m = k**10, k**7, k
    step_size = float(d) ** -2
    start = 0.99 * step_size / (6 * n * m * sqrt(d))
    sizes = {"dim": d, "positive": positive, "negative": k - positive, "points": n, "per_class": m}
    return AsymptoticSizes(**sizes, step_size=step_size, start=start, steps=d**2)


def start_in_span(s: Baseline, num_coordinates: int, seed: int, num: int = 1) -> tuple[TwoLayerNet, Tensor]:
    """A start in the coordinates of the span, and its squared lengths outside, which training leaves alone.

    With `num` > 1 the neurons of so many starts in one network.
    """
    generator = generator_for("two-class start", seed)
    net = voting_start(num * s.per_class, num_coordinates, s.start, ReLU(), generator=generator)
    outside = s.dim - num_coordinates
    # χ² with so many degrees of freedom, by its normal limit: relative error 1/outside
    normal = torch.randn(net.width, generator=generator, dtype=torch.float64)
    return net, s.start**2 * (outside + sqrt(2 * outside) * normal)


def fewest_activations(z: Float[Tensor, "s n h"], data: Dataset) -> Float[Tensor, " s"]:
    """Of each start, the fewest points of a cluster that activate a neuron: min |T_{s,r,j}| of Proposition A.12."""
    counts = torch.zeros(len(z), len(data.centres), z.shape[2], dtype=z.dtype)
    return counts.index_add(1, data.cluster, (z >= 0).to(z.dtype)).amin(dim=(1, 2))


def many_starts(s: Baseline, num_coordinates: int, seed: int) -> TwoLayerNet:
    """A stack of `STARTS` starts."""
    net, _ = start_in_span(s, num_coordinates, seed, STARTS)
    assert net.b is not None
    W, b = (
        part.detach().unflatten(0, (2, STARTS, s.per_class)).movedim(1, 0).flatten(1, 2)
        for part in (net.W, net.b)
    )
    return TwoLayerNet(
        W, torch.sign(net.a.detach())[::STARTS].expand(STARTS, -1) / s.per_class, b, activation=ReLU()
    )


def tried_starts(s: Baseline, data: Dataset, seed: int) -> Row:
    """Of many starts, the share that has the event of Proposition A.12, and what is active after one step with it and without."""
    starts = many_starts(s, data.x.shape[1], seed + 10**6)
    run = first_layer_descent(
        starts, data.x, data.y, step_size=s.step_size, steps=1, record=(0,), representation="direct"
    )
    before, after = run.probes["pre_activations"]  # (s, n, h)
    happened = fewest_activations(before, data) >= theory.needed_activations(s)
    own = torch.sign(starts.a.detach()[0]) == data.y.unsqueeze(1)
    active = (after >= 0)[:, own].double().mean(dim=1)  # share of own pairs (point, neuron), for each start
    return {
        "activated": float(happened.double().mean()),
        "activation_law": theory.activation_chance(s),
        "active_with": float(active[happened].min()) if bool(happened.any()) else nan,
        "all_active_without": float((active[~happened] == 1).double().mean()),
    }


def _conclusions(s: AsymptoticSizes, run: Trajectory[Any], data: Dataset) -> Row:
    """What Theorems 4.5 and 4.6 and the lemmas speak of, at the end of a run."""
    net = run.last
    signs, labels = torch.sign(net.a.detach()), class_labels(s.positive, s.negative)
    features = from_updates(run.probes["slopes"][-1][0], data, s.step_size).features
    growth, opposite = class_shares(features, signs, labels)
    fit = feature_fit(net.W.detach(), signs.unsqueeze(1) == labels, data.centres)
    with torch.no_grad():
        spread = spread_of(data.y * net(data.x), data)
    absolute, relative = sphere_gap(net, data.centres, labels, sqrt(s.dim))
    return {
        "kind": "summary",
        "lambda": growth,
        "opposite": opposite,
        "opposite_law": theory.opposite_share(s.positive, s.num_clusters, s.points, s.dim),
        "slope_ratio": spread["derivative_ratio"],
        "spread_law": theory.margin_spread(growth, s.positive, s.dim),
        "ratio_law": theory.extreme_ratio(spread["margin"], growth, s),
        "margin_gap": spread["gap"],
        "margin": spread["margin"],
        "scaled_error": fit.scaled_error,
        "relative_error": fit.relative_error,
        "absolute_gap": absolute,
        "gap": relative,
    }


def measure(s: AsymptoticSizes, seed: int, context: Context) -> list[Row]:
    """The conclusions of Theorems 4.5 and 4.6 and of lemmas after T = 1/η steps; the events of Appendix A on this sample and start."""
    data = sample_in_span(
        s.dim, s.positive, s.negative, s.points, generator=generator_for("train in its span", seed)
    )
    start, outside = start_in_span(s, data.x.shape[1], seed)
    lumps = growing_lumps(s.steps, s.growth)
    run = first_layer_descent(
        start,
        data.x,
        data.y,
        step_size=s.step_size,
        steps=len(lumps),
        representation="gram",
        lumps=lumps,
        record=(0,),
        progress=context.progress,
    )
    row = {**_conclusions(s, run, data), **tried_starts(s, data, seed)}
    lengths = (start.W.detach().square().sum(dim=1) + outside).sqrt()
    assert start.b is not None
    premises = [
        *theory.premises(s, data.centres),
        *theory.training_time(s, s.steps),
        *theory.sample_events(data, s.dim),
        *theory.start_events(s, lengths.unsqueeze(1), start.b.detach()),
        theory.activation_event(s, float(fewest_activations(run.probes["pre_activations"][0], data))),
    ]
    return [row, *(premise.as_row() for premise in premises)]


def _activation_note(rows: Rows) -> str:
    starts = rows.of("summary")
    share, law = starts.column("activated").mean(), starts.column("activation_law").mean()
    return (
        f"it fails in {1 - share:.0%} of the starts (law {1 - law:.0%}), for m = k large in 1 - e^(-2/3) = 49 %; the printed"
        " probability 1 - m^(-1/100) - 2mk exp(-n/(9km²)) is 0.01 at m = 3, and too large from m = 2¹⁰⁴ on"
    )


def _without_note(rows: Rows) -> str:
    share = rows.of("summary").column("all_active_without").mean()
    return f"of the starts without that event {share:.0%} do it all the same"


def _ratio_note(rows: Rows) -> str:
    """What the ratio must be at this size: margins spread by λ√(|J|/d) in a cluster, and the ratio is of the most extreme of n."""
    ends = rows.of("summary")
    gap, law, extremes = (ends.column(name).mean() for name in ("margin_gap", "spread_law", "ratio_law"))
    return (
        f"margins differ by {gap:.2f}, standard deviation λ√(|J|/d) = {law:.3f} in a cluster:"
        f" from the extremes of n normals the ratio is {extremes:.2f}. {WINDOW}"
    )


WINDOW = "Assumption 4.3 holds with constants 1; T ≤ exp(Õ(√k)) cannot, with T ≥ 1/η = k²⁰, at any small k"
CLAIMS = (
    Claim(
        "slope-ratio",
        source="Lemma 5.3, equation (6)",
        says="Inside Assumption 4.3, the derivatives of the loss at any two training points have a ratio of 1 ± o(1).",
        quantity="largest ratio of the derivatives of two training points minus 1, after T = 1/η steps",
        formula=r"\ell'_i / \ell'_j = 1 \pm o(1)",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=lambda rows: summary("slope_ratio")(rows) - 1,
        premises=OF_APPENDIX_B,
        note=_ratio_note,
    ),
    Claim(
        "opposite",
        source="Section 5.3, step 2 (Lemma B.7 (8))",
        says="Inside Assumption 4.3, the coefficients of the features of the other class stay o(1).",
        quantity="root mean square over clusters of the coefficient λ of an opposite cluster, after T = 1/η steps",
        formula=r"|\lambda_{-s,r,j}| = o(1) \text{ for } j \in J_s",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=lambda rows: summary("opposite")(rows) * summary("lambda")(rows),
        premises=OF_APPENDIX_B,
        note="relative to its own λ it is the floor of Theorem 4.6, `theorem-4-6.floor`",
    ),
    Claim(
        "active",
        source="Lemma B.1",
        says="After one step of descent every training point activates all neurons of its class.",
        quantity=f"least share of active pairs of a point and a neuron of its class at t = 1, over those of {STARTS} starts that have"
        " the event of Proposition A.12",
        formula=r"S_{y_i,i}^{(1)} = [m]",
        bound=at_least(1.0),
        because="no pair may be an exception",
        value=summary("active_with"),
        aggregate="worst",
        premises=requires(*ASSUMPTIONS, *(id for id in APPENDIX_A if id != "proposition-a-12")),
        note=_without_note,
    ),
    Claim(
        "weights",
        source="Theorem 4.5 (2)",
        says="Inside Assumption 4.3, every neuron becomes a multiple of the sum of the cluster centres of its class, up to o(1/√d).",
        quantity="largest distance of a neuron from λ Σ μ_j/d, times √d",
        formula=r"\bigl\lVert w_{s,r} - \lambda \sum_{j \in J_s} \mu_j / \lVert\mu_j\rVert^2 \bigr\rVert \le o(d^{-1/2})",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=summary("scaled_error"),
        premises=OF_THEOREM_4_5,
        note=WINDOW,
    ),
    Claim(
        "approach",
        source="Theorem 4.6",
        says="Inside Assumption 4.3, the trained network is within o(1) of a multiple of the averaging classifier.",
        quantity="largest distance on the sphere ‖x‖ = √d, at the best multiple",
        formula=r"\inf_{C>0} \sup_{\lVert x\rVert = \sqrt d} |C f_{FA}(x) - f_\theta(x)| = o(1)",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=summary("absolute_gap"),
        premises=OF_THEOREM_4_5,
    ),
    Claim(
        "activated-law",
        source="Proposition A.12, sharp",
        says="Only in about half of the random starts is every neuron active on n/(3km²) points of every cluster.",
        quantity="share of the starts ÷ (1-1/(3m²))^(2mk)",
        formula=r"\Pr = \bigl(1 - \tfrac{1}{3m^2}\bigr)^{2mk} \to e^{-2/3} \text{ for } m = k",
        bound=between(0.75, 1.25),
        because=f"a quarter; {STARTS} starts a seed determine the share to a tenth",
        value=lambda rows: summary("activated")(rows) / summary("activation_law")(rows),
        origin="featureprism",
        note=_activation_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Every premise and event as measured ÷ required."""
    from featureprism.lab.style import COLOURS, panels

    height = 0.7 + 0.22 * max(1, len(rows.of("premise").distinct("id")))
    figure, (axes,) = panels(1, width=4.6, height=height)
    premise_ratios(axes, rows, holds=COLOURS[2], fails=COLOURS[1])
    return figure


REGIME = Experiment(
    id="feature-averaging/regime",
    source="Li et al. 2025, Assumption 4.3, Theorems 4.5 and 4.6, Appendices A and B",
    title="Inside Assumption 4.3: k = 3, d = 3¹⁰, n = 3⁷",
    scales={scale: [inside(3, 2)] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Sizes are the least that Assumption 4.3 allows with constants 1, and the start is that of Lemma A.13, which is far smaller."
        " The sample is drawn in coordinates of its own span,"
        " exact in law; the first steps are taken one by one, later ones in lumps of a twentieth of all before, until T = 1/η = 3²⁰."
        " That is the least T of Theorem 4.5 and more than its largest, exp(√k): the two meet only for k beyond 46 000. So the"
        " theorems, and the lemmas about all of training, are outside; Lemma B.1, about its first step, is inside."
    ),
)
