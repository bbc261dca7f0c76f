"""Proofs as files: written, read, verified with numpy alone, and refused when anything about them is changed."""

import hashlib
import json
import math
import struct
import subprocess
import sys
import zipfile
from io import BytesIO, StringIO

import numpy as np
import pytest

import featureprism as fp
from featureprism.checker.certificate import Certificate
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import model_sha256, points_sha256, read_weights
from featureprism.checker.proofs import (
    Proof,
    Source,
    Statement,
    proof_arrays,
    proof_bytes,
    read_proofs,
    tree_proofs,
)
from featureprism.checker.verify import verified_radii
from featureprism.cli import main

EFFORT = ("--branches", "20")


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
        *EFFORT,
    ]
    assert main(arguments) == 0
    return folder


def checked(folder, proofs="radii/proofs.npz", *more):
    return main(["check", str(folder / proofs), str(folder / "model.npz"), str(folder / "data.npz"), *more])


def arrays_of(folder):
    with np.load(folder / "radii" / "proofs.npz") as found:
        return dict(found)


def points_of(folder):
    with np.load(folder / "data.npz") as data:
        x, y = data["x"], data["y"]
    return x, np.array([["red", "green", "blue"].index(v) for v in y])


def test_radius_writes_proofs_that_check_accepts(folder, capsys):
    assert checked(folder) == 0
    told = capsys.readouterr().out
    with (folder / "radii" / "brackets.csv").open() as file:
        header, first, *others = file.read().splitlines()
    half = sorted(float(line.split(",")[4]) for line in (first, *others))[
        1
    ]  # of four points, as brackets print it
    assert f"4 of 4 points have a proven ℓ2 radius, median {half:.5g}\n" in told
    assert header == "index,label,predicted,target,certified,attacked,method,stopped_because"
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
    assert "4 of 4 points" in done.stdout


@pytest.mark.parametrize("name", ["proof_radius", "certified"])
def test_a_larger_claim_is_refused(name, folder, capsys):
    arrays = arrays_of(folder)
    arrays[name] = arrays[name] * 1.001
    np.savez(folder / "forged.npz", **arrays)
    assert checked(folder, "forged.npz") == 3
    assert "refused" in capsys.readouterr().out


def test_the_receiver_states_the_claim(folder, capsys):
    radii = np.sort(arrays_of(folder)["certified"])
    eps = repr(float(radii[1:3].mean()))
    assert checked(folder, "radii/proofs.npz", "--norm", "2", "--eps", eps) == 0
    assert "2 of 4 points are proven to keep their class" in capsys.readouterr().out
    for weaker, why in ((("--norm", "inf"), "about ℓ2, not about ℓ∞"), (("--norm", "3"), "norm must be")):
        assert checked(folder, "radii/proofs.npz", *weaker) != 0
        said = capsys.readouterr()
        assert why in said.out + said.err
    assert checked(folder, "radii/proofs.npz", "--bounds", "-9", "9") == 0  # no bounds prove more than bounds
    assert checked(folder, "radii/proofs.npz", "--json", "--eps", eps) == 0
    facts = json.loads(capsys.readouterr().out.split("\n", 2)[2])
    x, labels = points_of(folder)
    assert facts["norm"] == 2
    assert facts["proven"] == 2
    assert facts["model_sha256"] == model_sha256(read_weights(folder / "model.npz")[0])
    assert facts["points_sha256"] == points_sha256(x, labels)


def test_narrower_bounds_are_refused(folder, capsys):
    arguments = ["radius", *(str(folder / name) for name in ("model.npz", "data.npz"))]
    assert (
        main([*arguments, "--norm", "inf", "--bounds", "-3", "3", *EFFORT, "--out", str(folder / "boxed")])
        == 0
    )
    for stated, code in (
        ((), 3),
        (("--bounds", "-4", "3"), 3),
        (("--bounds", "-3", "3"), 0),
        (("--bounds", "-2.9", "3"), 0),
    ):
        assert checked(folder, "boxed/proofs.npz", "--norm", "inf", *stated) == code
    assert "narrower" in capsys.readouterr().out


def test_other_models_points_and_labels_are_refused(folder, capsys):
    with np.load(folder / "model.npz") as found:
        np.savez(folder / "other.npz", **(dict(found) | {"c": found["c"] + 1e-9}))
    with np.load(folder / "data.npz") as found:
        np.savez(folder / "moved.npz", x=found["x"] + 1e-12, y=found["y"])
        np.savez(folder / "renamed.npz", x=found["x"], y=np.where(found["y"] == "red", "green", "red"))
    proofs = str(folder / "radii" / "proofs.npz")
    for model, data in (("other.npz", "data.npz"), ("model.npz", "moved.npz"), ("model.npz", "renamed.npz")):
        assert main(["check", proofs, str(folder / model), str(folder / data)]) == 3
        assert "refused: The proofs are about" in capsys.readouterr().out


