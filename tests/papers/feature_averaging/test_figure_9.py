"""Nearly orthogonal centres: Figure 9."""

from dataclasses import replace

import pytest

from featureprism.papers.feature_averaging.ablation import Ablation, clusters_of
from featureprism.papers.feature_averaging.figure_9 import FIGURE_9

TINY = {
    FIGURE_9.id: [
        replace(
            FIGURE_9.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            values=(1e-3, 0.09),
        )
    ]
}


def test_each_value_changes_the_cosine_of_the_centres_alone():
    s = Ablation(varied="centre_cosine", values=(0.0, 0.5), dim=50)
    first, second = s.each()
    assert (first.centre_cosine, second.centre_cosine) == (0.0, 0.5)
    assert first.points == second.points == s.points
    mu = clusters_of(second, 0).mu
    assert float(mu[0] @ mu[1]) == pytest.approx(0.5 * 50)
