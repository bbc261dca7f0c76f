"""The race of the neurons for the centres: the flow without noise in K + 1 numbers a neuron, and when one neuron wins two centres.

Without noise the data are the K orthonormal centres, and of a neuron w only its cosines c_k with them, its norm and its vote v matter.
Gradient flow keeps ‖w‖² - v² = W². With v = W sinh u and ‖w‖ = W cosh u, and g_k = y_k - f(μ_k) what is left to learn,

    u' = Σ_k g_k [c_k]₊^p,    c_k' = p tanh(u) (g_k [c_k]₊^(p-1) - c_k u'),    f(μ_k) = Σ_j W_j² sinh u_j cosh u_j [c_kj]₊^p.

**Who wins.** Entries N(0, s²) in D dimensions give c_k = z_k/√D, u = z₀/√D with standard normal z, and W = s√D. While c and u are
small, u' = c³ and c' = 3uc² at p = 3, so a neuron needs a time of order D to turn to a centre, and so far apart are the arrivals of
different neurons; the first one learns its centre within a time of order ln(1/W), long before the next. For two centres of its class

    (1/c_l - 1/c_k)' = 3 tanh(u) u' (1/c_l - 1/c_k),    so that    1/c_l - 1/c_k = √D (1/z_l - 1/z_k) cosh³ u :

the winner of centre k ends with W² sinh u cosh u = 1, which for small W is cosh³ u = W⁻³, and 1/c_l = √D (1/z_l - 1/z_k)/W³. From now
on g_k = 0 and tanh u ≈ 1, and c_l' = 3 c_l² takes it to centre l in the time 1/(3c_l), of order √D/W³. It gets there first, and serves
both centres, if that is less than the order D of the arrival of the next neuron: where W³√D = s³D² is not small. How often neurons are
shared depends on start and dimension through s D^(2/3) alone; width and numbers of clusters enter through the order of the z.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEARNED = 0.02  # largest |y_k - f(μ_k)| at which the race is over
MOST_STEPS = 20_000
TURN = 0.1  # largest relative change of a neuron in one step
STIFF = 1.0  # largest step times the rate at which residuals relax


class Neurons(NamedTuple):
    """Cosines with the centres, u = artanh(v/‖w‖) and W² = ‖w‖² - v² of each neuron."""

    cosines: Float[np.ndarray, "h k"]
    growth: Float[np.ndarray, " h"]
    invariant: Float[np.ndarray, " h"]

    @property
    def masses(self) -> Float[np.ndarray, " h"]:
        """v‖w‖ = W² sinh u cosh u."""
        return self.invariant * np.sinh(self.growth) * np.cosh(self.growth)


def neurons_of(
    W: Float[np.ndarray, "h d"], a: Float[np.ndarray, " h"], mu: Float[np.ndarray, "k d"]
) -> Neurons:
    """The neurons of a network with |a_j| < ‖w_j‖, as it has from a random start in high dimension."""
    norms = np.linalg.norm(W, axis=1)
    if not (np.abs(a) < norms).all():
        raise ValueError("The race is told in u = artanh(v/‖w‖): every |a_j| must be less than ‖w_j‖.")
    return Neurons(W @ mu.T / norms[:, None], np.arctanh(a / norms), norms**2 - a**2)


def random_neurons(
    width: int, dim: int, clusters: int, std: float, generator: np.random.Generator
) -> Neurons:
    """Neurons of entries N(0, std²), without ever drawing all D of them."""
    along = std * generator.standard_normal((width, clusters))
    norms = np.sqrt((along**2).sum(axis=1) + std**2 * generator.chisquare(dim - clusters, width))
    votes = std * generator.standard_normal(width)
    return Neurons(along / norms[:, None], np.arctanh(votes / norms), norms**2 - votes**2)


def run_race(start: Neurons, labels: Float[np.ndarray, " k"], p: float = 3.0) -> Neurons:
    """Follow the flow until every centre is learned, by Heun's method with steps as long as neurons and residuals allow."""
    c, u, invariant = start

    def slopes(c: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        positive = np.maximum(c, 0)
        power = positive ** (p - 1)
        outputs = power * positive
        residual = labels - Neurons(c, u, invariant).masses @ outputs
        growth = outputs @ residual
        return p * np.tanh(u)[:, None] * (power * residual - c * growth[:, None]), growth, residual, outputs

    for _ in range(MOST_STEPS):
        turning, growing, residual, outputs = slopes(c, u)
        if np.abs(residual).max() < LEARNED:
            break
        fastest = (np.abs(turning).max(axis=1) / np.abs(c).max(axis=1)).max()
        rate = p**2 * ((invariant * np.cosh(2 * u)) @ outputs).max()
        step = min(TURN / max(fastest, np.abs(growing).max()), STIFF / max(rate, 1e-9))
        turning_next, growing_next, _, _ = slopes(c + step * turning, u + step * growing)
        c, u = c + step / 2 * (turning + turning_next), u + step / 2 * (growing + growing_next)
    return Neurons(c, u, invariant)


def uncovered(width: int, positive: int, negative: int) -> float:
    """Probability that some centre has no neuron in its region, from random directions and signs. Assumption 2.

    A neuron lies in the region of a given centre of K₁ with probability q = (1 - 2^(-K₁))/(2K₁): its sign must be right, one of its K₁
    cosines positive, and that with this centre the largest. By inclusion and exclusion over the centres that nobody faces.
    """
    from math import comb

    first, second = ((1 - 2.0**-k) / (2 * k) for k in (positive, negative))
    covered = sum(
        (-1) ** (i + j) * comb(positive, i) * comb(negative, j) * (1 - i * first - j * second) ** width
        for i in range(positive + 1)
        for j in range(negative + 1)
    )
    return 1 - covered
