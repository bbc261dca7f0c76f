"""Propositions 1, 2 and 3: what no classifier can do, what Bayes does, and what closeness to F^(p) guarantees."""

from dataclasses import dataclass
from math import log, nan, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from featureprism._progress import Progress, part
from featureprism.attacks import minimal_radius, structured_starts
from featureprism.data import sample
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, number
from featureprism.networks import (
    BayesClassifier,
    LinearClassifier,
    PolynomialClassifier,
    PolynomialReLU,
    ReLU,
    TwoLayerNet,
    gaussian_start,
)
from featureprism.networks.reference import NearestCluster
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow.setting import (
    Mixture,
    SampledGMM,
    follow_flow,
    mixture,
    nondegenerate_start,
)
from featureprism.probes import sphere_distance
from featureprism.probes.self_test import self_test
from featureprism.seeds import generator_for
from featureprism.verify import Budget, robust_radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = torch.linspace(0.005, 0.995, 100, dtype=torch.float64)
NEURONS_PER_CLUSTER = 3  # of the network after gradient flow
SHARES = (0.5, 1.05, 1.25, 1.5)  # of the ν at which the bound of Proposition 2 stops being vacuous


@dataclass(frozen=True, kw_only=True)
class ClassifierOnMixture(SampledGMM):
    """One classifier on one mixture; `exact_points` for exact radii, `noise_draws` for the attack of Proposition 1."""

    classifier: str
    exact_points: int
    noise_draws: int
    max_cells: int = 16  # of the proof of a radius; counted, not seconds, so that rows repeat exactly


def _flow_net(data: Mixture, s: ClassifierOnMixture, seed: int, progress: Progress) -> TwoLayerNet:
    """A pReLU network after gradient flow from ε = α^(8K)."""
    start = nondegenerate_start(s, data, NEURONS_PER_CLUSTER, seed)
    trajectory = follow_flow(s, data, start, t_end=-s.log_epsilon + 6, progress=progress)
    return trajectory.last.to_net(PolynomialReLU(s.p))


def _constant(mu: Tensor, labels: Tensor) -> TwoLayerNet:
    """The label of the larger class everywhere, from one neuron with a bias: it attains the bound of Proposition 1."""
    sign = 1.0 if int((labels > 0).sum()) >= int((labels < 0).sum()) else -1.0
    one = torch.ones(1, dtype=mu.dtype)
    return TwoLayerNet(torch.zeros_like(mu[:1]), sign * one, one, activation=ReLU())


def _classifier(s: ClassifierOnMixture, data: Mixture, seed: int, progress: Progress) -> nn.Module:
    mu, labels = data.clusters.mu, data.clusters.labels
    classifiers = {
        "bayes": lambda: BayesClassifier(mu, labels, data.clusters.noise_std),
        "nearest cluster": lambda: NearestCluster(mu, labels),
        "F^(p)": lambda: PolynomialClassifier(mu, labels, s.p),
        "linear": lambda: LinearClassifier(labels @ mu),
        "random pReLU": lambda: gaussian_start(
            50, s.dim, 1.0, PolynomialReLU(s.p), generator=generator_for("random classifier", seed)
        ),
        "constant": lambda: _constant(mu, labels),
        "flow": lambda: _flow_net(data, s, seed, progress),
    }
    return classifiers[s.classifier]()


def measure(s: ClassifierOnMixture, seed: int, context: Context) -> list[Row]:
    """One classifier: its robust error at √2/2, and what the propositions say about it."""
    data = mixture(s, seed)
    net = _classifier(s, data, seed, part(context.progress, 0, 0.8))
    rows = [_robust_error(net, data, s, seed)]
    points = sample(data.clusters, s.exact_points, generator=generator_for("exact", seed))
    if isinstance(net, BayesClassifier):
        radius = torch.from_numpy(net.radius_bracket(points.x, points.y).certified)
        rows += _radii(s.classifier, radius) + _proposition_2(radius, s)
        rows.append({"kind": "bayes", "lost": theory.LARGEST_RADIUS - float(radius.mean())})
    elif isinstance(net, PolynomialClassifier):
        rows += _radii(s.classifier, net.exact_radius(points.x, points.y))
    elif s.classifier == "flow":
        assert isinstance(net, TwoLayerNet)
        rows += _proposition_3(net, data, s)
    context.progress(1.0)
    return rows


