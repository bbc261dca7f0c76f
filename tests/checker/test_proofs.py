"""Proofs as files: written, read, verified with numpy alone, and refused when anything about them is changed."""

import math
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest
import torch

import featureprism as fp
from featureprism.checker.models import read_weights
from featureprism.checker.proofs import as_arrays, from_arrays, load_proofs, save_proofs
from featureprism.checker.verify import verified_radii
from featureprism.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of three classes, points with labels, and what `radius` says of them."""
    folder = tmp_path_factory.mktemp("proofs")
    rng = np.random.default_rng(2)
    W, b, V, c = (rng.normal(size=s) for s in ((7, 4), 7, (7, 3), 3))
    x = rng.normal(size=(4, 4))
    y = np.array(["red", "green", "blue"])[(np.maximum(x @ W.T + b, 0) @ V + c).argmax(axis=1)]
    np.savez(folder / "model.npz", W=W, b=b, V=V, c=c, activation="relu", classes=["red", "green", "blue"])
    np.savez(folder / "data.npz", x=x, y=y)
    arguments = [
        "radius",
        str(folder / "model.npz"),
        str(folder / "data.npz"),
        "--out",
        str(folder / "radii"),
    ]
    assert main(arguments) == 0
    return folder


def checked(folder, proofs="radii/proofs.npz"):
    return main(["check", str(folder / proofs), str(folder / "model.npz"), str(folder / "data.npz")])


def test_radius_writes_proofs_that_check_accepts(folder, capsys):
    assert checked(folder) == 0
    told = capsys.readouterr().out
    with (folder / "radii" / "brackets.csv").open() as file:
        header, first, *others = file.read().splitlines()
    half = sorted(float(line.split(",")[4]) for line in (first, *others))[
        1
    ]  # of four points, as brackets print it
    assert f"4 of 4 certified radii verified; median {half:.5g}\n" in told
    assert header == "index,label,predicted,rival,certified,attacked,method,seconds"
    assert first.split(",")[1] in ("red", "green", "blue")


def test_the_model_that_radius_saved_is_the_one_that_was_proven(folder):
    given, read = (read_weights(folder / name)[0] for name in ("model.npz", "radii/model.npz"))
    np.testing.assert_array_equal(given.V, read.V)


def test_check_needs_no_torch(folder):
    code = (
        "import sys\n"
        "for name in ('torch', 'scipy', 'sklearn', 'matplotlib', 'rich', 'pandas', 'jaxtyping'):\n"
        "    sys.modules[name] = None\n"
        "from featureprism.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    paths = [str(folder / name) for name in ("radii/proofs.npz", "model.npz", "data.npz")]
    done = subprocess.run([sys.executable, "-c", code, "check", *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout


@pytest.mark.parametrize("name", ["radius", "certified"])
def test_a_larger_claim_is_refused(name, folder, capsys):
    with np.load(folder / "radii" / "proofs.npz") as found:
        arrays = dict(found)
    arrays[name] = arrays[name] * 1.001
    np.savez(folder / "forged.npz", **arrays)
    assert checked(folder, "forged.npz") == 3
    assert "refused" in capsys.readouterr().out


def test_proofs_of_other_rivals_or_points_do_not_count(folder):
    proofs, certified = load_proofs(folder / "radii" / "proofs.npz")
    model, _ = read_weights(folder / "model.npz")
    with np.load(folder / "data.npz") as data:
        x, y = data["x"], data["y"]
    labels = np.array([["red", "green", "blue"].index(v) for v in y])
    assert (verified_radii(model, x, labels, proofs, 2) >= certified).all()
    without_one = [p for p in proofs if (p.point, p.rival) != (0, proofs[0].rival)]
    assert verified_radii(model, x, labels, without_one, 2)[0] == 0
    assert not (verified_radii(model, x[::-1].copy(), labels, proofs, 2) >= certified).all()
    assert not verified_radii(model, x, labels, proofs, math.inf).any()


MUTATIONS = {
    "missing column": lambda a: a.pop("node_cut"),
    "short column": lambda a: a.update(rival=a["rival"][:-1]),
    "words for numbers": lambda a: a.update(node_below=a["node_below"].astype(str)),
    "a node that is not there": lambda a: a.update(node_above=a["node_above"] + 10**6),
    "a tree inside itself": lambda a: a.update(node_below=np.zeros_like(a["node_below"])),
    "another format": lambda a: a.update(format=np.array(99)),
    "negative offsets": lambda a: a.update(node_first=a["node_first"] - 10**6),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_malformed_files_are_refused_in_one_sentence(what, folder, capsys):
    with np.load(folder / "radii" / "proofs.npz") as found:
        arrays = dict(found)
    MUTATIONS[what](arrays)
    np.savez(folder / "bad.npz", **arrays)
    code = checked(folder, "bad.npz")
    said = capsys.readouterr()
    assert code in (2, 3)
    assert "Traceback" not in said.err


def test_random_mutations_are_never_granted_more_than_the_witness_allows(folder):
    """Whatever is changed in a proof: what is still granted is true, so it stays below the attacked radius."""
    proofs, _ = load_proofs(folder / "radii" / "proofs.npz")
    attacked = np.genfromtxt(
        folder / "radii" / "brackets.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )["attacked"]
    model, classes = read_weights(folder / "model.npz")
    with np.load(folder / "data.npz") as data:
        x, y = data["x"], data["y"]
    labels = np.array([classes.tolist().index(v) for v in y])
    arrays, rng = as_arrays(proofs), np.random.default_rng(0)
    names = [n for n, a in arrays.items() if a.dtype.kind == "f" and np.isfinite(a).all() and a.size]
    for _ in range(12):
        changed = {n: a.copy() for n, a in arrays.items()}
        name = rng.choice(names)
        place = rng.integers(len(changed[name]))
        changed[name][place] = changed[name][place] * rng.choice([0, 0.5, 1.01, 2, 10]) + rng.choice(
            [0, 1e-3, 1]
        )
        granted = verified_radii(model, x, labels, from_arrays(changed), 2)
        assert (granted <= attacked).all(), name


def test_linear_models_are_checked_by_their_closed_form(tmp_path):
    rng = np.random.default_rng(4)
    V, c, x = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=(7, 5))
    np.savez(tmp_path / "model.npz", V=V, c=c, activation="linear")
    own = (x @ V.T + c).argmax(axis=1)
    from featureprism.networks import LinearScores

    net = LinearScores(torch.from_numpy(V), torch.from_numpy(c))
    bracket = fp.robust_radius(net, x, own)
    save_proofs(tmp_path / "proofs.npz", bracket.proofs(), bracket.certified.numpy())
    np.savez(tmp_path / "data.npz", x=x, y=own)
    assert main(["check", *(str(tmp_path / n) for n in ("proofs.npz", "model.npz", "data.npz"))]) == 0


def test_points_come_as_csv(tmp_path):
    from featureprism.points import read_points

    text = StringIO("a,b,label\n1.5,2,cat\n-1,0.25,dog\n")
    (tmp_path / "data.csv").write_text(text.getvalue())
    x, y = read_points(tmp_path / "data.csv")
    np.testing.assert_array_equal(x, [[1.5, 2.0], [-1.0, 0.25]])
    assert y.tolist() == ["cat", "dog"]
    (tmp_path / "bare.csv").write_text("1,2,0\n3,4,1\n")
    assert read_points(tmp_path / "bare.csv")[1].tolist() == [0, 1]
