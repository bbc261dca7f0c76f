"""Sparse coding data: x = Mz + ξ with a sparse hidden vector z, labels sign⟨w*, z⟩."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

DICTIONARIES = ("identity", "signed permutation", "haar", "hadamard")
LABEL_WEIGHTS = ("ones", "signs", "uniform")
TIES = ("drop", "positive")
CHUNK = 8192  # the most hidden vectors drawn at a time
LEAST_CHUNK = 64
TIE = 1e-5  # sums of a few values of at least 1/√k: a rounding error is a tie


@dataclass(frozen=True)
class HiddenVector:
    """Independent symmetric coordinates: |z_i| = value with its probability, a log-uniform part, otherwise 0.

    `levels` holds (value, probability); with probability `spread` |z_i| = k^(-U/2), U uniform on [0, 1].
    Source: feature-purification, Assumption 2.1.
    """

    dim: int
    sparsity: float
    levels: tuple[tuple[float, float], ...]
    spread: float = 0.0

    def __post_init__(self) -> None:
        if self.dim < 1 or not self.sparsity >= 1:
            raise ValueError(
                f"Need dim ≥ 1 and sparsity ≥ 1, got {self.dim} and {self.sparsity}; both count coordinates."
            )
        if any(p < 0 for _, p in self.levels) or self.spread < 0 or self.density > 1:
            raise ValueError(
                f"Probabilities of non-zero values must be at least 0 and add up to at most 1, got {self.density:.3g};"
                " lower the sparsity or its factor."
            )

    @property
    def density(self) -> float:
        """P(z_i ≠ 0); E‖z‖₀ is dim times this."""
        return sum(p for _, p in self.levels) + self.spread

    @property
    def second_moment(self) -> float:
        """E z_i². The log-uniform part has E k^(-U) = (1 - 1/k)/ln k."""
        k = self.sparsity
        flat = (1 - 1 / k) / math.log(k) if k > 1 else 1.0
        return sum(v * v * p for v, p in self.levels) + self.spread * flat

    def sample(
        self, num_points: int, *, generator: torch.Generator, dtype=torch.float32
    ) -> Float[Tensor, "n d"]:
        """Independent draws; the cost is that of the non-zero coordinates."""
        z = torch.zeros(num_points * self.dim, dtype=dtype)
        at, values = self.nonzeros(num_points, generator=generator)
        z[at] = values.to(dtype)
        return z.reshape(num_points, self.dim)

    def nonzeros(self, num_points: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Where the non-zero coordinates of points in one long row are, with geometric distances, and their values (float64)."""
        at = _successes(num_points * self.dim, self.density, generator)
        u = torch.rand(len(at), generator=generator, dtype=torch.float64).mul_(2).sub_(1)  # sign and level
        size, ends = u.abs().mul_(self.density), torch.tensor([p for _, p in self.levels]).double().cumsum(0)
        level = torch.bucketize(size, ends, right=True)
        values = torch.tensor([v for v, _ in self.levels] + [0.0]).double()[level]
        if self.spread > 0:
            between = (size - (ends[-1] if len(ends) else 0.0)) / self.spread
            values = torch.where(level == len(ends), self.sparsity ** (-between / 2), values)
        return at, values.copysign_(u)


def _successes(trials: int, chance: float, generator: torch.Generator) -> Tensor:
    """Where independent trials of one chance succeed, in order: sums of geometric distances 1 + ⌊ln U/ln(1 - p)⌋."""
    if chance <= 0:
        return torch.zeros(0, dtype=torch.long)
    expected = trials * chance
    enough, scale = math.ceil(expected + 5 * math.sqrt(expected)) + 5, math.log1p(-min(chance, 1 - 1e-16))
    at = torch.tensor([-1.0], dtype=torch.float64)
    while float(at[-1]) < trials - 1:
        u = torch.rand(enough, generator=generator, dtype=torch.float64).neg_().add_(1)  # never 0
        steps = u.log_().div_(scale).floor_().add_(1)
        at = torch.cat([at, steps.cumsum(0).add_(at[-1])])
    return at[1:][at[1:] < trials].long()


