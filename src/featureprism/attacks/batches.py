"""Batches of a fixed size: a matrix product rounds a row in a way that depends on the shape of the batch, not on the other rows."""

from collections.abc import Callable

import torch
from torch import Tensor

ROWS = 32  # of every batch; the last one is filled up with zeros


def batches(z: Tensor) -> tuple[Tensor, ...]:
    """The rows, 32 at a time."""
    return torch.cat([z, z.new_zeros(-len(z) % ROWS, *z.shape[1:])]).split(ROWS)


def in_batches(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """function(z) for a function that treats rows alike, such that each row of the result depends on that row of z alone."""
    return torch.cat([function(part) for part in batches(z)])[: len(z)]


def products(z: Tensor, matrix: Tensor) -> Tensor:
    """z @ matrix, each row as if it were alone."""
    return in_batches(lambda part: part @ matrix, z)
