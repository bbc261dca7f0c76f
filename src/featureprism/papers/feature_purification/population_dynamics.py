"""Population gradient descent on sparse coding data, reduced to two numbers: exact in law for any dimension, run in seconds.

Take M = I, |w*_j| = 1, no input noise and q neurons for each feature that have won it. Permutations of the features leave the data and
the network as they are, so that every neuron of feature j keeps the form

    w_j = w*_j (α e_j + β Σ_{j' ≠ j} w*_j' e_j')

for ever, and descent moves (α, β) alone. Up to signs, a point has coordinates ±1, ±1/√k and 0; the network, its gradients and every
attack that treats equal coordinates alike are functions of how many coordinates of each kind there are. Those counts are Poisson.

With d = 10⁶⁰ a count of small coordinates is near 10²³ and decides the label by its imbalance, 10¹¹. Each level is therefore kept
as the
sum and the difference of its two counts, and what both signs share is added up before it can cancel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

LARGE_COUNT = 1e6  # from this mean on a Poisson count is drawn as a Gaussian number
SMALL_SHIFT = 1e-4  # of σ_ρ: a gate that moves by less is expanded to first order
TIE = 1e-9


def _normal_cdf(t: np.ndarray) -> np.ndarray:
    """Φ(t)."""
    from scipy.special import ndtr  # takes a while to import

    return ndtr(t)


def _normal_density(t: np.ndarray) -> np.ndarray:
    """φ(t)."""
    return np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)


def _logistic(t: np.ndarray) -> np.ndarray:
    """1/(1 + e^-t)."""
    from scipy.special import expit

    return expit(t)


@dataclass(frozen=True)
class Neuron:
    """Coefficients of a neuron: α of the feature it has won, β of each other feature."""

    alpha: float
    beta: float

    def norm(self, dim: float) -> float:
        """‖w‖."""
        return math.sqrt(self.alpha**2 + (dim - 1) * self.beta**2)

    def purity(self, dim: float) -> float:
        """Cosine with its feature, α/‖w‖."""
        return self.alpha / self.norm(dim)

    def drift_from(self, before: "Neuron", dim: float) -> float:
        """Relative squared change of the weights, ‖w - w'‖²/‖w'‖²."""
        change = (self.alpha - before.alpha) ** 2 + (dim - 1) * (self.beta - before.beta) ** 2
        return change / before.norm(dim) ** 2

    def cosine_with(self, other: "Neuron", dim: float) -> float:
        """cos(w, w')."""
        product = self.alpha * other.alpha + (dim - 1) * self.beta * other.beta
        return product / (self.norm(dim) * other.norm(dim))


@dataclass(frozen=True)
class PopulationModel:
    """The data and the network: dimension d, sparsity k, bias b, smoothing σ_ρ, penalty λ, and the neurons of one feature q."""

    dim: float
    sparsity: float
    bias: float
    smoothing: float
    penalty: float
    copies: float = 3.0

    @property
    def levels(self) -> tuple[float, float]:
        """Sizes of the coordinates that are not zero."""
        return 1.0, self.sparsity**-0.5


class Counts(NamedTuple):
    """For each level the number of its coordinates and the imbalance of their signs (n,); y (n,)."""

    total: tuple[np.ndarray, np.ndarray]
    signed: tuple[np.ndarray, np.ndarray]
    y: np.ndarray


def draw_counts(model: PopulationModel, num_points: int, generator: np.random.Generator) -> Counts:
    """Counts of points whose label is not a tie: Poisson with mean 1 at the level 1, with mean k at the level 1/√k."""
    total, signed = [], []
    for mean in (1.0, model.sparsity):
        if mean > LARGE_COUNT:
            total.append(mean + math.sqrt(mean) * generator.standard_normal(num_points))
            signed.append(math.sqrt(mean) * generator.standard_normal(num_points))
        else:
            up, down = generator.poisson(mean / 2, (2, num_points)).astype(float)
            total.append(up + down)
            signed.append(up - down)
    score = signed[0] + signed[1] * model.levels[1]
    kept = np.abs(score) > TIE
    return Counts((total[0][kept], total[1][kept]), (signed[0][kept], signed[1][kept]), np.sign(score[kept]))


class Shift(NamedTuple):
    """A perturbation that treats equal coordinates alike: of +v and of -v at each level, and of the zeros."""

    up: tuple[np.ndarray, np.ndarray]
    down: tuple[np.ndarray, np.ndarray]
    zero: np.ndarray

    @property
    def parts(self) -> list[np.ndarray]:
        """All five parts."""
        return [*self.up, *self.down, self.zero]


def _shift(parts: Sequence[np.ndarray]) -> Shift:
    return Shift((parts[0], parts[1]), (parts[2], parts[3]), parts[4])


def no_shift(counts: Counts) -> Shift:
    """The zero perturbation."""
    return _shift([np.zeros_like(counts.y)] * 5)


def _sizes(model: PopulationModel, counts: Counts) -> list[np.ndarray]:
    """How many coordinates each part of a shift moves."""
    up = [(n + s) / 2 for n, s in zip(counts.total, counts.signed, strict=True)]
    down = [(n - s) / 2 for n, s in zip(counts.total, counts.signed, strict=True)]
    return [*up, *down, model.dim - counts.total[0] - counts.total[1]]


def norm_of(model: PopulationModel, counts: Counts, parts: Sequence[np.ndarray]) -> np.ndarray:
    """ℓ2 norm of a vector that is constant on each kind of coordinates."""
    sizes = _sizes(model, counts)
    return np.sqrt(sum(size * part**2 for size, part in zip(sizes, parts, strict=True)))


def universal(model: PopulationModel, counts: Counts, radius: float) -> Shift:
    """Every coordinate moved by radius/√d against the label, the attack -y Mw*."""
    return _shift([-counts.y * radius / math.sqrt(model.dim)] * 5)


def _value(u: np.ndarray, model: PopulationModel) -> np.ndarray:
    """E_ρ of ReLU(u + ρ - b) - ReLU(-u + ρ - b)."""
    b, s = model.bias, model.smoothing

    def relu(t: np.ndarray) -> np.ndarray:
        return t * _normal_cdf(t / s) + s / math.sqrt(2 * math.pi) * np.exp(-((t / s) ** 2) / 2)

    return relu(u - b) - relu(-u - b)


def _open(u: np.ndarray, model: PopulationModel) -> np.ndarray:
    """E_ρ of how many of both halves are open: the derivative of `_value`."""
    return _normal_cdf((u - model.bias) / model.smoothing) + _normal_cdf((-u - model.bias) / model.smoothing)


class Pass(NamedTuple):
    """One forward pass: f, the gradient in x (as five parts), Σ open gates, Σ gates times their coordinate, and S = Σ_j x_j."""

    output: np.ndarray
    gradient: list[np.ndarray]
    gates: np.ndarray
    signal: np.ndarray
    sum: np.ndarray


def forward(model: PopulationModel, neuron: Neuron, counts: Counts, shift: Shift) -> Pass:
    """The network at shifted points. A neuron of a coordinate x_j sees u_j = (α - β) x_j + β S."""
    slope, beta = neuron.alpha - neuron.beta, neuron.beta
    zeros = model.dim - counts.total[0] - counts.total[1]
    total = zeros * shift.zero
    for v, n, s, up, down in zip(model.levels, *counts[:2], shift.up, shift.down, strict=True):
        total = total + s * v + n * (up + down) / 2 + s * (up - down) / 2
    output = zeros * _value(slope * shift.zero + beta * total, model)
    zero_gate = _open(slope * shift.zero + beta * total, model)
    gates, signal = zeros * zero_gate, zeros * zero_gate * shift.zero
    opened_up, opened_down = [], []
    for v, n, s, up, down in zip(model.levels, *counts[:2], shift.up, shift.down, strict=True):
        more, less = slope * up + beta * total, slope * down + beta * total
        centre = np.full_like(total, slope * v)
        high, low = _value(centre + more, model), _value(centre - less, model)
        small = np.maximum(np.abs(more), np.abs(less)) < SMALL_SHIFT * model.smoothing
        even = np.where(small, _open(centre, model) * (more + less), high - low) / 2
        output = output + n * even + s * (high + low) / 2
        gate_up, gate_down = _open(centre + more, model), _open(centre - less, model)
        gates = gates + n * (gate_up + gate_down) / 2 + s * (gate_up - gate_down) / 2
        differ = v * (gate_up - gate_down) + gate_up * up + gate_down * down
        agree = gate_up * (v + up) + gate_down * (v - down)
        signal = signal + n * differ / 2 + s * agree / 2
        opened_up.append(gate_up)
        opened_down.append(gate_down)
    opened = [*opened_up, *opened_down, zero_gate]
    gradient = [model.copies * (slope * gate + beta * gates) for gate in opened]
    return Pass(model.copies * output, gradient, gates, signal, total)


def fast_gradient(model: PopulationModel, neuron: Neuron, counts: Counts, radius: float) -> Shift:
    """FGM: one step of length `radius` against the gradient of the margin."""
    gradient = forward(model, neuron, counts, no_shift(counts)).gradient
    length = np.maximum(norm_of(model, counts, gradient), 1e-300)
    return _shift([-counts.y * radius * part / length for part in gradient])


def projected_gradient(
    model: PopulationModel, neuron: Neuron, counts: Counts, radius: float, start: Shift, steps: int = 20
) -> Shift:
    """PGD with normalised steps of 2.5 radius/steps from a given start."""
    shift = start
    for _ in range(steps):
        gradient = forward(model, neuron, counts, shift).gradient
        length = np.maximum(norm_of(model, counts, gradient), 1e-300)
        parts = [
            part - counts.y * 2.5 * radius / steps * slope / length
            for part, slope in zip(shift.parts, gradient, strict=True)
        ]
        outside = np.maximum(norm_of(model, counts, parts) / radius, 1.0)
        shift = _shift([part / outside for part in parts])
    return shift


class Accuracies(NamedTuple):
    """Shares of points that are right: without attack, under -y Mw*, and under the strongest of all attacks."""

    clean: float
    universal: float
    worst: float


def accuracies(model: PopulationModel, neuron: Neuron, counts: Counts, radius: float) -> Accuracies:
    """Clean accuracy, and robust accuracy under the universal direction, FGM, and PGD from zero and from the universal direction."""
    zero, along = no_shift(counts), universal(model, counts, radius)
    attacks = [
        along,
        fast_gradient(model, neuron, counts, radius),
        projected_gradient(model, neuron, counts, radius, zero),
        projected_gradient(model, neuron, counts, radius, along),
    ]
    right = counts.y * forward(model, neuron, counts, zero).output > 0
    held = [right & (counts.y * forward(model, neuron, counts, shift).output > 0) for shift in attacks]
    worst = np.logical_and.reduce(held)
    return Accuracies(float(right.mean()), float(held[0].mean()), float(worst.mean()))


def spread_rates(model: PopulationModel, neuron: Neuron, counts: Counts) -> tuple[float, float]:
    """Rates at which descent lets differences between the neurons grow, in units of 1/d: of mixtures, and of single entries.

    Give each neuron j a mixture β + c_j of its own, Σ_j c_j = 0. The first-order change of the loss vanishes by symmetry; the second
    moves c_j at the rate

        E[σ(-yf) y Σ_j h''(u_j) S²]/d² - q E[σ(-yf) σ(yf) Σ_j (h'(u_j) - mean h')² S²]/d² - λ(1 + ‖w‖),

    with h the value of a neuron and S = Σ_j x_j. For perturbations of single entries, with zero sums over rows and columns, ‖x‖² takes
    the place of S². The first term counts the points at which the mixture alone brings neurons to their threshold, β|S| = b: there a
    neuron that holds more of the mixture opens first and gains more.
    """
    b, s, d = model.bias, model.smoothing, model.dim
    at = forward(model, neuron, counts, no_shift(counts))
    missing = _logistic(-counts.y * at.output)
    values = [*model.levels, *(-v for v in model.levels), 0.0]
    kinks = gates = squares = energy = np.zeros_like(counts.y)
    for n, v in zip(_sizes(model, counts), values, strict=True):
        u = (neuron.alpha - neuron.beta) * v + neuron.beta * at.sum
        gate = _open(u, model)
        kinks = kinks + n * (_normal_density((u - b) / s) - _normal_density((u + b) / s)) / s
        gates, squares, energy = gates + n * gate, squares + n * gate**2, energy + n * v**2
    gained = missing * counts.y * kinks - model.copies * missing * (1 - missing) * (squares - gates**2 / d)
    held = d * model.penalty * (1 + neuron.norm(d))
    return float((gained * at.sum**2).mean()) / d - held, float((gained * energy).mean()) / d - held


def _pulls(model: PopulationModel, neuron: Neuron, counts: Counts, radius: float) -> Neuron:
    """-∇ of E log(1 + exp(-y f)) along α and β, at FGM's points where the radius is positive."""
    d = model.dim
    shift = fast_gradient(model, neuron, counts, radius) if radius > 0 else no_shift(counts)
    at = forward(model, neuron, counts, shift)
    pull = counts.y * _logistic(-counts.y * at.output)
    own = float((pull * at.signal).mean()) / d
    others = float((pull * (at.gates * at.sum - at.signal)).mean()) / (d * (d - 1))
    return Neuron(own, others)


def descend(
    model: PopulationModel,
    neuron: Neuron,
    step_sizes: Sequence[float],
    *,
    generator: np.random.Generator,
    num_points: int,
    radius: float = 0.0,
) -> list[Neuron]:
    """Descent on E log(1 + exp(-y f)) + λ Σ_i (‖w_i‖²/2 + ‖w_i‖³/3), on new points at every step: the neurons on its way.

    Algorithm 1, or with a positive radius Algorithm 2 with FGM.
    """
    path = [neuron]
    for step_size in step_sizes:
        now = path[-1]
        pull = _pulls(model, now, draw_counts(model, num_points, generator), radius)
        kept = 1 - step_size * model.penalty * (1 + now.norm(model.dim))
        path.append(
            Neuron(kept * now.alpha + step_size * pull.alpha, kept * now.beta + step_size * pull.beta)
        )
    return path


@dataclass(frozen=True)
class _Residual:
    """By how much a β misses the equation of backward Euler, in units of k/d."""

    model: PopulationModel
    now: Neuron
    counts: Counts
    kept: float
    step_size: float
    radius: float

    def __call__(self, beta: float) -> float:
        pull = _pulls(self.model, Neuron(self.now.alpha, beta), self.counts, self.radius).beta
        missing = beta - self.kept * self.now.beta - self.step_size * pull
        return missing * self.model.dim / self.model.sparsity


def adversarial_flow(
    model: PopulationModel,
    neuron: Neuron,
    step_sizes: Sequence[float],
    *,
    generator: np.random.Generator,
    num_points: int,
    radius: float,
) -> list[Neuron]:
    """Algorithm 2 with infinitely small steps, by backward Euler in β: the neurons on its way.

    Once the mixture is gone the loss is steep in β, by a factor (τ√k)² k/d for each unit of time, and the theorem's time is k². An
    explicit step would have to be shorter than d/(k (τ√k)²); at d = 10⁶⁰ the paper's time would take 10⁷ of them.
    """
    path = [neuron]
    for step_size in step_sizes:
        now, counts = path[-1], draw_counts(model, num_points, generator)
        kept = 1 - step_size * model.penalty * (1 + now.norm(model.dim))
        alpha = kept * now.alpha + step_size * _pulls(model, now, counts, radius).alpha

        residual = _Residual(model, now, counts, kept, step_size, radius)
        end = 3 * max(abs(now.beta), model.sparsity / model.dim)
        from scipy.optimize import root_scalar  # takes a while to import

        root = root_scalar(residual, bracket=(-end, end), method="brentq", xtol=1e-9 * end, rtol=1e-6)
        path.append(Neuron(alpha, float(root.root)))
    return path


def pure(neuron: Neuron) -> Neuron:
    """The neuron without its mixture: what no training of this network can improve on."""
    return replace(neuron, beta=0.0)