def two_level(dim: int, sparsity: float, large: float = 1.0, small: float = 1.0) -> HiddenVector:
    """Law of a hidden vector with two levels: P(|z_i| = 1) = large/d and P(|z_i| = 1/√k) = small·k/d.

    Parameters
    ----------
    dim : int
        Number of features d.
    sparsity : float
        Expected number k of features with the small weight.
    large : float
        Expected number of features with weight 1.
    small : float
        Factor of the probability of the small weight.

    Returns
    -------
    HiddenVector
        With E z_i² = (large + small)/d.

    Examples
    --------
    >>> import featureprism as fp
    >>> law = fp.data.two_level(100, 5.0)
    >>> type(law).__name__
    'HiddenVector'
    """
    k = sparsity
    return HiddenVector(dim, k, ((1.0, large / dim), (k**-0.5, small * k / dim)))


def three_level(
    dim: int,
    sparsity: float,
    large: float = 1.0,
    small: float = 1.0,
    middle: float = 1.0,
    power: float = 0.314,
) -> HiddenVector:
    """The two levels and |z_i| = k^(-power) with probability middle·k^(2 power)/d, which adds middle/d to E z_i²."""
    levels = two_level(dim, sparsity, large, small).levels
    k = sparsity
    return HiddenVector(dim, k, (*levels, (k**-power, middle * k ** (2 * power) / dim)))


def power_law(
    dim: int, sparsity: float, large: float = 1.0, small: float = 1.0, between: float = 1.0
) -> HiddenVector:
    """The two levels and a log-uniform part between them, which adds between/d to E z_i²."""
    if not sparsity > 1:
        raise ValueError(f"A power law from 1/√k to 1 needs k > 1, got {sparsity}.")
    spread = between * math.log(sparsity) / ((1 - 1 / sparsity) * dim)
    return HiddenVector(dim, sparsity, two_level(dim, sparsity, large, small).levels, spread)


