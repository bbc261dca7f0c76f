"""One neuron for several centres: what it costs in radius, and how likely it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism._progress import Progress, part
from featureprism.attacks import Towards, minimal_radius, structured_starts
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import PolynomialReLU, TwoLayerNet, gaussian_start
from featureprism.papers.gmm_flow.race import Neurons, neurons_of, random_neurons, run_race
from featureprism.papers.gmm_flow.robust_accuracy import BATCH_SIZE, SIZES, TARGET_LOSS, UPPER, class_gains
from featureprism.papers.gmm_flow.setting import SampledGMM, mixture
from featureprism.papers.gmm_flow.theory import shared_radius
from featureprism.seeds import generator_for
from featureprism.training import Loss, stochastic_descent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = 1.5  # G² from which on a network counts as one with a shared neuron: halfway from one centre to two
PAIR = 0.05  # |G² - 2| up to which one neuron serves two centres and nothing else counts
STEP = 0.1  # of the descent on the clock of one cluster; where there is momentum, as long over 1/(1 - momentum) steps
SCALE = 0.01 * 400 ** (2 / 3)  # s D^(2/3) of the std of Appendix B.2 in the dimension of the quick scale
MOMENTUM = 0.9  # as in figure-2, where the paper does not state it
ASCENTS = 100
STRONGEST = 5  # directions of each class from which attacks start


@dataclass(frozen=True, kw_only=True)
class PReLUNetworks(SampledGMM):
    """Entries N(0, std²): so many `networks` trained on independent mixtures, and so many `races` of random starts; `series` varies."""

    series: str
    networks: int
    races: int = 0
    width: int = 200
    std: float = 0.01
    momentum: float = 0.0
    epochs: int = 800  # a cap: training stops at the target loss
    positive: int = 12
    negative: int = 8


def measure(s: PReLUNetworks, seed: int, context: Context) -> list[Row]:
    """How many centres the neurons of each network share beside what the race from its start says; and the races of random starts."""
    rows: list[Row] = []
    for index in range(s.networks):
        progress = part(context.progress, index / s.networks, (index + 1) / s.networks)
        rows.append({"kind": "network", **_trained(s, seed * s.networks + index, progress)})
    labels = np.repeat([1.0, -1.0], [s.positive, s.negative])
    generator = np.random.default_rng([seed, s.dim, s.width])
    for _ in range(s.races):
        start = random_neurons(s.width, s.dim, s.num_clusters, s.std, generator)
        rows.append({"kind": "race", "shares": float(_served_in_race(start, labels) >= SHARED)})
    context.progress(1.0)
    return rows


def _trained(s: PReLUNetworks, seed: int, progress: Progress) -> Row:
    """Train one network by stochastic descent, and attack the centres of the class that shared neurons weaken most.

    The law is for a centre with a neuron of its own and the output 1. Training leaves outputs up to a fifth from 1, and a centre with
    the output a^p breaks at a/√(a² + G²); the `radius` is that of the centre farthest from this law, times law at 1 ÷ law at a.
    """
    data = mixture(s, seed)
    mu, labels = data.clusters.mu, data.clusters.labels
    net = gaussian_start(s.width, s.dim, s.std, PolynomialReLU(s.p), generator=generator_for("start", seed))
    start = neurons_of(net.W.detach().numpy(), net.a.detach().numpy(), mu.numpy())
    foretold = _served_in_race(start, labels.numpy())
    net, points = net.float(), data.train.to(torch.float32)
    stochastic_descent(
        net,
        points.x,
        points.y,
        loss=Loss("square", "mean"),
        step_size=STEP * s.num_clusters * (1 - s.momentum),
        batch_size=BATCH_SIZE,
        epochs=s.epochs,
        momentum=s.momentum,
        target_loss=TARGET_LOSS,
        generator=generator_for("batches", seed),
        progress=progress,
    )
    net = net.double()
    gains = class_gains(net, mu, labels)
    weaker = labels == (-1.0 if gains[0] >= gains[1] else 1.0)
    starts = (*structured_starts(net, mu, labels), _towards_strongest(net))
    radius = minimal_radius(net, mu[weaker], labels[weaker], starts=starts, upper=UPPER).radius
    with torch.no_grad():
        fitted = float((data.train.y * net(data.train.x) > 0).double().mean())
        roots = net(mu[weaker]).abs() ** (1 / s.p)
    served = max(gains) ** 2
    over_law = [r / shared_radius(max(gains) / a) for r, a in zip(radius, roots, strict=True)]
    return {
        "served": served,
        "shares": float(served >= SHARED),
        "foretold_served": foretold,
        "foretold": float(foretold >= SHARED),
        "radius": float(max(over_law)) * shared_radius(max(gains)),
        "deviation": abs(float(max(over_law)) - 1),
        "train_accuracy": fitted,
    }


def _towards_strongest(net: TwoLayerNet) -> Towards:
    """A start of attacks: the unit vectors on which the neurons of a class put out most, by x ← ∇/‖∇‖ from each neuron.

    Where several neurons serve a centre together no single one of them points there, and an attack that starts from neurons and
    centres alone may end at a border that is not the nearest.
    """
    directions, signs = [], []
    for sign in (1.0, -1.0):
        W, a = net.W.detach()[net.a * sign > 0], net.a.detach()[net.a * sign > 0].abs()
        part, x = TwoLayerNet(W, a, activation=net.activation), unit_rows(W)
        for _ in range(ASCENTS):
            x.requires_grad_()
            x = unit_rows(torch.autograd.grad(part(x).sum(), x)[0])
        strongest = x[part(x).argsort(descending=True)[:STRONGEST]].detach()
        directions.append(strongest)
        signs.append(torch.full((len(strongest),), sign, dtype=torch.float64))
    return Towards(torch.cat(directions), torch.cat(signs))


def _served_in_race(start: Neurons, labels: np.ndarray) -> float:
    """G² of the network in which a race ends."""
    end = run_race(start, labels)
    masses = torch.from_numpy(end.masses)
    units = torch.from_numpy(
        end.cosines
    )  # of norm 1 only with the directions of no centre, which no centre sees
    rest = (1 - (units**2).sum(dim=1)).clamp_min(0).sqrt().unsqueeze(1)
    W = masses.abs().sqrt().unsqueeze(1) * torch.cat([units, rest], dim=1)
    net = TwoLayerNet(W, masses.sign() * masses.abs().sqrt(), activation=PolynomialReLU(3.0))
    mu = torch.eye(len(labels), len(labels) + 1, dtype=torch.float64)
    return max(class_gains(net, mu, torch.from_numpy(labels))) ** 2


def _fitted(rows: Rows) -> Rows:
    """Networks that fit every training point."""
    return rows.of("network", train_accuracy=1.0)


def _plain(rows: Rows) -> Rows:
    return _fitted(rows).having(momentum=0.0)


def _agreement(rows: Rows) -> Values:
    """Share of networks for which race and training agree on whether a neuron is shared."""
    return _plain(rows).per_seed(lambda run: float((run.column("shares") == run.column("foretold")).mean()))


def _shares_note(rows: Rows) -> str:
    parts = []
    for (std, width, k), run in _plain(rows).groups("std", "width", "positive").items():
        count, law = int(run.column("shares").sum()), int(run.column("foretold").sum())
        parts.append(
            f"std {std:g}, width {width}, K₁ = {k}: {count} of {len(run)} share a neuron (race: {law})"
        )
    return "; ".join(parts)


def _pair_deviation(rows: Rows) -> Values:
    """The largest |radius·√3 - 1| over networks with one shared pair; NaN in seeds that have none."""
    pairs = _fitted(rows).where(lambda row: abs((row["served"] or np.nan) - 2) <= PAIR)
    return pairs.per_seed(lambda run: np.abs(run.column("radius") * np.sqrt(3) - 1).max())


def _by_dimension(rows: Rows) -> Values:
    """Share of races with a shared neuron, largest dimension minus smallest."""
    races = rows.of("race", series="dimension")
    dims = races.distinct("dim") or [0]
    return races.having(dim=max(dims)).mean("shares") - races.having(dim=min(dims)).mean("shares")


def _dimensions_note(rows: Rows) -> str:
    groups = rows.of("race", series="dimension").groups("dim").items()
    return "share of races: " + ", ".join(
        f"{run.column('shares').mean():.2f} at D = {dim}" for dim, run in groups
    )


def _by_momentum(rows: Rows) -> Values:
    """Share of networks with a shared neuron, with momentum minus without, from the same starts."""
    both = _fitted(rows).having(series="momentum")
    return both.having(momentum=MOMENTUM).mean("shares") - both.having(momentum=0.0).mean("shares")


CLAIMS = (
    Claim(
        "radius",
        source="behind Figures 2 and 7",
        says="A neuron that serves s centres of one class leaves the centres of the other class a radius of at most 1/√(s+1).",
        quantity="relative deviation from the law of the attacked radius of a centre that shares its neuron with no other,"
        " largest over networks",
        formula=r"r = a/\sqrt{a^2 + G^2}, \quad G^p = \max_{\lVert x\rVert = 1} f_{\pm}(x), \quad G = \sqrt s, \quad a^p = |f(\nu)|",
        bound=at_most(0.02),
        because="the law leaves out the noise that the network has fitted, of size α/√N = 0.014 and less",
        value=lambda rows: _fitted(rows).largest("deviation"),
        origin="featureprism",
        aggregate="worst",
        note="G and a are read off the weights alone; the radius is found by an attack",
    ),
    Claim(
        "pair",
        source="behind Figures 2 and 7",
        says="A network in which one neuron serves two centres breaks at 1/√3 instead of √2/2.",
        quantity="relative deviation from 1/√3 of the attacked radius of a centre, scaled to the output 1; networks with one shared"
        " pair, largest of a seed",
        formula=r"r = 1/\sqrt 3 \approx 0.577",
        bound=at_most(0.02),
        because="the law leaves out the noise that the network has fitted, of size α/√N = 0.014 and less",
        value=_pair_deviation,
        origin="featureprism",
    ),
    Claim(
        "foretold",
        source="behind Figures 2 and 7",
        says="The start decides whether a neuron comes to serve two centres: a race of the neurons for the centres, without noise and"
        " in K + 1 numbers a neuron, foretells it for each network.",
        quantity="share of networks for which the race from the same start and training by gradient descent agree",
        bound=at_least(0.8),
        because="a guess that knows only how often neurons are shared would agree in 0.5 to 0.7 of the networks",
        value=_agreement,
        origin="featureprism",
        note=_shares_note,
    ),
    Claim(
        "dimension",
        source="behind Figures 2 and 7",
        says="How likely a shared neuron is depends on the size s of the entries at the start and on the dimension D through s D^(2/3)"
        " alone.",
        quantity="share of races with a shared neuron, largest dimension minus smallest, at the same s D^(2/3)",
        formula=r"\Pr[\text{shared}] = P(s\, D^{2/3};\, h, K_1, K_2)",
        bound=between(-0.1, 0.1),
        because="at the same s a dimension four times as large would have neurons shared in nearly every network",
        value=_by_dimension,
        origin="featureprism",
        note=_dimensions_note,
    ),
    Claim(
        "momentum",
        source="behind Figures 2 and 7",
        says="Momentum makes neurons that serve two centres more likely than plain gradient descent from the same starts.",
        quantity=f"difference of the shares of networks with a shared neuron, momentum {MOMENTUM} minus none",
        bound=above(0.0),
        because="more likely means a larger share; Figures 2 and 7 are trained with momentum here, which the paper does not print",
        value=_by_momentum,
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Radius against the number of centres served; the share that shares against the start; and the collapse over dimensions."""
    from featureprism.lab.style import COLOURS, guide, over_seeds, panels, plain_ticks

    figure, (left, right) = panels(2, width=4.0, height=3.0)
    networks = _fitted(rows)
    served = np.linspace(1, max(3.0, networks.column("served").max()), 100)
    left.plot(served, 1 / np.sqrt(1 + served), color="0.4", linestyle="--", label="1/√(s+1)")
    left.plot(networks.column("served"), networks.column("radius"), "o", color=COLOURS[0], alpha=0.5)
    guide(left, 3**-0.5, "1/√3", along="y")
    left.set(xlabel="centres s served by one neuron", ylabel="ℓ2 radius of the other class")
    left.set_title("(a) each network obeys the law of its neurons")
    left.legend()
    for place, (field, name) in enumerate((("shares", "trained"), ("foretold", "race from the same start"))):
        x, _, mean, _ = over_seeds(_plain(rows).having(series="start"), "std", field)
        size = x * float(_plain(rows).column("dim").max()) ** (2 / 3)
        right.plot(size, mean, "o-" if place == 0 else "s--", color=COLOURS[1 + place], label=name)
    for dim, run in rows.of("race", series="dimension").groups("dim").items():
        right.plot(run[0]["std"] * dim ** (2 / 3), run.column("shares").mean(), "x", color="0.3")
    right.plot([], [], "x", color="0.3", label="races in other dimensions")
    right.set(xscale="log", ylim=(-0.03, 1.03), xlabel="size of the start, s D^(2/3)")
    right.set(ylabel="share with a shared neuron", title="(b) small starts do not share")
    plain_ticks(right, (0.3, 0.5, 0.8, 1.2))
    right.legend()
    return figure


