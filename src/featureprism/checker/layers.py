"""Deep networks as the checker reads them, and bounds of all their neurons by lines below and above each activation (CROWN)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from featureprism.checker.curves import CURVES
from featureprism.checker.enclosed import SLACK, Enclosed, down, enclosed, gamma, outward, unit, up
from featureprism.checker.lines import Bounds, room
from featureprism.checker.scaled import is_weights, refuse_strange_radius, refuse_unless

ROUNDS = 6  # in which the multiplier of a ball is drawn near its best value
SPARE = (
    2.0**-40
)  # of a neuron's width: coefficients that are carried back through layers are rounded, so bounds must hold with room


@dataclass(frozen=True, eq=False)
class Layers:
    """Scores W_L φ(… φ(W_1 x + b_1) …) + b_L of k classes, φ one of the curves."""

    weights: tuple[np.ndarray, ...]  # (h_i, h_{i-1})
    biases: tuple[np.ndarray, ...]
    activation: str

    def __post_init__(self) -> None:
        refuse_unless(self.activation in CURVES, f"layers of {', '.join(CURVES)}")
        refuse_unless(
            len(self.weights) == len(self.biases) > 1, "as many biases as weights, of two layers or more"
        )
        width = self.weights[0].shape[-1]
        for W, b in zip(self.weights, self.biases, strict=True):
            good = is_weights(W, (len(W), width)) and is_weights(b, (len(W),)) and len(W) > 0 and width > 0
            refuse_unless(good, "layers W (h, d) and b (h,) of float64 numbers up to 1e100 that fit together")
            width = len(W)
        refuse_unless(width > 1, "two classes or more")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.biases[-1])

    @cached_property
    def widths(self) -> list[int]:
        """Of the hidden layers."""
        return [len(b) for b in self.biases[:-1]]

    @cached_property
    def parallel(self) -> tuple[np.ndarray, np.ndarray]:
        """(h,) For every neuron of the first layer the first one w_l with w_j = s w_l, and the sign s."""
        W = self.weights[0] + 0.0  # -0 becomes 0
        sign = np.ones(len(W))
        first: dict[bytes, int] = {}
        leader = np.arange(len(W))
        for j, row in enumerate(W):
            for s in (1.0, -1.0):
                if (key := (s * row + 0.0).tobytes()) in first:
                    leader[j], sign[j] = first[key], s
                    break
            else:
                first[row.tobytes()] = j
        return leader, sign

    @cached_property
    def memory(self) -> dict[tuple, list["Neurons"] | None]:
        """The neurons that were shown last."""
        return {}

    @cached_property
    def values(self) -> dict[tuple, list[Enclosed]]:
        """The values of hidden layers at the point that was asked about last."""
        return {}

    @cached_property
    def shown(self) -> dict[tuple, bool]:
        """Whether bounds of neurons hold, of a linear relaxation that was asked about last."""
        return {}

    @cached_property
    def norms(self) -> dict[tuple[int, float, float], bool]:
        """What was asked of the norms of layers already."""
        return {}

    def margins(self, own: int) -> tuple[Enclosed, Enclosed]:
        """Weights (k, h) and offsets (k,) of f_own - f_r on the last hidden layer, each rounded once."""
        W, b = self.weights[-1], self.biases[-1]
        v, c = W[own] - W, b[own] - b
        return Enclosed(v, outward(unit() * np.abs(v))), Enclosed(c, outward(unit() * np.abs(c)))


@dataclass(frozen=True, eq=False)
class Region:
    """Perturbations ‖δ‖ ≤ radius (ℓ1, ℓ2 or ℓ∞) with low ≤ δ ≤ high, no less than what the bounds and the ℓ∞ ball allow."""

    radius: float
    norm: float
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def around(cls, x: np.ndarray, radius: float, norm: float, domain: Bounds) -> "Region":
        """Of a point within its bounds."""
        refuse_unless(norm in (1, 2, np.inf), f"the norm 1, 2 or inf, not {norm}")
        refuse_strange_radius(radius)
        below, above = room(x, radius, domain)  # also each coordinate of an ℓ1 or ℓ2 ball
        return cls(radius, norm, -below, above)

    @cached_property
    def is_ball(self) -> bool:
        """Whether no side of the box cuts the ℓ1 or ℓ2 ball."""
        return self.norm < np.inf and bool(
            (self.low == -self.radius).all() and (self.high == self.radius).all()
        )

    def least(self, v: Enclosed) -> np.ndarray:
        """(m,) Floats below min ⟨v, δ⟩ for every row of v (m, d).

        In a ball with a box, for any λ ≥ 0: ⟨v, δ⟩ ≥ Σ_i min (v_i δ_i + λ/2 δ_i²) - λ/2 radius², a minimum over an interval each;
        for ℓ1 ⟨v, δ⟩ ≥ Σ_i min (v_i δ_i + λ|δ_i|) - λ radius, each at an end of its interval or at 0.
        """
        if self.is_ball:
            dual = norms_above(v) if self.norm == 2 else v.size.max(axis=1)
            return -up(self.radius * dual)
        if self.norm == 1:
            return self._least_l1(v)
        lam = np.zeros(len(v.mid)) if self.norm == np.inf else self._multipliers(v.mid)
        weight = lam[:, None]
        with np.errstate(all="ignore"):
            best = np.where(weight > 0, -v.mid / weight, np.where(v.mid > 0, self.low, self.high))
        at = np.clip(np.where(np.isfinite(best), best, 0.0), self.low, self.high)
        value = enclosed(v.mid) * at + 0.5 * (enclosed(weight) * at * at)
        slope = enclosed(v.mid) + enclosed(weight) * at  # a convex function lies above its tangent
        ends = [(slope * (enclosed(end) - at)).low for end in (self.low, self.high)]
        unknown = up(v.rad * np.maximum(np.abs(self.low), np.abs(self.high)))
        floor = down(down(value.low + np.minimum(np.minimum(*ends), 0)) - unknown)
        total = row_sums(enclosed(floor)) - 0.5 * (enclosed(lam) * self.radius * self.radius)
        return total.low

    def _least_l1(self, v: Enclosed) -> np.ndarray:
        size = np.abs(v.mid)
        order = np.argsort(-size, axis=1)
        room_there = np.where(v.mid > 0, -self.low, self.high)
        filled = np.cumsum(np.take_along_axis(room_there, order, axis=1), axis=1) >= self.radius
        last = np.where(filled.any(axis=1), filled.argmax(axis=1), 0)
        lam = np.take_along_axis(np.take_along_axis(size, order, axis=1), last[:, None], axis=1)
        lam = np.where(filled.any(axis=1), lam[:, 0], 0.0)
        tilt = enclosed(lam[:, None])
        ends = [(tilt - v) * -self.low, (tilt + v) * self.high]
        floor = np.minimum(np.minimum(ends[0].low, ends[1].low), 0.0)
        return (row_sums(enclosed(floor)) - enclosed(lam) * self.radius).low

    def _multipliers(self, v: np.ndarray) -> np.ndarray:
        """(m,) Nearly the λ at which clip(-v/λ) has the length of the radius; 0 where the box is shorter."""
        stuck = np.zeros_like(v, dtype=bool)
        lam = np.zeros(len(v))
        with np.errstate(all="ignore"):
            for _ in range(ROUNDS):
                at_side = np.where(stuck, np.where(v > 0, self.low, self.high), 0.0)
                left = self.radius**2 - (at_side**2).sum(axis=1)
                free = np.sqrt((np.where(stuck, 0.0, v) ** 2).sum(axis=1))
                lam = np.where(left > 0, free / np.sqrt(left), lam)
                step = -v / lam[:, None]
                stuck = (step < self.low) | (step > self.high)
        return np.where(np.isfinite(lam), lam, 0.0)


def row_sums(terms: Enclosed) -> Enclosed:
    """The sums of the rows."""
    n = terms.mid.shape[1]
    return Enclosed(terms.mid.sum(axis=1), outward((terms.rad + gamma(n) * np.abs(terms.mid)).sum(axis=1), n))


def norms_above(v: Enclosed) -> np.ndarray:
    """(m,) Floats above the ℓ2 norms of the rows."""
    size = v.size
    return up(np.sqrt(outward((size * size).sum(axis=1), size.shape[1])))


@dataclass(frozen=True, eq=False)
class Neurons:
    """Where the neurons of one layer lie: low ≤ z ≤ high."""

    low: np.ndarray
    high: np.ndarray

    def __post_init__(self) -> None:
        finite = bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())
        refuse_unless(finite, "bounds of neurons that are numbers")  # NaN would read as a neuron that is off

    @property
    def unstable(self) -> np.ndarray:
        """Neurons that may be on and off."""
        return (self.low < 0) & (self.high > 0)

    @property
    def active(self) -> np.ndarray:
        """Neurons that are always on."""
        return self.low >= 0

    @cached_property
    def chord(self) -> tuple[np.ndarray, np.ndarray]:
        """(slope, offset) of a line above ReLU between low and high."""
        with np.errstate(all="ignore"):
            slope = np.where(self.unstable, self.high / (self.high - self.low), self.active.astype(float))
        slope = np.clip(np.where(np.isfinite(slope), slope, 1.0), 0.0, 1.0)
        ends = (-(enclosed(slope) * self.low)).high, (self.high - enclosed(slope) * self.high).high
        return slope, np.where(self.unstable, np.maximum(*ends), 0.0)

    def lines(self, choice: int) -> "Lines":
        """Lines through 0 below ReLU, with one of three slopes: the steeper side, the chord's slope, and none; chords above."""
        slope, lift = self.chord
        chosen = (np.where(self.high > -self.low, 1.0, 0.0), slope, np.zeros_like(slope))[choice]
        steep = np.where(self.unstable, chosen, self.active.astype(float))
        return Lines(steep, np.zeros_like(slope), slope, lift, np.maximum(self.high, 0))


