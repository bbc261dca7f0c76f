"""Heads as files: .npz for us, ONNX for everyone else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from featureprism.files import read_arrays, real_number, real_numbers
from featureprism.heads.network import HeadNet

NEEDED = ("W", "b", "votes", "owner", "classes", "p", "kind", "parameters")
KINDS = ("PReLUHead", "DecoupledHead")


def save_arrays(path: Path, net: HeadNet, classes: np.ndarray, kind: str, parameters: dict[str, Any]) -> None:
    """W, b, votes, owner, classes, p and the parameters; of two classes also `a`, the signed votes, as `load_net` wants them."""
    arrays = {name: getattr(net, name).detach().numpy() for name in ("W", "b", "owner")}
    votes = net.a.detach().numpy()
    if net.num_classes == 2:
        arrays["a"] = np.where(arrays["owner"] == 1, votes, -votes)
    words = {"activation": "polynomial", "kind": kind, "parameters": json.dumps(parameters)}
    with path.open("wb") as file:  # a handle keeps numpy from adding a second suffix
        np.savez(file, **arrays, votes=votes, classes=classes, p=net.p, **words)  # pyright: ignore[reportArgumentType]


def load_arrays(path: Path) -> tuple[HeadNet, np.ndarray, str, dict[str, Any]]:
    """The network, classes, kind and parameters of a saved head."""
    found = read_arrays(path)
    if missing := [name for name in NEEDED if name not in found]:
        raise ValueError(f"{path} is not a saved head: it lacks {', '.join(missing)}.")
    try:
        _check(found)
        W, b, votes = (torch.as_tensor(found[name]) for name in ("W", "b", "votes"))
        owner, classes = torch.as_tensor(found["owner"]).long(), found["classes"]
        net = HeadNet(W, b, votes, owner, len(classes), real_number(found["p"], "p"))
        return net, classes, str(found["kind"]), json.loads(str(found["parameters"]))
    except (ValueError, TypeError) as error:  # torch says TypeError to types of numbers it does not know
        raise ValueError(f"{path} is not a head as save writes it: {error}") from error


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
        raise ValueError(f"Unknown kind {str(found['kind'])!r}; choose one of {', '.join(KINDS)}.")
    if not isinstance(json.loads(str(found["parameters"])), dict):
        raise ValueError("parameters must be a JSON object.")


def write_onnx(net: HeadNet, path: Path) -> None:
    """x (n, d) float32 ↦ label (n,) as position in `classes_`, probabilities (n, C), scores (n, C)."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ValueError("ONNX export needs the package onnx: pip install 'featureprism[onnx]'.") from error
    constants = {"W": net.W.T, "b": net.b, "votes": net.votes(), "p": torch.tensor(net.p)}
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
    onnx.save(model, str(path))
