"""Multipliers of the quadratic proof of a deep network: a semidefinite programme, solved by an interior-point method.

Maximise γ such that the matrix F of L - γ (see checker/deep.py) stays positive, against moments X of (1, y) with X₁₁ = 1 and every
product not negative: Newton steps towards XF = μ, slack·multiplier = μ (the direction of Helmberg, Kojima and Monteiro), μ falling.
F is positive at every step, so each one ends with a bound. X, once it meets its constraints, says which margin no multipliers prove.

The products come three for each neuron, never a matrix for each. A neuron with values z in [low, high], h = [z]₊ and n = h - z has
h n = 0, h (high - h) ≥ 0 and n (-low - n) ≥ 0, each measured in its usual size; cuts add some affine functions that are not negative.
With h a coordinate of its own all sums over products are products of a few matrices.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from featureprism.checker.relaxations import Relaxation

SIDES = 3  # the kind of products of a box's sides, beside κ, τ and σ
DEEPEST = 4  # hidden layers that values are drawn through
SHARE = 0.2  # of its width: the least that a neuron's values are measured by
PAIRS = (("h", "n"), ("h", "a"), ("n", "b"))  # a = high - h, b = -low - n
CENTRED = 0.02  # of the present μ, what is always aimed at
TO_EDGE = 0.93  # of the way to where something would stop being positive
BACK = 0.8  # shorter steps that are tried until matrices stay positive
SMALL = 1e-7  # relative: where the search ends
ENOUGH = 1e-4  # of the margin: a bound that rounding does not take back
SAMPLES, RIDGE, LEAST = (
    4,
    0.1,
    0.1,
)  # points for each dimension, and what is added to their moments and slacks
KNOWN_TO, SURE = (
    0.2,
    0.5,
)  # of the margin, and of what is missing: how well one that cannot be proven is known
FEASIBLE = 1e-2  # relative, of the moments before their value is believed


@dataclass(frozen=True, eq=False)
class Products:
    """Multipliers come as κ, τ, σ of all neurons, then those of cuts; matrices are in coordinates of usual size."""

    usual: np.ndarray  # (1 + n, 1 + n) the matrix that gives (1, y) from numbers of usual size
    first: np.ndarray  # coordinates of the first layer's values
    place: np.ndarray  # (m,) the coordinate of h
    unit: np.ndarray  # (m,) and what one of it means
    z: np.ndarray  # (m, 1 + n)
    low: np.ndarray
    high: np.ndarray
    cuts: np.ndarray  # (q, 1 + n)
    ends: np.ndarray  # (q,)
    order: np.ndarray  # of the relaxation's products, where each of ours is

    @classmethod
    def of(cls, relaxed: Relaxation) -> "Products":
        """Read from a relaxation."""
        left, right, kind = relaxed.left.mid, relaxed.right.mid, relaxed.kind
        hinge = np.flatnonzero(kind == 0)
        is_cut = ((kind == 1) & ~np.isin(relaxed.neuron, relaxed.neuron[hinge])) | (kind == SIDES)
        above, under, cut = (np.flatnonzero(k) for k in ((kind == 1) & ~is_cut, kind == 2, is_cut))
        h, n = left[hinge], right[hinge]
        place = h.argmax(axis=1) if len(h) else np.zeros(0, dtype=int)
        first = np.flatnonzero(np.diagonal(relaxed.ball.mid)[1:] < 0) + 1
        high = np.maximum(right[above, 0], 1e-100)
        low = -np.maximum(right[under, 0] + n[:, 0], 1e-100)
        T = _usual(relaxed, first, place, np.maximum(high, SHARE * (high - low)))
        order = np.concatenate([hinge, above, under, cut])
        ends = np.maximum(right[cut, 0] + left[cut, 0], 1e-100)
        return cls(T, first, place, T[place, place], (h - n) @ T, low, high, left[cut] @ T, ends, order)

    @cached_property
    def above(self) -> np.ndarray:
        """What h (high - h) is divided by: not too little, for ellipsoids reach out of the region."""
        return np.maximum(self.high, SHARE * (self.high - self.low)) ** 2

    @cached_property
    def under(self) -> np.ndarray:
        """The same for n (-low - n)."""
        return np.maximum(-self.low, SHARE * (self.high - self.low)) ** 2

    @cached_property
    def positive(self) -> np.ndarray:
        """Which multipliers must be."""
        m = len(self.place)
        return np.concatenate([np.zeros(m, dtype=bool), np.ones(2 * m + len(self.cuts), dtype=bool)])

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """The multipliers in the order, and in the units, of the relaxation."""
        m, result = len(self.place), np.empty(len(theta))
        size = np.concatenate([np.ones(m), self.above, self.under, self.ends**2])
        result[self.order] = theta / size
        return result

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """(1 + n, 1 + n) Σ θ_i product_i."""
        m = len(self.place)
        kappa, tau, sigma = theta[:m], theta[m : 2 * m] / self.above, theta[2 * m : 3 * m] / self.under
        of_cuts = theta[3 * m :] / self.ends**2
        result = self.z.T @ (-sigma[:, None] * self.z) - self.cuts.T @ (of_cuts[:, None] * self.cuts)
        mixed = np.zeros_like(result)
        mixed[self.place] = ((2 * sigma - kappa) * self.unit)[:, None] * self.z
        mixed[0] += (sigma * self.low) @ self.z + (of_cuts * self.ends) @ self.cuts
        mixed[0, self.place] += (tau * self.high - sigma * self.low) * self.unit
        result[self.place, self.place] += (kappa - tau - sigma) * self.unit**2
        return result + 0.5 * (mixed + mixed.T)

    def values(self, X: np.ndarray) -> np.ndarray:
        """What every product is worth on a symmetric matrix."""
        m, place = len(self.place), self.place
        zX = self.z @ X
        hh, h1, z1 = self.unit**2 * X[place, place], self.unit * X[place, 0], zX[:, 0]
        hz, zz = self.unit * zX[np.arange(m), place], (zX * self.z).sum(axis=1)
        above = (self.high * h1 - hh) / self.above
        under = (-self.low * (h1 - z1) - (hh - 2 * hz + zz)) / self.under
        cX = self.cuts @ X
        of_cuts = (self.ends * cX[:, 0] - (cX * self.cuts).sum(axis=1)) / self.ends**2
        return np.concatenate([hh - hz, above, under, of_cuts])

    def system(self, X: np.ndarray, P: np.ndarray) -> np.ndarray:
        """(N, N) tr(A_i X A_j P), A = (left rightᵀ + right leftᵀ)/2, block by block."""
        m, q = len(self.place), len(self.cuts)
        gx, gp = self._gram(X), self._gram(P)
        kinds = [*PAIRS, ("cut", "rest")]
        ends = [0, m, 2 * m, 3 * m, 3 * m + q]
        system = np.empty((ends[-1], ends[-1]))
        for i, (a, b) in enumerate(kinds):
            for j, (c, d) in enumerate(kinds[: i + 1]):
                block = gx[a, c] * gp[b, d] + gx[b, d] * gp[a, c] + gx[a, d] * gp[b, c] + gx[b, c] * gp[a, d]
                system[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = block
                system[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] = block.T
        size = np.concatenate([np.ones(m), 1 / self.above, 1 / self.under, 1 / self.ends**2])
        return 0.25 * size[:, None] * system * size

    def _gram(self, X: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        """⟨left, X right⟩ of all kinds of factors."""
        place, unit = self.place, self.unit[:, None]
        zX = self.z @ X
        g = {
            ("one", "one"): X[:1, :1],
            ("h", "one"): unit * X[place, :1],
            ("z", "one"): zX[:, :1],
            ("h", "h"): unit * X[np.ix_(place, place)] * unit.T,
            ("h", "z"): (zX[:, place] * unit.T).T,
            ("z", "z"): zX @ self.z.T,
        }
        g["n", "one"] = g["h", "one"] - g["z", "one"]
        g["h", "n"] = g["h", "h"] - g["h", "z"]
        g["n", "n"] = g["h", "n"] - g["h", "z"].T + g["z", "z"]
        for far, near, others in (("a", "h", ("h", "n")), ("b", "n", ("h", "n", "a"))):
            end = (self.high if far == "a" else -self.low)[:, None]
            g[far, "one"] = end * X[0, 0] - g[near, "one"]
            for other in (*others, far):
                mirrored = g[near, other] if (near, other) in g else g[other, near].T
                g[far, other] = end * g[other, "one"].T - mirrored
        cX = self.cuts @ X
        g["cut", "one"], g["cut", "cut"] = cX[:, :1], cX @ self.cuts.T
        g["cut", "h"], g["cut", "z"] = cX[:, place] * unit.T, cX @ self.z.T
        g["cut", "n"] = g["cut", "h"] - g["cut", "z"]
        g["cut", "a"] = g["cut", "one"] * self.high - g["cut", "h"]
        g["cut", "b"] = -g["cut", "one"] * self.low - g["cut", "n"]
        end = self.ends[:, None]
        g["cut", "rest"] = g["cut", "one"] * end.T - g["cut", "cut"]
        g["rest", "one"] = end * X[0, 0] - g["cut", "one"]
        for other in ("h", "n", "a", "b", "rest"):
            g["rest", other] = (
                end * (g["rest", "one"] if other == "rest" else g[other, "one"]).T - g["cut", other]
            )
        return g | {(b, a): v.T for (a, b), v in g.items() if (b, a) not in g}

    def activate(self, usual: np.ndarray) -> None:
        """Set the coordinates h of points, in usual units, to [z]₊ in place, layer after layer."""
        for _ in range(DEEPEST):
            usual[:, self.place] = np.maximum(usual @ self.z.T, 0) / self.unit


def _usual(relaxed: Relaxation, first: np.ndarray, place: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(1 + n, 1 + n) The first layer from the ellipsoid's centre in its axes, neurons in their own size."""
    ball, T = relaxed.ball.mid, np.eye(len(relaxed.margin.mid))
    inner = ball[np.ix_(first, first)]
    centre = -np.linalg.solve(inner, ball[first, 0])
    square = max(float(ball[0, 0] + ball[0, first] @ centre), 1e-300)
    T[first, 0] = centre
    T[np.ix_(first, first)] = np.sqrt(square) * np.linalg.inv(np.linalg.cholesky(-inner)).T
    T[place, place] = np.maximum(size, 1e-12)
    return T


