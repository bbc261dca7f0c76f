"""The scenes of two more papers."""

import numpy as np
import pytest

from featureprism.play.papers import amplification, double_edged


def test_one_step_amplifies_and_the_next_ones_learn():
    opening, *frames = amplification({"noise": "0.1"})
    assert len(opening["points"]) == 200
    assert frames[1]["length"] > 3 * frames[0]["length"]
    assert frames[-1]["accuracy"] > 0.99


@pytest.mark.parametrize("k", [4, 16])
def test_one_perturbation_of_norm_one_over_root_k_breaks_half_of_the_points(k):
    trained, robust = double_edged({"clusters": str(k)})
    broken = np.interp(-0.5, -np.array(trained["right"]), trained["lengths"])
    assert broken == pytest.approx(k**-0.5, abs=0.05)
    assert min(np.array(robust["right"])[np.array(robust["lengths"]) < broken]) == 1.0


def test_bad_choices_are_one_sentence():
    for scene, words in (
        (amplification, {"noise": "2"}),
        (double_edged, {"clusters": "5"}),
        (double_edged, {"clusters": "x"}),
    ):
        with pytest.raises(ValueError, match="must be"):
            list(scene(words))
