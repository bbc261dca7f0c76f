"""Multipliers of the quadratic proof of a deep network: a semidefinite programme, solved by an interior-point method.

Maximise γ such that the matrix F of L - γ (see checker/deep.py) stays positive, against moments X of (1, y) with X₁₁ = 1 and every
product not negative: Newton steps towards XF = μ, slack·multiplier = μ (the direction of Helmberg, Kojima and Monteiro), μ falling.
F is positive at every step, so each one ends with a bound. X, once it meets its constraints, says which margin no multipliers prove.
"""

from dataclasses import dataclass

import numpy as np

from featureprism.checker.deep import Relaxation

DEEPEST = 4  # hidden layers that starting moments are drawn through
CENTRED = 0.02  # of the present μ, what is always aimed at
TO_EDGE = 0.93  # of the way to where something would stop being positive
BACK = 0.8  # shorter steps that are tried until matrices stay positive
SMALL = 1e-7  # relative: where the search ends
SAMPLES, RIDGE, LEAST = (
    4,
    0.1,
    0.1,
)  # points for each dimension, and what is added to their moments and slacks
FEASIBLE = 1e-2  # relative, of the moments before their value is believed


@dataclass(frozen=True, eq=False)
class Solved:
    """The multipliers (λ of the ball, then one for each product), the margin that they prove, and about the best that any could."""

    ball: float
    weights: np.ndarray
    bound: float
    best: float
    mean: np.ndarray  # (1 + n,) of (1, y), where the bound is nearly attained


def solve(relaxed: Relaxation, scale: float, steps: int = 40) -> Solved:
    """Raise the bound of the margin until it is positive, or cannot become so, or the steps are used up."""
    problem = _Problem.of(relaxed)
    state = problem.start(scale, _sampled_moments(relaxed, problem))
    for _ in range(steps):
        following = problem.step(state)
        if following is None:
            break
        state = following
        if state.theta[0] > SMALL * scale or state.best < 0 or problem.mu(state) < SMALL * scale:
            break
    mean = problem.usual @ (state.X[0] / state.X[0, 0])
    return Solved(
        float(state.theta[1]), state.theta[2:] / problem.size, float(state.theta[0]), state.best, mean
    )


@dataclass(frozen=True, eq=False)
class _State:
    theta: np.ndarray  # γ, λ, one weight for each product
    X: np.ndarray
    slack: np.ndarray  # of the products that must not be negative; 1 for the others
    best: float = np.inf


@dataclass(frozen=True, eq=False)
class _Step:
    theta: np.ndarray
    X: np.ndarray
    slack: np.ndarray


