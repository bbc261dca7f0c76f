"""What is saved or exported gives the same answers."""

import builtins

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs

from featureprism.heads import DecoupledHead, PReLUHead, load_head
from featureprism.networks import load_net


@pytest.mark.parametrize("centers", [2, 3])
@pytest.mark.parametrize("head", [PReLUHead(width=4, random_state=0), DecoupledHead(p=2.5, random_state=0)])
def test_a_saved_head_comes_back(head, centers, tmp_path):
    X, y = make_blobs(60, n_features=4, centers=centers, random_state=0)
    names = np.array(["ant", "bee", "cat"])[y]
    head.fit(X, names).save(tmp_path / "head.npz")
    back = load_head(tmp_path / "head.npz")
    assert type(back) is type(head)
    np.testing.assert_array_equal(back.decision_function(X), head.decision_function(X))
    np.testing.assert_array_equal(back.predict(X), head.predict(X))
    assert back.get_params()["p"] == head.p
    if centers == 2:
        net = load_net(tmp_path / "head.npz")
        with torch.no_grad():
            np.testing.assert_allclose(net(torch.as_tensor(X)).numpy(), head.decision_function(X), rtol=1e-9)
    else:
        with pytest.raises(ValueError, match="lacks a"):
            load_net(tmp_path / "head.npz")


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", W=np.ones(3))
    with pytest.raises(ValueError, match="not a saved head"):
        load_head(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="Cannot read"):
        load_head(tmp_path / "nothing.npz")


def test_onnx_and_torch_give_the_same_scores(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y = make_blobs(60, n_features=4, centers=3, random_state=0)
    head = PReLUHead(width=4, random_state=0).fit(X, y)
    head.to_onnx(tmp_path / "head.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "head.onnx")
    label, proba, scores = session.run(None, {"x": X.astype(np.float32)})
    np.testing.assert_array_equal(head.classes_[label], head.predict(X))
    np.testing.assert_allclose(proba, head.predict_proba(X), atol=1e-4)
    with torch.no_grad():
        np.testing.assert_allclose(scores, head.to_torch()(torch.as_tensor(X)).numpy(), rtol=1e-3, atol=1e-4)


def test_a_missing_onnx_package_is_a_sentence(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("onnx"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    head = PReLUHead(width=2, random_state=0).fit(np.eye(4), np.arange(4) % 2)
    with pytest.raises(ValueError, match=r"pip install 'featureprism\[onnx\]'"):
        head.to_onnx(tmp_path / "head.onnx")


LABELS = {
    "objects": np.array(["ant", "bee", "cat"], dtype=object),
    "strings": pd.array(["ant", "bee", "cat"], dtype="string"),
    "categories": pd.Categorical(["ant", "bee", "cat"]),
    "bools": np.array([False, True, True]),
    "floats": np.array([-1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_every_kind_survive(labels, tmp_path):
    X, y = make_blobs(60, n_features=4, centers=3, cluster_std=0.3, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b", "ç", "d"])
    head = PReLUHead(width=4, random_state=0).fit(frame, pd.Series(labels[y]))
    head.save(tmp_path / "head.npz")
    back = load_head(tmp_path / "head.npz")
    assert back.classes_.dtype == head.classes_.dtype
    np.testing.assert_array_equal(back.predict(frame), head.predict(frame))
    np.testing.assert_array_equal(back.feature_names_in_, frame.columns)
    first = frame[:1], pd.Series(labels[y[:1]])
    torch.testing.assert_close(back.robust_radius(*first).attacked, head.robust_radius(*first).attacked)
    with pytest.raises(ValueError, match="feature names"):
        back.predict(frame.rename(columns={"a": "z"}))


def test_parameters_come_back_as_they_were(tmp_path):
    X, y = make_blobs(40, n_features=4, centers=2, random_state=0)
    weights = {0: 2.0, 1: np.float64(0.5)}
    head = PReLUHead(class_weight=weights, random_state=7).set_params(width=np.int64(3)).fit(X, y)
    head.save(tmp_path / "head.npz")
    back = load_head(tmp_path / "head.npz")
    assert back.get_params() == {**head.get_params(), "width": 3}
    np.testing.assert_array_equal(back.fit(X, y).decision_function(X), head.decision_function(X))
    generator = np.random.RandomState(3)
    head.set_params(random_state=generator).fit(X, y).save(tmp_path / "head.npz")
    assert load_head(tmp_path / "head.npz").random_state.randint(10**6) == generator.randint(10**6)


@pytest.mark.parametrize("write", ["save", "to_onnx"])
def test_a_write_that_fails_leaves_the_old_file(write, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    X, y = make_blobs(40, n_features=4, centers=2, random_state=0)
    head = PReLUHead(width=3, random_state=0).fit(X, y)
    getattr(head, write)(tmp_path / "head")
    before = (tmp_path / "head").read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        getattr(head.set_params(width=5).fit(X, y), write)(tmp_path / "head")
    assert (tmp_path / "head").read_bytes() == before


def test_labels_that_only_a_pickle_could_hold_are_refused(tmp_path):
    head = PReLUHead(width=3, random_state=0).fit(np.eye(4), np.arange(4) % 2)
    head.classes_ = np.array([(1, 2), None], dtype=object)
    with pytest.raises(ValueError, match="without pickling"):
        head.save(tmp_path / "head.npz")
