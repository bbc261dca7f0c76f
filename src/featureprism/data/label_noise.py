"""Which labels are flipped: chances that depend on the point, realised by independent coins or by an exact count."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NOISES = ("constant", "one cluster", "boundary")
TOLERANCE = 0.01  # of the rate: a counted flip of so few points that rounding costs more is refused


@dataclass(frozen=True)
class LabelNoise:
    """Which labels are flipped, and how many.

    Parameters
    ----------
    kind : str
        "constant": every point alike. "one cluster": only points of the first cluster. "boundary": with a probability
        that falls off from the decision boundary, min(1, λ exp(-margin/scale)), with the λ that gives the rate.
    rate : float
        Share of the labels that is flipped.
    counted : bool
        Flip exactly rate·n labels; otherwise each label is flipped independently, as feature-amplification assumes.
    """

    kind: str = "constant"
    rate: float = 0.0
    counted: bool = False

    def __post_init__(self) -> None:
        if self.kind not in NOISES:
            raise ValueError(f"Unknown label noise {self.kind!r}; choose one of {', '.join(NOISES)}.")
        if not 0 <= self.rate <= (0.25 if self.kind == "one cluster" else 0.5):
            raise ValueError(f"The noise rate {self.rate} is out of range for {self.kind!r}.")


def flips(
    noise: LabelNoise,
    margin: Float[Tensor, " n"],
    cluster: Int[Tensor, " n"],
    scale: float,
    *,
    generator: torch.Generator,
) -> Bool[Tensor, " n"]:
    """A draw of the flipped labels; `margin` is the distance to the decision boundary, `scale` how fast boundary noise falls off."""
    coin = torch.rand(len(margin), generator=generator, dtype=torch.float64)
    if not noise.rate:
        return torch.zeros(len(margin), dtype=torch.bool)
    chances = flip_chances(noise, margin, cluster, scale)
    if not noise.counted:
        return coin < chances
    # systematic sampling in random order: every label has its chance, and their number is the sum of the chances
    order = coin.argsort()
    shift = float(torch.rand((), generator=generator, dtype=torch.float64))
    passed = (torch.cumsum(chances[order], dim=0) + shift).floor()
    chosen = torch.diff(passed, prepend=torch.zeros(1, dtype=torch.float64)) > 0
    return torch.zeros(len(margin), dtype=torch.bool).scatter(0, order, chosen)


def flip_chances(
    noise: LabelNoise, margin: Float[Tensor, " n"], cluster: Int[Tensor, " n"], scale: float
) -> Float[Tensor, " n"]:
    """The chance of each label to be flipped; their mean is the rate (for coins in one cluster: 4·rate in it)."""
    num = len(margin)
    expected = float(budget(noise.rate, num)) if noise.counted else noise.rate * num
    if noise.kind == "constant":
        return torch.full((num,), expected / num, dtype=torch.float64)
    if noise.kind == "one cluster":
        inside = (cluster == 0).double()
        if not noise.counted:
            return 4 * noise.rate * inside
        if expected > inside.sum():
            raise ValueError(
                f"{expected:g} labels are to be flipped in one cluster of {int(inside.sum())} points; use a smaller rate."
            )
        return inside * expected / inside.sum()
    logits = torch.zeros(num, dtype=torch.float64) if scale == 0 else -margin.double() / scale
    return capped_chances(logits, expected)


def budget(rate: float, num_points: int) -> int:
    """The number of labels that are the rate, within 1 %."""
    number = round(rate * num_points)
    if abs(number - rate * num_points) > TOLERANCE * rate * num_points:
        raise ValueError(
            f"No whole number of {num_points} labels is a share of {rate:g} within 1 %; use more points or a rate that fits."
        )
    return number


def capped_chances(logits: Float[Tensor, " n"], total: float) -> Float[Tensor, " n"]:
    """min(1, λ exp(logits)) with the λ for which the sum is `total`: the largest j chances are 1, the others share what is left."""
    num = len(logits)
    if not (0 < total < num and bool(torch.isfinite(logits).all())):
        raise ValueError(f"Chances of {num} finite weights cannot sum to {total:g}.")
    ordered = logits.sort(descending=True).values
    rest = ordered.flip(0).logcumsumexp(dim=0).flip(0)  # of the j-th and all after it
    left = total - torch.arange(num, dtype=torch.float64)
    scales = left.clamp_min(0).log() - rest  # ln λ if the first j chances are 1
    fits = (left > 0) & (scales + ordered <= 1e-12)  # the last j with something left always does
    first = int(fits.double().argmax())
    return (logits + scales[first]).clamp_max(0).exp()