@cache
def lapack(name: str) -> Any:
    """One of LAPACK's own functions, which check nothing on the way."""
    from scipy.linalg import get_lapack_funcs  # takes a while to import

    return get_lapack_funcs(name, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Solved:
    """The multipliers (λ of the ball, then one for each product), the margin that they prove, and about the best that any could."""

    ball: float
    weights: np.ndarray
    bound: float
    best: float
    moments: np.ndarray  # (1 + n, 1 + n) of (1, y), where the bound is nearly attained

    @property
    def likely(self) -> float:
        """The margin that the best multipliers prove, about."""
        return 0.5 * (self.bound + self.best) if np.isfinite(self.best) else self.bound


def solve(relaxed: Relaxation, scale: float, moments: np.ndarray, steps: int = 40) -> Solved:
    """Raise the bound of the margin until it is positive, or cannot become so, or the steps are used up.

    `moments`: where to start, those of `sampled_moments` of this relaxation or of one for another target.
    """
    problem = _Problem.of(relaxed)
    state = problem.start(scale, moments)
    for _ in range(steps):
        following = problem.step(state)
        if following is None:
            break
        state = following
        bound, best = state.theta[0], state.best
        lost = best < 0 and best - bound < min(KNOWN_TO * scale, -SURE * best)
        if bound > ENOUGH * scale or lost or problem.mu(state) < SMALL * scale:
            break
    T = problem.products.usual
    moments = T @ (state.X / state.X[0, 0]) @ T.T
    weights = problem.products.weights(state.theta[2:])
    return Solved(float(state.theta[1]), weights, float(state.theta[0]), state.best, moments)


@dataclass(frozen=True, eq=False)
class _State:
    theta: np.ndarray  # γ, λ, one weight for each product
    F: np.ndarray
    X: np.ndarray
    slack: np.ndarray  # of the products that must not be negative; 1 for the others
    best: float = np.inf


@dataclass(frozen=True, eq=False)
class _Step:
    theta: np.ndarray
    F: np.ndarray
    X: np.ndarray
    slack: np.ndarray


@dataclass(frozen=True, eq=False)
class _Newton:
    """What all steps from one state share."""

    state: _State
    P: np.ndarray  # F⁻¹
    factor: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, eq=False)
