"""Inside Assumption 4.3: d = k¹⁰, η = d⁻², T = 1/η for several k, from the largest start it allows and from that of Lemma A.13.

Points have coordinates in their own span, and later steps are taken in lumps. T is outside Theorem 4.5.
"""

from dataclasses import dataclass, replace
from math import ceil, inf, nan, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism.data import class_labels, sample_in_span
from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rate, Rows, at_least, at_most, below, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.models.one_layer import stack
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.features import class_shares, feature_fit, sphere_gap
from featureprism.papers.feature_averaging.margins import spread_of
from featureprism.papers.feature_averaging.setting import APPENDIX_A, ASSUMPTIONS, Baseline
from featureprism.probes.decomposition import from_updates
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent, growing_lumps, start_in_span

STARTS = 100  # starts on which Proposition A.12 and Lemma B.1 are tried
POINTS_CONSTANT = 1 / 32  # C of n = C k⁷; all other constants are 1
# of Assumption 4.3 the largest start (less a thousandth, for rounding); of Lemma A.13 its own
LARGE, SMALL = "assumption-4-3", "lemma-a-13"
IN_THE_LIMIT = "o(1) is a statement about large k, judged by its rate in k"
_EVENTS = tuple(id for id in APPENDIX_A if id not in ("proposition-a-12", "lemma-a-13"))
OF_THEOREM_4_5 = requires(*ASSUMPTIONS, "theorem-4-5", initial=SMALL)
OF_APPENDIX_B = requires(*ASSUMPTIONS, "theorem-4-5", *APPENDIX_A, initial=SMALL)


@dataclass(frozen=True, kw_only=True)
class AsymptoticSizes(Baseline):
    """`start` is that of Lemma A.13, `large_start` the largest of Assumption 4.3; lumps of steps are `growth` of all steps before."""

    large_start: float
    growth: float = 1 / 20


def inside(k: int, positive: int) -> AsymptoticSizes:
    """The least sizes of Assumption 4.3: d = k¹⁰, n = k⁷/32, m = k, η = d⁻², T = 1/η, with both starts."""
    d = k**10
    s = AsymptoticSizes(
        dim=d,
        positive=positive,
        negative=k - positive,
        points=ceil(POINTS_CONSTANT * k**7),
        per_class=k,
        step_size=float(d) ** -2,
        steps=d**2,
        large_start=nan,
    )
    return replace(s, start=0.999 * theory.small_start(s), large_start=0.999 * theory.largest_start(s))


def drawn_start(
    s: Baseline, start: float, data: Dataset, seed: int, num: int = 1
) -> tuple[TwoLayerNet, Tensor]:
    """A start in the coordinates of the data and its squared lengths outside; with `num` > 1 the neurons of so many starts."""
    generator = generator_for("two-class start", seed)
    return start_in_span(num * s.per_class, s.dim, data.x.shape[1], start, generator=generator)


def fewest_activations(z: Float[Tensor, "s n h"], data: Dataset) -> Float[Tensor, " s"]:
    """Of each start, the fewest points of a cluster that activate a neuron: min |T_{s,r,j}| of Proposition A.12."""
    counts = torch.zeros(len(z), len(data.centres), z.shape[2], dtype=z.dtype)
    return counts.index_add(1, data.cluster, (z >= 0).to(z.dtype)).amin(dim=(1, 2))


def first_with_event(s: AsymptoticSizes, data: Dataset, seed: int) -> int:
    """The first seed, in steps of a million, whose start has the event of Proposition A.12: a premise of Appendix B.

    Which points are active at first does not depend on the size of the start.
    """
    while True:
        net, _ = drawn_start(s, s.start, data, seed)
        assert net.b is not None
        z = data.x @ net.W.detach().T + net.b.detach()
        if fewest_activations(z.unsqueeze(0), data) >= theory.needed_activations(s):
            return seed
        seed += 10**6


def many_starts(s: Baseline, start: float, data: Dataset, seed: int) -> TwoLayerNet:
    """A stack of `STARTS` starts."""
    net, _ = drawn_start(s, start, data, seed, STARTS)
    assert net.b is not None
    W, b = (
        part.detach().unflatten(0, (2, STARTS, s.per_class)).movedim(1, 0).flatten(1, 2)
        for part in (net.W, net.b)
    )
    return TwoLayerNet(
        W, torch.sign(net.a.detach())[::STARTS].expand(STARTS, -1) / s.per_class, b, activation=ReLU()
    )


