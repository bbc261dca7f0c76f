"""One reader for people's own models: torch modules, scikit-learn estimators, ONNX and .npz files, and this library's networks."""

import hashlib
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism._inputs import LARGEST, as_points, check_points, point_shape
from featureprism.checker.arrays import read_arrays, real_number, real_numbers
from featureprism.checker.models import model_of
from featureprism.checker.proofs import Source
from featureprism.models.activations import Activation, PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.models.model import Model, NotANetwork, as_model, of_weights
from featureprism.models.one_layer import TwoLayerNet
from featureprism.models.protocols import HasOneOutput

WANTED = {"W": "(h, d) with at least one neuron and dimension", "V": "(h, k) with at least one class"}
NAMES = ("relu", "prelu", "polynomial", "tanh")
POWERS = {"prelu": PolynomialReLU, "polynomial": PowerReLU}


def read_archive(path: Path) -> Model:
    """The model of an .npz file (docs/proof_format.md, "Models")."""
    arrays = read_arrays(path)
    kind = str(arrays.get("activation"))
    if not {"V", "W1", "c", "owner"} & arrays.keys() and kind not in ("linear", "quadratic"):
        one_output = as_model(load_net(path))
        assert one_output is not None
        return replace(one_output, classes=arrays.get("classes"))
    if {"a", "V"} <= arrays.keys():
        raise ValueError(f"{path} has both a and V: votes for one output, or for every class?")
    if kind == "linear" and (extra := [name for name in ("W", "a", "b", "p") if name in arrays]):
        raise ValueError(f"{path}: a linear model has V (k, d) and c (k,) only, got {', '.join(extra)} too.")
    if {"owner", "classes"} <= arrays.keys():
        every = np.arange(arrays["classes"].size)
        if not np.isin(arrays["owner"], every).all():
            raise ValueError(f"{path}: owner must name a class of every neuron, counted from 0.")
    if kind == "prelu" and "V" in arrays:
        arrays = _as_powers(arrays)
    weights, classes = model_of(arrays, str(path))
    return of_weights(weights, classes=classes)


def stated_origin(path: Path) -> dict[str, str]:
    """What a file says of where its model was read from."""
    arrays = read_arrays(path)
    return {name: str(arrays[name]) for name in ("source", "source_sha256", "reader") if name in arrays}


def _as_powers(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """pReLU scores as powers of unit neurons: ‖w‖[⟨w/‖w‖, x⟩ + b/‖w‖]₊^p; a zero neuron gives 0."""
    W, V = (np.atleast_2d(real_numbers(found[name], name)) for name in "WV")
    norms = np.linalg.norm(W, axis=1)
    unit = np.where(norms > 0, norms, 1.0)
    b = np.where(norms > 0, real_numbers(found["b"], "b") / unit, 0.0) if "b" in found else np.zeros(len(W))
    powers = {
        "W": W / unit[:, None],
        "V": V * norms[: len(V), None],
        "b": b,
        "activation": np.array("polynomial"),
    }
    return found | powers


def lacks(found: dict[str, np.ndarray], needed: tuple[str, ...], path: Path) -> None:
    """Say what a file lacks, and what it has."""
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(found) or 'nothing'}.")


def activation_of(name: str, p: float | None) -> Activation:
    """The activation of a name and a power."""
    if name not in NAMES:
        raise ValueError(f"Unknown activation {name!r}; choose one of {', '.join(NAMES)}.")
    if name in POWERS:
        if p is None:
            raise ValueError(f"The activation {name!r} needs p.")
        return POWERS[name](p)
    if p is not None and not (name == "relu" and p == 1):
        raise ValueError(
            f"The activation {name!r} has no power, got p = {p:g}; leave p out, or choose prelu or polynomial."
        )
    return ReLU() if name == "relu" else Tanh()