class _Problem:
    """F = margin - γ E₁₁ - λ ball - Σ θ_i product_i."""

    margin: np.ndarray
    ball: np.ndarray
    products: Products

    @classmethod
    def of(cls, relaxed: Relaxation) -> "_Problem":
        products = Products.of(relaxed)
        margin = np.zeros_like(relaxed.ball.mid)
        margin[0] += 0.5 * relaxed.margin.mid
        margin[:, 0] += 0.5 * relaxed.margin.mid
        T = products.usual
        return cls(T.T @ margin @ T, T.T @ relaxed.ball.mid @ T, products)

    @cached_property
    def positive(self) -> np.ndarray:
        """Which unknowns must be."""
        return np.concatenate([[False, True], self.products.positive])

    def change(self, theta: np.ndarray) -> np.ndarray:
        """By how much multipliers lower F."""
        result = self.products.matrix(theta[2:]) + theta[1] * self.ball
        result[0, 0] += theta[0]
        return result

    def values(self, X: np.ndarray) -> np.ndarray:
        """What all constraints are worth on a symmetric matrix: X₁₁, the ball, the products."""
        return np.concatenate([[X[0, 0], np.vdot(X, self.ball)], self.products.values(X)])

    def start(self, scale: float, X: np.ndarray) -> _State:
        """From moments X that nearly meet the constraints: every multiplier μ/slack, and γ far below."""
        slack = np.where(self.positive, np.maximum(self.values(X), LEAST), 1.0)
        theta = np.where(self.positive, scale / len(X) / slack, 0.0)
        F = self.margin - self.change(theta)
        theta[0] = F[0, 0] - F[0, 1:] @ np.linalg.solve(F[1:, 1:], F[1:, 0]) - scale / len(X)
        F[0, 0] -= theta[0]
        return _State(theta, F, X, slack)

    def mu(self, state: "_State | _Step") -> float:
        """The mean product of what is positive with its multiplier."""
        pair = state.slack[self.positive] @ state.theta[self.positive] + np.vdot(state.X, state.F)
        return float(pair / (len(state.X) + self.positive.sum()))

    def step(self, state: _State) -> _State | None:
        """A Newton step towards μ = 0 that tells how far one can go, and one with its curvature towards a μ to match (Mehrotra)."""
        newton = self._newton(state)
        if newton is None:
            return None
        now = self.mu(state)
        far = self._towards(newton, 0.0, 0.0, 0.0)
        if not np.isfinite(far.theta).all():
            return None
        dual, primal = self._shares(state, far)
        ahead = _Step(
            state.theta + dual * far.theta,
            state.F + dual * far.F,
            state.X + primal * far.X,
            state.slack + primal * far.slack,
        )
        share = max(0.0, self.mu(ahead) / now)
        bent = far.X @ far.F @ newton.P
        aim = now * min(1.0, share**2 + CENTRED)
        step = self._towards(newton, aim, 0.5 * (bent + bent.T), far.slack * far.theta)
        return self._moved(state, step) if np.isfinite(step.theta).all() else None

    def _newton(self, state: _State) -> _Newton | None:
        root, failed = lapack("potrf")(state.F.T, lower=1)
        if failed:
            return None
        inverse = lapack("trtri")(root, lower=1)[0]
        P = inverse.T @ inverse
        system = self._system(state.X, P)
        theta = np.where(self.positive, state.theta, 1.0)
        system[np.diag_indices_from(system)] += np.where(self.positive, state.slack / theta, 0.0)
        scale = 1 / np.sqrt(np.diagonal(system))
        system *= scale[:, None] * scale
        system[np.diag_indices_from(system)] += 1e-14
        factor, failed = lapack("potrf")(system.T, lower=1, overwrite_a=1)
        return None if failed else _Newton(state, P, factor, scale)

    def _towards(
        self, newton: _Newton, mu: float, bent: np.ndarray | float, pairs: np.ndarray | float
    ) -> _Step:
        """Where products of what is positive with its multiplier are μ, to first order."""
        state, P, scale = newton.state, newton.P, newton.scale
        theta = np.where(self.positive, state.theta, 1.0)
        goal = mu * P - bent
        part = np.where(self.positive, (mu - pairs) / theta, 0.0)
        wanted = part - self.values(goal)
        wanted[0] += 1.0
        move = scale * lapack("potrs")(newton.factor, scale * wanted, lower=1)[0]
        change = self.change(move)
        turned = state.X @ change @ P
        dslack = np.where(self.positive, part - state.slack / theta * move - state.slack, 0.0)
        return _Step(move, -change, goal - state.X + 0.5 * (turned + turned.T), dslack)

    def _shares(self, state: _State, step: _Step) -> tuple[float, float]:
        """How far multipliers and moments may go."""
        dual = _share(state.theta[self.positive], step.theta[self.positive])
        primal = _share(state.slack[self.positive], step.slack[self.positive])
        return _positive_share(state.F, step.F, dual), _positive_share(state.X, step.X, primal)

    def _system(self, X: np.ndarray, P: np.ndarray) -> np.ndarray:
        """tr(A_i X A_j P) for all pairs of constraints."""
        N = len(self.positive)
        system = np.empty((N, N))
        system[2:, 2:] = self.products.system(X, P)
        for i, XAP in enumerate((np.outer(X[0], P[0]), X @ self.ball @ P)):
            system[i] = system[:, i] = self.values(0.5 * (XAP + XAP.T))
        return system

    def _moved(self, state: _State, step: _Step) -> _State | None:
        """As far along the step as everything stays positive."""
        dual, primal = self._shares(state, step)
        if dual == 0 and primal == 0:
            return None
        X, slack = state.X + primal * step.X, state.slack + primal * step.slack
        values = self.values(X)
        missed = np.abs(values - np.where(self.positive, slack, 0.0))
        missed[0] = abs(values[0] - 1)
        best = float(np.vdot(X, self.margin)) if missed.max() < FEASIBLE else np.inf
        best = min(best, state.best) if primal > 0 else state.best
        return _State(state.theta + dual * step.theta, state.F + dual * step.F, X, slack, best)


