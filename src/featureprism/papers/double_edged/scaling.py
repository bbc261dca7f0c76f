"""Theorem 4.2's order: how the norm that breaks a KKT point grows with k and d."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from featureprism.attacks import flipping_norm
from featureprism.lab import Claim, Experiment, Rows, at_most, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    TrainingSetting,
    critical_norm,
    direction,
    premises,
    problem,
    trained,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class ScalingSetting(TrainingSetting):
    """`family` says what varies, the clusters or the dimension."""

    family: str


def measure(s: ScalingSetting, seed: int, context: Context) -> list[Row]:
    """The norm along u that flips half of the points at the limit of gradient flow."""
    data = problem(s, seed)
    net = trained(s, data.train, seed)
    norm = flipping_norm(net, data.test.x, data.test.y, direction(data))
    predicted = critical_norm(data)
    context.progress(1.0)
    measured = {"kind": "norm", "norm": norm, "predicted": predicted, "over_predicted": norm / predicted}
    return [measured, *premises(s, data)]


CLAIMS = (
    Claim(
        "order",
        source="Theorem 4.2",
        says="The more clusters there are, the shorter the perturbation that breaks the limit of gradient flow: its norm is at"
        " most of the"
        " order of √(d/(c²k)).",
        quantity="exponent of k in the norm along u that flips half of the test points, at d and c = 1/2 fixed",
        formula=r"\lVert z\rVert \le \mathcal{O}\left(\sqrt{d/(c^2 k)}\right)",
        bound=at_most(-0.46),
        because="the theorem's order has the exponent -1/2; 0.04 is left for sizes that are finite",
        value=lambda rows: rate(rows.of("norm", family="clusters", case="within"), x="clusters", y="norm"),
        premises=requires("assumption-2-2", "theorem-3-1", family="clusters", case="within"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Flipping norm against k and against d, with the predicted lines."""
    from featureprism.lab.style import COLOURS, over_seeds, panels, plain_ticks

    figure, panel = panels(2, width=3.6, height=2.9)
    for axes, family, key in zip(panel, ("clusters", "dimension"), ("clusters", "dim"), strict=True):
        norms = rows.of("norm", family=family)
        for colour, (case, group) in zip(COLOURS, norms.groups("case").items(), strict=False):
            x, low, mean, high = over_seeds(group, key, "norm")
            axes.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=CASE_NAMES[case])
        x, _, law, _ = over_seeds(norms, key, "predicted")
        axes.plot(x, law, "--", color="0.4", label="√(d/k)")
        axes.set(xscale="log", yscale="log", xlabel="clusters k" if key == "clusters" else "dimension d")
        plain_ticks(axes, x)
        plain_ticks(axes, (5, 10, 20, 40), along="y")
    panel[0].set(ylabel="norm that flips half of the points")
    panel[0].legend()
    return figure


def _families(
    dims: tuple[int, ...], numbers: tuple[int, ...], dim: int, clusters: int
) -> list[ScalingSetting]:
    """Numbers of clusters in `dim` dimensions, with small noise and with σ = 1, and dimensions with so many clusters."""
    return [
        *(ScalingSetting.within(dim, number, family="clusters") for number in numbers),
        *(ScalingSetting.usual(dim, number, family="clusters") for number in numbers[:-1]),
        *(ScalingSetting.within(d, clusters, family="dimension") for d in dims),
    ]


SCALING = Experiment(
    id="double-edged/scaling",
    source="Frei et al. 2023, Theorem 4.2",
    title="The breaking norm falls as 1/√k",
    scales={
        "quick": _families((500, 1000, 2000), (2, 4, 8, 16), 1000, 4),
        "standard": _families((500, 1000, 2000, 4000), (2, 4, 8, 16, 32), 2000, 4),
        "paper": _families((1000, 2000, 4000, 8000), (2, 4, 8, 16, 32, 48), 4000, 8),
    },
    measure=measure,
    claims=CLAIMS,
    about="The norm along u that flips half of the test points of the limit of gradient flow, against k and d.",
    draw=draw,
)