@dataclass(frozen=True, eq=False)
class _Problem:
    """F = margin - γ E₁₁ - λ ball - Σ θ_i (left_i right_iᵀ + right_i left_iᵀ)/2."""

    margin: np.ndarray
    ball: np.ndarray
    left: np.ndarray
    right: np.ndarray
    positive: np.ndarray  # which unknowns must be
    usual: np.ndarray  # (1 + n, 1 + n) the matrix that gives (1, y) from numbers of usual size
    size: np.ndarray  # (N,) what the products were divided by

    @classmethod
    def of(cls, relaxed: Relaxation) -> "_Problem":
        margin = np.zeros_like(relaxed.ball.mid)
        margin[0] += 0.5 * relaxed.margin.mid
        margin[:, 0] += 0.5 * relaxed.margin.mid
        T = _usual(relaxed)
        left, right = relaxed.left.mid @ T, relaxed.right.mid @ T
        highest = np.where(relaxed.kind > 0, np.abs(relaxed.right.mid[:, 0]), 1.0)
        size = np.maximum(highest**2, 1e-200)  # of h (high - h) and n (-low - n)
        positive = np.concatenate([[False, True], relaxed.kind > 0])
        ball = T.T @ relaxed.ball.mid @ T
        return cls(T.T @ margin @ T, ball, left / size[:, None], right, positive, T, size)

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """F."""
        product = self.left.T @ (theta[2:, None] * self.right)
        result = self.margin - theta[1] * self.ball - 0.5 * (product + product.T)
        result[0, 0] -= theta[0]
        return result

    def values(self, X: np.ndarray) -> np.ndarray:
        """What all constraints are worth on a symmetric matrix: X₁₁, the ball, the products."""
        return np.concatenate([[X[0, 0], (X * self.ball).sum()], ((self.left @ X) * self.right).sum(axis=1)])

    def start(self, scale: float, X: np.ndarray) -> _State:
        """From moments X that nearly meet the constraints: every multiplier μ/slack, and γ far below."""
        slack = np.where(self.positive, np.maximum(self.values(X), LEAST), 1.0)
        theta = np.where(self.positive, scale / len(X) / slack, 0.0)
        inner = self.matrix(theta)
        theta[0] = inner[0, 0] - inner[0, 1:] @ np.linalg.solve(inner[1:, 1:], inner[1:, 0]) - scale / len(X)
        return _State(theta, X, slack)

    def mu(self, state: _State) -> float:
        """The mean product of what is positive with its multiplier."""
        pair = (state.slack * state.theta)[self.positive].sum() + (state.X * self.matrix(state.theta)).sum()
        return float(pair / (len(state.X) + self.positive.sum()))

    def step(self, state: _State) -> _State | None:
        """A Newton step towards μ = 0 that tells how far one can go, and one with its curvature towards a μ to match (Mehrotra)."""
        try:
            root = np.linalg.inv(np.linalg.cholesky(self.matrix(state.theta)))
            P = root.T @ root
            theta = np.where(self.positive, state.theta, 1.0)
            ratio = np.where(self.positive, state.slack / theta, 0.0)
            system = self._system(state.X, P)
            system[np.arange(len(theta)), np.arange(len(theta))] += ratio
            scale = 1 / np.sqrt(np.diagonal(system))
            factor = np.linalg.inv(system * np.outer(scale, scale) + 1e-14 * np.eye(len(theta)))
        except np.linalg.LinAlgError:
            return None

        def towards(mu: float, bent: np.ndarray | float, pairs: np.ndarray | float) -> _Step:
            goal = mu * P - bent
            part = np.where(self.positive, (mu - pairs) / theta, 0.0)
            wanted = part - self.values(goal)
            wanted[0] += 1.0
            move = scale * (factor @ (scale * wanted))
            turned = state.X @ (self.matrix(state.theta) - self.matrix(state.theta + move)) @ P
            dslack = np.where(self.positive, part - ratio * move - state.slack, 0.0)
            return _Step(move, goal - state.X + 0.5 * (turned + turned.T), dslack)

        now = self.mu(state)
        far = towards(0.0, 0.0, 0.0)
        if not np.isfinite(far.theta).all():
            return None
        dual, primal = self._shares(state, far)
        ahead = _State(
            state.theta + dual * far.theta, state.X + primal * far.X, state.slack + primal * far.slack
        )
        share = max(0.0, self.mu(ahead) / now)
        bent = far.X @ (self.matrix(state.theta + far.theta) - self.matrix(state.theta)) @ P
        step = towards(now * min(1.0, share**2 + CENTRED), 0.5 * (bent + bent.T), far.slack * far.theta)
        return self._moved(state, step) if np.isfinite(step.theta).all() else None

    def _shares(self, state: _State, step: "_Step") -> tuple[float, float]:
        """How far multipliers and moments may go."""
        dual = _share(state.theta[self.positive], step.theta[self.positive])
        primal = _share(state.slack[self.positive], step.slack[self.positive])
        dual = _positive_share(lambda a: self.matrix(state.theta + a * step.theta), dual)
        return dual, _positive_share(lambda a: state.X + a * step.X, primal)

    def _system(self, X: np.ndarray, P: np.ndarray) -> np.ndarray:
        """tr(A_i X A_j P) for all pairs of constraints."""
        N, first = 2 + len(self.left), np.zeros_like(self.ball)
        first[0, 0] = 1.0
        XL, XR, PL, PR = self.left @ X, self.right @ X, self.left @ P, self.right @ P
        xll, xrr, xlr = XL @ self.left.T, XR @ self.right.T, XL @ self.right.T
        pll, prr, plr = PL @ self.left.T, PR @ self.right.T, PL @ self.right.T
        system = np.empty((N, N))
        system[2:, 2:] = 0.25 * (xlr.T * plr + xrr * pll + xll * prr + xlr * plr.T)
        for i, A in enumerate((first, self.ball)):
            XAP = X @ A @ P
            XAP = 0.5 * (XAP + XAP.T)
            system[i] = system[:, i] = self.values(XAP)
        return 0.5 * (system + system.T)

    def _moved(self, state: _State, step: "_Step") -> _State | None:
        """As far along the step as everything stays positive."""
        dual, primal = self._shares(state, step)
        if dual == 0 and primal == 0:
            return None
        theta, X, slack = (
            state.theta + dual * step.theta,
            state.X + primal * step.X,
            state.slack + primal * step.slack,
        )
        values = self.values(X)
        missed = np.abs(values - np.where(self.positive, slack, 0.0))
        missed[0] = abs(values[0] - 1)
        best = float((X * self.margin).sum()) if missed.max() < FEASIBLE else np.inf
        return _State(theta, X, slack, min(best, state.best) if primal > 0 else state.best)


