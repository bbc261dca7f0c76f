"""Theorems 5.1 to 5.3 along the dimension, from d = 10⁴ to 10⁶⁰: the population dynamics of neurons that have won their features."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rate, Rows, at_least, at_most, below, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import NEARLY_ALL, O_NEARLY, O_SMALL, SMALL
from featureprism.papers.feature_purification.population_dynamics import (
    Neuron,
    PopulationModel,
    accuracies,
    adversarial_flow,
    descend,
    draw_counts,
    pure,
    spread_rates,
)
from featureprism.seeds import generator_for

SMOOTHING = 0.05  # σ_ρ in units of b
START = 0.75  # coefficient of the feature that a neuron has won
COPIES = 3  # neurons of one feature, m = 3d
CLEAN_STEPS, CLEAN_STEP = 400, 0.1  # steps, and their size in units of d: a time of 40 d
ADVERSARIAL_STEPS, ADVERSARIAL_TIME = 30, 30.0  # steps, and T_g in units of k²
GROWING, INSIDE = "growing", "inside"


@dataclass(frozen=True, kw_only=True)
class PopulationSetting:
    """One dimension. On the path "growing" b√k = τ√k falls as d^-0.02; "inside" meets every premise with its constants set to 1."""

    path: str = GROWING
    log_dim: int  # log10 d
    sparsity_exponent: float = 0.3999
    scaled_bias: float  # b √k
    scaled_radius: float  # τ √k
    penalty: float = 0.1  # λ d
    points: int = 2000  # of a step
    test_points: int = 4000

    @property
    def sizes(self) -> theory.Sizes:
        """What the theorems know of it."""
        dim = 10**self.log_dim
        k = float(dim) ** self.sparsity_exponent
        return theory.Sizes(
            dim=dim,
            sparsity=k,
            width=COPIES * dim,
            noise=0.0,
            penalty=self.penalty,
            radius=self.scaled_radius / math.sqrt(k),
        )

    @property
    def model(self) -> PopulationModel:
        """Its data and network."""
        s = self.sizes
        bias, dim = self.scaled_bias / math.sqrt(s.sparsity), float(s.dim)
        return PopulationModel(dim, s.sparsity, bias, SMOOTHING * bias, s.penalty / dim, COPIES)


def measure(s: PopulationSetting, seed: int, context: Context) -> list[Row]:
    """Clean training to rest, adversarial training for the time of Theorem F.1, and both networks under attack."""
    sizes, model = s.sizes, s.model
    dim, k = model.dim, model.sparsity
    entropy = torch.randint(2**62, (), generator=generator_for(f"population {s.path} {s.log_dim}", seed))
    generator = np.random.default_rng(int(entropy))
    steps = [CLEAN_STEP * dim] * CLEAN_STEPS
    path = descend(model, Neuron(START, 0.0), steps, generator=generator, num_points=s.points)
    clean, earlier = path[-1], path[-CLEAN_STEPS // 10]
    context.progress(0.5)
    times = [ADVERSARIAL_TIME * k**2 / ADVERSARIAL_STEPS] * ADVERSARIAL_STEPS
    after = adversarial_flow(
        model, clean, times, generator=generator, num_points=s.points, radius=sizes.radius
    )[-1]
    test = draw_counts(model, s.test_points, generator)
    spread = max(max(spread_rates(model, neuron, test)) for neuron in path[:: CLEAN_STEPS // 10])
    rows: list[Row] = []
    for stage, neuron in (("clean", clean), ("adversarial", after), ("pure", pure(after))):
        shares = accuracies(model, neuron, test, sizes.radius)
        rows.append({"kind": "network", "stage": stage, "d": dim, **shares._asdict()})
        rows[-1] |= {
            "alpha": neuron.alpha,
            "mixture": neuron.beta / neuron.alpha * dim / k,
            "purity": neuron.purity(dim),
            "error": max(
                1 - shares.clean, 0.5 / len(test.y)
            ),  # half a point where none is wrong: rates need a logarithm
            "robust_error": max(1 - shares.worst, 0.5 / len(test.y)),
        }
    rows.append(
        {
            "kind": "movement",
            "d": dim,
            "drift": after.drift_from(clean, dim),
            "cosine": after.cosine_with(clean, dim),
            "share": clean.beta / (clean.alpha * k),
            "impurity": 1 - clean.purity(dim) ** 2,
            "spread_rate": spread,
        }
    )
    premises = [
        *theory.sparsity_premises(sizes),
        *theory.clean_premises(sizes, CLEAN_STEPS * CLEAN_STEP * dim),
        theory.bias_cap_premise(sizes, model.bias),
        theory.rest_premise(clean.drift_from(earlier, dim)),
        *theory.adversarial_premises(sizes, ADVERSARIAL_TIME * k**2),
    ]
    return rows + [premise.as_row() for premise in premises]


def _law(kind: str, key: str, **fields: Any):
    """The rate of a quantity in d along the growing path."""

    def value(rows: Rows) -> Rate:
        return rate(rows.of(kind, path=GROWING, **fields), x="d", y=key)

    return value


def _at(stage: str, key: str, **fields: Any):
    def value(rows: Rows) -> Values:
        return rows.of("network", stage=stage, **fields).per_seed(key)

    return value


def _drift(rows: Rows) -> Values:
    return rows.of("movement", path=INSIDE).per_seed("drift")


CLEAN = ("section-2", "theorem-5-1", "theorem-c-2", "definition-c-12")
ROBUST = (*CLEAN, "theorem-5-3", "theorem-f-1")
AT_1E16 = {"path": GROWING, "log_dim": 16}
CLAIMS = (
    Claim(
        "clean-accuracy",
        source="Theorem 5.1(b)",
        says="Clean training gives a network that classifies nearly every point correctly.",
        quantity="share of points classified correctly after clean training, d = 10⁶⁰, inside every premise",
        formula=r"\Pr[y \neq \operatorname{sign} f(x)] = o(1)",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=_at("clean", "clean", path=INSIDE),
        premises=requires(*CLEAN, path=INSIDE),
        headline=True,
    ),
    Claim(
        "clean-robust",
        source="Theorem 5.1(c)",
        says="One direction that depends on no network, -y Mw*, flips nearly every point of a network after clean training.",
        quantity="share of points still correct under -y Mw* of length τ after clean training, d = 10⁶⁰, inside every premise",
        formula=r"\Pr[f(x + \delta) \neq y] = 1 - o(1), \quad \delta = -\tau y\, \mathbf{M}w^*/\lVert\mathbf{M}w^*\rVert",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_at("clean", "universal", path=INSIDE),
        premises=requires(*CLEAN, "theorem-e-1", path=INSIDE),
        headline=True,
    ),
    Claim(
        "robust",
        source="Theorem 5.3(b)",
        says="After adversarial training nearly every point withstands every perturbation of length τ.",
        quantity="share of points still correct under the strongest attack after adversarial training, d = 10⁶⁰, inside every premise",
        formula=r"\Pr[\exists \lVert\delta\rVert_2 \le \tau: f(x + \delta) \neq y] = o(1)",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=_at("adversarial", "worst", path=INSIDE),
        ceiling=_at("pure", "worst", path=INSIDE),
        premises=requires(*ROBUST, path=INSIDE),
        note="attacks that treat equal coordinates alike: the universal direction, FGM, and PGD from two starts",
        headline=True,
    ),
    Claim(
        "drift",
        source="Theorem 5.3(c)",
        says="Adversarial training changes the features of a trained network only a little.",
        quantity="relative squared change of the weights in adversarial training, d = 10⁶⁰, inside every premise",
        formula=r"\sum_i \lVert w_i' - w_i\rVert^2 / \sum_i \lVert w_i\rVert^2 = o(1)",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_drift,
        premises=requires(*ROBUST, path=INSIDE),
        headline=True,
    ),
    Claim(
        "gap",
        source="Corollary F.3",
        says="At one radius clean training leaves a network broken and adversarial training makes it robust.",
        quantity="robust accuracy after adversarial minus after clean training, d = 10¹⁶",
        bound=at_least(NEARLY_ALL - SMALL),
        because="nine tenths after adversarial training and a tenth after clean training",
        value=lambda rows: (
            _at("adversarial", "worst", **AT_1E16)(rows) - _at("clean", "worst", **AT_1E16)(rows)
        ),
        premises=requires(*ROBUST, "theorem-e-1", **AT_1E16),
    ),
    Claim(
        "mixture-law",
        source="Theorem 5.2, Lemma E.2",
        says="Beside the feature that it has learned a neuron holds every other feature with a relative weight of the order k/d.",
        quantity="exponent in d of β/(α k) after clean training, d = 10⁴ to 10⁶⁰",
        formula=r"\beta/\alpha = \Theta(k/d)",
        bound=between(-1.05, -0.95),
        because="the order k/d is an exponent of -1",
        value=_law("movement", "share"),
        premises=requires(*CLEAN, path=GROWING),
        note=lambda rows: (
            f"the constant is {rows.of('network', stage='clean', path=GROWING).column('mixture').mean():.2f}"
        ),
    ),
    Claim(
        "drift-law",
        source="Theorem 5.3(c)",
        says="The change that adversarial training makes to the features falls with the dimension.",
        quantity="exponent in d of the relative squared change of the weights, d = 10⁴ to 10⁶⁰",
        formula=r"\sum_i \lVert w_i' - w_i\rVert^2 / \sum_i \lVert w_i\rVert^2 \approx k^2/d",
        bound=between(-0.25, -0.15),
        because="the mixture that goes has relative size k²/d = d^-0.2 at k = d^0.3999",
        value=_law("movement", "drift"),
        premises=requires(*ROBUST, path=GROWING),
    ),
    Claim(
        "error-law",
        source="Theorem 5.1(b)",
        says="The error of clean training vanishes as the dimension grows.",
        quantity="exponent in d of the error without attack after clean training",
        bound=below(0.0),
        because="o(1) is an exponent below 0",
        value=_law("network", "error", stage="clean"),
        premises=requires(*CLEAN, path=GROWING),
        note="b√k falls as d^-0.02 along this path, and the error with it",
    ),
    Claim(
        "robust-error-law",
        source="Theorem 5.3(b)",
        says="The robust error after adversarial training vanishes as the dimension grows.",
        quantity="exponent in d of the error under the strongest attack after adversarial training",
        bound=below(0.0),
        because="o(1) is an exponent below 0",
        value=_law("network", "robust_error", stage="adversarial"),
        premises=requires(*ROBUST, path=GROWING),
        note="τ√k falls as d^-0.02 along this path, and the robust error with it",
    ),
    Claim(
        "stable",
        source="Theorem 5.2",
        says="Neurons that hold their features alike stay alike: differences between them shrink all through clean training.",
        quantity="rate at which differences between neurons grow in units of 1/d, the largest over d and the time of clean training",
        bound=below(0.0),
        because="two numbers describe every neuron only while differences shrink; the rate is that of the second variation",
        value=lambda rows: rows.of("movement").largest("spread_rate"),
        origin="featureprism",
    ),
    Claim(
        "pure-limit",
        source="Theorem 5.3",
        says="Adversarial training takes a network all the way to the pure network: nothing robust is left to gain.",
        quantity="largest difference over d between the robust accuracy of the pure network and that after adversarial training",
        bound=at_most(0.02),
        because="two of a hundred points are more than the noise of the test points",
        value=lambda rows: rows.of("network", path=GROWING).per_seed(_largest_gap),
        origin="featureprism",
    ),
)


def _largest_gap(own: Rows) -> float:
    pure_net, trained = (own.having(stage=stage).column("worst") for stage in ("pure", "adversarial"))
    return float(np.max(pure_net - trained))


def draw(rows: Rows) -> Any:
    """Accuracies, and mixture and drift, over fifty-six orders of magnitude of the dimension."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

    figure, (left, right) = panels(2, width=4.4, height=3.2)
    growing = rows.having(path=GROWING)
    curves = {
        ("clean", "clean"): "no attack",
        ("clean", "worst"): "attacked, after clean training",
        ("adversarial", "worst"): "attacked, after adversarial training",
    }
    for colour, ((stage, key), text) in zip(COLOURS, curves.items(), strict=False):
        band(left, *over_seeds(growing.of("network", stage=stage), "log_dim", key), colour, text)
    left.set(xlabel="log₁₀ of the dimension d", ylabel="accuracy", ylim=(-0.03, 1.03))
    left.legend(fontsize=7, loc="center right")
    quantities = {"drift": "drift of the weights", "impurity": "energy beside the feature"}
    for colour, (key, text) in zip(COLOURS, quantities.items(), strict=False):
        band(right, *over_seeds(growing.of("movement"), "log_dim", key), colour, text)
    logs = np.array(sorted(growing.distinct("log_dim")), dtype=float)
    right.plot(logs, 10 ** (-0.2 * logs), ":", color="0.4", label="k²/d")
    right.set(yscale="log", xlabel="log₁₀ of the dimension d", ylabel="relative squared size")
    right.legend(fontsize=7)
    guide(left, 16, "d = 10¹⁶")
    return figure


