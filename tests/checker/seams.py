"""Fitted models of every source, their proofs as files, and a program that checks all files of a folder: run by other BLAS kernels."""

import contextlib
import io
import json
import math
import sys
import warnings
from collections.abc import Iterator
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


def fitted_models(seed: int) -> Iterator[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Name, model, points and labels: scikit-learn, torch and ONNX; linear, quadratic, one hidden layer, several, tanh, powers."""
    import torch
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import featureprism as fp

    iris, wine, cancer = (load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer))
    options = {"max_iter": 300, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short trainings
        yield "sklearn_linear", LogisticRegression(max_iter=500).fit(*iris), *iris
        yield "sklearn_quadratic", fp.GaussianHead(covariance="per_class").fit(*iris), *iris
        yield "sklearn_one", MLPClassifier((20,), **options).fit(*iris), *iris
        yield (
            "sklearn_pipeline",
            make_pipeline(StandardScaler(), MLPClassifier((20,), **options)).fit(*wine),
            *wine,
        )
        yield (
            "sklearn_two_classes",
            make_pipeline(StandardScaler(), MLPClassifier((16,), **options)).fit(*cancer),
            *cancer,
        )
        yield (
            "sklearn_deep",
            make_pipeline(StandardScaler(), MLPClassifier((10, 10), **options)).fit(*wine),
            *wine,
        )
        yield "sklearn_tanh", MLPClassifier((10,), activation="tanh", **options).fit(*iris), *iris
        yield "head_powers", fp.PReLUHead(p=2.0, width=4, random_state=seed).fit(*iris), *iris
    torch.manual_seed(seed)
    layers = (
        torch.nn.Linear(4, 12),
        torch.nn.ReLU(),
        torch.nn.Linear(12, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 3),
    )
    for name, net in (
        ("torch_one", torch.nn.Sequential(*layers[:2], torch.nn.Linear(12, 3))),
        ("torch_deep", torch.nn.Sequential(*layers)),
    ):
        trained(net, *iris)
        yield name, net, *iris
    with contextlib.suppress(ImportError):
        yield (
            "onnx",
            as_onnx(make_pipeline(StandardScaler(), MLPClassifier((20,), **options)).fit(*wine), wine[0]),
            *wine,
        )


def trained(net: Any, X: np.ndarray, y: np.ndarray) -> None:
    """By a few steps of Adam."""
    import torch

    x, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), labels).backward()
        optimiser.step()


def as_onnx(model: Any, X: np.ndarray) -> bytes:
    """The content of an .onnx file."""
    from skl2onnx import to_onnx

    return to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()


def write_proofs(
    folder: Path, points: int, seed: int, settings: dict[str, dict[str, Any]]
) -> tuple[int, set[str]]:
    """A folder with proofs, model and points for every model and setting; how many points are proven, and the kinds of proof."""
    from featureprism.certificates import opened

    import featureprism as fp
    from featureprism.networks.reading import save_model

    proven, kinds = 0, set()
    for name, given, X, y in fitted_models(seed):
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
            case.mkdir(parents=True)
            bracket.save(case / "proofs.npz")
            assert save_model(case / "model.npz", opened(model, probe=X))
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
