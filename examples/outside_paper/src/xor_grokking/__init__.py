"""Xu, Wang, Frei, Vardi & Hu, "Benign Overfitting and Grokking in ReLU Networks for XOR Cluster Data", ICLR 2024 (arXiv 2310.02541)."""

from dataclasses import dataclass
from math import sqrt

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.lab import Claim, Context, Experiment, Paper, Premise, Rows, at_least, between, requires
from featureprism.lab.rows import Row
from featureprism.networks import ReLU, TwoLayerNet, unit_votes_start
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent


@dataclass(frozen=True, kw_only=True)
class Setting:
    """n points in p dimensions around ±μ1 (label +1) and ±μ2 (-1), unit noise, a share of labels flipped; m neurons."""

    dim: int = 4000
    points: int = 200
    signal: float = 12.0  # ‖μ‖
    flipped: float = 0.05
    width: int = 200
    start: float = 1e-5
    step_size: float = 0.02
    steps: int = 100
    test_points: int = 1000


def premises(s: Setting) -> list[Premise]:
    """Assumptions A1-A3 of the paper with their constant C set to 1."""
    strong, wide = s.points**0.51 * sqrt(s.dim), s.points**2 * s.signal**2
    return [
        Premise("assumptions.signal", "‖μ‖²", s.signal**2, ">=", strong, "(A1), C = 1"),
        Premise("assumptions.dim", "p", float(s.dim), ">=", wide, "(A2), C = 1"),
        Premise("assumptions.noise", "η", s.flipped, "<=", 0.1, "(A3), 1/C read as 0.1"),
    ]


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Accuracies on noisy training labels and on clean test labels along gradient descent."""
    clusters = xor_clusters(s.dim, 1 / s.signal, generator=generator_for("clusters", seed))
    train = sample_xor(
        clusters, s.points, LabelNoise("constant", s.flipped), generator=generator_for("train", seed)
    )
    test = sample_xor(clusters, s.test_points, LabelNoise(), generator=generator_for("test", seed))
    start = unit_votes_start(s.width, s.dim, s.start, ReLU(), generator=generator_for("start", seed))
    x, x_test = s.signal * train.data.x, s.signal * test.data.x
    run = first_layer_descent(
        start,
        x,
        train.data.y,
        step_size=s.step_size,
        steps=s.steps,
        record=[0, 1, 2, 3, 5, 10, 30],
        progress=context.progress,
    )
    rows: list[Row] = [
        {
            "kind": "time",
            "step": int(step),
            "train": accuracy(net, x, train.data.y),
            "test": accuracy(net, x_test, test.clean),
            "last": int(step) == s.steps,
        }
        for step, net in zip(run.times, run.snapshots, strict=True)
    ]
    return rows + [premise.as_row() for premise in premises(s)]


def accuracy(net: TwoLayerNet, x, y) -> float:
    """Share of points with y f(x) > 0."""
    return float((y * net(x).detach() > 0).double().mean())


CLAIMS = (
    Claim(
        "overfits-at-once",
        "Theorem 3.1 (1)",
        "after one step the network fits every training label, the flipped ones too: training accuracy",
        lambda rows: rows.of("time", step=1).per_seed("train"),
        at_least(1.0),
        reported=1.0,
        premises=requires("assumptions"),
        aggregate="worst",
    ),
    Claim(
        "one-step-is-chance",
        "Theorem 3.1 (1)",
        "after one step test accuracy is near one half",
        lambda rows: rows.of("time", step=1).per_seed("test"),
        between(0.4, 0.6),
        reported=0.5,
        premises=requires("assumptions"),
    ),
    Claim(
        "benign",
        "Theorem 3.1 (2)",
        "later test accuracy on clean labels is near 1, with every flipped training label still fitted",
        lambda rows: rows.of("time", last=True, train=1.0).per_seed("test"),
        at_least(0.97),
        reported=1.0,
        premises=requires("assumptions"),
    ),
)


def draw(rows: Rows):
    """Both accuracies against the number of steps; matplotlib is imported only where a figure is wanted."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.6, 3.0), layout="constrained")
    for column, label in (("train", "training, noisy labels"), ("test", "test, clean labels")):
        steps = sorted(rows.of("time").groups("step").items())
        axes.plot(
            [1 + step for step, _ in steps],
            [part.column(column).mean() for _, part in steps],
            "o-",
            label=label,
        )
    axes.set(xlabel="1 + step", ylabel="accuracy", xscale="log", ylim=(0.4, 1.03))
    axes.legend()
    return figure


ONE_STEP = Experiment(
    id="xor-grokking/one-step",
    source="Xu et al. 2024, Theorem 3.1",
    title="One step overfits everything and learns nothing; later steps learn",
    scales={
        "quick": [Setting()],
        "standard": [Setting(dim=10_000, signal=16.0)],
        "paper": [Setting(dim=40_000, signal=24.0, points=400, width=1000)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Gradient descent on the first layer of a ReLU network, XOR clusters in many more dimensions than points.",
)
PAPER = Paper("xor-grokking", str(__doc__), (ONE_STEP,))
