"""Transfer at a small size."""

from dataclasses import replace

import torch

from featureprism.data.dataset import Dataset
from featureprism.papers.double_edged.setting import TrainingSetting
from featureprism.papers.double_edged.transfer import NearestNeighbour

TINY = {
    "double-edged/transfer": [
        replace(made(dim, 4), points=30, test_points=20, steps=100)
        for made, dim in ((TrainingSetting.usual, 50), (TrainingSetting.within, 150))
    ]
}


def test_the_nearest_neighbour_by_hand():
    data = Dataset(
        torch.tensor([[0.0], [2.0]]).double(),
        torch.tensor([-1.0, 1.0]).double(),
        torch.tensor([0, 1]),
        torch.zeros(2, 1).double(),
    )
    assert NearestNeighbour(data)(torch.tensor([[0.9], [1.1]]).double()).tolist() == [-1.0, 1.0]