@dataclass(frozen=True, eq=False)
class Lines:
    """slope_below z + offset_below ≤ φ(z) ≤ slope_above z + offset_above and |φ(z)| ≤ size, for every neuron of a layer."""

    slope_below: np.ndarray
    offset_below: np.ndarray
    slope_above: np.ndarray
    offset_above: np.ndarray
    size: np.ndarray


def below(
    rows: Enclosed, offset: Enclosed, known: list[Neurons], model: Layers, c: Enclosed, region: Region
) -> np.ndarray:
    """(m,) Floats below rows·h + offset of the last layer that is known, h = ReLU(z), by the best of three choices of lines."""
    best = np.full(len(rows.mid), -np.inf)
    for choice in range(3):
        lines = [layer.lines(choice) for layer in known]
        best = np.maximum(best, below_by_lines(rows, offset, lines, model, c, region))
    return best


def below_by_lines(
    rows: Enclosed, offset: Enclosed, lines: list[Lines], model: Layers, c: Enclosed, region: Region
) -> np.ndarray:
    """(m,) Floats below rows·h + offset of the last layer that has lines, for all perturbations of the region.

    Every layer is replaced by lines, from the last one back to the input; `c` holds the first layer's values at the point.
    """
    for k in range(len(lines) - 1, -1, -1):
        layer = lines[k]
        is_below = rows.mid >= 0
        line = np.where(is_below, layer.slope_below, layer.slope_above)
        shift = np.where(is_below, layer.offset_below, layer.offset_above)
        unknown = outward(rows.rad @ layer.size, len(layer.size))  # what is not known of a weight, times |h|
        offset = offset + row_sums(enclosed(rows.mid) * shift) - Enclosed(np.zeros_like(unknown), unknown)
        rows = enclosed(rows.mid) * line
        if k:
            offset = offset + rows @ model.biases[k]
            rows = rows @ model.weights[k]
    offset = offset + rows @ c
    return (offset + region.least(rows @ model.weights[0])).low


