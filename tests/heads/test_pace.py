"""When training ends."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from featureprism.heads import PReLUHead, pace
from featureprism.heads.descent import CONVERGED, PASSES_MADE


def test_the_step_size_falls_to_zero_at_the_end():
    steady = pace.Pace(0.1, 40, 1e-3)
    assert [steady.rate(step) for step in (0, 10, 40)] == pytest.approx([0.1, 0.075, 0.0])


def test_a_loss_that_stays_brings_the_end_near_and_one_that_falls_does_not():
    falling, flat = pace.Pace(0.1, 1000, 1e-3), pace.Pace(0.1, 1000, 1e-3)
    for look in range(1, 21):
        falling.look(1 / look, 25 * look)
        flat.look(1.0, 25 * look)
    assert not falling.is_slowing
    assert falling.end == 1000
    last = 25 * (1 + pace.PATIENCE)  # the first look is a gain
    assert flat.end == last + last // pace.TAIL
    assert flat.rate(last) == pytest.approx(0.1 * (1 - last / 1000))  # no jump on the way
    assert flat.rate(flat.end) == pytest.approx(0.0)


def test_epochs_are_passes_and_nothing_is_added_to_them():
    X, y = make_blobs(1000, n_features=3, centers=2, random_state=0)
    head = PReLUHead(width=2, random_state=0, batch_size=100)
    assert head.set_params(epochs=2).fit(X, y).n_iter_ == 20
    assert head.set_params(epochs=0.5).fit(X, y).n_iter_ == 5
    assert head.ended_ == PASSES_MADE
    with pytest.raises(ValueError, match="epochs must be positive"):
        head.set_params(epochs=0).fit(X, y)


def test_training_stops_by_itself(monkeypatch):
    monkeypatch.setattr(pace, "MOST_STEPS", 1500)
    X, y = make_blobs(100, n_features=3, centers=2, random_state=0)
    head = PReLUHead(width=4, random_state=0).fit(X, y)
    assert head.ended_ == CONVERGED
    assert head.n_iter_ < 1500
    patient = PReLUHead(width=4, tol=0.0, random_state=0).fit(X, y)
    assert patient.n_iter_ >= head.n_iter_


def test_points_that_are_watched_keep_a_head_from_learning_noise(monkeypatch):
    monkeypatch.setattr(pace, "MOST_STEPS", 800)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 10)), rng.integers(2, size=300)  # nothing to learn
    common = {"width": 20, "weight_decay": 0.0, "random_state": 0}
    free = PReLUHead(**common).fit(X, y)
    watched = PReLUHead(**common, validation_fraction=0.2).fit(X, y)
    assert watched.n_iter_ < free.n_iter_
    surprise = [-np.log(h.predict_proba(rng.normal(size=(500, 10)))).mean() for h in (free, watched)]
    assert surprise[1] < surprise[0]
    with pytest.raises(ValueError, match="leaves no points to watch"):
        PReLUHead(validation_fraction=0.001).fit(X, y)
    with pytest.raises(ValueError, match="from 0 to below 1"):
        PReLUHead(validation_fraction=1.0).fit(X, y)
