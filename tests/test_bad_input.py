"""Every bad input gets one clear sentence: exit code 2 at the command line, ValueError in Python; what is measured stays."""

import contextlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import requests
import torch

from featureprism import cli
from featureprism._inputs import check_points
from featureprism.checker.arrays import read_arrays
from featureprism.data.images import fetch_images, load_images
from featureprism.heads import load_head
from featureprism.heads.files import save_arrays
from featureprism.heads.network import HeadNet
from featureprism.lab import Store
from featureprism.lab.unit import Unit
from featureprism.lab.work import Ending
from featureprism.models import read_model
from featureprism.models.read import load_points
from featureprism.networks import ReLU, Tanh, TwoLayerNet, load_net
from featureprism.probes import kkt_audit
from featureprism.verify import Budget, Query, robust_radius
from featureprism.verify.batches import bracket_in_batches

NET = {"W": np.eye(3), "a": np.array([1.0, 1.0, -1.0]), "activation": np.array("relu")}
POINTS = {"x": np.eye(3), "y": np.array([1.0, 1.0, -1.0])}
UNIT = np.eye(4)[np.arange(80) % 4]
EMBEDDINGS = {"x_train": UNIT, "y_train": np.arange(80) % 2, "x_test": UNIT, "y_test": np.arange(80) % 2}
COMMANDS = {
    "radius": ["radius", "net.npz", "data.npz", "--out", "radii"],
    "kkt": ["kkt", "net.npz", "data.npz"],
    "audit": ["audit", "embeddings.npz", "--out", "audited"],
    "audit --head": ["audit", "embeddings.npz", "--head", "net.npz", "--out", "audited"],
    "report": ["report", "runs"],
    "rows": ["rows", "swept"],
    "phase": ["phase", "swept", "--x", "a", "--y", "n", "--value", "value"],
}


def save(path, arrays):
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with good files, to be spoilt one by one."""
    monkeypatch.chdir(tmp_path)
    save("net.npz", NET)
    save("data.npz", POINTS)
    save("embeddings.npz", EMBEDDINGS)
    return tmp_path


def refused(capsys, arguments, *said):
    """The command ends with 2 and one sentence that says all of this."""
    assert cli.main(arguments) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    sentences = [line for line in told.splitlines() if line.startswith("featureprism: ")]
    assert sentences == told.splitlines()[-1:]
    for words in said:
        assert words in sentences[0]


# --- files that are no .npz files ----------------------------------------------------------------------------------------------


def flip_a_number(path):
    """A byte of the first array, so that its sum is wrong."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"\x93NUMPY") + 130] ^= 1
    path.write_bytes(raw)


def as_npy(path):
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def with_a_stranger(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"what torch.save leaves")


def as_folder(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "missing": (lambda path: path.unlink(), "No such file"),
    "a folder": (as_folder, "Is a directory"),
    "zero bytes": (lambda path: path.write_bytes(b""), "it is empty"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-40]), "cut short or damaged"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[:200]), "cut short or damaged"),
    "bad CRC": (flip_a_number, "Bad CRC-32"),
    ".npy": (as_npy, "a single .npy array"),
    "text": (lambda path: path.write_text("x,y\n1,2\n"), "a text file"),
    "ONNX": (lambda path: path.write_bytes(b"\x08\x07\x12\x07pytorch\x1a\x05"), "an ONNX model"),
    "pickle": (lambda path: path.write_bytes(b"\x80\x04\x95\x00"), "a pickle"),
    "objects": (lambda path: np.savez(path, x=np.array([{}, None], dtype=object)), "Python objects"),
    "torch": (with_a_stranger, "archive/data.pkl"),
}
READERS = [
    ("radius", "net.npz"),
    ("radius", "data.npz"),
    ("kkt", "data.npz"),
    ("audit", "embeddings.npz"),
    ("audit --head", "net.npz"),
]


@pytest.mark.parametrize(("command", "file"), READERS, ids=map(" ".join, READERS))
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_no_npz_file_is_named(command, file, damage, folder, capsys):
    spoil, said = DAMAGES[damage]
    spoil(folder / file)
    refused(capsys, COMMANDS[command], f"Cannot read {file}", said)
    assert "allow_pickle" not in capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGES)