def _settings(scale: str, networks: int, races: int, dims: tuple[int, ...]) -> list[PReLUNetworks]:
    size = {name: SIZES[scale][name] for name in ("dim", "per_cluster")}
    std = SCALE * size["dim"] ** (-2 / 3)

    def trained(series: str, **other: float) -> PReLUNetworks:
        return PReLUNetworks(**{"series": series, "networks": networks, "std": std} | size | other)  # type: ignore[arg-type]

    return [
        *(trained("start", std=factor * std) for factor in (0.5, 1.0, 1.5, 2.0)),
        *(trained("width", width=width) for width in (50, 400)),
        *(trained("clusters", positive=3 * half, negative=2 * half) for half in (2, 6)),
        *(trained("momentum", momentum=momentum) for momentum in (0.0, MOMENTUM)),
        *(
            PReLUNetworks(
                series="dimension",
                networks=0,
                races=races,
                dim=dim,
                per_cluster=1,
                std=1.6 * SCALE * dim ** (-2 / 3),
            )
            for dim in dims
        ),
    ]


SHARED_NEURONS = Experiment(
    id="gmm-flow/shared-neurons",
    source="Min & Vidal 2025, behind Figures 2 and 7",
    title="One neuron for two centres",
    scales={
        "quick": _settings("quick", 4, 40, (400, 1600)),
        "standard": _settings("standard", 6, 60, (400, 1600, 6400)),
        "paper": _settings("paper", 6, 100, (400, 1600, 6400)),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "pReLU networks on mixtures as in Figure 2, by plain gradient descent. A neuron that has learned its centre early goes on to"
        " the next one, and if it gets there before any other neuron it serves both with ⟨x, μ₁ + μ₂⟩^p; the border to the other class"
        " then moves nearer. Varied are the start, the width, the number of clusters, the dimension and momentum."
    ),
)
