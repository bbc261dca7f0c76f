"""KKT points of the max-margin problem by activation pattern: a convex problem for each pattern.

    min ½‖θ‖²   subject to   y_i N(x_i) ≥ 1,   N(x) = Σ_j v_j [⟨w_j, x⟩ + b_j]₊

With u_j = |v_j| (w_j, b_j), x̃ = (x, 1) and s_j the sign of v_j the least norm is ½‖θ‖² = Σ_j ‖u_j‖. Fix on which points of its own
class each neuron is on, A_ij ∈ {0, 1}, and replace its response there by A_ij ⟨u_j, x̃_i⟩, which is never larger. The rest is convex:

    min Σ_j ‖u_j‖   subject to   Σ_{j: s_j = y_i} A_ij ⟨u_j, x̃_i⟩ - Σ_{j: s_j ≠ y_i} [⟨u_j, x̃_i⟩]₊ ≥ 1   for every i.

Where its solution is on at the points that A says, it is a KKT point of the problem itself. Where it is not, A is read off the solution
and the problem solved again; the norm falls every time (the convex-concave procedure), so this ends at a KKT point.

Every subset S of the neurons of the other class gives one linear constraint Σ A_ij ⟨u_j, x̃_i⟩ - Σ_{j in S} ⟨u_j, x̃_i⟩ ≥ 1. Few of them
matter, and these are added as they are violated. The norms are handled as in `max_margin`, by ‖u‖ = min_a ½(‖u‖²/a + a), and Newton
steps on the conditions of the solution take it to rounding.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism._inputs import check_points
from featureprism._nonnegative import nonnegative_minimum
from featureprism._threads import one_thread
from featureprism.models.activations import ReLU
from featureprism.models.one_layer import TwoLayerNet
from featureprism.training.max_margin import NotSeparableError

MAX_PATTERNS = 50  # changes of the pattern before the search gives up
MAX_REWEIGHTINGS = 400
NEWTON_EVERY, NEWTON_STEPS = 8, 12
LEAST_PULLS = (
    0.9,
    0.99,
    0.999,
    0.9999,
)  # ‖g_j‖ of a neuron that is taken for one in use; its norm changes by this factor a reweighting
ROUNDING = 1e-12  # of the conditions of the solution
DIVERGED = 1e6  # of the conditions: Newton steps this far off lead to no solution
VANISHING = 1e-12  # share of the largest norm below which a neuron is left out
VIOLATED = 1e-9  # what a constraint may miss before it is added
INFEASIBLE = 1e-6  # what a constraint may miss at the least norm before no network satisfies it
SMALL = 1e-7  # share of the largest norm below which a neuron is left out where Newton steps did not end
RIDGE = 1e-13  # of the diagonal of a Gram matrix whose columns depend on each other to rounding


@dataclass(frozen=True)
class PatternPoint:
    """A KKT point of the max-margin problem, scaled to least margin 1.

    `multipliers` are the λ_i of the margins, `kink_shares` the Clarke derivatives of neurons of the other class on their kinks;
    `pattern` says on which points of its own class each neuron is on, `num_changes` how many entries of the given pattern had to
    change on the way.
    """

    net: TwoLayerNet
    multipliers: Float[Tensor, " n"]
    kink_shares: Float[Tensor, "n h"]
    pattern: Bool[Tensor, "n h"]
    num_changes: int


@one_thread()
@torch.no_grad()
def pattern_point(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    signs: Float[Tensor, " h"],
    pattern: Bool[Tensor, "n h"],
) -> PatternPoint:
    """The KKT point that an activation pattern leads to.

    Parameters
    ----------
    x, y : Tensor
        Points as rows, and their labels -1 or +1.
    signs : Tensor
        Sign of the output weight of each neuron.
    pattern : Tensor
        On which points of its own class each neuron is on; entries of points of the other class are not used.

    Returns
    -------
    PatternPoint
        The network with balanced neurons; those that vanish are left out.

    Raises
    ------
    NotSeparableError
        Where no network with this pattern has all margins positive.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> x, y = torch.eye(2, dtype=torch.float64), torch.tensor([1.0, -1.0], dtype=torch.float64)
    >>> point = fp.training.pattern_point(x, y, torch.tensor([1.0, -1.0], dtype=torch.float64), torch.eye(2, dtype=torch.bool))
    >>> point.net(x).round(decimals=6).tolist()
    [1.0, -1.0]
    """
    check_points(x, y)
    x, y, signs = x.double(), y.double(), signs.double()
    lifted = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    scale = float(torch.linalg.vector_norm(lifted, dim=1).max())
    problem = _ConvexProblem((lifted / scale).numpy(), y.numpy())
    sides, gates = signs.numpy(), _gates(pattern.numpy(), y.numpy(), signs.numpy())
    norms, changes = np.ones(len(sides)), 0
    for _ in range(MAX_PATTERNS):
        sides, gates, norms = _merged(sides, gates, norms)
        solution = problem.solve(sides, gates, norms)
        keep = solution.norms > 0
        sides, norms, before = sides[keep], solution.norms[keep], gates[:, keep]
        directions, kinks = solution.directions[keep], solution.kink_shares[:, keep]
        gates = _gates(problem.points @ directions.T > 0, y.numpy(), sides)
        moved = int((gates != before).sum())
        changes += moved
        if not moved:
            break
    else:
        raise RuntimeError(f"The activation pattern still changed after {MAX_PATTERNS} convex problems.")
    root = np.sqrt(np.linalg.norm(directions, axis=1))[:, None]
    u = torch.from_numpy(directions / root) / scale**0.5
    votes = torch.from_numpy(root[:, 0] * sides) / scale**0.5
    net = TwoLayerNet(u[:, :-1], votes, u[:, -1], activation=ReLU())
    multipliers = torch.from_numpy(solution.multipliers / scale)
    return PatternPoint(net, multipliers, torch.from_numpy(kinks), torch.from_numpy(gates > 0), changes)


@torch.no_grad()
def flow_limit(net: TwoLayerNet, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> PatternPoint:
    """The KKT point to which gradient flow goes if no neuron changes from active to inactive, or back, at a point of its class.

    The flow converges to the solution of a convex problem: a neuron that the solution does without has
    ‖Σ_i λ_i y_i A_ij x̃_i‖ =: g < 1, and its share of the norm falls as (ln 1/L)^(g - 1), which may take forever.

    Parameters
    ----------
    net : TwoLayerNet
        The network.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.

    Returns
    -------
    PatternPoint
        The limit, with its multipliers.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> x, y = torch.eye(2, dtype=torch.float64), torch.tensor([1.0, -1.0], dtype=torch.float64)
    >>> net = fp.networks.biased_start(8, 2, 0.1, generator=fp.generator_for('start', 0))
    >>> type(fp.training.flow_limit(net, x, y)).__name__
    'PatternPoint'
    """
    inputs = x.double() @ net.W.double().T + (0 if net.b is None else net.b.double())
    return pattern_point(x, y, torch.sign(net.a), inputs > 0)


def _gates(pattern: np.ndarray, y: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """1 where a neuron is on at a point of its own class."""
    return (pattern & (y[:, None] == signs)).astype(float)


def _merged(
    signs: np.ndarray, gates: np.ndarray, norms: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neurons of one sign and one pattern are one; those that are on at no point of their class are left out."""
    keys = np.concatenate([signs[None], gates])
    unique, where = np.unique(keys, axis=1, return_inverse=True)
    sums = np.bincount(where.ravel(), weights=norms, minlength=unique.shape[1])
    alive = unique[1:].any(axis=0)
    return unique[0, alive], unique[1:, alive], sums[alive]


