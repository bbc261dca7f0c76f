"""Points that a person draws in the plane: a network is trained on them, and every point gets its proven ball."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.lab.rows import Row
from featureprism.models.activations import PowerReLU, ReLU
from featureprism.models.one_layer import TwoLayerNet
from featureprism.play.frames import decision_bytes
from featureprism.seeds import generator_for
from featureprism.training import Loss, gradient_descent
from featureprism.verify import Budget, robust_radius

MOST_POINTS, WIDTHS, POWERS = 200, (2, 100), (1.0, 5.0)
STEPS, PER_FRAME, STEP_SIZE = 1500, 30, 0.5
WINDOW = (-1.0, 1.0, -1.0, 1.0)  # left, right, bottom, top
BUDGET = Budget(branches=8)


@dataclass(frozen=True, eq=False)
class Drawing:
    """Points in the square [-1, 1]² with labels ±1, the width of the network, and the power p of its neurons."""

    x: Float[Tensor, "n 2"]
    y: Float[Tensor, " n"]
    width: int = 30
    p: float = 1.0
    seed: int = 0

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Drawing":
        """From a query: `points` is "s,t,+;s,t,-;…"."""
        try:
            parts = [part.split(",") for part in words.get("points", "").split(";") if part]
            places = [(float(s), float(t), {"+": 1.0, "-": -1.0}[sign]) for s, t, sign in parts]
            width, p, seed = int(words.get("width", 30)), float(words.get("p", 1)), int(words.get("seed", 0))
        except (ValueError, KeyError) as error:
            raise ValueError("Points are written as s,t,+ or s,t,- with semicolons between them.") from error
        table = torch.tensor(places, dtype=torch.float64).reshape(-1, 3)
        if not 2 <= len(table) <= MOST_POINTS or len(table[:, 2].unique()) < 2:
            raise ValueError(f"Draw 2 to {MOST_POINTS} points, of both classes.")
        if not bool((table[:, :2].abs() <= 1).all()):  # also refuses NaN
            raise ValueError("Points lie between -1 and 1 in both directions.")
        if not WIDTHS[0] <= width <= WIDTHS[1] or not POWERS[0] <= p <= POWERS[1] or not 0 <= seed <= 999:
            raise ValueError("The width is 2 to 100, the power 1 to 5 and the seed 0 to 999.")
        return cls(table[:, :2], table[:, 2], width, p, seed)


def training(drawing: Drawing) -> Iterator[Row]:
    """Decisions while the network learns, then the bracket of every point."""
    generator = generator_for("drawn", drawing.seed)
    W = 0.5 * torch.randn(drawing.width, 2, generator=generator, dtype=torch.float64)
    b, a = 0.3 * torch.randn(2, drawing.width, generator=generator, dtype=torch.float64)
    first = TwoLayerNet(W, a, b, activation=ReLU() if drawing.p == 1 else PowerReLU(drawing.p))
    run = gradient_descent(
        first,
        drawing.x,
        drawing.y,
        loss=Loss("logistic", "mean"),
        step_size=STEP_SIZE / drawing.p,
        steps=STEPS,
        record=range(0, STEPS, PER_FRAME),
    )
    for step, net in zip(run.times, run.snapshots, strict=True):
        right = float((net(drawing.x) * drawing.y > 0).double().mean())
        yield {
            "kind": "frame",
            "step": int(step),
            "accuracy": right,
            "decisions": decision_bytes(net, WINDOW),
        }
    bracket = robust_radius(run.last, drawing.x, drawing.y, budget=BUDGET)
    for i in range(len(bracket)):
        yield {
            "kind": "ball",
            "point": i,
            "certified": float(bracket.certified[i]),
            "attacked": float(bracket.attacked[i]),
        }