def _robust_error(net: nn.Module, data: Mixture, s: ClassifierOnMixture, seed: int) -> Row:
    """Share of clusters broken at √2/2, averaged over noise draws that every cluster shares.

    A cluster is broken by the midpoints of Proposition 1 (and for each draw at least min(K₁, K₂) are), or by any other
    perturbation the attack finds.
    """
    mu, labels = data.clusters.mu, data.clusters.labels
    generator = generator_for("shared noise", seed)
    noise = data.clusters.noise_std * torch.randn(
        s.noise_draws, s.dim, generator=generator, dtype=torch.float64
    )
    positive, negative = mu[labels > 0], mu[labels < 0]
    middle = (positive.unsqueeze(1) + negative.unsqueeze(0)) / 2  # (K1, K2, d)
    broken, counts = [], []
    with torch.no_grad():
        for eps in noise:
            values = net((middle + eps).reshape(-1, s.dim)).reshape(middle.shape[:2])
            counts.append(theory.lemma_1_count(values))
            broken.append(torch.cat([(values <= 0).any(dim=1), (values >= 0).any(dim=0)]))
    x = (mu.unsqueeze(0) + noise.unsqueeze(1)).reshape(-1, s.dim)
    y = labels.repeat(len(noise))
    starts = structured_starts(net, mu, labels)
    attacked = minimal_radius(net, x, y, starts=starts, upper=theory.LARGEST_RADIUS)
    by_attack = attacked.radius.reshape(len(noise), s.num_clusters) <= theory.LARGEST_RADIUS
    return {
        "kind": "error",
        "robust_error": float((torch.stack(broken) | by_attack).double().mean()),
        "midpoint_error": sum(counts) / (len(counts) * s.num_clusters),
        "least_lemma_1_count": min(counts),
        "self_test_passed": self_test(seed=seed).passed,
        "zero_gradient_share": attacked.zero_gradient_share,
    }


def _radii(name: str, radius: Tensor) -> list[Row]:
    """The distribution of exact radii, as quantiles."""
    return [
        {"kind": "radius", "name": name, "quantile": q, "radius": r}
        for q, r in zip(QUANTILES.tolist(), torch.quantile(radius, QUANTILES).tolist(), strict=True)
    ]


def _proposition_2(radius: Tensor, s: ClassifierOnMixture) -> list[Row]:
    """P(Bayes is robust at (√2-ν)/2), proven by its closed-form bracket, beside the bound."""
    nus = critical_nus(s)
    rows: list[Row] = []
    for nu in nus:
        bound = theory.proposition_2(s, nu)
        rows.append(
            {
                "kind": "proposition-2",
                "nu": nu,
                "radius": bound.radius,
                "bound": bound.probability,
                "vacuous": bound.is_vacuous,
                "robust": float((radius > bound.radius).double().mean()),
            }
        )
    return rows + [premise.as_row() for premise in theory.proposition_2_premises(s, nus[-1])]


def critical_nus(s: ClassifierOnMixture) -> list[float]:
    """ν around the value where the bound of Proposition 2 stops being vacuous."""
    critical = 8 * s.alpha * sqrt(log(2 * s.num_clusters) / s.dim)
    return [share * critical for share in SHARES]


def _proposition_3(net: TwoLayerNet, data: Mixture, s: ClassifierOnMixture) -> list[Row]:
    """ν measured, the radius and probability that follow, and the share of points proven robust there."""
    mu, labels = data.clusters.mu, data.clusters.labels
    distance = sphere_distance(net, PolynomialClassifier(mu, labels, s.p), best_scale=True)
    bound = theory.proposition_3(s, distance.value)
    test = data.test
    starts = structured_starts(net, mu, labels)
    bracket = robust_radius(
        net, test.x, test.y, starts=starts, max_radius=1.0, budget=Budget(branches=s.max_cells)
    )
    row = {
        "kind": "proposition-3",
        "nu": distance.value,
        "scale": distance.scale,
        "radius": bound.radius,
        "bound": bound.probability,
        "vacuous": bound.is_vacuous,
        "robust": float((bracket.certified > bound.radius).mean()),
        "half_radius": bracket.half_radius[0],
    }
    return [row, *(p.as_row() for p in theory.proposition_3_premises(s, distance.value))]