@dataclass(frozen=True)
class _Solution:
    norms: np.ndarray
    directions: np.ndarray
    multipliers: np.ndarray
    kink_shares: np.ndarray


class _ConvexProblem:
    """The convex problem of the module's head on points of unit size."""

    def __init__(self, points: np.ndarray, y: np.ndarray) -> None:
        self.points, self.y = points, y
        self.inner = points @ points.T

    def solve(self, signs: np.ndarray, gates: np.ndarray, norms: np.ndarray) -> _Solution:
        """Reweighted least-norm problems; Newton steps from time to time, until they end at the solution."""
        constraints = _WorkingSet(self, signs, gates)
        norms = norms / norms.sum() * len(norms)
        multipliers = np.zeros(len(constraints.index))
        for step in range(1, MAX_REWEIGHTINGS + 1):
            multipliers = constraints.least_norm(norms, multipliers)
            before, norms = norms, np.linalg.norm(constraints.directions(norms, multipliers), axis=1)
            norms = np.where(norms > VANISHING * norms.max(), norms, 0.0)
            if step % NEWTON_EVERY:
                continue
            pull = norms / np.maximum(before, 1e-300)
            for least in LEAST_PULLS:
                solved = constraints.newton(norms * (pull > least), multipliers)
                if solved is not None:
                    return self._solution(constraints, *solved)
        norms = np.where(norms > SMALL * norms.max(), norms, 0.0)
        return self._solution(constraints, norms, multipliers)

    def _solution(self, constraints: "_WorkingSet", norms: np.ndarray, multipliers: np.ndarray) -> _Solution:
        directions = constraints.directions(norms, multipliers)
        total = np.bincount(constraints.index, weights=multipliers, minlength=len(self.y))
        against = np.zeros_like(constraints.gates)
        np.add.at(against, constraints.index, multipliers[:, None] * (constraints.sides < 0))
        shares = against / np.maximum(total, 1e-300)[:, None]
        return _Solution(np.linalg.norm(directions, axis=1), directions, total, shares)