def dictionary(
    kind: str, dim: int, *, generator: torch.Generator, block: int = 4, dtype=torch.float32
) -> Float[Tensor, "d d"]:
    """A dictionary of orthogonal features.

    Parameters
    ----------
    kind : str
        "identity", "signed permutation", "haar" (uniformly random) or "hadamard" (Hadamard blocks on the diagonal).
    dim : int
        Dimension d.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    block : int
        Size of a Hadamard block, a power of 2.
    dtype : torch.dtype, optional
        Precision of the result.

    Returns
    -------
    tensor (d, d)
        An orthogonal matrix M whose columns are the features.

    Examples
    --------
    >>> import featureprism as fp
    >>> M = fp.data.dictionary('haar', 4, generator=fp.generator_for('features', 0))
    >>> bool((M @ M.T - M.new_ones(4).diag()).abs().max() < 1e-5)
    True
    """
    if kind == "identity":
        return torch.eye(dim, dtype=dtype)
    if kind == "signed permutation":
        signs = torch.randint(0, 2, (dim,), generator=generator).to(dtype) * 2 - 1
        return torch.eye(dim, dtype=dtype)[torch.randperm(dim, generator=generator)] * signs
    if kind == "haar":
        q, r = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
        return (q * torch.sign(torch.diagonal(r))).to(dtype)
    if kind == "hadamard":
        if block < 1 or block & (block - 1) or dim % block:
            raise ValueError(f"Hadamard blocks need a power of 2 that divides {dim}, got {block}.")
        tile = torch.ones(1, 1, dtype=dtype)
        while len(tile) < block:
            tile = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=dtype), tile)
        return torch.block_diag(*[tile / block**0.5] * (dim // block))
    raise ValueError(f"Unknown dictionary {kind!r}; choose one of {', '.join(DICTIONARIES)}.")


class DictionaryNorms(NamedTuple):
    """Row and column sums of |M|, and the two other quantities the paper calls ‖M‖_∞ and ‖M‖_1."""

    largest_row_sum: float  # max_i Σ_j |M_ij|
    largest_column_sum: float  # max_j Σ_i |M_ij| = max_j ‖M_j‖_1
    sum_of_column_peaks: float  # Σ_j ‖M_j‖_∞
    largest_entry: float


def dictionary_norms(M: Float[Tensor, "d D"]) -> DictionaryNorms:
    """How far M spreads ℓ∞ perturbations; Theorem 5.4 needs the first two to be d^o(1)."""
    size = M.abs()
    return DictionaryNorms(
        float(size.sum(dim=1).max()),
        float(size.sum(dim=0).max()),
        float(size.amax(dim=0).sum()),
        float(size.max()),
    )


def label_weights(
    kind: str, dim: int, *, generator: torch.Generator, dtype=torch.float32
) -> Float[Tensor, " d"]:
    """The weights w* of the label sign⟨w*, z⟩.

    Parameters
    ----------
    kind : str
        "ones", "signs" (random signs) or "uniform" (random signs times Uniform[1/2, 3/2], which has no
        ties).
    dim : int
        Number of features.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    dtype : torch.dtype, optional
        Precision of the result.

    Returns
    -------
    tensor (d,)
        The weights w*.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.data.label_weights('ones', 3, generator=fp.generator_for('weights', 0)).shape
    torch.Size([3])
    """
    if kind not in LABEL_WEIGHTS:
        raise ValueError(f"Unknown label weights {kind!r}; choose one of {', '.join(LABEL_WEIGHTS)}.")
    if kind == "ones":
        return torch.ones(dim, dtype=dtype)
    signs = torch.randint(0, 2, (dim,), generator=generator).to(dtype) * 2 - 1
    return signs if kind == "signs" else signs * (0.5 + torch.rand(dim, generator=generator, dtype=dtype))


@dataclass(frozen=True)
class SparseCoding:
    """Sparse coding data: x = Mz + ξ' + Mξ'', y = sign⟨w*, z⟩.

    Parameters
    ----------
    M : tensor (d, D)
        Dictionary; points have its precision.
    w : tensor (D,)
        Weights w* of the label.
    hidden : HiddenVector
        Law of the hidden vector z.
    noise : float
        σ_x of the noise ξ' ~ N(0, σ_x²/d I).
    spike : float
        Size of the entries ±spike of ξ'', with variance σ_x²/d; 0 for none.
    margin : float
        Keep only z with |⟨w*, z⟩| ≥ margin.
    ties : str
        What happens to ⟨w*, z⟩ = 0: "drop" draws again, "positive" labels it +1 as the paper does.

    References
    ----------
    feature-purification, Section 2.

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.data import dictionary, label_weights, two_level
    >>> M = dictionary("haar", 20, generator=fp.generator_for("dictionary", 0))
    >>> w = label_weights("signs", 20, generator=fp.generator_for("labels", 0))
    >>> coding = fp.data.SparseCoding(M, w, two_level(20, 4, 0.7, 0.5), noise=0.3)
    >>> coding.dense_direction.shape
    torch.Size([20])
    """

    M: Float[Tensor, "d D"]
    w: Float[Tensor, " D"]
    hidden: HiddenVector
    noise: float = 0.0
    spike: float = 0.0
    margin: float = 0.0
    ties: str = "drop"

    def __post_init__(self) -> None:
        if self.M.shape[1] != self.hidden.dim or self.w.shape != self.M.shape[1:]:
            raise ValueError(
                f"M {tuple(self.M.shape)}, w* {tuple(self.w.shape)} and z ({self.hidden.dim},) do not fit together."
            )
        if min(self.noise, self.spike, self.margin) < 0:
            raise ValueError("Noise, spike and margin must be at least 0.")
        if self.ties not in TIES:
            raise ValueError(f"Unknown rule for ties {self.ties!r}; choose one of {', '.join(TIES)}.")

    @cached_property
    def is_identity(self) -> bool:
        """Whether M = I, where x = z + ξ needs no product."""
        return self.M.shape[0] == self.M.shape[1] and torch.equal(
            self.M, torch.eye(len(self.M), dtype=self.M.dtype)
        )

    @property
    def dense_direction(self) -> Float[Tensor, " d"]:
        """M w*, the direction along which every point can be attacked. Theorem 5.1(c)."""
        return self.M @ self.w

    @property
    def spike_rate(self) -> float:
        """How often a coordinate of ξ'' is a spike, so that its variance is σ_x²/d."""
        return min(1.0, (self.noise / self.spike) ** 2 / self.M.shape[0]) if self.spike else 0.0


class SparseSample(NamedTuple):
    """Points of sparse coding data with their labels and hidden vectors.

    Parameters
    ----------
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    z : tensor (n, D)
        Hidden vectors.
    acceptance : float
        Share of the draws that were kept.
    tie_share : float
        Share of ties among all draws.
    """

    x: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]
    z: Float[Tensor, "n D"]
    acceptance: float
    tie_share: float


def sample_sparse(coding: SparseCoding, num_points: int, *, generator: torch.Generator) -> SparseSample:
    """Independent points of sparse coding data, conditioned on the margin by rejection.

    Parameters
    ----------
    coding : SparseCoding
        What to draw from.
    num_points : int
        How many points.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    SparseSample
        Points x (n, d), labels y (n,) and hidden vectors z (n, D).

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.data import dictionary, label_weights, two_level
    >>> M = dictionary("haar", 20, generator=fp.generator_for("dictionary", 0))
    >>> w = label_weights("signs", 20, generator=fp.generator_for("labels", 0))
    >>> coding = fp.data.SparseCoding(M, w, two_level(20, 4, 0.7, 0.5))
    >>> drawn = fp.data.sample_sparse(coding, 8, generator=fp.generator_for("data", 0))
    >>> bool((drawn.z @ w * drawn.y > 0).all())
    True
    """
    if num_points < 1:
        raise ValueError(f"Need at least one point, got {num_points}.")
    kept, found, drawn, ties = [], 0, 0, 0
    chunk = min(CHUNK, max(LEAST_CHUNK, num_points))  # a small batch costs what it holds
    while found < num_points:
        z = coding.hidden.sample(chunk, generator=generator, dtype=coding.M.dtype)
        score = z @ coding.w
        tied = score.abs() < TIE
        good = (score.abs() >= coding.margin - TIE) if coding.margin > 0 else torch.ones_like(tied)
        good &= ~tied if coding.ties == "drop" else good
        kept.append(z if bool(good.all()) else z[good])
        found, drawn, ties = found + len(kept[-1]), drawn + chunk, ties + int(tied.sum())
        if drawn >= 1000 * chunk and found < drawn / 1000:
            raise ValueError(f"Hardly any hidden vector has |⟨w*, z⟩| ≥ {coding.margin:g}; lower the margin.")
    z = torch.cat(kept)[:num_points]
    y = torch.where(z @ coding.w > -TIE, 1.0, -1.0).to(z.dtype)
    x = _embed(coding, z, generator)
    return SparseSample(x, y, z, found / drawn, ties / drawn)


def sample_points(
    coding: SparseCoding, num_points: int, *, generator: torch.Generator
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """Points and labels of independent draws, without their hidden vectors.

    With M = I, no spikes and nothing drawn again the cost is that of the noise, to which the few non-zero coordinates are added.
    """
    if coding.margin > 0 or coding.spike > 0 or coding.ties == "drop" or not coding.is_identity:
        drawn = sample_sparse(coding, num_points, generator=generator)
        return drawn.x, drawn.y
    dim, dtype = coding.hidden.dim, coding.M.dtype
    at, values = coding.hidden.nonzeros(num_points, generator=generator)
    score = torch.zeros(num_points).double().index_add_(0, at // dim, values * coding.w.double()[at % dim])
    x = torch.empty(num_points, dim, dtype=dtype).normal_(generator=generator).mul_(coding.noise / dim**0.5)
    x.view(-1).index_add_(0, at, values.to(dtype))
    return x, torch.where(score > -TIE, 1.0, -1.0).to(dtype)


def _embed(coding: SparseCoding, z: Tensor, generator: torch.Generator) -> Tensor:
    """M(z + ξ'') + ξ'."""
    inner = z
    if coding.spike:
        u = torch.rand(z.shape, generator=generator, dtype=z.dtype) * 2 - 1
        inner = z + torch.where(u.abs() < coding.spike_rate, coding.spike * u.sign(), torch.zeros_like(u))
    x = inner.clone() if coding.is_identity else inner @ coding.M.T
    if coding.noise:
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        x.add_(noise, alpha=coding.noise / x.shape[1] ** 0.5)
    return x
