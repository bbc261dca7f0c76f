import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.models import read_model
from featureprism.models.reading import onnx_operators
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet
from featureprism.networks import PowerReLU, TwoLayerNet, load_net

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

DIM = 4
POINTS = np.random.default_rng(3).normal(size=(30, DIM)).astype(np.float32)
DRAW = np.random.default_rng(4)
W1, B1 = DRAW.normal(size=(DIM, 5)).astype(np.float32), DRAW.normal(size=(1, 5)).astype(np.float32)
W2, B2 = DRAW.normal(size=(5, 3)).astype(np.float32), DRAW.normal(size=(1, 3)).astype(np.float32)
W3, B3 = DRAW.normal(size=(5, 1)).astype(np.float32), DRAW.normal(size=(1, 1)).astype(np.float32)


def write(path, nodes, outputs, constants, *, shape=("n", DIM), kind=TensorProto.FLOAT):
    """An ONNX file of nodes (operator, inputs, outputs, attributes)."""
    made = [
        helper.make_node(op, ins, outs, domain="ai.onnx.ml" if op in ML else "", **attributes)
        for op, ins, outs, attributes in nodes
    ]
    initial = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        initial,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


ML = ("LinearClassifier", "Normalizer", "ZipMap", "ArrayFeatureExtractor", "Scaler")


def perceptron(activation, last, classes):
    """A scikit-learn perceptron of three classes as skl2onnx writes it."""
    nodes = [
        ("Cast", ["x"], ["cast"], {"to": 1}),
        ("MatMul", ["cast", "W1"], ["m1"], {}),
        ("Add", ["m1", "B1"], ["a1"], {}),
        (activation, ["a1"], ["h"], {}),
        ("MatMul", ["h", "W2"], ["m2"], {}),
        ("Add", ["m2", "B2"], ["scores"], {}),
        (last, ["scores"], ["probabilities"], {}),
        ("ArgMax", ["probabilities"], ["position"], {"axis": 1}),
        ("ArrayFeatureExtractor", ["classes", "position"], ["found"], {}),
        ("Reshape", ["found", "flat"], ["label"], {}),
    ]
    constants = {"W1": W1, "B1": B1, "W2": W2, "B2": B2, "classes": np.array(classes), "flat": np.array([-1])}
    return nodes, ["label", "probabilities"], constants


def two_classes(complement):
    """A single score, its sigmoid or itself, and what is left to the other class."""
    last = (
        [("Sigmoid", ["score"], ["p"], {}), ("Sub", ["one", "p"], ["q"], {})]
        if complement
        else [("Mul", ["score", "minus"], ["q"], {}), ("Identity", ["score"], ["p"], {})]
    )
    nodes = [
        ("MatMul", ["x", "W1"], ["m1"], {}),
        ("Add", ["m1", "B1"], ["a1"], {}),
        ("Relu", ["a1"], ["h"], {}),
        ("MatMul", ["h", "W3"], ["m3"], {}),
        ("Add", ["m3", "B3"], ["score"], {}),
        *last,
        ("Concat", ["q", "p"], ["probabilities"], {"axis": 1}),
        ("ArgMax", ["probabilities"], ["position"], {"axis": 1, "keepdims": 1}),
        ("ArrayFeatureExtractor", ["classes", "position"], ["found"], {}),
        ("Reshape", ["found", "flat"], ["shaped"], {}),
        ("Cast", ["shaped"], ["label"], {"to": 7}),
    ]
    constants = {"W1": W1, "B1": B1, "W3": W3, "B3": B3, "classes": np.array([-1, 1], np.int32)}
    return (
        nodes,
        ["label", "probabilities"],
        constants | {"flat": np.array([-1]), "one": np.float32(1), "minus": np.float32(-1)},
    )


def pipeline():
    """Scaler, whitened PCA, linear classifier with its labels."""
    nodes = [
        ("Scaler", ["x"], ["z"], {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [1.0, 0.5, 2.0, 3.0]}),
        ("Sqrt", ["variance"], ["spread"], {}),
        ("Sub", ["z", "mean"], ["centred"], {}),
        ("MatMul", ["centred", "W1"], ["projected"], {}),
        ("Div", ["projected", "spread"], ["white"], {}),
        (
            "LinearClassifier",
            ["white"],
            ["raw_label", "raw"],
            {
                "classlabels_strings": ["cat", "dog", "eel"],
                "coefficients": W2.T.ravel().tolist(),
                "intercepts": B2.ravel().tolist(),
                "multi_class": 1,
                "post_transform": "SOFTMAX",
            },
        ),
        ("Identity", ["raw_label"], ["label"], {}),
        ("Normalizer", ["raw"], ["probabilities"], {"norm": "L1"}),
    ]
    constants = {"variance": np.abs(B1.ravel()) + 0.1, "mean": np.float32([1, 0, -1, 2]), "W1": W1}
    return nodes, ["label", "probabilities"], constants


