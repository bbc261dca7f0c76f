"""What the witnesses of a bracket changed: which features, by how many standard deviations, in one direction or in many."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from jaxtyping import Float

TOP = 2  # features that are named for each point
SHOWN = 5  # points and features in tables
NAMED = 3  # features that a sentence names, points that are described in a terminal
SMALLEST_PICTURE = 4  # pixels on a side
ONE_DIRECTION, FEW = 0.6, 0.3  # of `Moved.agreement`
FAR = 5.0  # standard deviations: a change that no data point shows


@dataclass(frozen=True)
class Change:
    """How much one feature changed: in its own unit and in standard deviations, NaN where the feature never varies."""

    feature: str
    by: float
    deviations: float

    def __str__(self) -> str:
        if not np.isfinite(self.deviations):
            return f"{self.feature} by {self.by:+.3g} (it never varies in the data)"
        return f"{self.feature} by {self.by:+.3g} ({abs(self.deviations):.2g} standard deviations)"


@dataclass(frozen=True)
class MovedPoint:
    """One point: how far its witness is, which class it leads to, and the features that changed most."""

    index: int
    radius: float
    label: str
    becomes: str
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """One sentence."""
        classes = f" from {self.label} to {self.becomes}" if self.label != self.becomes else ""
        return (
            f"Point {self.index} changes{classes} at {self.radius:.3g}: {'; '.join(map(str, self.changes))}."
        )


@dataclass(frozen=True, eq=False)
class Moved:
    """What all witnesses changed.

    Attributes
    ----------
    points : tuple of MovedPoint
        Every point that is classified correctly and has a witness, the most fragile first.
    features : tuple of str
        Names of the features, those that changed most first.
    shares : array of shape (d,)
        Share of each of these features in the squared changes, measured in standard deviations, mean over points.
    common : float
        Mean squared cosine between the witnesses and their best common direction: 1 if one direction breaks every point.
    direction : array of shape (d,)
        That direction, of length 1, in the order of the data's features.
    side : int
        Pixels on a side where points are square pictures without names, else 0.
    pictures : tuple of pairs of arrays
        Of the most fragile points: the point and its witness, both (d,).
    """

    points: tuple[MovedPoint, ...]
    features: tuple[str, ...]
    shares: Float[np.ndarray, " d"]
    common: float
    direction: Float[np.ndarray, " d"]
    side: int = 0
    pictures: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    @property
    def agreement(self) -> float:
        """`common` beyond chance: 0 where directions are random in as many dimensions, 1 where all are parallel."""
        chance = 1 / max(len(self.direction), 1)
        return (self.common - chance) / (1 - chance) if chance < 1 else 0.0

    def sentence(self) -> str:
        """What broke the model, in one sentence."""
        if not self.points:
            return "No perturbation is known that changes a correct answer."
        if len(self.points) == 1:
            return str(self.points[0])
        ways = {True: "mostly along one common direction", False: "in many different directions"}
        along = (
            "along a few directions" if FEW <= self.agreement < ONE_DIRECTION else ways[self.agreement >= FEW]
        )
        if self.side:
            half = int(np.searchsorted(np.cumsum(self.shares), 0.5)) + 1
            return (
                f"The pictures break {along}; half of the change lies in {half} of {len(self.shares)} pixels."
            )
        named = [
            (name, share) for name, share in zip(self.features, self.shares, strict=True) if share >= 0.05
        ][:NAMED]
        leading = ", ".join(f"{name} ({share:.0%})" for name, share in named) or "no single feature"
        is_most = sum(share for _, share in named) >= 0.5
        where = f"most of the change is in {leading}" if is_most else f"many features change, most {leading}"
        return f"The points break {along}; {where}."

    def __str__(self) -> str:
        return "\n".join([self.sentence(), *map(str, self.points[:NAMED] if len(self.points) > 1 else ())])

    def _repr_html_(self) -> str:
        """The sentence, pictures or a table of features, and the most fragile points, for notebooks and pages."""
        parts = [f"<p>{html.escape(self.sentence())}</p>"]
        if self.side:
            parts += [
                _picture_row(*pair, self.side, point)
                for pair, point in zip(self.pictures, self.points, strict=False)
            ]
            return "".join(parts)
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td style='text-align:right'>{share:.0%}</td></tr>"
            for name, share in list(zip(self.features, self.shares, strict=True))[:SHOWN]
            if share >= 0.005
        )
        if rows:
            parts.append(f"<table><tr><th>feature</th><th>share of the change</th></tr>{rows}</table>")
        items = "".join(f"<li>{html.escape(str(point))}</li>" for point in self.points[:SHOWN])
        return "".join([*parts, f"<ul>{items}</ul>" if items else ""])


def what_moved(
    x: Float[np.ndarray, "n d"] | None,
    delta: Float[np.ndarray, "n d"],
    radius: Float[np.ndarray, " n"],
    labels: list[str],
    becomes: list[str],
    *,
    spread: Float[np.ndarray, " d"] | None = None,
    names: Sequence[str] | None = None,
) -> Moved:
    """The changes of witnesses δ whose norms are `radius`; rows with a radius of 0 or inf are left out.

    `spread` are standard deviations of the features; without them changes are compared in the units of the points.
    """
    d = delta.shape[1]
    side = isqrt(d) if names is None and isqrt(d) ** 2 == d and isqrt(d) >= SMALLEST_PICTURE else 0
    plain = [f"pixel ({j // side}, {j % side})" if side else f"feature {j}" for j in range(d)]
    features = plain if names is None else list(names)
    order = np.where((radius > 0) & np.isfinite(radius), radius, np.inf).argsort(kind="stable")
    order = order[: int(((radius > 0) & np.isfinite(radius)).sum())]
    sigma = np.ones(d) if spread is None or not (spread > 0).any() else spread
    varies = sigma > 0
    smallest = float(sigma[varies].min())
    scaled = delta / np.where(varies, sigma, smallest)
    points = []
    for i in order.tolist():
        top = np.argsort(-np.abs(scaled[i]), kind="stable")[:TOP]
        changes = tuple(
            Change(features[j], float(delta[i, j]), float(scaled[i, j]) if varies[j] else float("nan"))
            for j in top.tolist()
            if delta[i, j] != 0
        )
        points.append(MovedPoint(i, float(radius[i]), str(labels[i]), str(becomes[i]), changes))
    shares, common, direction = _together(scaled[order])
    ranked = np.argsort(-shares, kind="stable")
    shown = () if x is None or not side else tuple((x[i], delta[i]) for i in order[:SHOWN].tolist())
    return Moved(
        tuple(points),
        tuple(features[j] for j in ranked.tolist()),
        shares[ranked],
        common,
        direction,
        side,
        shown,
    )


def _together(scaled: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Mean share of every feature, and the direction with the largest mean squared cosine, whatever the signs."""
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = np.divide(scaled, lengths, out=np.zeros_like(scaled), where=lengths > 0)
    if not len(unit):
        return np.zeros(scaled.shape[1]), 0.0, np.zeros(scaled.shape[1])
    _, singular, rows = np.linalg.svd(unit, full_matrices=False)
    return (unit**2).mean(axis=0), float(singular[0] ** 2 / len(unit)), rows[0]


