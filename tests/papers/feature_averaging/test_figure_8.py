"""Signal-to-noise ratios: Figure 8."""

import math
from dataclasses import replace

import pytest

from featureprism.papers.feature_averaging.ablation import Ablation, clusters_of
from featureprism.papers.feature_averaging.figure_8 import FIGURE_8

TINY = {
    FIGURE_8.id: [
        replace(
            FIGURE_8.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            values=(0.5, 1.0),
        )
    ]
}


def test_the_signal_is_the_length_of_the_centres():
    (loud,) = Ablation(varied="signal", values=(2.0,), dim=50).each()
    assert float(clusters_of(loud, 0).mu[0].norm()) == pytest.approx(2 * math.sqrt(50))
