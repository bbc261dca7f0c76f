import pytest
import torch

from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.play.scene import Scene, plane, world


def test_a_query_makes_a_scene_and_what_is_no_part_of_it_is_left_alone():
    scene = Scene.of({"classes": "++-", "p": "3", "tab": "clusters", "start": "-7"})
    assert scene == Scene(classes="++-", p=3.0, start=-7.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"classes": "+++"}, "both of them"),
        ({"classes": "+-" * 7}, "2 to 12"),
        ({"p": "many"}, "p must be a number"),
        ({"p": "9"}, "between 1 and 5"),
        ({"overlap": "nan"}, "overlap must be between"),
        ({"labels": "ten"}, "labels must be one of"),
        ({"home": "7"}, "one of the 6 clusters"),
        ({"towards": "0"}, "another cluster"),
    ],
)
def test_a_bad_choice_is_one_sentence(words, said):
    with pytest.raises(ValueError, match=said):
        Scene.of(words)


def test_activations_are_those_of_the_papers():
    assert Scene().neurons == ReLU()
    assert Scene(p=3.0).neurons == PolynomialReLU(3.0)
    assert Scene(p=3.0, activation="polynomial").neurons == PowerReLU(3.0)
    assert Scene(activation="tanh").neurons == Tanh()
    assert Scene(p=3.0, labels="all").neurons == ReLU()


@pytest.mark.parametrize(
    "scene", [Scene(), Scene(home=4), Scene(towards="5"), Scene("+-"), Scene("+-", home=1)]
)
def test_the_plane_is_orthonormal_and_starts_at_home(scene):
    axes, mu = plane(scene), world(scene.anywhere()).clusters.mu
    torch.testing.assert_close(axes @ axes.T, torch.eye(2).double())
    torch.testing.assert_close(axes[0], mu[scene.home])
    if scene.towards != "mean":
        torch.testing.assert_close(axes[1], mu[int(scene.towards)])


def test_up_is_towards_the_other_class():
    scene = Scene(home=1)
    clusters = world(scene.anywhere()).clusters
    height = clusters.mu @ plane(scene)[1]
    assert bool((height[clusters.labels < 0] > 0.1).all())
    assert bool((height[[0, 2]] < -0.1).all())