def load_net(path: Path) -> TwoLayerNet:
    """Read a network with one hidden layer from an .npz file.

    Parameters
    ----------
    path : path
        A file with W (h, d), a (h,), optional b (h,), activation (relu, prelu, polynomial, tanh) and p.

    Returns
    -------
    TwoLayerNet
        In the precision of the file.

    Raises
    ------
    ValueError
        If the file does not hold such a network.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import featureprism as fp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "net.npz"
    ...     np.savez(path, W=np.eye(2), a=np.array([1.0, -1.0]), activation="relu")
    ...     net = fp.networks.load_net(path)
    >>> net.activation
    ReLU()
    """
    found = read_arrays(path)
    if "a" not in found and {"owner", "classes"} <= found.keys():
        raise ValueError(
            f"{path} is a saved head of {found['classes'].size} classes: it lacks a, the signed votes of a network of two. "
            f"'featureprism audit EMBEDDINGS.npz --head {path}' and, in Python, load_head(path).robust_radius(X, y) are for it."
        )
    lacks(found, ("W", "a", "activation"), path)
    try:
        p = real_number(found["p"], "p") if "p" in found else None
        activation = activation_of(str(found["activation"]), p)
        return TwoLayerNet(
            *(weights_of(found[name], name) for name in ("W", "a", "b") if name in found),
            activation=activation,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def weights_of(array: np.ndarray, name: str) -> Tensor:
    """A matrix W (h, d) or V (h, k), or a vector, in float64; refuses what is empty or overflows when squared."""
    axes = 2 if name in WANTED else 1
    values = real_numbers(array, name)
    if values.ndim != axes or not values.size:
        wanted = WANTED.get(name, "(h,)")
        raise ValueError(f"{name} must have the shape {wanted}, got {values.shape}.")
    largest = np.abs(values).max(initial=0.0)
    if LARGEST < largest < np.inf:
        raise ValueError(
            f"{name} has weights up to {largest:.3g}, which overflow when squared; scale them to below {LARGEST:g}."
        )
    return torch.as_tensor(values)


def save_net(path: Path, net: TwoLayerNet) -> None:
    """Write a network with one hidden layer to an .npz file that `load_net` reads.

    Parameters
    ----------
    path : path
        Where to write.
    net : TwoLayerNet
        What to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.gaussian_start(3, 5, 0.1, fp.networks.PolynomialReLU(3), generator=fp.generator_for("start", 0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fp.networks.save_net(Path(folder) / "net.npz", net)
    ...     again = fp.networks.load_net(Path(folder) / "net.npz")
    >>> again.activation, torch.allclose(again.W.double(), net.W.double())
    (PolynomialReLU(p=3.0), True)
    """
    name = {ReLU: "relu", Tanh: "tanh", PolynomialReLU: "prelu", PowerReLU: "polynomial"}[
        type(net.activation)
    ]
    arrays = {"W": net.W, "a": net.a} | ({} if net.b is None else {"b": net.b})
    values = {key: value.detach().numpy() for key, value in arrays.items()}
    extra = {"p": np.array(net.activation.p)} if name in POWERS else {}
    np.savez(path, **values, **extra, activation=np.array(name))  # pyright: ignore[reportArgumentType]


def load_points(path: Path, dim: int) -> tuple[Tensor, Tensor]:
    """Points x (n, dim) and labels y (n,) in {-1, +1}; at least one."""
    found = read_arrays(path)
    lacks(found, ("x", "y"), path)
    try:
        x, y = (torch.as_tensor(real_numbers(found[name], name)) for name in ("x", "y"))
        check_points(x, y, at_least=1)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if x.shape[1] != dim:
        raise ValueError(f"{path} has points of dimension {x.shape[1]}, the network takes {dim}.")
    return x, y


def save_points(path: Path, x: Tensor, y: Tensor) -> None:
    """The file that `load_points` reads."""
    np.savez(path, x=x.numpy(), y=y.numpy())


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

    Examples
    --------
    >>> import featureprism as fp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = fp.read_model(LogisticRegression(max_iter=500).fit(X, y))
    >>> model.dim, model.num_classes, model.classes.tolist()
    (4, 3, [0, 1, 2])
    """
    network = _read(model, Probe.of(probe))
    if classes is None:
        return network
    named = np.array(np.asarray(classes).tolist())
    known = None if network.classes is None else network.classes.tolist()
    if known is not None and known not in (named.tolist(), list(range(len(known)))):
        raise ValueError(f"The model's classes are {known[:20]}, not {named.tolist()[:20]}.")
    return replace(network, classes=named)


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
        model = read_archive(path)
        probe.rows(model.dim)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return replace(model, origin=replace(_origin(path.name, digest), **stated_origin(path)))
    if path.suffix.lower() != ".onnx":
        raise ValueError(
            f"{path} is neither an .onnx nor an .npz file; load other models in Python and give them as they are."
        )
    from featureprism.models.reading.foreign import read_onnx_file  # brings scipy along

    model, doubt = read_onnx_file(path, probe)
    origin = _origin(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    reader = f"{origin.reader}, {doubt}" if doubt else origin.reader
    return replace(model, origin=replace(origin, reader=reader))


def _module(module: nn.Module, probe: Probe) -> Model:
    """Our own as they are; others followed step by step, and only called where that fails."""
    if isinstance(module, HasOneOutput):
        return _module(module.one_output, probe)
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise ValueError("The module has lazy layers without weights yet; call it once on points first.")
    origin = _origin(f"torch module {type(module).__name__}", _state_sha256(module))
    if model := as_model(module):
        probe.rows(model.dim)
        return replace(model, origin=origin)
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