def layer_bounds(
    model: Layers, c: Enclosed, region: Region, known: list[Neurons]
) -> tuple[np.ndarray, np.ndarray]:
    """Floats below and above the values of the first layer that is not known yet."""
    k = len(known)
    W, b = model.weights[k], model.biases[k]
    if k == 0:
        return down(c.low + region.least(enclosed(W))), up(c.high - region.least(enclosed(-W)))
    low = below(enclosed(W), enclosed(b), known, model, c, region)
    return low, -below(enclosed(-W), enclosed(-b), known, model, c, region)


def signs_of_layers(model: Layers, signs: dict[int, float]) -> list[np.ndarray]:
    """For every layer (h,) +1 and -1 where a cut says z ≥ 0 or z ≤ 0, else 0; `signs` counts neurons through all layers."""
    every = np.zeros(sum(model.widths))
    every[list(signs)] = list(signs.values())
    return np.split(every, np.cumsum(model.widths)[:-1])


def neuron_bounds(model: Layers, c: Enclosed, region: Region, signs: dict[int, float]) -> list[Neurons]:
    """Bounds of all hidden layers with room for rounding: what a proof stores."""
    known: list[Neurons] = []
    for sign in signs_of_layers(model, signs):
        low, high = layer_bounds(model, c, region, known)
        size = np.maximum(np.abs(low), np.abs(high))  # a value that hardly changes is rounded all the same
        width = SLACK * np.abs(high - low) + 8 * unit() * size + np.finfo(np.float64).tiny
        low, high = low - width, high + width
        known.append(
            Neurons(
                np.where(sign > 0, np.maximum(low, 0), low), np.where(sign < 0, np.minimum(high, 0), high)
            )
        )
    return known