def _picture_row(x: np.ndarray, delta: np.ndarray, side: int, point: MovedPoint) -> str:
    """x, δ and x + δ side by side; δ on a scale of its own, blue where it lowers and red where it raises."""
    low, high = float(min(x.min(), (x + delta).min())), float(max(x.max(), (x + delta).max()))
    grey = [(v - low) / (high - low or 1.0) for v in (x, x + delta)]
    strength = delta / (np.abs(delta).max() or 1.0)
    tinted = [
        f"rgb({int(255 * min(1, 1 + v))},{int(255 * (1 - abs(v)))},{int(255 * min(1, 1 - v))})"
        for v in strength
    ]
    drawings = [
        (
            _squares([f"rgb({int(255 * v)},{int(255 * v)},{int(255 * v)})" for v in grey[0]], side),
            f"x, {point.label}",
        ),
        (_squares(tinted, side), f"change δ, length {point.radius:.3g}"),
        (
            _squares([f"rgb({int(255 * v)},{int(255 * v)},{int(255 * v)})" for v in grey[1]], side),
            f"x + δ, {point.becomes}",
        ),
    ]
    figures = "".join(
        f"<figure style='display:inline-block;margin:0 12px 8px 0;text-align:center'>{svg}"
        f"<figcaption style='font-size:12px'>{html.escape(words)}</figcaption></figure>"
        for svg, words in drawings
    )
    return f"<div>{figures}</div>"


def _squares(colours: list[str], side: int) -> str:
    """One square for each pixel; equal neighbours share one."""
    parts = []
    for row in range(side):
        start = 0
        for column in range(1, side + 1):
            line = colours[row * side : (row + 1) * side]
            if column == side or line[column] != line[start]:
                parts.append(
                    f"<rect x='{start}' y='{row}' width='{column - start}' height='1' fill='{line[start]}'/>"
                )
                start = column
    return f"<svg width='96' height='96' viewBox='0 0 {side} {side}' shape-rendering='crispEdges'>{''.join(parts)}</svg>"