def _over_proposition_1(rows: Rows) -> float:
    """The least robust error over classifiers ÷ the bound of Proposition 1."""
    return min(number(row["robust_error"]) / _smaller_share(row) for row in rows)


def _smaller_share(row: Row) -> float:
    """min(K₁, K₂)/K."""
    return min(row["positive"], row["negative"]) / (row["positive"] + row["negative"])


def _over_bound(rows: Rows) -> float:
    """The least share of robust points ÷ the probability that the proposition promises, where it promises any."""
    return min(
        (number(row["robust"]) / number(row["bound"]) for row in rows if not row["vacuous"]), default=nan
    )


def _over_bayes_law(rows: Rows) -> float:
    """The mean radius that the Bayes rule loses ÷ its law."""
    row = rows[0]
    sizes = {name: row[name] for name in ("dim", "positive", "negative", "alpha", "per_cluster", "p")}
    return number(row["lost"]) / theory.bayes_loss(theory.OrthonormalGMM(**sizes))


def _cost_of_closeness(rows: Rows) -> float:
    """√2/2 minus the proven median radius ÷ the 4ν^(1/p) that Proposition 3 takes off."""
    row = rows[0]
    return (theory.LARGEST_RADIUS - number(row["half_radius"])) / (4 * number(row["nu"]) ** (1 / row["p"]))


def _closeness_note(rows: Rows) -> str:
    row = rows.of("proposition-3")[0]
    text = "guaranteed radius {radius:.3f} at ν = {nu:.4f}, proven median {half_radius:.3f}"
    return text.format(**{key: number(row[key]) for key in ("radius", "nu", "half_radius")})


CLAIMS = (
    Claim(
        "proposition-1",
        source="Proposition 1",
        says="At radius √2/2 every classifier loses at least the share of clusters that the smaller class has.",
        quantity="robust error at √2/2 divided by the bound, least over Bayes, linear, random, constant and trained classifiers",
        formula=r"P(\min_{\lVert d\rVert \le 1} f(x + \tfrac{\sqrt 2}{2} d)\, y \le 0) \ge \min\{K_1, K_2\}/K",
        bound=at_least(1.0),
        because="Proposition 1 gives this bound; a constant classifier attains it",
        value=lambda rows: rows.of("error").per_seed(_over_proposition_1),
        aggregate="worst",
        headline=True,
    ),
    Claim(
        "proposition-2",
        source="Proposition 2, (3)",
        says="The Bayes classifier is robust at every radius below √2/2, but for a probability that vanishes with the dimension.",
        quantity="share of robust points divided by the promised probability, least over radii where it promises anything",
        formula=r"P(\text{robust at } \tfrac{\sqrt 2 - \nu}{2}) \ge 1 - 2K e^{-D\nu^2/(64\alpha^2)}",
        bound=at_least(1.0),
        because="Proposition 2 gives this bound",
        value=lambda rows: rows.of("proposition-2").per_seed(_over_bound),
        aggregate="worst",
        headline=True,
        premises=requires("proposition-2"),
        note="no point falls below any of these radii: the law of proposition-2-law is far sharper",
    ),
    Claim(
        "proposition-2-law",
        source="behind Proposition 2",
        says="The Bayes classifier falls short of √2/2 by the largest noise towards a centre of the other class.",
        quantity="mean radius lost by the Bayes classifier, divided by the law",
        formula=r"\tfrac{\sqrt 2}{2} - E\, r = \tfrac{\alpha}{\sqrt{2D}}\, E\max_{l} g_l, \quad g_l \sim N(0, 1)",
        bound=between(0.9, 1.1),
        because="the law is exact but for terms of order α²/D; a sample of a thousand points moves the mean by 3 %",
        value=lambda rows: rows.of("bayes").per_seed(_over_bayes_law),
        origin="featureprism",
    ),
    Claim(
        "proposition-3",
        source="Proposition 3, (10)",
        says="A classifier close to the ideal one, F^(p) with one detector for each cluster, is robust at nearly √2/2.",
        quantity="share of points proven robust at the guaranteed radius, divided by the promised probability",
        formula=r"\operatorname{dist}(f, F^{(p)}) \le \nu \Rightarrow P(\text{robust at } \tfrac{\sqrt 2}{2} - 4\nu^{1/p}) \to 1",
        bound=at_least(1.0),
        because="Proposition 3 gives this bound, for a network trained by gradient flow with its measured ν",
        value=lambda rows: rows.of("proposition-3").per_seed(_over_bound),
        aggregate="worst",
        premises=requires("proposition-3"),
    ),
    Claim(
        "closeness",
        source="behind Proposition 3",
        says="A trained network close to the ideal classifier F^(p) loses far less of its radius than Proposition 3 takes off.",
        quantity="radius lost by the median point, divided by what the proposition takes off",
        formula=r"(\tfrac{\sqrt 2}{2} - r) / (4 \nu^{1/p})",
        bound=at_most(0.1),
        because="a tenth is what we call far less",
        value=lambda rows: rows.of("proposition-3").per_seed(_cost_of_closeness),
        origin="featureprism",
        premises=requires("proposition-3"),
        note=_closeness_note,
    ),
)