def test_python_says_the_same(damage, folder):
    spoil, said = DAMAGES[damage]
    spoil(folder / "net.npz")
    (folder / "net.npz").rename(folder / "mnist.npz") if damage != "missing" else None
    with pytest.raises(ValueError, match=said):
        load_head("mnist.npz")
    if damage not in ("missing", "a folder"):  # then there is nothing that stands for MNIST
        with pytest.raises(ValueError, match=said):
            load_images("mnist", folder)


def test_whatever_happens_to_its_bytes_a_file_is_read_or_refused(folder):
    whole, chance = (folder / "net.npz").read_bytes(), random.Random(0)
    for _ in range(300):
        raw = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8))):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        (folder / "net.npz").write_bytes(raw[: chance.choice((len(raw), chance.randrange(len(raw))))])
        with contextlib.suppress(ValueError):
            load_net(folder / "net.npz")


# --- networks, points and embeddings -------------------------------------------------------------------------------------------


def ten_class_head(path):
    net = HeadNet(torch.ones(10, 3), torch.zeros(10), torch.ones(10), torch.arange(10), 10, 1.0)
    save_arrays(path, net, np.arange(10), "PReLUHead", {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"activation": np.array("prelu"), "p": np.array(0)}, "at least 1, got 0"),
        ({"activation": np.array("prelu"), "p": np.array(np.inf)}, "finite"),
        ({"activation": np.array("polynomial"), "p": np.array(np.nan)}, "got nan"),
        ({"activation": np.array("polynomial"), "p": np.ones(2)}, "p must be one number"),
        (
            {"activation": np.array("polynomial"), "p": np.array("three")},
            "p must hold real numbers, got words",
        ),
        ({"activation": np.array("polynomial")}, "needs p"),
        ({"activation": np.array("gelu")}, "Unknown activation 'gelu'"),
        ({"p": np.array(3)}, "'relu' has no power, got p = 3"),
        ({"activation": np.array("tanh"), "p": np.array(2)}, "'tanh' has no power"),
        ({"W": np.eye(3) * 1j}, "W must hold real numbers, got complex numbers"),
        ({"a": np.array(["x", "y", "z"])}, "a must hold real numbers, got words"),
        ({"W": np.zeros((0, 3)), "a": np.zeros(0)}, "at least one neuron"),
        ({"W": np.zeros((3, 0))}, "at least one neuron and dimension"),
        ({"W": np.ones((2, 3, 3)), "a": np.ones((2, 3))}, "W must have the shape (h, d)"),
        ({"W": np.eye(3) * 1e300}, "overflow"),
        ({"W": np.eye(3) * np.nan}, "NaN"),
        ({"a": np.ones(2)}, "Need W (h, d) and a (h,)"),
        ({"b": np.ones(2)}, "b must have the shape"),
        ({"a": None}, "lacks a"),
    ],
)
def test_a_network_that_is_none_is_refused(changes, said, capsys):
    save("net.npz", NET | changes)
    for command in ("radius", "kkt", "audit --head"):
        refused(capsys, COMMANDS[command], "net.npz", said)


