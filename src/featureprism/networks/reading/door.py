"""One reader for people's own models: torch modules, scikit-learn estimators, ONNX and .npz files, and this library's networks."""

import contextlib
import hashlib
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism.checker.arrays import read_arrays
from featureprism.checker.proofs import Source
from featureprism.networks.adapter import TwoLogits
from featureprism.networks.reading.agreement import check_estimator, check_graph, check_module
from featureprism.networks.reading.archives import read_archive
from featureprism.networks.reading.called import (
    called,
    drop_tail,
    numbers_of,
    refuse_probabilities,
)
from featureprism.networks.reading.chain import Unreadable
from featureprism.networks.reading.classifier import Classifier
from featureprism.networks.reading.estimators import read_estimator
from featureprism.networks.reading.graphs import read_onnx
from featureprism.networks.reading.modules import copied, read_graph, trace
from featureprism.networks.reading.ours import input_dim, read_ours
from featureprism.networks.reading.points import as_points, point_shape

KNOWN = (
    "a torch module, a scikit-learn classifier or pipeline, one of this library's networks or heads, "
    "or the path of an .onnx or .npz file"
)
ROWS = 256  # points that a network is compared on


def read_model(model: Any, classes: Any = None, *, probe: Any = None) -> Classifier:
    """The model as a network with its labels; compared with the model itself on the points `probe`, and refused where they disagree.

    `classes` names the labels in the order of the scores where the model does not, or only counts them from 0. Without `probe` the
    comparison is on points drawn from N(0, I). The model itself is never changed.
    """
    found = _read(model, _Probe.of(probe))
    if classes is None:
        return found
    named = np.array(np.asarray(classes).tolist())
    known = None if found.classes is None else found.classes.tolist()
    if known is not None and known not in (named.tolist(), list(range(len(known)))):
        raise ValueError(f"The model's classes are {known[:20]}, not {named.tolist()[:20]}.")
    return replace(found, classes=named)


class _Probe:
    """Points to compare on: as rows, and as the model itself takes them."""

    def __init__(self, X: Any, x: Tensor | None, shape: tuple[int, ...]) -> None:
        self.given, self.x, self.shape = X, x, shape

    @classmethod
    def of(cls, X: Any) -> "_Probe":
        return cls(None, None, ()) if X is None else cls(X, as_points(X)[:ROWS], point_shape(X))

    def rows(self, net: nn.Module) -> Tensor:
        """Points (n, d) of the network's dimension."""
        dim = input_dim(net)
        if self.x is None:
            return torch.randn(16, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        if self.x.shape[1] != dim:
            raise ValueError(f"The points have {self.x.shape[1]} coordinates, the model takes {dim}.")
        return self.x


def _read(model: Any, probe: _Probe) -> Classifier:
    if isinstance(model, Classifier):
        return model
    if isinstance(model, str | Path):
        return _file(Path(model).expanduser(), probe)
    if isinstance(model, type):
        raise ValueError(f"{model.__name__} is a class; give an instance of it, fitted or trained.")
    if isinstance(model, nn.Module):
        return _module(model, probe)
    if hasattr(model, "fit") or hasattr(model, "to_torch"):
        chain, classes = read_estimator(model)
        found = Classifier(chain.network(), classes, origin=_origin(f"scikit-learn {type(model).__name__}"))
        check_estimator(found, model, probe.rows(found.net), probe.given)
        return found
    raise ValueError(f"{type(model).__name__} is no model that can be read; wanted is {KNOWN}.")


def _file(path: Path, probe: _Probe) -> Classifier:
    if path.suffix.lower() == ".npz":
        net, classes = read_archive(path)
        probe.rows(net)
        return Classifier(net, classes, origin=_origin_of_archive(path))
    if path.suffix.lower() != ".onnx":
        raise ValueError(
            f"{path} is neither an .onnx nor an .npz file; load other models in Python and give them as they are."
        )
    graph = read_onnx(path)
    dim = None if probe.x is None else probe.x.shape[1]
    try:
        origin = _origin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        found = Classifier(graph.chain.network(dim), graph.classes, origin=origin)
    except Unreadable as error:
        raise ValueError(f"{path} cannot be read as a network: {error}.") from error
    if doubt := check_graph(found, graph, probe.rows(found.net)):
        reader = f"{found.origin.reader}, {doubt}"
        return replace(found, origin=replace(found.origin, reader=reader))
    return found


def _module(module: nn.Module, probe: _Probe) -> Classifier:
    """Our own as they are; others traced, and only called where that fails."""
    if isinstance(module, TwoLogits):
        return _module(module.net, probe)
    origin = _origin(f"torch module {type(module).__name__}", _state_sha256(module))
    if net := read_ours(module):
        probe.rows(net)
        return Classifier(net, origin=origin)
    module, own = copied(module), numbers_of(module)
    try:
        chain = read_graph(trace(module.double()))
        net = chain.network(None if probe.x is None else probe.x.shape[1])
    except Unreadable as error:
        return _called(module, probe, str(error), own)
    x = probe.rows(net)
    check_module(net, chain.tail, called(module, x, probe.shape or (x.shape[1],), own), x)
    return Classifier(net, origin=origin)


def _origin(source: str, sha256: str | None = None) -> Source:
    return Source(source=source, source_sha256=sha256, reader=f"featureprism {_version()}")


def _version() -> str:
    try:
        return version("featureprism")
    except PackageNotFoundError:
        return "(not installed)"


def _origin_of_archive(path: Path) -> Source:
    """What the file says of itself, or the file."""
    found = read_arrays(path)
    words = {name: str(found[name]) for name in ("source", "source_sha256", "reader") if name in found}
    return replace(_origin(path.name, hashlib.sha256(path.read_bytes()).hexdigest()), **words)


def _state_sha256(module: nn.Module) -> str:
    """Of all weights and buffers: name, type, shape and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _called(module: nn.Module, probe: _Probe, reason: str, own: torch.dtype) -> Classifier:
    """A module that can only be attacked, and why."""
    if probe.x is None:
        raise ValueError(
            f"The module cannot be read as layers: {reason}; give points (probe=X) to call it on."
        )
    scores = called(module, probe.x, probe.shape, own)
    with contextlib.suppress(Unreadable):  # what cannot be traced is called as it is
        drop_tail(scores, trace(module))
    refuse_probabilities(scores, probe.x)
    return Classifier(scores, reason=reason)
