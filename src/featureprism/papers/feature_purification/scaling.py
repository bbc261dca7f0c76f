"""Rates along k = d^0.36 from a random start: what falls with the dimension."""

from typing import Any

from featureprism.lab import Claim, Experiment, Rate, Rows, above, at_least, below, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, number
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    NEARLY_ALL,
    PURIFIED,
    Bench,
    bench,
    movement,
    premise_rows,
    shape_row,
)
from featureprism.papers.feature_purification.purification import STAGES
from featureprism.papers.feature_purification.setting import (
    SPARSITY_EXPONENT,
    Battery,
    accuracy,
    battery,
    clean_run,
    robustness,
    start,
    trained,
)
from featureprism.probes import growth
from featureprism.probes import purification as probes

DIMENSIONS = {
    "quick": (64, 100, 144),
    "standard": (64, 100, 144, 200),
    "paper": (64, 100, 144, 200, 256, 400),
}
ADVERSARIAL_TIME = 12  # T_g in units of k²: 100 steps at d = 100


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """Every quantity of the theorems at one size, in one row."""
    on = bench(s, seed)
    nets = {stage: trained(s, seed, stage) for stage in STAGES}
    context.progress(0.8)
    moved = movement(nets, start(s, seed).W.detach(), on)
    run = clean_run(s, seed)
    halfway = run.snapshots[list(run.times).index(s.steps // 2)]
    shapes = {stage: shape_row(nets[stage], on.many.x, on.problem) for stage in ("clean", "adversarial")}
    delta = robustness(nets["adversarial"], on.test, on.problem, s, seed).delta
    spread = probes.participation(delta, on.problem.M)
    row: Row = {
        **moved,
        "kind": "size",
        "share": number(shapes["clean"]["mixture"]) / s.dim,
        "share_halfway": probes.large_neurons(halfway.W.detach(), on.problem).ratio / s.sparsity,
        "purity": shapes["clean"]["purity"],
        "held": shapes["clean"]["held"],
        "error": max(1 - accuracy(nets["clean"], on.many.x, on.many.y), 0.5 / len(on.many.y)),
        "signal": _signal(nets["clean"], on),
        "density": float(spread[spread.isfinite()].median()) / s.dim,
    }
    return [row, *premise_rows(s, on, number(moved["drift_control"]))]


def _signal(net: Any, on: Bench) -> float:
    """Mean d·E[y 1{open} z_j] w*_j over winners, neurons and features with ⟨w_i, M_j⟩ w*_j ≥ b. Lemma C.8."""
    w, M = on.problem.w, on.problem.M
    winners = net.W.detach() @ M * w >= net.bias
    rates = growth.growth(net, on.many) * w
    return float(rates[winners].mean()) * M.shape[1]


def _law(key: str):
    def value(rows: Rows) -> Rate:
        return rate(rows.of("size"), x="dim", y=key)

    return value


def _by_size(key: str):
    def note(rows: Rows) -> str:
        parts = rows.of("size").groups("dim")
        return ", ".join(f"{part.column(key).mean():.3g} at d = {dim}" for dim, part in parts.items())

    return note


VANISHES = "o(1) is an exponent below 0"
CLAIMS = (
    Claim(
        "mixture",
        source="Theorem 5.2, (5.1)",
        says="From a random start too, a neuron holds every feature but the one that it has learned with a relative weight of"
        " the order k/d.",
        quantity="exponent in d of β/(α k) over large neurons after clean training",
        formula=r"\beta/\alpha = \Theta(k/d)",
        bound=between(-1.2, -0.8),
        because="the order k/d is an exponent of -1; a fifth is left for sizes between 64 and 400",
        value=_law("share"),
        premises=requires(*LEARNED),
        note=_by_size("share"),
    ),
    Claim(
        "pure-mass",
        source="Theorem 5.1(a)",
        says="As the dimension grows, the neurons after clean training span more and more directions.",
        quantity="exponent in d of the squared overlap of all pairs of neurons",
        formula=r"\sum_{i,j} \langle w_i, w_j\rangle^2 / (\sum_i \lVert w_i\rVert^2)^2 = o(1)",
        bound=below(0.0),
        because=VANISHES,
        value=_law("together"),
        premises=requires(*LEARNED),
        note=_by_size("together"),
    ),
    Claim(
        "far-from-start",
        source="Theorem 5.1(a)",
        says="As the dimension grows, the weights after clean training have less and less in common with the initial weights.",
        quantity="exponent in d of the squared overlap of neurons with their initial weights",
        bound=below(0.0),
        because=VANISHES,
        value=_law("kept_from_start"),
        premises=requires(*LEARNED),
        note=_by_size("kept_from_start"),
    ),
    Claim(
        "drift",
        source="Theorem 5.3(c)",
        says="As the dimension grows, adversarial training changes the weights of a network from a random start less and less.",
        quantity="exponent in d of the relative squared change of the weights",
        bound=below(0.0),
        because=VANISHES,
        value=_law("drift"),
        premises=requires(*PURIFIED),
        note=_by_size("drift"),
    ),
    Claim(
        "clean-error",
        source="Theorem 5.1(b)",
        says="As the dimension grows, the error of a network trained cleanly from a random start vanishes.",
        quantity="exponent in d of the error without attack",
        bound=below(0.0),
        because=VANISHES,
        value=_law("error"),
        premises=requires(*LEARNED),
        note=_by_size("error"),
    ),
    Claim(
        "signal",
        source="Lemma C.8",
        says="A neuron that has won a feature grows towards it at a rate of the order 1/d.",
        quantity="exponent in d of d·E[y 1{⟨w_i, x⟩ + ρ ≥ b} z_j], mean over winners",
        bound=between(-0.2, 0.2),
        because="Θ(1) is an exponent of 0",
        value=_law("signal"),
        premises=requires(*LEARNED),
        note=_by_size("signal"),
    ),
    Claim(
        "density",
        source="Section 5.1, Figure 7",
        says="As the dimension grows, the perturbations that fool a network after adversarial training use a smaller"
        " share of the features.",
        quantity="exponent in d of the share of features that carry a perturbation (participation ratio ÷ d)",
        bound=below(0.0),
        because="k/d, the share of features that a point has, falls",
        value=_law("density"),
        premises=requires(*PURIFIED),
        note=_by_size("density"),
    ),
    Claim(
        "won",
        source="Theorem 5.2(2)",
        says="At every size clean training from a random start finds nearly all of the features.",
        quantity="share of the features that some neuron holds alone, least over d",
        bound=at_least(NEARLY_ALL),
        because="Ω(d) is read as nine tenths of the features",
        value=lambda rows: rows.of("size").least("held"),
        premises=requires(*LEARNED),
        note=_by_size("held"),
    ),
    Claim(
        "purity",
        source="(5.1)",
        says="As the dimension grows, the neurons after clean training become purer.",
        quantity="exponent in d of the largest |cosine| of a neuron with one feature, mean weighted by ‖w‖²",
        bound=above(0.0),
        because="1/√(1 + k²/d) grows along k = d^0.36",
        value=_law("purity"),
        premises=requires(*LEARNED),
        note=_by_size("purity"),
    ),
)


def draw(rows: Rows) -> Any:
    """Mixture, overlap and drift against the dimension on logarithmic axes."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels, plain_ticks

    figure, axes = panels(2, width=4.0, height=3.0)
    groups = (
        {
            "share": "mixture β/(α k)",
            "share_halfway": "after half of the steps",
            "together": "overlap of pairs",
        },
        {"drift": "drift, adversarial training", "drift_control": "drift, more clean steps"},
    )
    for panel, names in zip(axes, groups, strict=True):
        for colour, (key, text) in zip(COLOURS, names.items(), strict=False):
            band(panel, *over_seeds(rows.of("size"), "dim", key), colour, text)
        panel.set(xscale="log", yscale="log", xlabel="dimension d")
        plain_ticks(panel, sorted(rows.of("size").distinct("dim")))
        panel.legend(fontsize=7)
    return figure


def _settings(scale: str) -> list[Battery]:
    """k = 5 (d/100)^0.36, not rounded: whole numbers would run as √d between 64 and 144."""
    settings = []
    for dim in DIMENSIONS[scale]:
        k = 5 * (dim / 100) ** SPARSITY_EXPONENT
        steps = round(ADVERSARIAL_TIME * k**2 / (0.03 * dim))
        settings.append(battery(dim, sparsity=k, adversarial_steps=steps))
    return settings


SCALING = Experiment(
    id="feature-purification/scaling",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3, Lemma C.8",
    title="Rates along k = d^0.36 from a random start",
    scales={scale: _settings(scale) for scale in DIMENSIONS},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The main battery at growing d with every rate as the theorems have it: k = 5 (d/100)^0.36, m = d^(1 + c0) with"
        " one c0, λ, the growth"
        " of the bias and σ_0 ∝ 1/d, b√k and τ√k ∝ 1/√k, T_f ∝ d, T_g = 12k². What happens beyond, once features are"
        " won, is the question of"
        " the population dynamics."
    ),
)
