"""Two versions of a model, and the page to hand over: the whole way from files to exit code."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from featureprism.cli import main

CLASSES = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    rng = np.random.default_rng(3)
    W, b, V, c = (rng.normal(size=s) for s in ((6, 4), 6, (6, 3), 3))
    x = rng.normal(size=(5, 4))
    y = np.array(CLASSES)[(np.maximum(x @ W.T + b, 0) @ V + c).argmax(axis=1)]
    rounded = [np.round(array * 2**12) / 2**12 for array in (W, b, V, c)]
    for name, arrays in (("old", (W, b, V, c)), ("rounded", rounded), ("broken", (-W, b, V, c))):
        np.savez(
            folder / f"{name}.npz",
            **dict(zip("WbVc", arrays, strict=True)),
            activation="relu",
            classes=CLASSES,
        )
    np.savez(folder / "data.npz", x=x, y=y, features=["age", "dose", "mass", "time"])
    return folder


def compare(folder, new, *more):
    paths = [str(folder / name) for name in ("old.npz", new, "data.npz")]
    return main(["compare", *paths, "--out", str(folder / "out"), *more])


def test_a_rounded_model_keeps_its_proofs_without_a_search(folder, capsys):
    assert compare(folder, "rounded.npz", "--eps", "0.02", "--strict", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["lost"] == []
    assert facts["kept_by_the_old_proof"] == facts["kept"] > 0
    assert facts["old"]["weights_sha256"] != facts["new"]["weights_sha256"]
    check = [
        "check",
        str(folder / "out/new_proofs.npz"),
        str(folder / "rounded.npz"),
        str(folder / "data.npz"),
    ]
    assert main(check) == 0


@pytest.mark.parametrize("question", [("--eps", "0.05"), ("--norm", "inf", "--eps", "0.02")])
def test_proofs_about_several_layers_hold_for_rounded_weights(question, tmp_path, capsys):
    rng = np.random.default_rng(5)
    arrays = {
        f"{name}{i + 1}": rng.normal(size=(h, d) if name == "W" else h)
        for i, (d, h) in enumerate(((4, 8), (8, 8), (8, 3)))
        for name in "Wb"
    }
    rounded = {name: np.round(array * 2**9) / 2**9 for name, array in arrays.items()}
    for name, some in (("old", arrays), ("rounded", rounded)):
        np.savez(tmp_path / f"{name}.npz", activation=np.array("relu"), **some)
    h = x = rng.normal(size=(5, 4))
    for i in (1, 2, 3):
        h = h @ arrays[f"W{i}"].T + arrays[f"b{i}"]
        h = np.maximum(h, 0) if i < 3 else h
    np.savez(tmp_path / "data.npz", x=x, y=h.argmax(axis=1))
    assert compare(tmp_path, "rounded.npz", *question, "--strict", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kept_by_the_old_proof"] >= facts["kept"] - 1 > 0
    files = [str(tmp_path / name) for name in ("out/new_proofs.npz", "rounded.npz", "data.npz")]
    assert main(["check", *files, *question]) == 0


def test_a_broken_model_loses_proofs_and_strict_says_so(folder, capsys):
    assert compare(folder, "broken.npz", "--eps", "0.02", "--strict") == 3
    assert "lose it" in capsys.readouterr().out
    assert json.loads((folder / "out/comparison.json").read_text())["lost"]
    assert compare(folder, "broken.npz", "--eps", "0.02") == 0


@pytest.mark.parametrize("bad", [("nothing.npz",), ("rounded.npz", "--eps", "-1"), ("data.npz",)])
def test_bad_versions_are_refused_in_one_sentence(bad, folder, capsys):
    assert compare(folder, *bad) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert told.count("featureprism: ") == 1


class Tags(HTMLParser):
    """Counts what is opened and what comes from elsewhere."""

    def __init__(self):
        super().__init__()
        self.names, self.outside = [], []

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self.outside += [
            v for k, v in attributes if k in ("src", "href") and v and not v.startswith(("data:", "#"))
        ]


def test_the_page_needs_nothing_else_and_names_features_norm_and_proofs(folder, capsys):
    out = folder / "radii"
    arguments = [
        "radius",
        str(folder / "old.npz"),
        str(folder / "data.npz"),
        "--unit",
        "std",
        "--fixed",
        "age",
    ]
    assert main([*arguments, "--branches", "20", "--report", "--out", str(out)]) == 0
    assert "What moved" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.names.count("section") >= 4
    assert [v for v in tags.outside if v.startswith("http")] == []
    for words in ("standard deviations", "ℓ2", "proofs.npz", "--unit std --fixed age", "dose"):
        assert words in page
    assert "age by" not in page  # it is fixed
    stated = ["--unit", "std", "--fixed", "age"]
    assert (
        main(["check", str(out / "proofs.npz"), str(out / "model.npz"), str(folder / "data.npz"), *stated])
        == 0
    )