def test_python_and_files_answer_alike(folder, tmp_path):
    model, (x, labels) = folder / "model.npz", points_of(folder)
    y = np.array(["red", "green", "blue"])[labels]
    bracket = fp.robust_radius(model, x, y, budget=fp.Budget(branches=20))
    bracket.save(tmp_path / "b.npz")
    again = fp.RadiusBracket.load(tmp_path / "b.npz")
    assert again.classes is not None
    assert again.classes.tolist() == ["red", "green", "blue"]
    for proofs in (bracket, again, tmp_path / "b.npz", str(tmp_path / "b.npz")):
        answer = fp.check(proofs, model, x, y, norm=2, eps=0.01)
        assert answer
        np.testing.assert_array_less(bracket.certified * (1 - 1e-15), answer.verified)
    with pytest.raises(ValueError, match="not about ℓ∞"):
        fp.check(bracket, model, x, y, norm=math.inf)
    main(["check", str(tmp_path / "b.npz"), str(model), str(folder / "data.npz")])


def test_proofs_of_other_rivals_or_points_do_not_count(folder):
    file = read_proofs((folder / "radii" / "proofs.npz").read_bytes())
    proofs, certified = file.proofs, file.certified
    model, _ = read_weights(folder / "model.npz")
    x, labels = points_of(folder)
    assert (verified_radii(model, x, labels, proofs, 2) >= certified).all()
    without_one = [p for p in proofs if (p.point, p.rival) != (0, proofs[0].rival)]
    assert verified_radii(model, x, labels, without_one, 2)[0] == 0
    assert not (verified_radii(model, x[::-1].copy(), labels, proofs, 2) >= certified).all()
    assert not verified_radii(model, x, labels, proofs, math.inf).any()


def with_header(a, **changes):
    a["header"] = np.array(json.dumps(json.loads(str(a["header"])) | changes))