class _WorkingSet:
    """The linear constraints in use: point `index`, coefficients `sides` of its responses to the neurons."""

    def __init__(self, problem: _ConvexProblem, signs: np.ndarray, gates: np.ndarray) -> None:
        self.problem, self.gates = problem, gates
        self.is_other = problem.y[:, None] != signs
        self.index, self.sides = np.arange(len(problem.y)), gates
        self.seen = {self._key(i, row) for i, row in enumerate(gates)}

    @staticmethod
    def _key(index: int, side: np.ndarray) -> tuple[int, bytes]:
        return int(index), side.tobytes()

    def directions(self, norms: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """u_j = a_j Σ_c λ_c side_cj x̃_c."""
        weighted = np.zeros_like(self.gates)
        np.add.at(weighted, self.index, multipliers[:, None] * self.sides)
        return norms[:, None] * (weighted.T @ self.problem.points)

    def gram(self, norms: np.ndarray) -> np.ndarray:
        """Products of the constraints' gradients."""
        return (self.sides * norms) @ self.sides.T * self.problem.inner[np.ix_(self.index, self.index)]

    def least_norm(self, norms: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Multipliers of the least-norm problem under all constraints, which are added as they are violated."""
        multipliers = self._without_idle(multipliers)
        while True:
            multipliers = np.append(multipliers, np.zeros(len(self.index) - len(multipliers)))
            multipliers = _least_norm(self.gram(norms), multipliers > 0)
            directions = self.directions(norms, multipliers)
            if self._add_violated(directions):
                continue
            responses = (self.sides * (self.problem.points @ directions.T)[self.index]).sum(axis=1)
            if responses.min() < 1 - INFEASIBLE:
                raise NotSeparableError("No network with this activation pattern has all margins positive.")
            return multipliers

    def _without_idle(self, multipliers: np.ndarray) -> np.ndarray:
        """Leave out the added constraints that have no multiplier."""
        multipliers = np.append(multipliers, np.zeros(len(self.index) - len(multipliers)))
        keep = (multipliers > 0) | (np.arange(len(multipliers)) < len(self.gates))
        self.index, self.sides = self.index[keep], self.sides[keep]
        self.seen = {self._key(i, side) for i, side in zip(self.index, self.sides, strict=True)}
        return multipliers[keep]

    def _add_violated(self, directions: np.ndarray) -> bool:
        responses = self.problem.points @ directions.T
        sides = self.gates - (self.is_other & (responses > 0))
        low = np.flatnonzero((sides * responses).sum(axis=1) < 1 - VIOLATED)
        new = [i for i in low.tolist() if self._key(i, sides[i]) not in self.seen]
        self.seen |= {self._key(i, sides[i]) for i in new}
        self.index = np.append(self.index, np.array(new, dtype=int))
        self.sides = np.concatenate([self.sides, sides[new]])
        return bool(new)

    def newton(self, norms: np.ndarray, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Norms and multipliers of the solution from nearby ones, or None where the steps lead to none.

        At the solution g_j = Σ_c λ_c side_cj x̃_c has norm 1 for the neurons in use and at most 1 for the others, and the constraints
        with a multiplier are met exactly: as many equations as unknowns.
        """
        multipliers = np.append(multipliers, np.zeros(len(self.index) - len(multipliers)))
        live, active = np.flatnonzero(norms > 0), np.flatnonzero(multipliers > 0)
        points, sides = self.problem.points[self.index[active]], self.sides[np.ix_(active, live)]
        inner = self.problem.inner[np.ix_(self.index[active], self.index[active])]
        a, weights, missing = norms[live], multipliers[active], np.inf
        for _ in range(NEWTON_STEPS):
            units = (weights[:, None] * sides).T @ points
            reach = sides * (points @ units.T)  # (c, j)
            missing = np.concatenate([(units**2).sum(axis=1) - 1, reach @ a - 1])
            if np.abs(missing).max() <= ROUNDING:
                break
            if not np.abs(missing).max() < DIVERGED:
                return None
            gram = (sides * a) @ sides.T * inner
            jacobian = np.block([[np.zeros((len(live), len(live))), 2 * reach.T], [reach, gram]])
            try:
                step = np.linalg.solve(jacobian, -missing)
            except np.linalg.LinAlgError:
                return None
            a, weights = a + step[: len(live)], weights + step[len(live) :]
        if not (np.abs(missing).max() <= ROUNDING and a.min() > 0 and weights.min() >= 0):
            return None
        norms, multipliers = np.zeros_like(norms), np.zeros_like(multipliers)
        norms[live], multipliers[active] = a, weights
        pulls = np.linalg.norm(self.directions(np.ones_like(norms), multipliers), axis=1)
        is_solution = pulls.max() <= 1 + VIOLATED and not self._add_violated(
            self.directions(norms, multipliers)
        )
        return (norms, multipliers) if is_solution else None


def _least_norm(gram: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """min ½ λᵀGλ - 1ᵀλ over λ ≥ 0."""
    ones, size = np.ones(len(gram)), gram.diagonal().max() * np.eye(len(gram))
    for ridge, free in ((RIDGE, guess if guess.any() else None), (RIDGE, None), (100 * RIDGE, guess)):
        quickly = nonnegative_minimum(gram + ridge * size, ones, free)
        if quickly is not None:
            return quickly
    from scipy.optimize import nnls  # takes half a second

    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, values[-1] * 1e-14))
    weights, _ = nnls((vectors * root).T, vectors.T @ ones / root, maxiter=50 * len(ones))
    return weights
