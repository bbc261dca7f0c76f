import math

import pytest
import torch

from featureprism.play.answers import brackets, nearest, nearest_of
from featureprism.play.film import film
from featureprism.play.scene import Scene, plane
from featureprism.play.sparse import CLEAN, PER_FRAME, Sparse, _moments, largest, picture


def test_an_averaging_network_breaks_at_one_over_root_k_along_one_direction():
    *rows, summary = brackets(Scene())
    assert len(rows) == 48
    assert all(row["certified"] <= row["attacked"] for row in rows)
    assert summary["attacked"] == pytest.approx(1 / math.sqrt(6), rel=0.05)
    assert summary["certified"] > 0.95 * summary["attacked"]
    falls = summary["universal"]
    assert falls[0] == 1
    assert falls[-1] == 0
    assert all(abs(c) == pytest.approx(1 / math.sqrt(6), abs=0.1) for c in summary["direction"])


def test_the_radius_jumps_when_neurons_choose():
    averaged, chosen = (nearest(Scene(p=p), 10**6, (1.0, 0.0)) for p in (1.0, 3.0))
    assert averaged["label"] == chosen["label"] == 1
    assert chosen["certified"] > 1.5 * averaged["attacked"]
    assert math.hypot(*chosen["witness"], chosen["beside"]) == pytest.approx(chosen["attacked"], rel=1e-3)


@pytest.mark.parametrize("activation", ["prelu", "tanh"])
def test_no_decision_changes_within_the_proven_ball_of_the_slice(activation):
    scene = Scene("++--", activation=activation)
    net = film(scene).end().net
    places = torch.tensor([[1.0, 0.0], [0.3, 0.4], [-0.4, -0.5]]).double()
    angles = torch.linspace(0, 2 * math.pi, 60, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)
    for place, row in zip(places, nearest_of(net, scene, places, branches=2), strict=True):
        inside = (place + 0.999 * row["certified"] * circle) @ plane(scene)
        assert bool((row["label"] * net(inside) > 0).all())
        assert 0 < row["certified"] <= row["attacked"]


@pytest.mark.slow
def test_adversarial_training_takes_the_haze_away():
    choice = Sparse()
    from featureprism.papers.feature_purification import setting as paper

    coding = paper.coding(choice.setting, choice.seed)
    film = list(_moments(choice.setting, choice.seed))
    clean, last = film[CLEAN // PER_FRAME], film[-1]
    chosen = largest(clean[1], coding)
    assert len(set(chosen.tolist())) == len(chosen) == 16
    before, after = (picture(step, net, coding, chosen) for step, net in (clean, last))
    assert (before["stage"], after["stage"]) == ("clean", "adversarial")
    assert after["haze"] < before["haze"] / 2
    assert after["purity"] > before["purity"] + 0.1


@pytest.mark.parametrize("words", [{"hidden": "none"}, {"radius": "0.9"}, {"radius": "x"}, {"seed": "-1"}])
def test_a_bad_sparse_choice_is_one_sentence(words):
    with pytest.raises(ValueError, match="Sparse coding: "):
        Sparse.of(words)
