"""The audit at a tiny size: all stages, going on after a stop, and bad input."""

import json
import math

import numpy as np
import pytest
import torch

import featureprism.audit.run as run
from featureprism import cli
from featureprism.audit import audit
from featureprism.audit.advice import Contender, decide, recommendation
from featureprism.audit.given import GivenHead, read_head
from featureprism.audit.read import read_embeddings
from featureprism.audit.stages import averaging_index, density
from featureprism.audit.watch import StageProgress, noted
from featureprism.heads import load_head
from featureprism.lab.heads.compare import candidates
from featureprism.models import read_model
from featureprism.networks import ReLU, TwoLayerNet, save_net

RNG = np.random.default_rng(0)


FEW = ("ReLU", "pReLU, p = 3", "finer labels given, p = 3", "1-nearest neighbour (at most 60 points)")


def some_candidates(plan, task, seed):
    """A few of all heads: each bracket costs a second."""
    return [candidate for candidate in candidates(plan, task, seed) if candidate.name in FEW]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("featureprism.lab.heads.compare.LEAST_STEPS", 400)
    monkeypatch.setattr("featureprism.audit.universal.HALVINGS", 1)
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
    own.requires_grad_(False)
    save_net(tmp_path / "own.npz", own)
    rows = audit(path, tmp_path / "own.npz", tmp_path / "out", num_points=3)
    names = [row["head"] for row in rows if row["kind"] == "head"]
    assert names == ["your head", *FEW]
    assert rows[0]["clusters"] == 4
    assert rows[0]["largest_abs_cosine"] < 0.6
    (yours,) = [row for row in rows if row["kind"] == "features" and row["head"] == "your head"]
    assert yours["averaging_index"] < 0.8  # each neuron sees one of two clusters: 1/2, and a little noise
    assert rows[-1]["kind"] == "recommendation"
    assert "Radii are distances" in rows[-1]["text"]
    with np.load(tmp_path / "out" / "witnesses" / "your-head.npz") as file, np.load(path) as given:
        np.testing.assert_allclose(file["x"], given["x_test"][file["row"]])
        assert (file["y"] == given["y_test"][file["row"]]).all()
        np.testing.assert_allclose(np.linalg.norm(file["delta"], axis=1), file["attacked"], atol=1e-12)
        signs = np.where(file["y"] == "yes", 1, -1)
        moved = torch.as_tensor(file["x"] + 1.0001 * file["delta"])
        assert bool((torch.as_tensor(signs) * own(moved) <= 0).all())
        fooled = signs * own(torch.as_tensor(file["x"] - signs[:, None] * file["universal"])).numpy() <= 0
        assert fooled.mean() >= 0.5
    assert {file.stem for file in (tmp_path / "out" / "heads").iterdir()} < {
        file.stem for file in (tmp_path / "out" / "witnesses").iterdir()
    }
    monkeypatch.setattr(run, "fitted", lambda *_: pytest.fail("a finished stage ran again"))
    assert json.dumps(audit(path, tmp_path / "own.npz", tmp_path / "out", num_points=3)) == json.dumps(rows)
    with pytest.raises(ValueError, match="a finished stage ran again"):  # another question is asked anew
        audit(path, None, tmp_path / "out", num_points=3)
    wide = [row for row in rows if row["kind"] == "head"]
    assert all(row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] for row in wide)
    assert all(row["certified_radius_low"] <= row["certified_radius"] for row in wide)


