"""Fitted models of every source, their proofs as files, and a program that checks all files of a folder: run by other BLAS kernels."""

import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

KERNELS = ("Haswell", "Nehalem", "Sandybridge")
SETTINGS = {
    "l2": {},
    "linf": {"norm": math.inf},
    "l2_box": {"bounds": "box"},
    "linf_box": {"norm": math.inf, "bounds": "box"},
}


def fitted_models(
    seed: int, names: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Name, model, points and labels: scikit-learn, torch and ONNX; linear, quadratic, one hidden layer, several, tanh, powers."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import featureprism as fp

    def scaled(*widths: int) -> Any:
        return make_pipeline(StandardScaler(), MLPClassifier(widths, max_iter=200, random_state=seed))

    makers = {
        "sklearn_linear": (load_iris, lambda X, y: LogisticRegression(max_iter=500).fit(X, y)),
        "sklearn_quadratic": (load_iris, lambda X, y: fp.GaussianHead(covariance="per_class").fit(X, y)),
        "sklearn_one": (
            load_iris,
            lambda X, y: MLPClassifier((20,), max_iter=200, random_state=seed).fit(X, y),
        ),
        "sklearn_pipeline": (load_wine, lambda X, y: scaled(20).fit(X, y)),
        "sklearn_two_classes": (load_breast_cancer, lambda X, y: scaled(16).fit(X, y)),
        "sklearn_deep": (load_wine, lambda X, y: scaled(10, 10).fit(X, y)),
        "sklearn_tanh": (
            load_iris,
            lambda X, y: MLPClassifier((10,), "tanh", max_iter=200, random_state=seed).fit(X, y),
        ),
        "head_powers": (load_iris, lambda X, y: fp.PReLUHead(p=2.0, width=4, random_state=seed).fit(X, y)),
        "torch_one": (load_iris, lambda X, y: trained((4, 12, 3), X, y, seed)),
        "torch_deep": (load_iris, lambda X, y: trained((4, 12, 8, 3), X, y, seed)),
        "onnx": (load_wine, lambda X, y: as_onnx(scaled(20).fit(X, y), X)),
    }
    for name, (load, fit) in makers.items():
        if not names or name in names:
            X, y = load(return_X_y=True)
            yield name, fit(X, y), X, y


def trained(widths: tuple[int, ...], X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A module of ReLU layers, by a few steps of Adam in float32."""
    import torch

    torch.manual_seed(seed)
    layers = [part for a, b in pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers[:-1])
    x, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), labels).backward()
        optimiser.step()
    return net


def as_onnx(model: Any, X: np.ndarray) -> bytes:
    """The content of an .onnx file."""
    from skl2onnx import to_onnx

    return to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()


def write_proofs(
    folder: Path, points: int, seed: int, settings: dict[str, dict[str, Any]], names: tuple[str, ...] = ()
) -> tuple[int, set[tuple[str, str]]]:
    """A folder with proofs, model and points for every model and setting; how many points are proven, and the kinds of proof."""
    import featureprism as fp
    from featureprism.models import read_model

    proven, kinds = 0, set()
    folder.mkdir(exist_ok=True)
    for name, given, X, y in fitted_models(seed, names):
        model = given
        if isinstance(given, bytes):
            model = folder / f"{name}.onnx"
            model.write_bytes(given)
        some = np.random.default_rng(seed).permutation(len(X))[:points]
        for setting, asked in settings.items():
            box = (float(X.min()) - 1, float(X.max()) + 1)
            bounds = {"bounds": box} if asked.get("bounds") else {}
            options = {"norm": asked.get("norm", 2), **bounds}
            bracket = fp.robust_radius(model, X[some], y[some], budget=fp.Budget(branches=12), **options)
            case = folder / f"{name}_{setting}"
            case.mkdir()
            bracket.save(case / "proofs.npz")
            assert read_model(model, probe=X).save(case / "model.npz")
            np.savez(case / "data.npz", x=X[some], y=y[some])
            stated = ["--norm", str(options["norm"])] + (["--bounds", *map(str, box)] if bounds else [])
            (case / "stated.json").write_text(json.dumps(stated))
            proven += int((bracket.certified > 0).sum())
            kinds |= {
                (proof.certificate.kind, "inf" if options["norm"] != 2 else "2") for proof in bracket.proofs()
            }
    return proven, kinds


def check_folder(folder: Path) -> dict[str, Any]:
    """What `featureprism check` says of every case: how many claims there are, how many are verified, and which are refused."""
    from featureprism.cli import main

    totals: dict[str, Any] = {"certified": 0, "verified": 0, "refused": []}
    for case in sorted(path.parent for path in folder.glob("*/proofs.npz")):
        paths = [str(case / name) for name in ("proofs.npz", "model.npz", "data.npz")]
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            code = main(["check", *paths, "--json", *json.loads((case / "stated.json").read_text())])
        facts = json.loads(told.getvalue())
        totals["certified"] += facts.get("certified", 0)
        totals["verified"] += facts.get("verified", 0)
        totals["refused"] += [[case.name, facts.get("refused")]] if code else []
    return totals


if __name__ == "__main__":
    print(json.dumps(check_folder(Path(sys.argv[1]))))