def tried_starts(s: Baseline, start: float, data: Dataset, seed: int) -> Row:
    """Of many starts, the share that has the event of Proposition A.12, and what is active after one step with it and without."""
    starts = many_starts(s, start, data, seed + 10**9)
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
        "all_active_with": float((active[happened] == 1).double().mean()),
        "all_active_without": float((active[~happened] == 1).double().mean()),
    }


def conclusions(s: AsymptoticSizes, net: TwoLayerNet, slopes: Tensor, data: Dataset, outside: Tensor) -> Row:
    """What Theorems 4.5 and 4.6 and the lemmas speak of, at the end of a run."""
    signs, labels = torch.sign(net.a.detach()), class_labels(s.positive, s.negative)
    growth, opposite = class_shares(from_updates(slopes, data, s.step_size).features, signs, labels)
    fit = feature_fit(net.W.detach(), signs.unsqueeze(1) == labels, data.centres, outside)
    with torch.no_grad():
        spread = spread_of(data.y * net(data.x), data)
    absolute, relative = sphere_gap(net, data.centres, labels, sqrt(s.dim))
    assert net.b is not None
    return {
        "lambda": growth,
        "opposite": opposite,
        "opposite_feature": opposite * growth,
        "derivative_gap": spread["derivative_ratio"] - 1,
        "ratio_law": theory.extreme_ratio(spread["margin"], growth, s) - 1,
        "margin_gap": spread["gap"],
        "margin": spread["margin"],
        "bias": float(net.b.detach().abs().max()),
        "scaled_error": fit.scaled_error,
        "relative_error": fit.relative_error,
        "absolute_gap": absolute,
        "gap": relative,
    }


def measure(s: AsymptoticSizes, seed: int, context: Context) -> list[Row]:
    """From both starts: the conclusions of Theorems 4.5 and 4.6 and of lemmas after T = 1/η steps, activations, premises and events."""
    random = generator_for("train in its span", seed)
    data = sample_in_span(s.dim, s.positive, s.negative, s.points, generator=random)
    sizes = {SMALL: s.start, LARGE: s.large_start}
    chosen = first_with_event(s, data, seed)
    starts = {name: drawn_start(s, start, data, chosen) for name, start in sizes.items()}
    nets = [net for net, _ in starts.values()]
    own = class_labels(s.positive, s.negative).unsqueeze(1) == torch.sign(nets[0].a.detach())  # (k, h)
    lumps = growing_lumps(s.steps, s.growth)
    run = first_layer_descent(
        stack(nets),
        data.x,
        data.y,
        step_size=s.step_size,
        steps=len(lumps),
        representation="gram",
        lumps=lumps,
        record=(0,),
        watch=lambda z: active_on_clusters(z, data.cluster, s.num_clusters),
        progress=context.progress,
    )
    times = np.concatenate([[0], np.cumsum(lumps), [inf]])
    active_from = last_change(torch.stack(run.probes["watched"]))  # (starts, k, h)
    before = run.probes["pre_activations"][0]
    rows: list[Row] = []
    for index, (name, (net, outside)) in enumerate(starts.items()):
        start = replace(s, start=sizes[name])
        steps = torch.from_numpy(times)[active_from[index][own]]
        laws = activation_times(s, before[index], data)[own]
        late = laws.isfinite() & (laws > 1)  # pairs of which there is more to say than "at once"
        ends = conclusions(s, run.last[index], run.probes["slopes"][-1][index], data, outside)
        row = {
            "kind": "summary",
            "initial": name,
            "clusters": s.num_clusters,
            **ends,
            "start_length": sizes[name] * s.dim,
            "all_active_from": float(steps.max()) if bool(steps.isfinite().all()) else nan,  # nan: never
            "activation_ratio": float((steps / laws)[late].median()) if bool(late.any()) else nan,
            **tried_starts(s, sizes[name], data, seed),
        }
        lengths = (net.W.detach().square().sum(dim=1) + outside).sqrt()
        assert net.b is not None
        premises = [
            *theory.premises(start, data.centres, POINTS_CONSTANT),
            *theory.training_time(s, s.steps),
            *theory.sample_events(data, s.dim),
            *theory.start_events(start, lengths.unsqueeze(1), net.b.detach()),
            theory.activation_event(s, float(fewest_activations(before[index : index + 1], data))),
        ]
        rows += [row, *({**premise.as_row(), "initial": name} for premise in premises)]
    return rows


def active_on_clusters(
    z: Float[Tensor, "s n h"], cluster: Int[Tensor, " n"], num: int
) -> Bool[Tensor, "s k h"]:
    """Whether all points of a cluster activate a neuron."""
    silent = torch.zeros(len(z), num, z.shape[2], dtype=torch.int32)
    return silent.index_add(1, cluster, (z < 0).to(torch.int32)) == 0