def _growing(logs: tuple[int, ...], **more: Any) -> list[PopulationSetting]:
    """b√k = τ√k = 0.1 at d = 10¹⁶, falling as d^-0.02."""
    settings = []
    for log in logs:
        scaled = 0.1 * 10 ** (0.02 * (16 - log))
        settings.append(PopulationSetting(log_dim=log, scaled_bias=scaled, scaled_radius=scaled, **more))
    return settings


def _inside(**more: Any) -> PopulationSetting:
    """d = 10⁶⁰ with the printed λ = ln ln ln d/d and k = d^0.378, between the windows of Theorems E.1 (corrected) and F.1."""
    penalty = math.log(math.log(60 * math.log(10)))
    return PopulationSetting(
        path=INSIDE,
        log_dim=60,
        sparsity_exponent=0.378,
        scaled_bias=0.05,
        scaled_radius=0.05,
        penalty=penalty,
        **more,
    )


SHORT, LONG = (4, 8, 12, 16, 24, 36, 48, 60), (4, 6, 8, 10, 12, 14, 16, 20, 24, 30, 36, 42, 48, 54, 60)
MORE: dict[str, Any] = {"points": 4000, "test_points": 20000}
POPULATION = Experiment(
    id="feature-purification/population",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3, Corollary F.3",
    title="The theorems on clean and adversarial training at d = 10⁴ to 10⁶⁰",
    scales={
        "quick": [*_growing(SHORT), _inside()],
        "standard": [*_growing(LONG), _inside()],
        "paper": [*_growing(LONG, **MORE), _inside(**MORE)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Neurons that have won their features, M = I, no input noise: by symmetry all of them are αe_j + βΣe_j' for"
        " ever, and descent on the"
        " population loss moves two numbers, whatever d is. Clean training for a time of 40d, then FGM for the time"
        " 30k² of Theorem F.1."
        " Not shown is how neurons win their features; that is the main battery's question."
    ),
)