def _share(values: np.ndarray, moves: np.ndarray) -> float:
    """The part of the moves after which positive values still are."""
    falling = moves < 0
    return min(1.0, TO_EDGE * float((-values[falling] / moves[falling]).min())) if falling.any() else 1.0


def _positive_share(matrix_at, share: float) -> float:
    """At most `share`, such that the matrix is positive definite a little beyond."""
    for _ in range(40):
        try:
            np.linalg.cholesky(matrix_at(share / TO_EDGE if share < 1 else share))
            return share
        except np.linalg.LinAlgError:
            share *= BACK
    return 0.0


def _usual(relaxed: Relaxation) -> np.ndarray:
    """(1 + n, 1 + n) The first layer from the ellipsoid's centre in its widths, neurons in their highest value."""
    ball, T = relaxed.ball.mid, np.eye(len(relaxed.margin.mid))
    first = np.flatnonzero(np.diagonal(ball)[1:] < 0) + 1
    inner = ball[np.ix_(first, first)]
    centre = -np.linalg.solve(inner, ball[first, 0])
    square = max(float(ball[0, 0] + ball[0, first] @ centre), 1e-300)
    T[first, 0], T[first, first] = centre, np.sqrt(square / -np.diagonal(inner))
    highest = np.flatnonzero((relaxed.kind == 1) & (relaxed.right.mid[:, 1:] == -1).any(axis=1))
    place = 1 + relaxed.left.mid[highest, 1:].argmax(axis=1)
    T[place, place] = np.maximum(relaxed.right.mid[highest, 0], 1e-12)
    return T


def _sampled_moments(relaxed: Relaxation, problem: _Problem) -> np.ndarray:
    """Moments of (1, y), in usual units, over points of the ellipsoid as the network itself takes them."""
    ball, T = relaxed.ball.mid, problem.usual
    first = np.flatnonzero(np.diagonal(ball)[1:] < 0) + 1
    random = np.random.default_rng(0)
    square = ball[0, 0] + ball[0, first] @ T[first, 0]
    root = np.linalg.inv(np.linalg.cholesky(-ball[np.ix_(first, first)])).T * np.sqrt(max(square, 1e-300))
    xi = random.normal(size=(SAMPLES * len(T), len(first)))
    xi *= (random.uniform(0.3, 1.0, len(xi)) / np.linalg.norm(xi, axis=1))[:, None]
    y = np.zeros((len(xi), len(T)))
    y[:, 0], y[:, first] = 1.0, T[first, 0] + xi @ root.T
    hinge = relaxed.kind == 0
    z = relaxed.left.mid[hinge] - relaxed.right.mid[hinge]
    place = relaxed.left.mid[hinge].argmax(axis=1)
    for _ in range(DEEPEST):  # a layer further each time
        y[:, place] = np.maximum(y @ z.T, 0)
    usual = np.linalg.solve(T, y.T)
    X = usual @ usual.T / len(xi)
    return X + RIDGE * np.diag(np.maximum(np.diagonal(X), RIDGE)) * (np.arange(len(T)) > 0)