def test_a_head_of_ten_classes_is_sent_where_it_belongs(folder, capsys):
    ten_class_head(folder / "net.npz")
    refused(capsys, COMMANDS["kkt"], "net.npz is a saved head of 10 classes", "featureprism audit")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"W": np.ones((10, 0))}, "Need W"),
        ({"b": np.zeros(3)}, "Need W"),
        ({"votes": np.full(10, np.nan)}, "votes must hold finite"),
        ({"W": np.ones((10, 3)) * 1j}, "W must hold finite floating-point numbers, got complex128"),
        ({"owner": np.full(10, 10)}, "owner must name a class"),
        ({"p": np.array(0.5)}, "at least 1, got 0.5"),
        ({"kind": np.array("Hat")}, "Unknown kind 'Hat'"),
        ({"parameters": np.array("{")}, "Expecting"),
        ({"parameters": np.array("3")}, "JSON object"),
    ],
)
def test_a_head_that_is_none_is_refused(changes, said, folder):
    ten_class_head(folder / "head.npz")
    save("head.npz", read_arrays(folder / "head.npz") | changes)
    with pytest.raises(ValueError, match=said) as error:
        load_head("head.npz")
    assert "head.npz" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": np.eye(3) * 1j}, "x must hold real numbers, got complex numbers"),
        ({"x": np.full((3, 3), "a")}, "x must hold real numbers, got words"),
        ({"y": np.ones(2)}, "one label per point"),
        ({"x": np.zeros((0, 3)), "y": np.zeros(0)}, "at least 1 point, got 0"),
        ({"x": np.eye(3) * 1e300}, "overflow"),
        ({"x": np.full((3, 3), np.inf)}, "NaN or infinite"),
        ({"x": np.ones((3, 2))}, "dimension 2, the network takes 3"),
        ({"x": np.ones(3)}, "rows of shape (n, d)"),
        ({"y": None}, "lacks y"),
    ],
)
def test_points_that_are_none_are_refused(changes, said, capsys):
    save("data.npz", POINTS | changes)
    for command in ("radius", "kkt"):
        refused(capsys, COMMANDS[command], "data.npz", said)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["cat", "cat", "dog"], "y must hold real numbers, got words"),
        ([0, 1, 1], "Labels must be -1 or +1"),
        ([True, True, False], "Labels must be -1 or +1"),
    ],
)
def test_kkt_wants_signs(labels, said, capsys):
    save("data.npz", POINTS | {"y": np.array(labels)})
    refused(capsys, COMMANDS["kkt"], "data.npz", said)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["cat", "cat", "dog"], "Unknown labels cat, dog; the model's are 0 and 1, or -1 and +1"),
        ([-1, 0, 1], "both mean the first of two classes"),
        ([0.5, 1, 1], "Unknown labels 0.5"),
        ([np.nan, 1, 1], "missing values"),
    ],
)
def test_radius_wants_labels_that_the_model_knows(labels, said, capsys):
    save("data.npz", POINTS | {"y": np.array(labels)})
    refused(capsys, COMMANDS["radius"], "data.npz", said)


def test_other_numbers_are_as_good(folder):
    save("net.npz", NET | {"W": np.eye(3).astype(">f4"), "p": np.array([1])})
    save("data.npz", {"x": np.eye(3).astype(np.longdouble), "y": np.array([1, 1, -1], np.int8)})
    net = load_net(folder / "net.npz")
    x, y = load_points(folder / "data.npz", 3)
    assert (y * net(x)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x_test": np.eye(5)[np.arange(80) % 4]}, "dimension 4, the test points 5"),
        ({"x_train": UNIT * 1j}, "x_train must hold real numbers, got complex numbers"),
        ({"x_test": np.full((80, 4), "a")}, "x_test must hold real numbers, got words"),
        ({"x_train": UNIT * 1e300}, "overflow"),
        ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0)}, "at least one, got shape (0, 4)"),
        ({"x_train": np.array(1.0), "y_train": np.array(1)}, "need rows (n, d)"),
        ({"y_train": np.where(np.arange(80) % 2, 1.0, np.nan)}, "labels contain NaN"),
        ({"fine_train": np.arange(79)}, "one label (n,) for each"),
        ({name: value[:8] for name, value in EMBEDDINGS.items()}, "too few points"),
    ],
)
@pytest.mark.parametrize("scaling", [[], ["--normalise", "unit"]])
def test_embeddings_that_are_none_are_refused(changes, said, scaling, folder, capsys):
    save("embeddings.npz", EMBEDDINGS | changes)
    refused(capsys, [*COMMANDS["audit"], *scaling], "embeddings.npz", said)
    assert not (folder / "audited").exists()


def test_a_table_that_is_not_there_is_named(capsys):
    refused(
        capsys, ["radius", "net.npz", "gone.csv"], "Cannot read gone.csv: No such file or directory; a .csv"
    )