def last_change(active: Bool[Tensor, "t *pairs"]) -> Int[Tensor, "*pairs"]:
    """The index of the step from which each pair is active for good: 0 if it always was, one past the last if it never is."""
    steps = torch.arange(1, len(active) + 1).reshape(-1, *[1] * (active.ndim - 1))
    return torch.where(active, 0, steps).amax(dim=0)


def activation_times(s: AsymptoticSizes, z: Float[Tensor, "n h"], data: Dataset) -> Float[Tensor, "k h"]:
    """The law of the steps until each neuron is active on all points of each cluster."""
    return torch.tensor(
        [
            [theory.activation_time(s, z[data.cluster == j, r]) for r in range(z.shape[1])]
            for j in range(s.num_clusters)
        ],
        dtype=torch.float64,
    )


def _in_clusters(rows: Rows, quantity: str, initial: str = SMALL) -> Rate:
    """The rate of a quantity in k, from one of both starts."""
    return rate(rows.of("summary", initial=initial), x="clusters", y=quantity)


def _most_clusters(rows: Rows, initial: str) -> Rows:
    ends = rows.of("summary", initial=initial)
    return ends.having(clusters=max(ends.distinct("clusters"))) if len(ends) else ends


def _large_over_small(rows: Rows) -> Values:
    """Error of the weights from the large start ÷ √(error from the small start² + length of the large start²), farthest from 1."""

    def error(run: Rows) -> float:
        large, small = (run.having(initial=initial) for initial in (LARGE, SMALL))
        added = np.hypot(small.column("scaled_error"), large.column("start_length"))
        return float(np.abs(large.column("scaled_error") / added - 1).max())

    return rows.of("summary").per_seed(error)


def _activation_note(rows: Rows) -> str:
    starts = _most_clusters(rows, SMALL)
    share, law = starts.column("activated").mean(), starts.column("activation_law").mean()
    return (
        f"it fails in {1 - share:.0%} of the starts (law {1 - law:.0%}), for m = k large in 1 - e^(-2/3) = 49 %; the printed"
        " probability 1 - m^(-1/100) - 2mk exp(-n/(9km²)) is 0.02 at m = 5, and too large from m = 2¹⁰⁴ on"
    )


def _steps_note(rows: Rows) -> str:
    ends = rows.of("summary", initial=LARGE)
    steps = {k: part.column("all_active_from").mean() for k, part in ends.groups("clusters").items()}
    numbers = ", ".join(f"{value:.0f} at k = {k}" for k, value in steps.items())
    return f"all pairs are active, for good, from step {numbers} on (mean over seeds); T = k²⁰"


def _without_note(rows: Rows) -> str:
    share = _most_clusters(rows, SMALL).column("all_active_without").mean()
    return f"of the starts without the event of Proposition A.12 {share:.0%} do it all the same"


