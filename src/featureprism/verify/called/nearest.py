"""The exact robust radius of 1-nearest neighbour.

x + δ goes to another class as soon as it is nearer to some point x_j of that class than to every x_i of its own. For one x_j these are
half-spaces, 2⟨x_i - x_j, x + δ⟩ ≤ ‖x_i‖² - ‖x_j‖², so the radius is the least over x_j of a least-distance quadratic programme; each
bisector alone bounds it from below, which leaves few x_j to try. Source: Wang et al. 2019, "Evaluating the robustness of nearest
neighbor classifiers: a primal-dual perspective".
"""

import numpy as np
from jaxtyping import Float

FEASIBLE = 1e-9  # relative to the squared distances: a violation below this is rounding
INSIDE = 1e-7  # share of the way to the stranger that a witness goes beyond the edge of its cell
NEAR = 100  # points of the class, the nearest, whose bisectors bound the radius before anything is solved
CUTS = 60  # half-spaces added one by one before a programme is given up and its bound from below is kept


def nearest_neighbour_radius(
    train: Float[np.ndarray, "n d"], labels: np.ndarray, x: Float[np.ndarray, " d"], y: object
) -> tuple[float, Float[np.ndarray, " d"] | None]:
    """A lower bound of the radius of one point, and the shortest perturbation found that flips it, None where there is none.

    Their lengths agree to INSIDE unless CUTS runs out; both are 0 where misclassified.
    """
    same_class, strangers = train[labels == y], train[labels != y]
    to_same, to_strangers = (points - x for points in (same_class, strangers))
    same_square, strange_square = ((to_same**2).sum(axis=1), (to_strangers**2).sum(axis=1))
    if strange_square.min() <= same_square.min():
        return 0.0, np.zeros_like(x)
    near = np.argsort(same_square)[:NEAR]
    gaps = np.maximum(same_square[near, None] + strange_square - 2 * to_same[near] @ to_strangers.T, 1e-300)
    bounds = ((strange_square - same_square[near, None]) / (2 * np.sqrt(gaps))).max(axis=0)
    low, high, shortest = np.inf, np.inf, None
    for j in np.argsort(bounds):
        if bounds[j] >= high:
            break
        delta, proven = _to_cell(to_same, same_square, to_strangers[j], strange_square[j], high)
        low = min(low, proven)
        if delta is not None:
            # the stranger lies inside its cell, which is convex: a little towards it from the edge is inside too
            delta = delta + INSIDE * (to_strangers[j] - delta)
            if np.linalg.norm(delta) < high:
                high, shortest = float(np.linalg.norm(delta)), delta
    return min(low, high), shortest


def _to_cell(
    same_class: Float[np.ndarray, "n d"],
    same_square: Float[np.ndarray, " n"],
    stranger: Float[np.ndarray, " d"],
    strange_square: float,
    best: float,
) -> tuple[Float[np.ndarray, " d"] | None, float]:
    """The argument (None where not found) and a lower bound of min ‖δ‖ s.t. Aδ ≥ c, with one row for each point of the class.

    A_i = 2(x_j - x_i), c_i = ‖x_j - x‖² - ‖x_i - x‖²; the worst cut joins in turn.
    """
    from scipy.optimize import nnls  # takes half a second

    A, c = 2 * (stranger - same_class), strange_square - same_square
    chosen = [int((c / np.linalg.norm(A, axis=1).clip(1e-300)).argmax())]
    low = 0.0
    for _ in range(CUTS):
        # the projection of 0 on {Aδ ≥ c}, by non-negative least squares (Lawson & Hanson, least-distance programming)
        system = np.vstack([A[chosen].T, c[chosen]])
        target = np.append(np.zeros(same_class.shape[1]), 1.0)
        multipliers, _ = nnls(system, target)
        residual = system @ multipliers - target
        if residual[-1] > -1e-12:
            return None, np.inf  # the half-spaces have no common point
        delta = -residual[:-1] / residual[-1]
        low = max(low, float(np.linalg.norm(delta)))
        if low >= best:
            return None, low
        violation = c - A @ delta
        worst = int(violation.argmax())
        if violation[worst] <= FEASIBLE * strange_square:
            return delta, low
        chosen.append(worst)
    return None, low