# --- options -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("radius", ["--seconds", "-1"], "seconds must be a number, 0 or more, got -1"),
        ("radius", ["--seconds", "nan"], "seconds must be a number, 0 or more, got nan"),
        ("radius", ["--gap", "nan"], "gap must lie between 0 and 1"),
        ("radius", ["--gap", "2"], "gap must lie between 0 and 1, got 2"),
        ("radius", ["--bounds", "1", "0"], "featureprism: data.npz: The domain must be a pair"),
        ("radius", ["--bounds", "0", "0.5"], "3 of 3 points lie outside the domain [0, 0.5]"),
        ("kkt", ["--most-points", "-3"], "--most-points must be 0 or more, got -3"),
        ("kkt", ["--tolerance", "nan"], "tolerance"),
        ("audit", ["--points", "0"], "--points must be at least 1"),
    ],
)
def test_an_option_out_of_range_is_named(command, options, said, capsys):
    refused(capsys, [*COMMANDS[command], *options], said)


def small_net(W=None, a=None, activation=None):
    W = torch.eye(3).double() if W is None else W
    return TwoLayerNet(W, torch.ones(len(W)).double() if a is None else a, activation=activation or ReLU())


X, Y = torch.eye(3).double(), torch.ones(3).double()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: robust_radius(small_net(), X, Y, lipschitz=-1),
            "lipschitz must be positive and finite, got -1",
        ),
        (
            lambda: robust_radius(small_net(activation=Tanh()), X, Y, lipschitz=0),
            "lipschitz must be positive",
        ),
        (
            lambda: robust_radius(small_net(), X, Y, max_radius=0),
            "max_radius must be positive and finite, got 0",
        ),
        (lambda: robust_radius(small_net(), X, Y, max_radius=float("nan")), "max_radius must be positive"),
        (lambda: Budget(branches=-3), "whole number, 0 or more, got -3"),
        (lambda: Budget(seconds=float("nan")), "0 or more, got nan"),
        (lambda: robust_radius(small_net(), X[:0], Y[:0]), "Points are empty"),
        (lambda: robust_radius(small_net(), X[:, :2], Y), "2 coordinates, the model takes 3"),
        (lambda: robust_radius(small_net(), X * 1e300, Y), "overflow"),
        (lambda: robust_radius(small_net(X * 1e200, Y * 1e200), X, Y), "numbers up to 1e"),
        (lambda: kkt_audit(small_net(X * 1e200, Y * 1e200), X, Y), "NaN or infinite values on 3 of 3"),
        (lambda: kkt_audit(small_net(), X[:0], Y[:0]), "at least 1 point"),
        (lambda: small_net(X * 1j), "W must hold real floating-point numbers, got torch.complex128"),
        (lambda: small_net(X.long()), "W must hold real floating-point numbers, got torch.int64"),
        (lambda: small_net(X[:0]), "at least one neuron"),
        (lambda: check_points(X * 1j), "Points must be real numbers"),
        (lambda: check_points(X, Y * 1j), "Labels must be -1 or"),
        (lambda: check_points(X, Y.bool() & False), "Labels must be -1 or"),
    ],
)
def test_python_refuses_what_nothing_could_be_said_of(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# --- what runs left behind -----------------------------------------------------------------------------------------------------

ABOUT = {
    "id": "toy/item",
    "source": "s",
    "title": "t",
    "about": "a",
    "scale": "quick",
    "seeds": [0],
    "settings": [{}],
    "seconds": 1.0,
    "premises": [],
    "attack": None,
    "featureprism": "0",
    "commit": None,
    "versions": {},
}


@pytest.mark.parametrize("file", ["run.json", "claims.json"])
@pytest.mark.parametrize(
    "content", [b"null", b"", b"{}", b"3", b'{"id": ', b"\xff\xfe", b"[1]", b"[{}]", b'[{"speaker": "ours"}]']
)
def test_a_damaged_result_is_named_and_the_page_stays(file, content, folder, capsys):
    item = folder / "runs" / "toy" / "item"
    item.mkdir(parents=True)
    (item / "run.json").write_text(json.dumps(ABOUT))
    (item / "claims.json").write_text("[]")
    assert cli.main(COMMANDS["report"]) == 0
    page = (folder / "runs" / "index.html").read_text()
    (item / file).write_bytes(content)
    capsys.readouterr()
    refused(capsys, COMMANDS["report"], f"runs/toy/item/{file} is damaged")
    assert (folder / "runs" / "index.html").read_text() == page


def store_of(folder, rows):
    """A store with one unit and these rows."""
    folder.mkdir(exist_ok=True)
    unit = Unit("w", len, {}, 0, {})
    with Store(folder, write=True) as store:
        store.plan([unit])
        store.record([(unit, Ending("done", tuple(rows)), 1, True)])


def test_damaged_pages_of_a_store_are_one_sentence(folder, capsys):
    store_of(folder / "swept", [json.dumps({"a": i, "n": 1, "value": 1.0}) for i in range(500)])
    file = folder / "swept" / "units.sqlite"
    raw = bytearray(file.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)  # all but the first page
    file.write_bytes(raw)
    refused(capsys, COMMANDS["rows"], "swept holds nothing")
    refused(capsys, COMMANDS["phase"], "swept holds nothing")
    assert file.read_bytes()[4096:] == raw[4096:]  # left for whoever wants to save something


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"a": 1.0, "n": 2, "value": float("nan")},
            "nothing to draw: value is NaN or infinite in all 1 rows",
        ),
        ({"a": None, "n": 2, "value": 1.0}, "No row has a, n and value together"),
        ({"a": float("nan"), "n": 2, "value": 1.0}, "No row has a, n and value together"),
    ],
)
def test_a_phase_of_nothing_is_not_drawn(row, said, folder, capsys):
    store_of(folder / "swept", [json.dumps(row)])
    refused(capsys, COMMANDS["phase"], said)