MUTATIONS = {
    "missing column": lambda a: a.pop("node_cut"),
    "missing header": lambda a: a.pop("header"),
    "a header that is no JSON": lambda a: a.update(header=np.array("{")),
    "a header that is a list": lambda a: a.update(header=np.array("[1]")),
    "another version": lambda a: with_header(a, version=3),
    "another norm": lambda a: with_header(a, norm=1),
    "no model": lambda a: with_header(a, model=None),
    "short column": lambda a: a.update(proof_target=a["proof_target"][:-1]),
    "words for numbers": lambda a: a.update(node_below=a["node_below"].astype(str)),
    "a node that is not there": lambda a: a.update(node_above=a["node_above"] + 10**6),
    "a tree inside itself": lambda a: a.update(node_below=np.zeros_like(a["node_below"])),
    "negative offsets": lambda a: a.update(node_first=a["node_first"] - 10**6),
    "offsets beyond": lambda a: a.update(node_first=a["node_first"] + 2**62),
    "widths beyond": lambda a: a.update(proof_width=a["proof_width"] + 2**62),
    "a radius of 1e300": lambda a: a.update(proof_radius=a["proof_radius"] * 1e300),
    "a reach of 1e300": lambda a: a.update(
        proof_reach=a["proof_reach"] * 1e300, proof_radius=a["proof_radius"] * 1e300
    ),
    "a certified radius of 1e300": lambda a: a.update(certified=a["certified"] * 0 + 1e300),
    "certified NaN": lambda a: a.update(certified=a["certified"] * np.nan),
    "negative radii": lambda a: a.update(proof_radius=-a["proof_radius"]),
    "numbers with NaN": lambda a: a.update(numbers=a["numbers"] * np.nan),
    "numbers in float32": lambda a: a.update(numbers=a["numbers"].astype(np.float32)),
    "numbers as a table": lambda a: a.update(numbers=a["numbers"][:, None]),
    "votes that are not there": lambda a: a.update(proof_votes=a["proof_votes"] + 1000),
    "votes beyond the weights": lambda a: a.update(votes_scale=a["votes_scale"] - 1),
    "a strange scale": lambda a: a.update(votes_scale=a["votes_scale"] + 2**40),
    "an unknown kind": lambda a: a.update(proof_kind=np.full(len(a["proof_kind"]), "trust me")),
    "no trees": lambda a: a.update(proof_root=0 * a["proof_root"] - 1),
    "points beyond the last": lambda a: a.update(proof_point=a["proof_point"] + 99),
    "labels beyond the last": lambda a: a.update(label=a["label"] + 99),
    "a margin that no one showed": lambda a: a.update(margin=a["margin"] + 5.0),
    "margins that are infinite": lambda a: a.update(margin=a["margin"] + np.inf),
    "an unknown arithmetic": lambda a: with_header(a, arithmetic="float16"),
    "float32 without margins": lambda a: with_header(a, arithmetic="float32"),
    "bounds upside down": lambda a: a.update(lower=a["upper"] + 0, upper=a["lower"] + 0),
    "bounds of another space": lambda a: a.update(lower=a["lower"][1:], upper=a["upper"][1:]),
    "a pickle": lambda a: a.update(numbers=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_malformed_files_are_refused_in_one_sentence(what, folder, capsys):
    arrays = arrays_of(folder)
    MUTATIONS[what](arrays)
    np.savez(folder / "bad.npz", **arrays)
    assert checked(folder, "bad.npz") == 3
    said = capsys.readouterr()
    first, *rest = said.out.splitlines()
    assert "refused: " in first
    assert (
        not first.startswith("refused: ") or not rest
    )  # one sentence, or the points that are refused and what they are about
    assert said.err == ""


def inflated(_whole: bytes) -> bytes:
    """Members that unpack to far more than they hold."""
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % 2**40
        header = header.ljust(117) + b"\n"
        file.writestr(
            "numbers.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(2**20)
        )
    return bomb.getvalue()


DAMAGES = {
    **{
        f"cut at {share}": lambda b, share=share: b[: int(share * len(b))]
        for share in (0.01, 0.3, 0.9, 0.999)
    },
    **{f"without its first {n} bytes": lambda b, n=n: b[n:] for n in (1, 100, 1000)},
    "zeros in the middle": lambda b: b[:2000] + bytes(500) + b[2500:],
    "ones at the end": lambda b: b[:-40] + b"\xff" * 40,
    "other names": lambda b: b.replace(b"certified.npy", b"certifiex.npy"),
    "a bomb": inflated,
    "an archive of nothing": lambda _: b"PK\x05\x06" + bytes(18),
    "text": lambda b: b.hex().encode(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bytes_are_refused_in_one_sentence(damage, folder, capsys):
    whole = (folder / "radii" / "proofs.npz").read_bytes()
    (folder / "damaged.npz").write_bytes(DAMAGES[damage](whole))
    assert checked(folder, "damaged.npz") == 3
    said = capsys.readouterr()
    assert said.out.startswith("refused: ")
    assert said.out.count("\n") == 1
    assert said.err == ""


def test_flipped_bits_never_end_in_a_traceback(folder, capsys):
    """Bits of what no checker looks at may change; whatever else does is told in a sentence."""
    whole, rng = (folder / "radii" / "proofs.npz").read_bytes(), np.random.default_rng(0)
    codes = set()
    for _ in range(40):
        changed = bytearray(whole)
        for place in rng.integers(len(whole), size=int(rng.integers(1, 4))):
            changed[place] ^= 1 << int(rng.integers(8))
        (folder / "flipped.npz").write_bytes(bytes(changed))
        codes.add(checked(folder, "flipped.npz"))
    assert codes <= {0, 3}
    assert 3 in codes
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x03\x04" + bytes(60), b"\x93NUMPY", b"hello", b"\x80\x04"]
)
def test_what_is_no_file_of_proofs_is_refused(content, folder, capsys):
    (folder / "none.npz").write_bytes(content)
    assert checked(folder, "none.npz") == 3
    whole = (folder / "radii" / "proofs.npz").read_bytes()
    (folder / "none.npz").write_bytes(whole[: len(whole) // 2])
    assert checked(folder, "none.npz") == 3
    assert "Traceback" not in capsys.readouterr().err


def test_random_mutations_are_never_verified_beyond_the_witness(folder):
    """Whatever is changed in a proof: what is still verified is true, so it stays below the attacked radius."""
    file = read_proofs((folder / "radii" / "proofs.npz").read_bytes())
    attacked, model = file.others["attacked"], read_weights(folder / "model.npz")[0]
    (x, labels), rng = points_of(folder), np.random.default_rng(0)
    arrays = proof_arrays(file.proofs)
    names = [n for n, a in arrays.items() if a.dtype.kind == "f" and a.size]
    for _ in range(12):
        changed = {n: a.copy() for n, a in arrays.items()}
        name = rng.choice(names)
        place = rng.integers(len(changed[name]))
        factor, step = rng.choice([0, 0.5, 1.01, 2, 10]), rng.choice([0, 1e-3, 1])
        changed[name][place] = changed[name][place] * factor + step
        try:
            found = tree_proofs(changed, 2, (-np.inf, np.inf), len(x))
        except ValueError:
            continue
        proofs = [Proof(i, int(labels[i]), target, certificate) for i, target, certificate in found]
        assert (verified_radii(model, x, labels, proofs, 2) <= attacked).all(), name


def test_check_of_an_onnx_file_says_who_read_it(tmp_path, capsys):
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    content = to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()
    (tmp_path / "iris.onnx").write_bytes(content)
    np.savez(tmp_path / "data.npz", x=X[::50], y=y[::50])
    bracket = fp.robust_radius(tmp_path / "iris.onnx", X[::50], y[::50])
    bracket.save(tmp_path / "proofs.npz")
    paths = [str(tmp_path / name) for name in ("proofs.npz", "iris.onnx", "data.npz")]
    assert main(["check", *paths]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "3 of 3 points have a proven ℓ2 radius" in first
    assert " of iris.onnx, read from iris.onnx by featureprism" in second
    assert "which you trust for that" in second
    assert second.endswith("about real numbers")
    assert main(["check", *paths, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["read_by"].startswith("read from iris.onnx by featureprism")
    assert facts["model_source_sha256"] == hashlib.sha256(content).hexdigest()
    (tmp_path / "iris.onnx").write_bytes(content[:100])
    assert main(["check", *paths]) == 2  # no model, no question
    assert "Traceback" not in capsys.readouterr().err


def test_linear_models_are_checked_by_their_closed_form(tmp_path):
    rng = np.random.default_rng(4)
    V, c, x = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=(7, 5))
    np.savez(tmp_path / "model.npz", V=V, c=c, activation="linear")
    own = (x @ V.T + c).argmax(axis=1)
    fp.robust_radius(tmp_path / "model.npz", x, own).save(tmp_path / "proofs.npz")
    np.savez(tmp_path / "data.npz", x=x, y=own)
    assert main(["check", *(str(tmp_path / n) for n in ("proofs.npz", "model.npz", "data.npz"))]) == 0


def test_the_example_by_hand_of_the_format(tmp_path):
    """The numbers of docs/proof_format.md: g = 20, ‖v‖₂ = 5, ‖v‖₁ = 7."""
    model = LinearScores(np.array([[2.0, 1.0], [-1.0, -3.0]]), np.array([0.0, 5.0]))
    x, label = np.array([[3.0, 4.0]]), np.array([0])
    two = ((2, True, 3.9999999999999), (2, False, 4.0000001))
    for norm, truth, radius in (*two, (math.inf, True, 2.85714), (math.inf, False, 2.8572)):
        free = np.full(2, np.inf)
        source = Source(sha256=model_sha256(model))
        statement = Statement(-free, free, norm, model=source, points_sha256=points_sha256(x, label))
        proofs = [Proof(0, 0, 1, Certificate(radius, "closed form", norm))]
        (tmp_path / "p.npz").write_bytes(proof_bytes(statement, np.array([radius]), label, proofs))
        np.savez(tmp_path / "m.npz", V=model.V, c=model.c, activation="linear")
        np.savez(tmp_path / "d.npz", x=x, y=label)
        paths = [str(tmp_path / name) for name in ("p.npz", "m.npz", "d.npz")]
        assert main(["check", *paths, "--norm", str(norm)]) == (0 if truth else 3)
    assert hashlib.sha256(hashed_by_hand(model)).hexdigest() == model_sha256(model)


def hashed_by_hand(model) -> bytes:
    V, c = (struct.pack(f"<{a.size}d", *a.ravel()) for a in (model.V, model.c))
    return b"featureprism model 2\nlinear\nV 2x2\n" + V + b"c 2\n" + c


def test_points_come_as_csv(tmp_path):
    from featureprism._points import read_points

    text = StringIO("a,b,label\n1.5,2,cat\n-1,0.25,dog\n")
    (tmp_path / "data.csv").write_text(text.getvalue())
    x, y = read_points(tmp_path / "data.csv")
    np.testing.assert_array_equal(x, [[1.5, 2.0], [-1.0, 0.25]])
    assert y.tolist() == ["cat", "dog"]
    (tmp_path / "bare.csv").write_text("1,2,0\n3,4,1\n")
    assert read_points(tmp_path / "bare.csv")[1].tolist() == [0, 1]
