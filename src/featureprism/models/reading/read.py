"""One reader for people's own models: torch modules, scikit-learn estimators, ONNX and .npz files, and this library's networks."""

import contextlib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism.checker.arrays import read_arrays
from featureprism.checker.proofs import Source
from featureprism.inputs import as_points, point_shape
from featureprism.models.protocols import HasOneOutput
from featureprism.models.reading.agreement import check_estimator, check_module, check_onnx
from featureprism.models.reading.archives import read_archive
from featureprism.models.reading.called import called, drop_tail, numbers_of, refuse_probabilities, traced
from featureprism.models.reading.classifier import Classifier, NotANetwork
from featureprism.models.reading.estimators import read_estimator
from featureprism.models.reading.graph import GraphScores, Node, Unreadable, Value, bare
from featureprism.models.reading.lowering import as_network
from featureprism.models.reading.modules import copied, plausible_shapes, read_module
from featureprism.models.reading.onnx_files import read_onnx
from featureprism.models.reading.ours import input_dim, read_ours

KNOWN = (
    "a torch module, a scikit-learn classifier or pipeline, one of this library's networks or heads, "
    "a function of points, or the path of an .onnx or .npz file"
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


@dataclass(frozen=True, eq=False)
class _Probe:
    """Points to compare on: as the model itself takes them, as rows, and the shape of one."""

    given: Any
    x: Tensor | None
    shape: tuple[int, ...] | None

    @classmethod
    def of(cls, X: Any) -> "_Probe":
        return cls(None, None, None) if X is None else cls(X, as_points(X)[:ROWS], point_shape(X))

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
        net, names = read_estimator(model)
        found = Classifier(net, names, origin=_origin(f"scikit-learn {type(model).__name__}"))
        check_estimator(found, model, probe.rows(found.net), probe.given)
        return found
    if hasattr(model, "predict") or callable(model):
        raise NotANetwork("a function is only called")
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
    file = read_onnx(path, probe.shape)
    try:
        net, reason = _network(file.scores)
        origin = _origin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        found = Classifier(net, file.classes, reason, origin)
    except Unreadable as error:
        raise ValueError(f"{path} cannot be read as a network: {error}.") from error
    if doubt := check_onnx(found, file, probe.rows(found.net)):
        return replace(found, origin=replace(found.origin, reader=f"{found.origin.reader}, {doubt}"))
    return found


def _network(scores: Node) -> tuple[nn.Module, str]:
    """Dense layers where they exist and fit; otherwise the graph itself, and why it cannot be certified yet."""
    try:
        return as_network(scores), ""
    except Unreadable as error:
        return GraphScores(scores), str(error)


def _module(module: nn.Module, probe: _Probe) -> Classifier:
    """Our own as they are; others followed step by step, and only called where that fails."""
    if isinstance(module, HasOneOutput):
        return _module(module.one_output, probe)
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise ValueError("The module has lazy layers without weights yet; call it once on points first.")
    origin = _origin(f"torch module {type(module).__name__}", _state_sha256(module))
    if net := read_ours(module):
        probe.rows(net)
        return Classifier(net, origin=origin)
    module, own = copied(module), numbers_of(module)
    shapes = [] if probe.shape is None else [probe.shape]
    if len(probe.shape or (1,)) == 1:  # another number of coordinates is told as such
        shapes += plausible_shapes(module)
    try:
        value, shape = _followed(module.double(), shapes)
        scores, tail = bare(value)
        net, reason = _network(scores)
    except Unreadable as error:
        return replace(_called(module, probe, str(error), own), origin=origin)
    x = probe.rows(net)
    check_module(net, tail, called(module, x, shape, own), x)
    return Classifier(net, reason=reason, origin=origin)


def _followed(module: nn.Module, shapes: Iterable[tuple[int, ...]]) -> tuple[Value, tuple[int, ...]]:
    """The scores of a module, and the first shape of points that it takes."""
    first: Unreadable | None = None
    for shape in shapes:
        try:
            return read_module(module, shape), shape
        except Unreadable as error:
            first = first or error
    raise first or Unreadable("no layer says how many inputs it takes")


def _called(module: nn.Module, probe: _Probe, reason: str, own: torch.dtype) -> Classifier:
    """A module that can only be attacked, and why."""
    if probe.x is None or probe.shape is None:
        raise ValueError(
            f"The module cannot be read as layers: {reason}; give points (probe=X) to call it on."
        )
    scores = called(module, probe.x, probe.shape, own)
    with contextlib.suppress(Unreadable):  # what cannot be traced is called as it is
        drop_tail(scores, traced(module))
    refuse_probabilities(scores, probe.x)
    return Classifier(scores, reason=reason)


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