def ranges():
    """MinMaxScaler, and a linear machine of two classes whose second score alone is given out."""
    nodes = [
        ("Mul", ["x", "factor"], ["m"], {}),
        ("Add", ["m", "offset"], ["z"], {}),
        (
            "LinearClassifier",
            ["z"],
            ["label", "raw"],
            {
                "classlabels_ints": [0, 1],
                "coefficients": np.concatenate([-W1[:, 0], W1[:, 0]]).tolist(),
                "intercepts": [-0.3, 0.3],
                "post_transform": "NONE",
            },
        ),
        ("ArrayFeatureExtractor", ["raw", "second"], ["probabilities"], {}),
    ]
    constants = {"factor": np.float32([1, 2, 3, 4]), "offset": np.float32([0, 1, 0, 1])}
    return nodes, ["label", "probabilities"], constants | {"second": np.array(1)}


GRAPHS = {
    "relu": (lambda: perceptron("Relu", "Softmax", ["cat", "dog", "eel"]), ScoreNet, ["cat", "dog", "eel"]),
    "tanh": (lambda: perceptron("Tanh", "LogSoftmax", [3, 5, 8]), ScoreNet, [3, 5, 8]),
    "sigmoid": (lambda: perceptron("Sigmoid", "Softmax", [3, 5, 8]), ScoreNet, [3, 5, 8]),
    "identity": (lambda: perceptron("Identity", "Softmax", [3, 5, 8]), LinearScores, [3, 5, 8]),
    "two classes": (lambda: two_classes(True), ScoreNet, [-1, 1]),
    "two signs": (lambda: two_classes(False), ScoreNet, [-1, 1]),
    "pipeline": (pipeline, LinearScores, ["cat", "dog", "eel"]),
    "ranges": (ranges, LinearScores, [0, 1]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_files_as_skl2onnx_writes_them_give_their_labels(name, tmp_path):
    make, kind, classes = GRAPHS[name]
    path = write(tmp_path / "model.onnx", *make())
    found = read_model(path, probe=POINTS)
    assert isinstance(found.net, kind)
    assert found.classes.tolist() == classes
    session = ort.InferenceSession(str(path))
    label, second = session.run(["label", "probabilities"], {"x": POINTS})
    scores = found.net(torch.as_tensor(POINTS).double())
    assert scores.argmax(dim=1).tolist() == found.indices(label).tolist()
    if name in ("relu", "sigmoid", "identity", "pipeline"):
        np.testing.assert_allclose(scores.softmax(dim=1).numpy(), second, atol=1e-5)


def test_classes_that_only_count_are_named(tmp_path):
    path = write(tmp_path / "model.onnx", *perceptron("Relu", "Softmax", [0, 1, 2]))
    assert read_model(path, ["cat", "dog", "eel"]).classes.tolist() == ["cat", "dog", "eel"]


@pytest.mark.parametrize("name", ["relu", "two classes", "pipeline", "ranges"])
def test_a_file_that_was_misread_is_refused(name, tmp_path, monkeypatch):
    path = write(tmp_path / "model.onnx", *GRAPHS[name][0]())
    for op in ("Add", "Scaler"):
        monkeypatch.setitem(onnx_operators.OPERATORS, op, lambda x, *_, **__: x)
    with pytest.raises(ValueError, match="not read rightly"):
        read_model(path, probe=POINTS)


class Handwritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b = nn.BatchNorm1d(DIM), nn.Linear(DIM, 5, bias=False), nn.Linear(5, 1)

    def forward(self, x):
        return self.b(torch.tanh(self.a(self.norm(x.view(x.size(0), -1))))).squeeze(-1)


MODULES = {
    "linear": lambda: nn.Linear(DIM, 3),
    "one layer": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(DIM, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)
    ),
    "two layers": lambda: nn.Sequential(
        nn.Linear(DIM, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)
    ),
    "by hand": Handwritten,
}


def exported(module, path, *, dynamo, x=None):
    x = torch.as_tensor(POINTS) if x is None else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is called old
        options = {} if dynamo else {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
        torch.onnx.export(module.eval(), (x,), str(path), dynamo=dynamo, **options)
    return path


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_files_as_torch_writes_them_give_its_outputs(name, dynamo, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module = MODULES[name]()
    path = exported(module, tmp_path / "model.onnx", dynamo=dynamo)
    found = read_model(str(path), probe=POINTS)
    session = ort.InferenceSession(str(path))
    (own,) = session.run(None, {session.get_inputs()[0].name: POINTS})
    scores = found.net(torch.as_tensor(POINTS).double()).numpy()
    read = scores[:, 1] - scores[:, 0] if own.ndim == 1 else scores
    np.testing.assert_allclose(read, own, atol=1e-5)
    torch.testing.assert_close(
        torch.as_tensor(scores),
        read_model(module).net(torch.as_tensor(POINTS).double()),
        atol=1e-6,
        rtol=1e-6,
    )


def test_images_in_an_onnx_file(tmp_path):
    torch.manual_seed(0)
    images = torch.as_tensor(POINTS).reshape(-1, 1, 2, 2)
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)
    )
    path = exported(module, tmp_path / "model.onnx", dynamo=False, x=images)
    found = read_model(path, probe=images)
    assert isinstance(found.net, LayeredScores)
    torch.testing.assert_close(
        found.net(torch.as_tensor(POINTS).double()).float(), module(images).detach(), atol=1e-5, rtol=1e-5
    )


def fitted(head):
    X = np.asarray(POINTS, dtype=np.float64)
    return head.fit(X, np.array(["cat", "dog", "eel"])[np.abs(X).argmax(axis=1) % 3]), X


@pytest.mark.parametrize("head", [PReLUHead(p=3.0, random_state=0), DecoupledHead(random_state=0)], ids=str)
def test_our_heads_travel_by_both_files(head, tmp_path):
    head, X = fitted(head)
    head.save(tmp_path / "head.npz")
    head.to_onnx(tmp_path / "head.onnx")
    own = head.decision_function(X)
    for path, close, classes in (("head.npz", 1e-12, ["cat", "dog", "eel"]), ("head.onnx", 1e-4, None)):
        found = read_model(tmp_path / path, probe=X)
        scores = found.net(torch.as_tensor(X)).numpy()
        np.testing.assert_allclose(scores, own, rtol=close, atol=close * np.abs(own).max())
        assert classes == (found.classes if classes is None else found.classes.tolist())


def test_skl2onnx_itself(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
    from sklearn.svm import LinearSVC

    scaled = make_pipeline(
        StandardScaler(), PCA(3, whiten=True), MLPClassifier((5,), max_iter=20, random_state=0)
    )
    models = [
        *(MLPClassifier((5, 4), activation=a, max_iter=20) for a in ("relu", "tanh", "logistic", "identity")),
        *(LogisticRegression(), LinearSVC(), RidgeClassifier(), Perceptron(), SGDClassifier(), scaled),
        make_pipeline(MinMaxScaler(), LogisticRegression()),
        make_pipeline(MaxAbsScaler(), RidgeClassifier()),
    ]
    for labels in (["cat", "dog", "eel"], [0, 1], [-1, 1]):
        y = np.array(labels)[np.abs(POINTS).argmax(axis=1) % len(labels)]
        for model in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(POINTS, y)
                try:
                    written = skl2onnx.to_onnx(model, POINTS[:1])
                except NameError:  # LinearSVC and RidgeClassifier at the end of a pipeline
                    continue
            (tmp_path / "m.onnx").write_bytes(written.SerializeToString())
            found = read_model(tmp_path / "m.onnx", probe=POINTS)
            own = read_model(model, probe=POINTS)
            one, other = (f.net(torch.as_tensor(POINTS).double()) for f in (found, own))
            one, other = (t - t[:, :1] for t in (one, other))
            factor = 1 if len(labels) > 2 else one[:, 1:] / other[:, 1:]  # some write f as (-f, f)
            torch.testing.assert_close(one, other * factor, atol=1e-3, rtol=1e-3)
            assert len(labels) > 2 or bool((((factor - 1).abs() < 1e-3) | ((factor - 2).abs() < 1e-3)).all())
            assert found.classes.tolist() == own.classes.tolist()


def test_all_routes_lead_to_the_same_network(tmp_path):
    from sklearn.neural_network import MLPClassifier

    y = np.abs(POINTS).argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((6,), max_iter=5, random_state=0).fit(POINTS.astype(np.float64), y)
    model.coefs_ = [
        W.astype(np.float32).astype(np.float64) for W in model.coefs_
    ]  # as the other files keep them
    model.intercepts_ = [b.astype(np.float32).astype(np.float64) for b in model.intercepts_]
    module = nn.Sequential(nn.Linear(DIM, 6), nn.ReLU(), nn.Linear(6, 4))
    for layer, W, b in zip(module[::2], model.coefs_, model.intercepts_, strict=True):
        layer.weight.data, layer.bias.data = torch.as_tensor(W.T).float(), torch.as_tensor(b).float()
    saved(
        tmp_path / "net.npz",
        W=model.coefs_[0].T,
        b=model.intercepts_[0],
        V=model.coefs_[1],
        c=model.intercepts_[1],
    )
    exported(module, tmp_path / "net.onnx", dynamo=False)
    first, *others = (
        read_model(m, probe=POINTS).net for m in (model, module, tmp_path / "net.npz", tmp_path / "net.onnx")
    )
    for net in others:
        for name, weights in first.state_dict().items():
            assert torch.equal(net.state_dict()[name], weights)


def simple(*nodes, outputs=("y",), constants=None, **options):
    return lambda path: write(path, list(nodes), list(outputs), constants or {"W": W1}, **options)


BAD_GRAPHS = {
    "operator": (simple(("MatMul", ["x", "W"], ["m"], {}), ("Erf", ["m"], ["y"], {})), "Erf"),
    "operator on the input": (simple(("Exp", ["x"], ["e"], {}), ("MatMul", ["e", "W"], ["y"], {})), "Exp"),
    "softmax inside": (simple(("Softmax", ["x"], ["h"], {}), ("MatMul", ["h", "W"], ["y"], {})), "Softmax"),
    "over points": (simple(("MatMul", ["x", "W"], ["m"], {}), ("Softmax", ["m"], ["y"], {"axis": 0})), "classes"),
    "two scores": (simple(("MatMul", ["x", "W"], ["y"], {}), ("Relu", ["y"], ["z"], {}), outputs=("y", "z")), "different"),
    "rounded": (simple(("Cast", ["x"], ["i"], {"to": 7}), ("MatMul", ["i", "W"], ["y"], {})), "rounds"),
    "sizes": (simple(("MatMul", ["x", "W"], ["m"], {}), ("MatMul", ["m", "W"], ["y"], {})), "follows"),
    "no points": (simple(("Identity", ["W"], ["y"], {})), "depends"),
    "joined points": (simple(("Flatten", ["x"], ["m"], {"axis": 0}), ("MatMul", ["m", "W"], ["y"], {})), "joins points"),
    "normalised points": (simple(("Normalizer", ["x"], ["m"], {"norm": "L2"}), ("MatMul", ["m", "W"], ["y"], {})), "norm"),
    "text": (lambda path: path.write_text("hello, this is no model"), "no ONNX file"),
    "empty": (lambda path: path.write_bytes(b""), "no ONNX file"),
    "missing": (lambda _path: None, "No such file"),
    "folder": (lambda path: path.mkdir(), "Cannot read"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_a_graph_that_cannot_be_read_says_what_is_not_known(name, tmp_path):
    make, told = BAD_GRAPHS[name]
    make(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=told) as caught:
        read_model(tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_a_file_that_was_cut_short_is_refused(share, tmp_path):
    path = write(tmp_path / "model.onnx", *perceptron("Relu", "Softmax", [3, 5, 8]))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"model\.onnx"):
        read_model(path)


def test_without_the_package_one_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    path = write(tmp_path / "model.onnx", *perceptron("Relu", "Softmax", [3, 5, 8]))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'featureprism\[onnx\]'"):
        read_model(path)


def arrays(**changes):
    draw = np.random.default_rng(0)
    made = {"W": draw.normal(size=(5, DIM)), "b": draw.normal(size=5), "activation": np.array("relu")}
    return {key: value for key, value in (made | changes).items() if value is not None}


def saved(path, **changes):
    np.savez(path, **arrays(**changes))
    return path


V, A = np.random.default_rng(1).normal(size=(5, 3)), np.random.default_rng(2).normal(size=5)


@pytest.mark.parametrize("activation", ["relu", "prelu", "polynomial", "tanh"])
def test_networks_of_many_classes_as_arrays(activation, tmp_path):
    p = 3.0 if activation in ("prelu", "polynomial") else None
    path = saved(
        tmp_path / "net.npz",
        V=V,
        c=np.arange(3.0),
        activation=np.array(activation),
        p=p,
        classes=np.array(["a", "b", "c"]),
    )
    found = read_model(path)
    x = torch.as_tensor(POINTS).double()
    scores = found.net(x)
    assert found.classes.tolist() == ["a", "b", "c"]
    for j in range(3):
        saved(tmp_path / "one.npz", a=V[:, j], activation=np.array(activation), p=p)
        torch.testing.assert_close(scores[:, j], load_net(tmp_path / "one.npz")(x).detach() + j)


@pytest.mark.parametrize("c", [None, np.array(0.5), np.array([0.5]), np.array([1.0, 1.5])], ids=str)
def test_networks_of_two_classes_as_arrays(c, tmp_path):
    path = saved(tmp_path / "net.npz", a=A, c=c)
    x = torch.as_tensor(POINTS).double()
    found = read_model(path).scores(x)
    torch.testing.assert_close(
        found[:, 1] - found[:, 0], load_net(path)(x).detach() + (0 if c is None else 0.5)
    )
    assert read_model(path).classes is None


@pytest.mark.parametrize("c", [None, np.arange(5.0)], ids=str)
def test_linear_models_as_arrays(c, tmp_path):
    path = tmp_path / "net.npz"
    np.savez(path, V=arrays()["W"], activation=np.array("linear"), **({} if c is None else {"c": c}))
    scores = read_model(path, probe=POINTS).net(torch.as_tensor(POINTS).double()).numpy()
    np.testing.assert_allclose(scores, POINTS @ arrays()["W"].T + (0 if c is None else c), atol=1e-12)


@pytest.mark.parametrize(
    "module", [nn.Linear(DIM, 3), nn.Sequential(nn.Linear(DIM, 5), nn.Tanh(), nn.Linear(5, 3))]
)
def test_what_was_read_is_saved_and_read_again(module, tmp_path):
    found = read_model(module, ["a", "b", "c"])
    assert found.save(tmp_path / "model.npz")
    again = read_model(tmp_path / "model.npz")
    assert again.classes.tolist() == ["a", "b", "c"]
    for name, weights in found.net.state_dict().items():
        assert torch.equal(again.net.state_dict()[name], weights)


def test_a_zero_neuron_of_a_prelu_network_is_silent(tmp_path):
    W = arrays()["W"] * np.array([1, 1, 0, 1, 1])[:, None]
    activation = {"activation": np.array("prelu"), "p": 2.0}
    net = read_model(saved(tmp_path / "net.npz", W=W, V=V, **activation)).net
    x = torch.as_tensor(POINTS).double()
    own = TwoLayerNet(net.W, net.V[:, 0], net.b, activation=PowerReLU(2.0))(x)
    torch.testing.assert_close(net(x)[:, 0], own)
    saved(tmp_path / "one.npz", W=W, a=V[:, 0], **activation)
    torch.testing.assert_close(load_net(tmp_path / "one.npz")(x).detach(), own)


BAD_ARRAYS = {
    "no votes": ({}, "lacks a"),
    "both votes": ({"a": A, "V": V}, "both a and V"),
    "V of other neurons": ({"V": V[:4]}, "4 neurons"),
    "V flat": ({"V": A}, r"V \(h, k\)"),
    "one class": ({"V": V[:, :1]}, "k ≥ 2"),
    "c of other classes": ({"V": V, "c": np.ones(2)}, r"c as a float64 array \(3,\)"),
    "c of two": ({"a": A, "c": np.ones(3)}, "one number"),
    "NaN": ({"V": V * np.nan}, "usual numbers"),
    "complex": ({"V": V + 1j}, "complex"),
    "activation": ({"V": V, "activation": np.array("elu")}, "elu"),
    "no activation": ({"V": V, "activation": None}, "lacks activation"),
    "power": ({"V": V, "activation": np.array("prelu")}, "needs p\\."),
    "classes": ({"V": V, "classes": np.array(["a", "b"])}, "3 scores"),
    "classes twice": ({"V": V, "classes": np.array(["a", "b", "b"])}, "once"),
    "linear with neurons": ({"V": V, "activation": np.array("linear")}, "V .k, d. and c .k,. only"),
    "linear without V": ({"activation": np.array("linear")}, "V .k, d."),
    "owner": ({"owner": np.full(5, 7), "votes": A**2, "classes": np.arange(3), "p": 2.0}, "owner"),
    "head without p": ({"owner": np.zeros(5, int), "votes": A**2, "classes": np.arange(3)}, "needs p\\."),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_make_no_network_are_refused(name, tmp_path):
    changes, told = BAD_ARRAYS[name]
    with pytest.raises(ValueError, match=told) as caught:
        read_model(saved(tmp_path / "net.npz", **changes))
    assert "\n" not in str(caught.value)
