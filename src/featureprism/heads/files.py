"""Heads as files: .npz for us, ONNX for everyone else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from featureprism.heads.network import HeadNet

NEEDED = ("W", "b", "votes", "owner", "classes", "p", "kind", "parameters")


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
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise ValueError(f"Cannot read {path} as a head: {error}.") from error
    if missing := [name for name in NEEDED if name not in found]:
        raise ValueError(f"{path} is not a saved head: it lacks {', '.join(missing)}.")
    W, b, votes, owner = (torch.as_tensor(found[name]) for name in ("W", "b", "votes", "owner"))
    classes = found["classes"]
    net = HeadNet(W, b, votes, owner, len(classes), float(found["p"]))
    return net, classes, str(found["kind"]), json.loads(str(found["parameters"]))


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