CLAIMS = (
    Claim(
        "weights",
        source="Theorem 4.5 (2)",
        says="Along the sizes of Assumption 4.3, the distance of every neuron from a multiple of the sum of its class's centres is"
        " o(1/√d).",
        quantity="exponent in k of the largest distance of a neuron from λ Σ μ_j/d times √d",
        formula=r"\sqrt d\,\bigl\lVert w_{s,r} - \lambda \sum_{j \in J_s} \mu_j / \lVert\mu_j\rVert^2 \bigr\rVert = o(1)",
        bound=below(0.0),
        because=IN_THE_LIMIT,
        value=lambda rows: _in_clusters(rows, "scaled_error"),
        premises=OF_THEOREM_4_5,
        headline=True,
        note="memorised noise predicts ln k · k^(-5/2); T ≤ exp(Õ(√k)) cannot hold with T ≥ 1/η = k²⁰ at any small k",
    ),
    Claim(
        "growth",
        source="Theorem 4.5 (2)",
        says="Inside Assumption 4.3, the coefficient λ of the averaged features is at least of order 1.",
        quantity="least λ over k",
        formula=r"\lambda^{(T)} = \Omega(1)",
        bound=at_least(1.0),
        because="Ω(1) has no constant; it is read as at least 1",
        value=lambda rows: rows.of("summary", initial=SMALL).least("lambda"),
        premises=OF_THEOREM_4_5,
        note="the proof has λ ≥ ln(ηT)/4, which is 0 at T = 1/η; λ is about ln(ηdT/(km)) = 8 ln k",
    ),
    Claim(
        "bias",
        source="Theorem 4.5 (2)",
        says="Along the sizes of Assumption 4.3, the biases of the neurons are o(1).",
        quantity="exponent in k of the largest |b|",
        formula=r"|b_{s,r}^{(T)}| = o(1)",
        bound=below(0.0),
        because=IN_THE_LIMIT,
        value=lambda rows: _in_clusters(rows, "bias"),
        premises=OF_THEOREM_4_5,
    ),
    Claim(
        "approach",
        source="Theorem 4.6",
        says="Along the sizes of Assumption 4.3, the trained network converges to a multiple of the averaging classifier.",
        quantity="exponent in k of the largest distance on the sphere ‖x‖ = √d, at the best multiple",
        formula=r"\inf_{C>0} \sup_{\lVert x\rVert = \sqrt d} |C f_{FA}(x) - f_\theta(x)| = o(1)",
        bound=below(0.0),
        because=IN_THE_LIMIT,
        value=lambda rows: _in_clusters(rows, "absolute_gap"),
        premises=OF_THEOREM_4_5,
    ),
    Claim(
        "slope-ratio",
        source="Lemma 5.3, equation (6)",
        says="Along the sizes of Assumption 4.3, the derivatives of the loss at any two training points have a ratio of 1 ± o(1).",
        quantity="exponent in k of the largest ratio of two derivatives minus 1",
        formula=r"\ell'_i / \ell'_j = 1 \pm o(1)",
        bound=below(0.0),
        because=IN_THE_LIMIT,
        value=lambda rows: _in_clusters(rows, "derivative_gap"),
        premises=OF_APPENDIX_B,
    ),
    Claim(
        "opposite",
        source="Section 5.3, step 2 (Lemma B.7 (8))",
        says="Along the sizes of Assumption 4.3, the coefficients of the features of the other class are o(1).",
        quantity="exponent in k of the coefficient of an opposite cluster (root mean square)",
        formula=r"|\lambda_{-s,r,j}| = o(1) \text{ for } j \in J_s",
        bound=below(0.0),
        because=IN_THE_LIMIT,
        value=lambda rows: _in_clusters(rows, "opposite_feature"),
        premises=OF_APPENDIX_B,
    ),
    Claim(
        "active",
        source="Lemma B.1",
        says="From initial weights as small as Lemma A.13 needs them, every training point activates all neurons of its class after one"
        " step.",
        quantity=f"share of active pairs of a point and a neuron of its class at t = 1, least over those of {STARTS} starts that have"
        " the event of Proposition A.12, at the largest k",
        formula=r"S_{y_i,i}^{(1)} = [m]",
        bound=at_least(1.0),
        because="no pair may be an exception",
        value=lambda rows: _most_clusters(rows, SMALL).per_seed("active_with"),
        aggregate="worst",
        premises=requires(*ASSUMPTIONS, *_EVENTS, "lemma-a-13", initial=SMALL),
        note=_without_note,
    ),
    Claim(
        "active-large",
        source="Lemma B.1, with Assumption 4.3 alone",
        says="From initial weights as large as Assumption 4.3 allows them (variance η/k⁵), every training point activates all neurons"
        " of its class after one step.",
        quantity=f"share of pairs of a point and a neuron of its class with the neuron active after one step; the least of those of"
        f" {STARTS} random starts at which every neuron is active on enough points of every cluster (Proposition A.12); largest k",
        formula=r"S_{y_i,i}^{(1)} = [m]",
        bound=at_least(1.0),
        because="no pair may be an exception; Lemma A.13 needs σ_w ≤ η/(6nm√d), which σ_w² ≤ ηk⁻⁵ does not give",
        value=lambda rows: _most_clusters(rows, LARGE).per_seed("active_with"),
        aggregate="worst",
        premises=requires(*ASSUMPTIONS, *_EVENTS, initial=LARGE),
        note=_steps_note,
    ),
    Claim(
        "activation-time",
        source="Lemma B.1, repaired",
        says="From initial weights as large as Assumption 4.3 allows them, the points of a cluster activate a neuron one after another,"
        " the last of them after a number of steps of order k^(13/2), out of k²⁰, instead of one.",
        quantity="steps until a neuron is active on all points of a cluster of its class ÷ their law, median over pairs, at the"
        " largest k",
        formula=r"\tau = \frac{2nm}{\eta d} \sum_i \frac{z_{(i-1)} - z_{(i)}}{i} \to \frac{2km\sigma_w}{\eta\sqrt d}"
        r" \int_{g}^{\max} \frac{dv}{\Phi(v)},\qquad g = \frac{\langle w_r(0), \mu_j\rangle}{\sigma_w \sqrt d}",
        bound=between(0.9, 1.1),
        because="a tenth; steps are taken in lumps of a twentieth",
        value=lambda rows: _most_clusters(rows, LARGE).per_seed("activation_ratio"),
        origin="featureprism",
        note=_steps_note,
    ),
    Claim(
        "same-end",
        source="Theorem 4.5 (2), repaired",
        says="Training ends in the same place from the largest initial weights of Assumption 4.3 as from far smaller ones, up to the"
        " length of the initial weights themselves.",
        quantity="|error of the weights from the large start ÷ √(error from the small start² + length of the large start²) - 1|,"
        " largest over k",
        formula=r"E_{\text{large}}^2 = E_{\text{small}}^2 + (\sigma_w d)^2,\qquad \sigma_w d = k^{-5/2} = o(1)",
        bound=at_most(0.03),
        because="three percent; the steps until all neurons are active leave a trace",
        value=_large_over_small,
        origin="featureprism",
    ),
    Claim(
        "activated-law",
        source="Proposition A.12, sharp",
        says="Only in about half of the random starts is every neuron active on n/(3km²) points of every cluster.",
        quantity="share of the starts ÷ (1-1/(3m²))^(2mk), at the largest k",
        formula=r"\Pr = \bigl(1 - \tfrac{1}{3m^2}\bigr)^{2mk} \to e^{-2/3} \text{ for } m = k",
        bound=between(0.75, 1.25),
        because=f"a quarter; {STARTS} starts a seed determine the share to a tenth",
        value=lambda rows: (
            _most_clusters(rows, SMALL).per_seed("activated")
            / _most_clusters(rows, SMALL).per_seed("activation_law")
        ),
        origin="featureprism",
        note=_activation_note,
        range=(0.0, 2.0),
    ),
)