def _share(values: np.ndarray, moves: np.ndarray) -> float:
    """The part of the moves after which positive values still are."""
    falling = moves < 0
    return min(1.0, TO_EDGE * float((-values[falling] / moves[falling]).min())) if falling.any() else 1.0


def _positive_share(matrix: np.ndarray, move: np.ndarray, share: float) -> float:
    """At most `share`, such that the matrix is positive definite a little beyond."""
    for _ in range(40):
        moved = matrix + (share / TO_EDGE if share < 1 else share) * move
        if lapack("potrf")(moved.T, overwrite_a=1)[1] == 0:
            return share
        share *= BACK
    return 0.0


def sampled_moments(relaxed: Relaxation) -> np.ndarray:
    """Moments of (1, y), in usual units, over points of the ellipsoid as the network itself takes them; no target enters."""
    products = Products.of(relaxed)
    n, first = len(products.usual), products.first
    random = np.random.default_rng(0)
    xi = random.normal(size=(SAMPLES * n, len(first)))
    xi *= (random.uniform(0.3, 1.0, len(xi)) / np.linalg.norm(xi, axis=1))[:, None]
    usual = np.zeros((len(xi), n))
    usual[:, 0], usual[:, first] = 1.0, xi
    products.activate(usual)
    X = usual.T @ usual / len(xi)
    return X + RIDGE * np.diag(np.maximum(np.diagonal(X), RIDGE)) * (np.arange(n) > 0)
