import base64
from itertools import islice
from threading import Thread

import numpy as np
import pytest
import torch

from featureprism.networks import BinaryReadout
from featureprism.play.film import film, moments
from featureprism.play.frames import GRID, WINDOW, compass, frame, frames, neurons
from featureprism.play.scene import Scene, plane, world
from featureprism.probes import cluster_masses, cosines


@pytest.fixture(scope="module")
def aligned():
    """Six clusters, p = 3: every neuron that matters turns to a centre."""
    return Scene(p=3.0)


def test_relu_neurons_average_and_cubic_ones_choose(aligned):
    relu, cubic = (frame(scene, film(scene).end()) for scene in (Scene(), aligned))
    assert relu["accuracy"] == cubic["accuracy"] == 1
    assert 0.5 < relu["aligned"] < 0.65  # near 1/√3: a class has three centres
    assert cubic["aligned"] > 0.98


def test_networks_that_are_told_every_cluster_turn_to_each_of_them():
    moment = film(Scene(labels="all")).end()
    assert isinstance(moment.net, BinaryReadout)
    W, mass, sign = neurons(moment.net)
    own = cosines(W, world(Scene(labels="all")).clusters.mu).argmax(dim=1)
    assert bool((sign == world(Scene()).clusters.labels[own])[mass > 0.1 * mass.max()].all())


def test_masses_are_those_of_the_paper_once_neurons_are_aligned(aligned):
    last = frame(aligned, film(aligned).end())
    W, mass, _ = neurons(film(aligned).end().net)
    region = cosines(W, world(aligned).clusters.mu).argmax(dim=1)
    expected = cluster_masses(0.5 * mass.log(), region, 6)
    np.testing.assert_allclose(last["masses"], expected.numpy(), rtol=0.02)


def test_neurons_stand_inside_the_compass_and_aligned_ones_on_its_rim(aligned):
    last = frame(aligned, film(aligned).end())
    reach = np.linalg.norm(last["places"], axis=1)
    assert (reach <= 1.001).all()
    assert (reach[np.array(last["sizes"]) > 0.3] > 0.95).all()
    rim = compass(torch.tensor([1.0, 1.0, -1.0]).double())
    torch.testing.assert_close(rim.norm(dim=1), torch.ones(3).double())
    assert rim[0, 0] > 0
    assert rim[2, 0] < 0


def test_decisions_have_the_sign_of_the_network_everywhere():
    scene = Scene("++-", p=2.0, home=1, towards="2")
    index = 20
    moment = film(scene).at(index)
    assert moment is not None
    opening, *pictures = islice(frames(scene), 2 + index)
    assert opening["grid"] == GRID
    picture = pictures[index]
    values = np.frombuffer(base64.b64decode(picture["decisions"]), np.int8).reshape(GRID, GRID)
    left, right, bottom, top = WINDOW
    for i, j in ((0, 0), (3, 40), (20, 20), (43, 5)):  # one by one, from the top left
        s, t = left + (right - left) * j / (GRID - 1), top - (top - bottom) * i / (GRID - 1)
        f = float(moment.net((s * plane(scene)[0] + t * plane(scene)[1])[None]).detach())
        assert np.sign(values[i, j]) == np.sign(f)


def test_a_film_is_one_whoever_looks_and_from_wherever():
    scene = Scene("+-", start=-2.0)
    assert film(scene) is film(Scene("+-", start=-2.0, towards="1"))
    seen = []
    threads = [Thread(target=lambda: seen.append([m.time for m in film(scene)])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[0] == seen[1] == seen[2] == [m.time for m in moments(scene)]


def test_a_smaller_start_takes_longer():
    assert film(Scene("+-", start=-8.0)).end().time > film(Scene("+-", start=-2.0)).end().time