@pytest.mark.usefixtures("small")
def test_three_classes_and_the_saved_head_speak_the_labels_of_the_file(tmp_path, capsys):
    path = embeddings(tmp_path / "e.npz", num_classes=3)
    arguments = ["audit", str(path), "--points", "2", "--workers", "1", "--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 0
    said = capsys.readouterr()
    assert "Radii are distances between embeddings" in said.out
    lines = said.err.splitlines()  # there is no terminal here
    assert lines[-1] == "audit: 100%, 4 of 4 stages"
    assert all(line.startswith("audit: ") for line in lines)
    assert not (tmp_path / "out" / "head.npz").exists()  # two points decide nothing
    head = load_head(tmp_path / "out" / "heads" / "prelu-p-3.npz")
    with np.load(path) as file:
        assert head.score(file["x_test"], file["y_test"]) > 0.8
    with np.load(tmp_path / "out" / "witnesses" / "relu.npz") as file:  # one vector for all fools half
        relu = load_head(tmp_path / "out" / "heads" / "relu.npz")
        assert (relu.predict(file["x"] + file["universal"]) != file["y"]).mean() >= 0.5
    assert (tmp_path / "out" / "pareto.png").exists()
    saved = tmp_path / "out" / "heads" / "relu.npz"
    data = read_embeddings(path, None)
    again = read_head(saved, data)  # a saved head can be audited in turn, in the numbers of the task
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
    arguments = ["audit", str(tmp_path / "e.npz"), "--workers", "1", "--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
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
    pairs = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    average = GivenHead(read_model(TwoLayerNet(pairs, torch.tensor([-1.0, 1]), activation=ReLU())))
    votes = torch.tensor([-1.0, -1, 1, 1])
    single = GivenHead(read_model(TwoLayerNet(torch.eye(4), votes, activation=ReLU())))
    assert averaging_index(average, mu, parent) == pytest.approx(1.0)
    assert averaging_index(single, mu, parent) == pytest.approx(0.5)


def test_density_counts_the_coordinates_that_move():
    assert density(np.array([[1.0, 1, 1, 1]])) == pytest.approx(1.0)
    assert density(np.array([[3.0, 0, 0, 0]])) == pytest.approx(0.25)
    assert math.isnan(density(None))


def contender(name, family, right, certified, is_saved=False):
    """A head that gets the first `right` of 200 test points right."""
    return Contender(name, family, np.arange(200) < right, certified, certified + 0.01, is_saved)


NOW = contender("ReLU", "ReLU", 190, np.linspace(0.1, 0.2, 40), is_saved=True)


def test_the_head_that_proves_most_is_taken_and_baselines_are_named():
    further = contender("pReLU, p = 3", "pReLU", 189, NOW.certified + 0.05, is_saved=True)
    nearest = contender("1-nearest neighbour", "other", 190, NOW.certified + 0.1)
    said = recommendation(decide([NOW, further, nearest]))
    assert (said["head"], said["saved"], said["ties"]) == ("1-nearest neighbour", "pReLU, p = 3", [])
    assert said["p_value"] == pytest.approx(2 * 0.5**40)
    assert "0.249 [0.233, 0.267] instead of 0.149 [0.133, 0.167] for ReLU" in said["text"]
    assert "baseline that the audit does not save" in said["text"]
    assert "Of the saved heads 'pReLU, p = 3' proves most" in said["text"]
    worse = contender("1-nearest neighbour", "other", 170, NOW.certified + 0.1)  # loses 20 points, gains none
    assert recommendation(decide([NOW, further, worse]))["head"] == "pReLU, p = 3"


def test_what_chance_explains_is_no_difference():
    signs = np.where(np.arange(40) % 2 == 0, 0.1, -0.05)  # the larger median, but half of the points each
    doubtful = contender("pReLU, p = 3", "pReLU", 190, NOW.certified + signs, is_saved=True)
    decision = decide([NOW, doubtful])
    assert doubtful.proven > NOW.proven
    assert not decision.is_settled
    said = recommendation(decision)
    assert (said["head"], said["saved"]) == ("ReLU", None)
    assert said["text"].startswith("No significant difference: keep ReLU. 'pReLU, p = 3' has the largest")
    short = contender("pReLU, p = 3", "pReLU", 190, NOW.certified - 0.01)
    assert recommendation(decide([NOW, short]))["text"].startswith("Keep ReLU: it is proven to hold")


def test_more_tests_ask_for_more_evidence():
    """Six points of six: p = 1/64, significant alone (1.6 %), not in four looks (6.3 %)."""
    few = contender("ReLU", "ReLU", 190, np.full(6, 0.1))
    better = contender("pReLU, p = 3", "pReLU", 190, np.full(6, 0.2))
    assert decide([few, better], 1).is_settled
    assert not decide([few, better], 4).is_settled


@pytest.mark.slow
def test_equal_heads_are_seldom_told_apart():
    """Two heads with radii from one distribution, five candidates, four looks: a wrong 'take' in at most 5 % of 400 audits."""
    rng, taken = np.random.default_rng(0), 0
    for _ in range(400):
        every = rng.gamma(2.0, 0.1, size=(6, 400))
        for last in run.LOOKS:
            heads = [
                contender(f"{i}", "ReLU" if i == 0 else "pReLU", 190, r[:last]) for i, r in enumerate(every)
            ]
            decision = decide(heads, len(run.LOOKS))
            if decision.is_significant(decision.leader):
                taken += 1
                break
    assert taken <= 0.05 * 400


def test_points_are_added_until_the_decision_is_significant(tmp_path, monkeypatch):
    """The leader is ahead at 3 of 5 points, so that few points decide nothing; heads that cannot win get no more points."""
    asked = []

    def rows_of(_question, _digest, stages, *_):
        asked.append([(stage.name, stage.first, stage.last) for stage in stages])
        rows = []
        for stage in stages:
            index = np.arange(stage.first, stage.last)
            radii = {
                "ReLU": 1.0 + 0 * index,
                "ahead": 1.0 + np.where(index % 5 < 3, 0.2, -0.1),
                "behind": 0.1 + 0 * index,
            }
            for name, certified in radii.items():
                if stage.name == name:
                    rows += [{"kind": "head", "head": name, "family": name, "is_saved": True}][
                        : stage.first == 0
                    ]
                    sides = {side: run.packed(certified) for side in ("certified", "attacked")}
                    rows.append({"kind": "points", "head": name, "right": run.packed(np.ones(9)), **sides})
        return rows

    monkeypatch.setattr(run, "_all_rows", rows_of)
    question, names = run.AuditInput(tmp_path, None, None, None), ["ReLU", "ahead", "behind"]
    rows, decision = run._race(question, "", names, run.LOOKS, tmp_path, 1, lambda *_: None)
    assert [len(stages) for stages in asked] == [4, 2, 2]
    assert [stages[-1][2] for stages in asked] == [50, 100, 200]
    assert decision.is_settled
    assert decision.taken.name == "ahead"
    assert {c.name: len(c.certified) for c in run.contenders_of(rows)} == {
        "ReLU": 200,
        "ahead": 200,
        "behind": 50,
    }


def test_networks_of_many_classes_are_taken_as_heads(tmp_path):
    data = read_embeddings(embeddings(tmp_path / "e.npz", num_classes=3), None)
    W, V = np.eye(6)[:4], np.zeros((4, 3))
    V[np.arange(4), [0, 1, 2, 0]] = 1.0  # the cluster of each neuron, and its class
    np.savez(tmp_path / "own.npz", W=W, V=V, b=np.zeros(4), activation="relu")
    assert (read_head(tmp_path / "own.npz", data).order == np.arange(3)).all()  # scores without names
    task = data.task
    names = np.array(["no", "yes", "so"])  # as the neurons count them; the file has them sorted
    wanted = names[np.array([0, 1, 2, 0])[(task.x_test @ W.T).argmax(axis=1)]]
    np.savez(tmp_path / "own.npz", W=W, V=V, b=np.zeros(4), activation="relu", classes=names)
    head = read_head(tmp_path / "own.npz", data)
    found = data.classes[head.predict(task.x_test)]
    assert (found == wanted).all()
    right = np.nonzero(head.predict(task.x_test) == task.y_test)[0][:3]
    bracket = head.robust_radius(task.x_test[right], task.y_test[right])
    assert bool((bracket.certified > 0).all())
    W_seen, _, owner = head.neurons()
    assert (data.classes[owner.numpy()] == names[[0, 1, 2, 0]]).all()
    assert W_seen.shape == (4, 6)
    np.savez(
        tmp_path / "own.npz", W=W, V=V, b=np.zeros(4), activation="relu", classes=np.array(["a", "b", "c"])
    )
    with pytest.raises(ValueError, match="knows the classes"):
        read_head(tmp_path / "own.npz", data)


def test_stages_that_run_elsewhere_are_seen_and_counted_by_their_cost(tmp_path):
    told = []
    watch = StageProgress({"a": 1.0, "b": 3.0}, lambda name: tmp_path / name, lambda *args: told.append(args))
    watch.refresh()
    noted(tmp_path / "b", lambda _: None)(0.5)  # as a worker would
    watch.refresh()
    watch.end(["a"])
    watch.refresh()
    assert told == [
        (0.0, "0 of 2 stages"),
        (0.375, "0 of 2 stages; b 50%"),
        (0.625, "1 of 2 stages; b 50%"),
    ]
