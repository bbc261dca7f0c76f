"""Embeddings of classes: Figure 10."""

import numpy as np
import torch

from featureprism.data.real import real_data
from featureprism.papers.feature_averaging import embedded
from featureprism.papers.feature_averaging.figure_10 import FIGURE_10, EmbeddedClasses, block_cosines

TINY = {FIGURE_10.id: [EmbeddedClasses(per_class=8)]}


def test_other_embeddings_than_clips_are_told_apart():
    digits = real_data("digits")
    assert not embedded.clip_premise(digits).holds
    wide = digits._replace(x_train=np.zeros((10, 512)))
    assert embedded.clip_premise(wide).holds


def test_blocks_leave_a_point_out_of_its_own_class():
    y = torch.arange(10).repeat_interleave(2)
    x = torch.eye(20).double()
    assert float(block_cosines(x, y).abs().max()) == 0.0
    x = torch.eye(10).double().repeat_interleave(2, dim=0)
    torch.testing.assert_close(block_cosines(x, y), torch.eye(10).double())