def draw(rows: Rows) -> Any:
    """What must vanish against k, from both starts, and the step from which all own pairs are active beside its law."""
    from featureprism.lab.style import COLOURS, over_seeds, panels, plain_ticks

    figure, (left, right) = panels(2, width=4.0, height=3.2)
    vanishing = {
        "scaled_error": "weights: √d × error",
        "absolute_gap": "distance from C f_FA",
        "derivative_gap": "ratio of derivatives - 1",
        "opposite_feature": "λ of the other class",
        "bias": "bias",
    }
    for colour, (name, text) in zip(COLOURS, vanishing.items(), strict=False):
        for initial, mark in ((SMALL, "o-"), (LARGE, "x:")):
            k, _, mean, _ = over_seeds(rows.of("summary", initial=initial), "clusters", name)
            left.plot(k, mean, mark, color=colour, label=text if initial == SMALL else None, markersize=5)
    large = rows.of("summary", initial=LARGE)
    right.plot(
        large.column("clusters"), large.column("all_active_from"), "x", color=COLOURS[0], label="measured"
    )
    k = np.array(sorted(large.distinct("clusters")), dtype=float)
    right.plot(k, 2 * k**6.5, ":", color="black", label="2 k^(13/2)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="clusters k (d = k¹⁰, n = k⁷/32, T = k²⁰)")
        plain_ticks(axes, sorted(large.distinct("clusters")))
    left.set(title="what must vanish (dotted: largest start)")
    right.set(title="all active from step, largest start")
    left.legend(fontsize=7)
    right.legend()
    return figure


SERIES = [inside(3, 2), inside(4, 2), inside(5, 3)]
REGIME = Experiment(
    id="feature-averaging/regime",
    source="Li et al. 2025, Assumption 4.3, Theorems 4.5 and 4.6, Appendices A and B",
    title="Inside Assumption 4.3: d = k¹⁰, n = k⁷/32, T = k²⁰, from two starts",
    scales={"quick": SERIES, "standard": SERIES, "paper": [*SERIES, inside(6, 3)]},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Sizes are the least that Assumption 4.3 allows with constants 1 (n: 1/32). Lemma A.13, on which the proof rests, needs far"
        " smaller initial weights than the assumption allows: training runs from both, with one random start that has the event of"
        " Proposition A.12. The sample is drawn in coordinates of its own span, exact in law; the first steps are taken one by one,"
        " later ones in lumps of a twentieth of all before, until T = 1/η = k²⁰."
        " That is the least T of Theorem 4.5 and more than its largest, exp(√k): the two meet only for k beyond 46 000 (with one factor"
        " ln k, beyond 400). So the theorems, and the lemmas about all of training, are outside; Lemma B.1, about its first step, is"
        " inside."
    ),
)
