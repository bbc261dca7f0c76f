"""Linear relaxations of layers of any activation, in any norm, from stored slopes (kind "relaxation").

A proof stores bounds of all neurons and the slopes of a line below and a line above each; how far a line has to be shifted follows from
the slope and the bounds (see curves.py). Bounds are shown to hold layer by layer, by lines of the first slopes; the margin by lines of
the second ones, which may be others for each rival. All parameters are free: a bad choice proves nothing, never something false.
"""

import numpy as np

from featureprism.checker.certificate import Certificate
from featureprism.checker.curves import CURVES
from featureprism.checker.enclosed import Enclosed, down, enclosed, unit, up
from featureprism.checker.layers import SPARE, Layers, Lines, Neurons, Region, below_by_lines
from featureprism.checker.scaled import is_weights, refuse_unless


def verified(certificate: Certificate, model: Layers, x: np.ndarray, own: int, rival: int) -> float:
    """The radius that is verified: 0 for malformed certificates, and where a computation fails."""
    with np.errstate(all="ignore"):
        try:
            refuse_unless(is_weights(x, model.weights[0].shape[1:]), "a point that fits the network")
            radius, numbers = certificate.radius, certificate.tree.get("numbers")
            region = Region.around(x, radius, certificate.norm, certificate.domain)
            return radius if proves(model, x, own, rival, region, numbers) else 0.0
        except (ValueError, ArithmeticError):
            return 0.0


def proves(model: Layers, x: np.ndarray, own: int, rival: int, region: Region, numbers: object) -> bool:
    """Whether f_own - f_rival is positive in the region, by bounds and slopes (6 H,)."""
    H = sum(model.widths)
    refuse_unless(is_weights(numbers, (6 * H,)), f"bounds and slopes of {H} neurons as a float64 array")
    assert isinstance(numbers, np.ndarray)
    low, high, *slopes = (np.split(part, np.cumsum(model.widths)[:-1]) for part in numbers.reshape(6, H))
    refuse_unless(
        bool((numbers[:H] <= numbers[H : 2 * H]).all()), "lower bounds that are not above upper ones"
    )
    c = enclosed(model.weights[0]) @ x + model.biases[0]
    refuse_unless(_hold(model, c, region, low, high, slopes[:2]), "bounds of neurons that hold")
    lines = [lines_of(model, *parts) for parts in zip(low, high, *slopes[2:], strict=True)]
    rows, offset = (part[rival : rival + 1] for part in model.margins(own))
    spare = SPARE * (np.abs(rows.mid) @ lines[-1].size + np.abs(offset.mid))
    return bool((below_by_lines(rows, offset, lines, model, c, region) > spare).all())


def lines_of(
    model: Layers, low: np.ndarray, high: np.ndarray, slope_below: np.ndarray, slope_above: np.ndarray
) -> Lines:
    """Lines of these slopes; |φ(z)| ≤ |z| for all activations."""
    curve = CURVES[model.activation]
    size = np.maximum(np.abs(low), np.abs(high))
    return Lines(
        slope_below,
        curve.offset(low, high, slope_below, 1),
        slope_above,
        curve.offset(low, high, slope_above, -1),
        np.minimum(size, 1.0) if model.activation == "tanh" else size,
    )


def next_bounds(
    model: Layers, c: Enclosed, region: Region, lines: list[Lines]
) -> tuple[np.ndarray, np.ndarray]:
    """Floats below and above the values of the first layer that has no lines yet."""
    W, b = model.weights[len(lines)], model.biases[len(lines)]
    if not lines:
        return down(c.low + region.least(enclosed(W))), up(c.high - region.least(enclosed(-W)))
    low, high = (
        below_by_lines(enclosed(s * W), enclosed(s * b), lines, model, c, region) for s in (1.0, -1.0)
    )
    return low, -high


def _hold(
    model: Layers,
    c: Enclosed,
    region: Region,
    low: list[np.ndarray],
    high: list[np.ndarray],
    slopes: list[list[np.ndarray]],
) -> bool:
    """Whether the stored bounds hold; all rivals of a point share them, so the last answer is kept."""
    arrays = (c.mid, c.rad, region.low, region.high, *low, *high, *slopes[0], *slopes[1])
    key = (*(v.tobytes() for v in arrays), region.radius, region.norm, unit())
    if key not in model.shown:
        lines: list[Lines] = []
        holds = True
        for stored_low, stored_high, *of_layer in zip(low, high, *slopes, strict=True):
            found = Neurons(*next_bounds(model, c, region, lines))
            spare = SPARE * (stored_high - stored_low)
            holds &= bool((down(found.low - spare) >= stored_low).all())
            holds &= bool((up(found.high + spare) <= stored_high).all())
            lines.append(lines_of(model, stored_low, stored_high, *of_layer))
        model.shown.clear()
        model.shown[key] = holds
    return model.shown[key]
