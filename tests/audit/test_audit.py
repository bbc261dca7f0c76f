"""The audit at a tiny size: all stages, going on after a stop, and bad input."""

import json
import math

import numpy as np
import pytest
import torch

import featureprism.audit.run as run
from featureprism import cli
from featureprism.audit import audit
from featureprism.audit.read import read_embeddings
from featureprism.audit.stages import GivenHead, averaging_index, density
from featureprism.heads import load_head
from featureprism.heads.compare import candidates
from featureprism.networks import ReLU, TwoLayerNet, save_net

RNG = np.random.default_rng(0)


FEW = ("ReLU", "pReLU, p = 3", "finer labels given, p = 3", "1-nearest neighbour (at most 60 points)")


def some_candidates(plan, task, seed):
    """A few of all heads: each bracket costs a second."""
    return [candidate for candidate in candidates(plan, task, seed) if candidate.name in FEW]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("featureprism.heads.compare.LEAST_STEPS", 400)
    monkeypatch.setattr("featureprism.heads.compare.CHOSEN_ON", 4)
    monkeypatch.setattr("featureprism.audit.stages.HALVINGS", 1)
    monkeypatch.setattr(run, "candidates", some_candidates)
    monkeypatch.setattr(run, "WIDTH", 3)
    monkeypatch.setattr(run, "EPOCHS", 1)
    monkeypatch.setattr(run, "KERNEL_POINTS", 60)


def embeddings(path, num_classes=2, **changes):
    """Four noisy orthogonal clusters on the sphere."""
    cluster = np.arange(240) % 4
    x = np.eye(6)[cluster] + 0.15 * RNG.normal(size=(240, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.array(["no", "yes", "so"])[cluster % num_classes]
    arrays = {"x_train": x[:200], "y_train": y[:200], "x_test": x[200:], "y_test": y[200:], **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


@pytest.mark.usefixtures("small")
def test_the_audit_of_two_classes_has_every_stage_and_goes_on(tmp_path, monkeypatch):
    path = embeddings(tmp_path / "e.npz", fine_train=np.arange(200) % 4)
    own = TwoLayerNet(torch.eye(6)[:4].double(), torch.tensor([-1.0, 1, -1, 1]).double(), activation=ReLU())
    save_net(tmp_path / "own.npz", own)
    rows = audit(path, tmp_path / "own.npz", tmp_path / "out", num_points=3)
    names = [row["head"] for row in rows if row["kind"] == "head"]
    assert names == ["your head", *FEW]
    assert rows[0]["clusters"] == 4
    assert rows[0]["largest_abs_cosine"] < 0.6
    (yours,) = [row for row in rows if row["kind"] == "features" and row["head"] == "your head"]
    assert yours["averaging_index"] < 0.8  # each neuron sees one of two clusters: 1/2, and a little noise
    assert rows[-1]["kind"] == "recommendation"
    assert rows[-1]["text"].count(". ") == 1
    monkeypatch.setattr(run, "measured", lambda *_: pytest.fail("a finished stage ran again"))
    assert json.dumps(audit(path, tmp_path / "own.npz", tmp_path / "out", num_points=3)) == json.dumps(rows)
    with pytest.raises(ValueError, match="a finished stage ran again"):  # another question is asked anew
        audit(path, None, tmp_path / "out", num_points=3)


@pytest.mark.usefixtures("small")
def test_three_classes_and_the_saved_head_speak_the_labels_of_the_file(tmp_path, capsys):
    path = embeddings(tmp_path / "e.npz", num_classes=3)
    assert cli.main(["audit", str(path), "--points", "2", "--out", str(tmp_path / "out")]) == 0
    assert "Radii are distances between embeddings" in capsys.readouterr().out
    head = load_head(tmp_path / "out" / "head.npz")
    with np.load(path) as file:
        assert head.score(file["x_test"], file["y_test"]) > 0.8
    assert (tmp_path / "out" / "pareto.png").exists()
    saved = tmp_path / "out" / "heads" / "relu.npz"
    data = read_embeddings(path, None)
    again = run.read_head(saved, data)  # a saved head can be audited in turn, in the numbers of the task
    (row,) = [
        r
        for r in json.loads((tmp_path / "out" / "audit.json").read_text())
        if r["kind"] == "head" and r["head"] == "ReLU"
    ]
    assert again.score(data.task.x_test, data.task.y_test) == row["accuracy"]


X, Y = RNG.normal(size=(60, 3)), np.arange(60) % 2
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": X, "y": Y}, "--normalise unit"),
        ({"x": np.where(UNIT > 0.99, np.nan, UNIT * np.nan), "y": Y}, "NaN"),
        ({"x": UNIT, "y": np.zeros(60)}, "two are needed"),
        ({"x": np.ones((60, 3)) / 3**0.5, "y": Y}, "constant"),
        ({"x": UNIT, "y": Y[:-1]}, "labels of shape"),
        ({"x": UNIT}, "must hold"),
        ({"x": UNIT[:, 0], "y": Y}, "rows"),
        ({"x_train": UNIT, "y_train": Y, "x_test": UNIT, "y_test": Y + 1}, r"\[2\] do not occur"),
        ({"x_train": UNIT, "y_train": Y, "x_test": UNIT, "y_test": 0 * Y}, "no test point has the label"),
    ],
)
def test_bad_files_get_a_sentence(arrays, sentence, tmp_path, capsys):
    np.savez(tmp_path / "e.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        read_embeddings(tmp_path / "e.npz", None)
    assert cli.main(["audit", str(tmp_path / "e.npz"), "--out", str(tmp_path / "out")]) == 2
    assert "featureprism: " in capsys.readouterr().err


def test_rows_can_be_scaled_or_kept(tmp_path):
    np.savez(tmp_path / "e.npz", x=X, y=Y)
    scaled = read_embeddings(tmp_path / "e.npz", "unit").task.x
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1)
    assert read_embeddings(tmp_path / "e.npz", "none").task.x.max() > 1.01


def test_a_head_that_does_not_fit_the_data_is_refused(tmp_path):
    path = embeddings(tmp_path / "e.npz")
    save_net(tmp_path / "own.npz", TwoLayerNet(torch.ones(2, 5), torch.ones(2), activation=ReLU()))
    with pytest.raises(ValueError, match="dimension 5"):
        audit(path, tmp_path / "own.npz", tmp_path / "out")
    three = embeddings(tmp_path / "t.npz", num_classes=3)
    with pytest.raises(ValueError, match="network of two classes"):
        audit(three, tmp_path / "own.npz", tmp_path / "out")


def test_the_index_is_one_for_averaging_and_small_for_single_features():
    mu, parent = torch.eye(4).double(), torch.tensor([0, 0, 1, 1])
    average = GivenHead(
        TwoLayerNet(torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]]), torch.tensor([-1.0, 1]), activation=ReLU())
    )
    single = GivenHead(TwoLayerNet(torch.eye(4), torch.tensor([-1.0, -1, 1, 1]), activation=ReLU()))
    assert averaging_index(average, mu, parent) == pytest.approx(1.0)
    assert averaging_index(single, mu, parent) == pytest.approx(0.5)


def test_density_counts_the_coordinates_that_move():
    assert density(torch.tensor([[1.0, 1, 1, 1]])) == pytest.approx(1.0)
    assert density(torch.tensor([[3.0, 0, 0, 0]])) == pytest.approx(0.25)
    assert math.isnan(density(None))