def draw(rows: Rows) -> "Figure":
    """Robust error of every classifier at √2/2, and the exact radii of Bayes and F^(p)."""
    from featureprism.lab.style import COLOURS, FAILED_SELF_TEST, guide, over_seeds, panels

    figure, (left, right) = panels(2, width=3.9, height=3.0)
    errors = rows.of("error")
    names = errors.distinct("classifier")
    for position, name in enumerate(names):
        runs = errors.having(classifier=name)
        left.barh(position, runs.column("robust_error").mean(), color=COLOURS[0], alpha=0.35)
        left.barh(position, runs.column("midpoint_error").mean(), color=COLOURS[0], height=0.4)
        bound = _smaller_share(runs[0])
        left.plot([bound, bound], [position - 0.4, position + 0.4], color=COLOURS[1])
    left.set_yticks(range(len(names)), names)
    passed = all(row["self_test_passed"] for row in errors)
    left.set(xlabel="share of points broken at radius √2/2", xlim=(0, 1.02))
    left.set_title("(a) inner bar: midpoints alone; red: min(K₁,K₂)/K" if passed else FAILED_SELF_TEST)
    for colour, name in zip(COLOURS, rows.of("radius").distinct("name"), strict=False):
        x, low, mean, high = over_seeds(rows.of("radius", name=name), "quantile", "radius")
        right.fill_betweenx(1 - x, low, high, color=colour, alpha=0.2, linewidth=0)
        right.plot(mean, 1 - x, color=colour, label=name, linestyle="-" if name == "bayes" else "--")
    guide(right, theory.LARGEST_RADIUS, "√2/2")
    right.set(xlabel="ℓ2 radius", ylabel="share of points still right", title="(b) exact radii")
    right.legend(loc="lower left")
    return figure


def _settings(
    exact_points: int, noise_draws: int, flow_dim: int, flow_points: int
) -> list[ClassifierOnMixture]:
    known = [
        ClassifierOnMixture(
            classifier=name,
            dim=2000,
            positive=12,
            negative=8,
            per_cluster=1,
            exact_points=exact_points,
            noise_draws=noise_draws,
        )
        for name in ("bayes", "nearest cluster", "F^(p)", "linear", "random pReLU", "constant")
    ]
    flow = ClassifierOnMixture(
        classifier="flow",
        dim=flow_dim,
        positive=2,
        negative=2,
        alpha=0.05,
        per_cluster=400,
        test_points=flow_points,
        exact_points=exact_points,
        noise_draws=noise_draws,
    )
    return [*known, flow]


PROPOSITIONS = Experiment(
    id="gmm-flow/propositions",
    source="Min & Vidal 2025, Propositions 1-3",
    title="The best possible radius, and who reaches it",
    scales={
        "quick": _settings(exact_points=1000, noise_draws=3, flow_dim=400, flow_points=12),
        "standard": _settings(exact_points=5000, noise_draws=20, flow_dim=1000, flow_points=500),
        "paper": _settings(exact_points=20000, noise_draws=50, flow_dim=2000, flow_points=1000),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Robust error at √2/2 of every classifier, noise shared by all clusters so that Lemma 1 holds draw by draw; exact radii of"
        " Bayes (closed-form bracket) and F^(p) (separable root search). The propositions hold with so much room that no sample can"
        " refute them; the law behind Proposition 2 can be refuted."
    ),
)
