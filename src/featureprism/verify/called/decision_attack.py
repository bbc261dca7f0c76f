"""An attack that sees nothing but answers, for models without gradients.

From the nearest points with another answer it bisects to the boundary, walks along it by estimated normals, and takes back what a
feature changed in vain. Source: Chen, Jordan & Wainwright, HopSkipJumpAttack, 2020.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

Flips = Callable[[Float[np.ndarray, "m d"], np.ndarray], Bool[np.ndarray, " m"]]
NEAREST, ROUNDS, DIRECTIONS = 3, 8, 24
GRID, GRIDS = 64, 4  # shares of a way that are asked at once, and how often the grid is refined
MOST_RESETS = 400  # features that are tried one after another


@dataclass(frozen=True, eq=False)
class Region:
    """Where perturbed points may lie: bounds (d,) and features that move."""

    norm: float
    lower: np.ndarray
    upper: np.ndarray
    moves: Bool[np.ndarray, " d"]

    def length(self, delta: Float[np.ndarray, "*m d"]) -> Any:
        """‖δ‖."""
        return np.linalg.norm(delta, ord=self.norm, axis=-1)

    def inside(self, z: Float[np.ndarray, "*m d"]) -> Float[np.ndarray, "*m d"]:
        """The nearest points within the bounds."""
        return np.clip(z, self.lower, self.upper)


def shortest_flips(
    flips: Flips, x: Float[np.ndarray, "n d"], others: Float[np.ndarray, "m d"], region: Region, seed: int = 0
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
    """Length and δ of the shortest change of answer found for each point, inf where none was found.

    `flips(z, i)` says of points z whether the answer to point i has changed there; `others` are points to start towards.
    """
    rng = np.random.default_rng(seed)
    n, d = x.shape
    best, length = np.zeros_like(x), np.full(n, np.inf)
    for i in range(n):
        ends = _starts(x[i], others, region, rng)
        hit = flips(ends, np.full(len(ends), i))
        for end in ends[hit][:NEAREST]:
            delta = _bisected(flips, x[i], end - x[i], i)
            if region.length(delta) < length[i]:
                best[i], length[i] = delta, region.length(delta)
    live = np.flatnonzero(np.isfinite(length))
    for _ in range(ROUNDS if len(live) else 0):
        _walk(flips, x, best, length, live, region, rng)
    for i in live.tolist() if d <= MOST_RESETS else ():
        _take_back(flips, x[i], best, length, i, region)
    return length, best


def _starts(x: np.ndarray, others: np.ndarray, region: Region, rng: np.random.Generator) -> np.ndarray:
    """Other points, the nearest first, then random directions of growing length; fixed features stay."""
    gaps = np.where(region.moves, others - x, 0.0)
    near = x + gaps[np.argsort(region.length(gaps), kind="stable")]
    scale = max(1.0, float(np.abs(x).max()))
    noise = np.where(region.moves, rng.normal(size=(30, len(x))), 0.0)
    away = x + noise * scale * np.geomspace(0.05, 4.0, 30)[:, None]
    return region.inside(np.concatenate([near, away]))


def _bisected(flips: Flips, x: np.ndarray, delta: np.ndarray, i: int) -> np.ndarray:
    """The shortest multiple of δ found on finer and finer grids that flips; δ itself does."""
    low, high = 0.0, 1.0
    for _ in range(GRIDS):
        shares = np.linspace(low, high, GRID + 1)[1:]
        first = _first(flips(x + shares[:-1, None] * delta, np.full(GRID - 1, i)))
        low, high = (low if first == 0 else float(shares[first - 1])), float(shares[first])
    return high * delta


def _first(hits: np.ndarray) -> int:
    """The first that is true; one more than the last where none is."""
    return int(hits.argmax()) if hits.any() else len(hits)


def _walk(
    flips: Flips,
    x: np.ndarray,
    best: np.ndarray,
    length: np.ndarray,
    live: np.ndarray,
    region: Region,
    rng: np.random.Generator,
) -> None:
    """One step along the boundary for every point: a normal from random probes, a step inside, and back to the boundary."""
    d = x.shape[1]
    probes = rng.normal(size=(len(live), DIRECTIONS, d)) * region.moves
    probes /= np.maximum(np.linalg.norm(probes, axis=2, keepdims=True), 1e-300)
    size = np.linalg.norm(best[live], axis=1) / d**0.5
    at = x[live] + best[live]
    z = region.inside((at[:, None] + size[:, None, None] * probes).reshape(-1, d))
    sign = np.where(flips(z, np.repeat(live, DIRECTIONS)), 1.0, -1.0).reshape(len(live), DIRECTIONS)
    normal = ((sign - sign.mean(axis=1, keepdims=True))[..., None] * probes).sum(axis=1)
    normal = np.sign(normal) if region.norm == np.inf else normal
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    for share in (1.0, 0.3, 0.1):
        trial = region.inside(at + share * np.linalg.norm(best[live], axis=1)[:, None] * normal)
        hit = flips(trial, live)
        for k in np.flatnonzero(hit).tolist():
            i = int(live[k])
            delta = _bisected(flips, x[i], trial[k] - x[i], i)
            if region.length(delta) < length[i]:
                best[i], length[i] = delta, region.length(delta)


def _take_back(
    flips: Flips, x: np.ndarray, best: np.ndarray, length: np.ndarray, i: int, region: Region
) -> None:
    """Put back every feature whose change is not needed, the smallest change first, then go to the boundary."""
    delta = best[i].copy()
    for j in np.argsort(np.abs(delta), kind="stable").tolist():
        if delta[j] == 0:
            continue
        kept, delta[j] = delta[j], 0.0
        if not flips((x + delta)[None], np.array([i]))[0]:
            delta[j] = kept
    delta = _bisected(flips, x, delta, i)
    if region.length(delta) < length[i]:
        best[i], length[i] = delta, region.length(delta)
