"""Heads as files: .npz for us, ONNX for everyone else."""

import io
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from featureprism._files import write_whole
from featureprism.checker.arrays import read_arrays, real_number, real_numbers
from featureprism.heads.network import HeadNet
from featureprism.models.scores import LinearScores, QuadraticScores

NEEDED = ("W", "b", "votes", "owner", "classes", "p", "kind", "parameters")
SITE = Path(__file__).parents[3] / "docs" / "_build" / "html"  # where `make docs` puts it in a source tree
KINDS = ("PReLUHead", "DecoupledHead")
GAUSSIAN = "GaussianHead"
OF_GAUSSIANS = ("V", "c", "means", "covariances", "priors", "classes", "kind", "parameters")
STATE, PAIRS = "RandomState", "pairs"  # how JSON holds a generator, and a mapping whose keys are not words


class Saved(NamedTuple):
    """A fitted head as a file holds it; the names of the features where they have some; all arrays of the file."""

    net: HeadNet | LinearScores | QuadraticScores
    classes: np.ndarray
    kind: str
    parameters: dict[str, Any]
    feature_names: np.ndarray | None
    arrays: dict[str, np.ndarray]


def save_arrays(
    path: Path,
    net: HeadNet,
    classes: np.ndarray,
    kind: str,
    parameters: dict[str, Any],
    feature_names: np.ndarray | None = None,
) -> None:
    """W, b, votes, owner, classes, p and the parameters; of two classes also `a`, the signed votes, as `load_net` wants them."""
    arrays = {name: getattr(net, name).detach().numpy() for name in ("W", "b", "owner")}
    votes = net.a.detach().numpy()
    if net.num_classes == 2:
        arrays["a"] = np.where(arrays["owner"] == 1, votes, -votes)
    words = described(classes, kind, parameters, feature_names)
    write_arrays(path, arrays | {"votes": votes, "p": np.array(net.p), "activation": "polynomial"} | words)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """An .npz file, in one motion."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    write_whole(path, file.getvalue())


def described(
    classes: np.ndarray, kind: str, parameters: dict[str, Any], feature_names: np.ndarray | None
) -> dict[str, Any]:
    """What every saved head has: its classes, its kind, its parameters, the names of its features."""
    has_objects = classes.dtype == object
    if has_objects and not all(isinstance(label, str) for label in classes):
        raise ValueError(
            f"Labels such as {classes[0]!r} cannot be saved without pickling; use words or numbers."
        )
    words: dict[str, Any] = {
        "classes": classes.astype(str) if has_objects else classes,
        "kind": kind,
        "parameters": json.dumps({name: _as_json(value) for name, value in parameters.items()}),
        "labels": "objects" if has_objects else "values",
    }
    if feature_names is not None:
        words["feature_names"] = np.array([str(name) for name in feature_names])
    return words


def load_arrays(path: Path) -> Saved:
    """A saved head."""
    found = read_arrays(path)
    kind = str(found.get("kind", ""))
    needed = NEEDED if kind != GAUSSIAN else OF_GAUSSIANS
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{path} is not a saved head: it lacks {', '.join(missing)}.")
    try:
        net = _gaussian_scores(found) if kind == GAUSSIAN else _head_net(found)
        written = json.loads(str(found["parameters"]))
        if not isinstance(written, dict):
            raise ValueError("parameters must be a JSON object.")
        parameters = {k: _from_json(v) for k, v in written.items()}
    except (ValueError, TypeError, KeyError) as error:  # torch says TypeError to numbers it does not know
        raise ValueError(f"{path} is not a head as save writes it: {error}") from error
    classes = found["classes"].astype(object) if str(found.get("labels")) == "objects" else found["classes"]
    names = found["feature_names"].astype(object) if "feature_names" in found else None
    return Saved(net, classes, kind, parameters, names, found)


def _head_net(found: dict[str, np.ndarray]) -> HeadNet:
    _check(found)
    W, b, votes = (torch.as_tensor(found[name]) for name in ("W", "b", "votes"))
    owner = torch.as_tensor(found["owner"]).long()
    return HeadNet(W, b, votes, owner, len(found["classes"]), real_number(found["p"], "p"))


def _gaussian_scores(found: dict[str, np.ndarray]) -> LinearScores | QuadraticScores:
    """The scores of Gaussian classes; refuses parts that do not fit together."""
    V, c, means, priors = (real_numbers(found[name], name) for name in ("V", "c", "means", "priors"))
    k, d = V.shape
    covariances = real_numbers(found["covariances"], "covariances")
    fits = means.shape == (k, d) and c.shape == priors.shape == found["classes"].shape == (k,)
    if not fits or covariances.shape not in ((1, d, d), (k, d, d)):
        raise ValueError(
            f"{k} classes in {d} dimensions need means ({k}, {d}) and covariances ({k}, {d}, {d})."
        )
    if "A" not in found:
        return LinearScores(torch.as_tensor(V), torch.as_tensor(c))
    return QuadraticScores(*(torch.as_tensor(a) for a in (real_numbers(found["A"], "A"), V, c)))


def _as_json(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
        return {STATE: {**state, "state": {k: np.asarray(v).tolist() for k, v in state["state"].items()}}}
    if isinstance(value, Mapping):
        return {PAIRS: [[_as_json(key), _as_json(item)] for key, item in value.items()]}
    return value


def _from_json(value: Any) -> Any:
    """The parameter again; a generator goes on where it was."""
    if not isinstance(value, dict):
        return value
    if PAIRS in value:
        return dict(value[PAIRS])
    generator = np.random.RandomState()
    generator.set_state(value[STATE])
    return generator


def documentation() -> str:
    """The page of an estimator: at the address the installed package names, else in the site built beside the sources; else none."""
    try:
        named = metadata("featureprism").get_all("Project-URL") or []
    except PackageNotFoundError:
        named = []
    address = dict(entry.split(", ", 1) for entry in named).get("Documentation", "").rstrip("/")
    if not address and (SITE / "index.html").is_file():
        address = SITE.as_uri()
    return f"{address}/reference/generated/featureprism.{{estimator_name}}.html" if address else ""


def _check(found: dict[str, np.ndarray]) -> None:
    """Refuse weights that do not fit together, and neurons of classes that are not there."""
    shapes = [found[name].shape for name in ("W", "b", "votes", "owner")]
    if len(shapes[0]) != 2 or not all(shapes[0]) or any(shape != shapes[0][:1] for shape in shapes[1:]):
        raise ValueError(f"Need W (h, d) and b, votes, owner (h,), got {', '.join(map(str, shapes))}.")
    for name in ("W", "b", "votes"):
        if found[name].dtype.kind != "f" or not np.isfinite(real_numbers(found[name], name)).all():
            raise ValueError(f"{name} must hold finite floating-point numbers, got {found[name].dtype}.")
    owner, classes = found["owner"], found["classes"]
    if (
        owner.dtype.kind not in "iu"
        or classes.ndim != 1
        or not 0 <= owner.min() <= owner.max() < len(classes)
    ):
        raise ValueError("owner must name a class of every neuron, from 0 to the number of classes less 1.")
    if not 1 <= real_number(found["p"], "p") < np.inf:
        raise ValueError(f"The power p must be finite and at least 1, got {found['p']}.")
    if str(found["kind"]) not in KINDS:
        raise ValueError(
            f"Unknown kind {str(found['kind'])!r}; choose one of {', '.join((*KINDS, GAUSSIAN))}."
        )


def write_onnx(net: HeadNet, path: Path) -> None:
    """x (n, d) float32 ↦ label (n,) as position in `classes_`, probabilities (n, C), scores (n, C)."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ValueError("ONNX export needs the package onnx: pip install 'featureprism[onnx]'.") from error
    constants = {"W": net.W.T, "b": net.b, "votes": net.V, "p": torch.tensor(net.p)}
    initial = [
        numpy_helper.from_array(np.ascontiguousarray(value.detach().float().numpy()), name)
        for name, value in constants.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["positive"]),
        helper.make_node("Pow", ["positive", "p"], ["phi"]),
        helper.make_node("MatMul", ["phi", "votes"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    real, shape = TensorProto.FLOAT, ["n", net.num_classes]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("probabilities", real, shape),
        helper.make_tensor_value_info("scores", real, shape),
    ]
    points = helper.make_tensor_value_info("x", real, ["n", net.W.shape[1]])
    graph = helper.make_graph(nodes, "head", [points], outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    write_whole(path, model.SerializeToString())