def test_truncated_witnesses_are_written_again_from_what_is_kept(folder, monkeypatch):
    net, (x, y) = load_net(folder / "net.npz"), load_points(folder / "data.npz", 3)
    own = (y > 0).long()
    bracket_in_batches(read_model(net), x, own, Query(), Budget(branches=50), folder / "radii")
    witnesses = folder / "radii" / "witnesses.npz"
    whole = witnesses.read_bytes()
    witnesses.write_bytes(whole[:100])
    with pytest.raises(ValueError, match=r"witnesses.npz: it is cut short or damaged"):
        read_arrays(witnesses)
    monkeypatch.setattr("featureprism.verify.batches.bracket_points", None)  # nothing is measured again
    bracket_in_batches(read_model(net), x, own, Query(), Budget(branches=50), folder / "radii")
    assert read_arrays(witnesses)["delta"].shape == (3, 3)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[limits]\nseconds = nan", b"[budget]\nseconds = inf", b"= 3"]
)
def test_a_spec_that_is_none_is_named(content, folder, capsys):
    (folder / "spec.toml").write_bytes(b'item = "gmm-flow/figure-2"\n' + content)
    refused(capsys, ["sweep", "spec.toml", "--out", "swept"], "spec.toml")


# --- no network, and terminals of few letters ----------------------------------------------------------------------------------


def test_fetching_without_a_network_says_what_to_do(capsys, monkeypatch):
    def retrieve(*_args, **_options):
        raise requests.exceptions.ConnectionError(
            "HTTPSConnectionPool(host='...'): Max retries exceeded\nwith url"
        )

    monkeypatch.setattr("pooch.retrieve", retrieve)
    refused(
        capsys, ["fetch", "mnist"], "Cannot fetch train-images-idx3-ubyte.gz", "is there a network?", "--data"
    )
    with pytest.raises(ValueError, match="is there a network"):
        fetch_images("cifar10")


def printed(arguments, encoding, monkeypatch):
    """What a command leaves on a stdout of this encoding."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert cli.main(arguments) == 0
        stream.flush()
    return stream.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_is_the_same_whatever_stdout_can_show(encoding, monkeypatch):
    arguments = ["claims", "gmm-flow", "--json"]
    whole = printed(arguments, "utf-8", monkeypatch)
    assert not whole.isascii()
    assert json.loads(printed(arguments, encoding, monkeypatch)) == json.loads(whole)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_tables_can_be_printed_anywhere(encoding, monkeypatch):
    assert r"\u2016" in printed(COMMANDS["kkt"], encoding, monkeypatch)
    assert printed(["list"], encoding, monkeypatch)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_help_can_be_read_in_any_terminal(environment):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHONIO"))}
    done = subprocess.run(
        [sys.executable, "-m", "featureprism.cli", "kkt", "--help"],
        capture_output=True,
        env=plain | environment,
    )
    assert done.returncode == 0, done.stderr
    assert rb"\u2016w\u2016" in done.stdout