def enclosed_neurons(
    model: Layers, c: Enclosed, region: Region, signs: dict[int, float], low: np.ndarray, high: np.ndarray
) -> list[Neurons] | None:
    """The stored bounds layer by layer, once they are shown to hold; None where no perturbation has these signs.

    All rivals of a point share them: the last answer is kept, under everything that it depends on.
    """
    arrays = (c.mid, c.rad, region.low, region.high, low, high)
    key = (*(v.tobytes() for v in arrays), region.radius, region.norm, tuple(signs.items()), unit())
    if key not in model.memory:
        answer = _shown(model, c, region, signs, low, high)
        model.memory.clear()
        model.memory[key] = answer
    return model.memory[key]


def _shown(
    model: Layers, c: Enclosed, region: Region, signs: dict[int, float], low: np.ndarray, high: np.ndarray
) -> list[Neurons] | None:
    known: list[Neurons] = []
    parts = (np.split(v, np.cumsum(model.widths)[:-1]) for v in (low, high))
    for sign, stored_low, stored_high in zip(signs_of_layers(model, signs), *parts, strict=True):
        found = Neurons(*layer_bounds(model, c, region, known))
        least = np.where(sign > 0, np.maximum(found.low, 0), found.low)
        most = np.where(sign < 0, np.minimum(found.high, 0), found.high)
        if (least > most).any():
            return None
        stored = Neurons(stored_low, stored_high)
        spare = SPARE * (stored.high - stored.low)
        holds = (down(found.low - spare) >= stored.low) | ((sign > 0) & (stored.low <= 0))
        holds &= (up(found.high + spare) <= stored.high) | ((sign < 0) & (stored.high >= 0))
        refuse_unless(bool(holds.all()), "bounds of neurons that hold")
        known.append(stored)
    return known


def activated(z: Enclosed, activation: str) -> Enclosed:
    """φ(z) of ReLU or tanh, which rise, so that the ends of z give its ends."""
    refuse_unless(activation in ("relu", "tanh"), "layers of relu or tanh")
    value = CURVES[activation].value
    low, high = value(z.low).low, value(z.high).high
    return Enclosed((low + high) / 2, outward((high - low) / 2 + 2 * unit() * (np.abs(low) + np.abs(high))))
