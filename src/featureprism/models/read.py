"""One reader for people's own models: torch modules, scikit-learn estimators, ONNX and .npz files, and this library's networks."""

import hashlib
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism._inputs import as_points, point_shape
from featureprism.checker.proofs import Source
from featureprism.models.archives import read_archive, stated_origin
from featureprism.models.model import Model, NotANetwork, as_model
from featureprism.models.protocols import HasOneOutput

KNOWN = (
    "a torch module, a scikit-learn classifier or pipeline, one of this library's networks or heads, "
    "a function of points, or the path of an .onnx or .npz file"
)
ROWS = 256  # points that a network is compared on


def read_model(model: Any, classes: Any = None, *, probe: Any = None) -> Model:
    """Read a model as a network, and compare the two.

    Parameters
    ----------
    model : any model that `robust_radius` takes
        The model, which is not changed.
    classes : sequence, optional
        Names of the labels in the order of the scores, where the model has none.
    probe : array (n, d), optional
        Points at which the network that was read is compared with the model; by default points drawn from N(0, I).

    Returns
    -------
    Model
        The network with its labels.

    Raises
    ------
    ValueError
        If the model cannot be read, or the network that was read disagrees with it.
    """
    found = _read(model, Probe.of(probe))
    if classes is None:
        return found
    named = np.array(np.asarray(classes).tolist())
    known = None if found.classes is None else found.classes.tolist()
    if known is not None and known not in (named.tolist(), list(range(len(known)))):
        raise ValueError(f"The model's classes are {known[:20]}, not {named.tolist()[:20]}.")
    return replace(found, classes=named)


@dataclass(frozen=True, eq=False)
class Probe:
    """Points to compare on: as the model itself takes them, as rows, and the shape of one."""

    given: Any
    x: Tensor | None
    shape: tuple[int, ...] | None

    @classmethod
    def of(cls, X: Any) -> "Probe":
        return cls(None, None, None) if X is None else cls(X, as_points(X)[:ROWS], point_shape(X))

    def rows(self, dim: int | None) -> Tensor:
        """Points (n, d) of the model's dimension."""
        if self.x is None:
            assert dim is not None
            return torch.randn(16, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        if dim not in (None, self.x.shape[1]):
            raise ValueError(f"The points have {self.x.shape[1]} coordinates, the model takes {dim}.")
        return self.x


def _read(model: Any, probe: Probe) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, str | Path):
        return _file(Path(model).expanduser(), probe)
    if isinstance(model, type):
        raise ValueError(f"{model.__name__} is a class; give an instance of it, fitted or trained.")
    if isinstance(model, nn.Module):
        return _module(model, probe)
    if hasattr(model, "fit") or hasattr(model, "to_torch"):
        from featureprism.models.reading.foreign import read_fitted  # brings scikit-learn along

        return replace(read_fitted(model, probe), origin=_origin(f"scikit-learn {type(model).__name__}"))
    if hasattr(model, "predict") or callable(model):
        raise NotANetwork("a function is only called")
    raise ValueError(f"{type(model).__name__} is no model that can be read; wanted is {KNOWN}.")


def _file(path: Path, probe: Probe) -> Model:
    if path.suffix.lower() == ".npz":
        found = read_archive(path)
        probe.rows(found.dim)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return replace(found, origin=replace(_origin(path.name, digest), **stated_origin(path)))
    if path.suffix.lower() != ".onnx":
        raise ValueError(
            f"{path} is neither an .onnx nor an .npz file; load other models in Python and give them as they are."
        )
    from featureprism.models.reading.foreign import read_onnx_file  # brings scipy along

    found, doubt = read_onnx_file(path, probe)
    origin = _origin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    reader = f"{origin.reader}, {doubt}" if doubt else origin.reader
    return replace(found, origin=replace(origin, reader=reader))


def _module(module: nn.Module, probe: Probe) -> Model:
    """Our own as they are; others followed step by step, and only called where that fails."""
    if isinstance(module, HasOneOutput):
        return _module(module.one_output, probe)
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise ValueError("The module has lazy layers without weights yet; call it once on points first.")
    origin = _origin(f"torch module {type(module).__name__}", _state_sha256(module))
    if found := as_model(module):
        probe.rows(found.dim)
        return replace(found, origin=origin)
    from featureprism.models.reading.foreign import read_foreign  # brings scipy along

    return replace(read_foreign(module, probe), origin=origin)


def _origin(source: str, sha256: str | None = None) -> Source:
    return Source(source=source, source_sha256=sha256, reader=f"featureprism {_version()}")


def _version() -> str:
    try:
        return version("featureprism")
    except PackageNotFoundError:
        return "(not installed)"


def _state_sha256(module: nn.Module) -> str:
    """Of all weights and buffers: name, type, shape and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
