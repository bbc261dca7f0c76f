"""What a KKT point says about single points: one ascent step that forgets one, and other data with the same network."""

import torch

from featureprism.context import Context
from featureprism.lab import Experiment, Rows, Values, at_least, at_most, between
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import EXACT_KINK, Setting, ours, problem
from featureprism.probes import direction_cosines, forget, kkt_audit, other_data
from featureprism.records import Dataset, Row
from featureprism.seeds import generator_for
from featureprism.training import max_margin_network

OPEN_KINK = 3e-2  # a step moves inputs off their kinks by about the cosine of two points, 1/√d
UNLEARNING = "Melamed, Yehudai & Vardi 2025, arXiv 2510.14844"
SPLITTING = "Refael et al. 2025, arXiv 2509.21296"


def alone(dim: int, num_points: int) -> Setting:
    """Every point is its own cluster: nearly orthogonal points, as the theory of unlearning has them."""
    return Setting(
        dim=dim,
        clusters=num_points,
        points=num_points,
        sigma=1.0,
        case="alone",
        means="sphere",
        test_points=0,
    )


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """The exact KKT point, its most weighty point forgotten, and the witness of another data set."""
    train = _points(s, seed)
    net = max_margin_network(train.x, train.y).net
    audit = kkt_audit(net, train.x, train.y, tolerance=EXACT_KINK)
    context.progress(0.5)
    index = int(audit.multipliers.argmax())
    split = other_data(net, train.x, train.y, generator=generator_for("witness", seed), tolerance=EXACT_KINK)
    again = kkt_audit(net, split.x, split.y, tolerance=EXACT_KINK)
    residuals = [a.stationarity for a in (audit, again)] + [abs(a.slackness) for a in (audit, again)]
    witness: Row = {
        "kind": "witness",
        "residual": max(residuals),
        "least_margin": 1 - again.feasibility,
        "moved": float(split.moved.max()),
        "other_points": len(split.y),
    }
    context.progress(1.0)
    return [{"kind": "forget", **_forgotten(net, train, index)}, witness]


def _points(s: Setting, seed: int) -> Dataset:
    """The training sample; one point on each mean where every point is alone."""
    data = problem(s, seed)
    if s.case != "alone":
        return data.train
    clusters = data.clusters
    return Dataset(clusters.mu, clusters.labels, torch.arange(s.clusters), clusters.mu)


def _forgotten(net: TwoLayerNet, data: Dataset, index: int) -> Row:
    """ε and δ on the other points with and without the step, and how close each network is to one trained without the point."""
    found = forget(net, data.x, data.y, index, tolerance=OPEN_KINK)
    rest = torch.arange(len(data.y)) != index
    retrained = max_margin_network(data.x[rest], data.y[rest]).net
    row = found.as_row()
    ratio = None if found.after is None else row["epsilon_after"] / row["epsilon_before"]
    return row | {
        "epsilon_ratio": ratio,
        "cosine_before": float(direction_cosines(net, retrained).min()),
        "cosine_after": float(direction_cosines(found.net, retrained).min()),
    }


def _case(rows: Rows, case: str, field: str) -> Values:
    return rows.of("forget", case=case).mean(field)


def _cosines(rows: Rows) -> str:
    own = rows.of("forget", case="alone")
    least = own.column("forgotten_least").min()
    return f"without the step {own.column('cosine_before').mean():.3f}; least margin of the other points after it {least:.2f}"


CLAIMS = (
    ours(
        "forget",
        UNLEARNING,
        "one ascent step forgets a point among nearly orthogonal ones: ε on the other points ÷ ε of doing nothing",
        lambda rows: _case(rows, "alone", "epsilon_ratio"),
        at_most(0.4),
        note="what is left is the balance of the layers: the step takes twice as much of v² as of ‖w‖²",
    ),
    ours(
        "forget-cosine",
        UNLEARNING,
        "the network after the step and the KKT point of the other points: cosine of the summed neurons, the smaller of both signs",
        lambda rows: _case(rows, "alone", "cosine_after"),
        at_least(0.998),
        note=_cosines,
    ),
    ours(
        "forget-clusters",
        f"beyond {UNLEARNING}",
        "in clusters the same step forgets the neighbours too: least margin of the other points falls from 1 to 0, σ = 1/√d",
        lambda rows: _case(rows, "within", "forgotten_least"),
        between(-0.05, 0.05),
        note="one point carries its cluster's multiplier, which its neighbours could take over: doing nothing is nearly a KKT point",
    ),
    ours(
        "witness",
        SPLITTING,
        "two data sets, one network: largest stationarity and slackness of both, the points of one moved by their own length",
        lambda rows: rows.of("witness").largest("residual"),
        at_most(1e-8),
        note="every support point is split along a direction that no neuron sees; KKT points do not determine the data",
    ),
)

KKT_LAB = Experiment(
    id="double-edged/kkt-lab",
    source="Frei et al. 2023, eqs. (2)-(7); arXiv 2510.14844 and 2509.21296",
    title="What a KKT point knows of single points",
    scales={
        "quick": [alone(2000, 20), Setting.usual(500, 6), Setting.within(1000, 4)],
        "standard": [alone(4000, 30), Setting.usual(), Setting.within()],
        "paper": [alone(8000, 60), Setting.usual(3072, 10), Setting.within(6000, 16)],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The exact KKT point: its weightiest point taken out by one ascent step, measured as an (ε, δ)-approximate KKT point of the"
        " rest; and its support points split in two without any change of the network or its residual."
    ),
)
