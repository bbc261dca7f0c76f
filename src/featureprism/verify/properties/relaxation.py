"""Linear relaxations whose slopes and split multipliers are optimised by batched gradients.

α-CROWN: Xu et al., ICLR 2021. β-CROWN: Wang et al., NeurIPS 2021.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from featureprism.checker.layers import Layers

RATE, RATE_OF_CUTS, DECAY = 0.1, 0.3, 0.96  # of Adam's steps
FACTORS = (8.0, 8.0)
PLACES = 256  # slopes are stored as multiples of 1/PLACES, so that a file packs well


@dataclass(frozen=True, eq=False)
class Network:
    """Layers and a box of inputs in float32: what is found here is proven in float64 afterwards."""

    weights: list[Tensor]
    biases: list[Tensor]
    middle: Tensor
    radius: Tensor

    @classmethod
    def of(cls, model: Layers, lower: Tensor, upper: Tensor) -> "Network":
        weights, biases = (
            [torch.from_numpy(t).float() for t in part] for part in (model.weights, model.biases)
        )
        return cls(weights, biases, ((lower + upper) / 2).float(), ((upper - lower) / 2).float())

    @property
    def widths(self) -> list[int]:
        """Of the hidden layers."""
        return [len(b) for b in self.biases[:-1]]


@dataclass(frozen=True, eq=False)
class Lines:
    """Bounds of the neurons of one layer on each of n regions, and the lines above them; (n or 1, h)."""

    low: Tensor
    high: Tensor
    is_unstable: Tensor
    chord: Tensor
    lift: Tensor

    @classmethod
    def of(cls, low: Tensor, high: Tensor) -> "Lines":
        unstable = (low < 0) & (high > 0)
        chord = torch.where(unstable, high / (high - low).clamp_min(1e-12), (low >= 0).to(low.dtype))
        return cls(low, high, unstable, chord, torch.where(unstable, -chord * low, torch.zeros_like(low)))

    @property
    def steep(self) -> Tensor:
        """Slopes below the neurons to begin with."""
        return torch.where(self.is_unstable, (self.high > -self.low).to(self.low.dtype), self.chord)


def least(
    net: Network,
    c: Tensor,
    offset: Tensor,
    lines: list[Lines],
    slopes: list[Tensor],
    cuts: list[Tensor] | None = None,
    kept: list[Tensor] | None = None,
    at_input: list[Tensor] | None = None,
) -> Tensor:
    """(n,) About the least ⟨c, h⟩ + offset; `kept` takes the coefficients of every layer's outputs, `at_input` those of the inputs."""
    value = offset
    for k in range(len(lines) - 1, -1, -1):
        line = lines[k]
        if kept is not None:
            kept.append(c)
        below = torch.where(line.is_unstable, slopes[k], line.chord)
        g = torch.where(c >= 0, below, line.chord) * c
        value = value + (c.clamp_max(0) * line.lift).sum(-1)
        if cuts is not None:
            g = g - cuts[k]
        value = value + g @ net.biases[k]
        c = g @ net.weights[k]
    if at_input is not None:
        at_input.append(c)
    return value + c @ net.middle - c.abs() @ net.radius


def optimised(
    net: Network,
    c: Tensor,
    offset: Tensor,
    lines: list[Lines],
    slopes: Tensor,
    beta: Tensor,
    sign: Tensor,
    steps: int,
    is_enough: float = torch.inf,
) -> tuple[Tensor, Tensor, Tensor]:
    """(n,) The best bounds of some steps of Adam, with the slopes (n, H) and β (n, H) that gave them; sign (n or 1, H) of the cuts.

    It ends early where every bound is above `is_enough`.
    """
    widths = [line.low.shape[-1] for line in lines]
    slopes, beta = slopes.clone().requires_grad_(), beta.clone().requires_grad_()
    has_cuts = bool((sign != 0).any())
    groups = [{"params": [slopes]}, {"params": [beta], "lr": RATE_OF_CUTS}]
    adam = torch.optim.Adam(groups if has_cuts else groups[:1], lr=RATE, foreach=False)
    best, best_slopes, best_beta = None, slopes.detach(), beta.detach()
    with torch.enable_grad():
        for step in range(steps):
            cuts = list((beta * sign).split(widths, dim=-1)) if has_cuts else None
            value = least(net, c, offset, lines, list(slopes.split(widths, dim=-1)), cuts)
            now = value.detach()
            if best is None:
                best, best_slopes, best_beta = now, slopes.detach().clone(), beta.detach().clone()
            else:
                better = now > best
                best = torch.where(better, now, best)
                best_slopes[better], best_beta[better] = slopes.detach()[better], beta.detach()[better]
            if step == steps - 1 or bool((best > is_enough).all()):
                break
            adam.zero_grad()
            (-value.sum()).backward()
            adam.step()
            for group in adam.param_groups:
                group["lr"] *= DECAY
            with torch.no_grad():
                slopes.clamp_(0, 1)
                beta.clamp_min_(0)
    assert best is not None
    for factor in (
        FACTORS if has_cuts else ()
    ):  # where no input has these signs, the bound grows with β without end
        value = least(
            net,
            c,
            offset,
            lines,
            list(best_slopes.split(widths, dim=-1)),
            list((factor * best_beta * sign).split(widths, dim=-1)),
        )
        better = value > best
        best, best_beta[better] = torch.where(better, value, best), factor * best_beta[better]
    return best, best_slopes, best_beta


def stored(slopes: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes and β as a file holds them, with few digits each."""
    mantissa, exponent = torch.frexp(beta.double())
    return torch.round(slopes.double() * PLACES) / PLACES, torch.ldexp(
        torch.round(mantissa * PLACES) / PLACES, exponent
    )
