"""Models as the checker reads them: plain arrays from an .npz file, turned into the margins that proofs speak of."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from featureprism.checker.arrays import arrays_of, read_arrays, real_number, real_numbers
from featureprism.checker.enclosed import down
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.scaled import Network, Neurons, is_weights, refuse_unless

NORMALISED = {"relu": False, "polynomial": False, "prelu": True}


@dataclass(frozen=True, eq=False)
class Scores:
    """k classes on one hidden layer: the score of class r is Σ_j V_jr [⟨w_j, x⟩ + b_j]₊^p + c_r."""

    W: np.ndarray  # (h, d)
    b: np.ndarray  # (h,)
    V: np.ndarray  # (h, k)
    c: np.ndarray  # (k,)
    p: float

    def __post_init__(self) -> None:
        refuse_unless(isinstance(self.V, np.ndarray) and self.V.ndim == 2, "weights V (h, k)")
        h, k = self.V.shape
        refuse_unless(
            is_weights(self.V, (h, k)) and k > 1, "V as a float64 array (h, k) of usual numbers, k ≥ 2"
        )
        refuse_unless(is_weights(self.c, (k,)), f"c as a float64 array ({k},) of usual numbers")
        refuse_unless(isinstance(self.W, np.ndarray) and len(self.W) == h, f"weights W of {h} neurons")
        refuse_unless(is_weights(self.b, (h,)), f"b as a float64 array ({h},) of usual numbers")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    @cached_property
    def _with_constant(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, Neurons]:
        """W, b, V with one neuron that is always 1 and votes c."""
        W = np.concatenate([self.W, np.zeros_like(self.W[:1])])
        return W, np.append(self.b, 1.0), np.concatenate([self.V, self.c[None]]), Neurons(W)

    @lru_cache(maxsize=128)  # noqa: B019 - a few margins of few models
    def margin(self, own: int, rival: int) -> tuple[Network, float]:
        """f_own - f_rival, each weight a difference rounded once, and the sign that `own` has there."""
        W, b, V, neurons = self._with_constant
        return Network(W, V[:, own] - V[:, rival], b, self.p, False, neurons), 1.0


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """A network with one output: class 1 where it is positive, class 0 where it is negative."""

    network: Network
    num_classes = 2

    def margin(self, own: int, _rival: int) -> tuple[Network, float]:
        """The network, and the sign that `own` has there."""
        return self.network, 1.0 if own else -1.0


Model = Scores | TwoClasses | LinearScores | QuadraticScores | Layers


def input_dim(model: Model) -> int:
    """d."""
    match model:
        case Layers():
            return model.weights[0].shape[1]
        case TwoClasses():
            return model.network.W.shape[1]
        case Scores():
            return model.W.shape[1]
        case _:
            return model.V.shape[1]


def as_layers(model: Model) -> Layers | None:
    """Layers that compute the same: of layers themselves, and of one hidden layer of ReLU; None for others."""
    match model:
        case Layers():
            return model
        case Scores() if model.p == 1:
            return Layers((model.W, np.ascontiguousarray(model.V.T)), (model.b, model.c), "relu")
        case TwoClasses() if model.network.p == 1 and not model.network.normalised:
            n = model.network
            return Layers((n.W, np.stack([np.zeros_like(n.a), n.a])), (n.b, np.zeros(2)), "relu")
        case _:
            return None


def demanding(model: Model, own: int, margin: float) -> Model:
    """The model whose class `own` wins only where it did by more than the margin: its offset is lowered, rounded down."""
    if margin == 0:
        return model
    if isinstance(model, Layers):
        return replace(model, biases=(*model.biases[:-1], _lowered(model.biases[-1], own, margin)))
    refuse_unless(
        not isinstance(model, TwoClasses), "a model with a score for each class where margins are asked for"
    )
    assert not isinstance(model, TwoClasses)
    return replace(model, c=_lowered(model.c, own, margin))


def _lowered(c: np.ndarray, own: int, margin: float) -> np.ndarray:
    lower = c.copy()
    lower[own] = down(c[own] - margin)
    return lower


def named_arrays(model: Model) -> tuple[str, dict[str, np.ndarray]]:
    """The form of a model, and its arrays in the order of the format."""
    match model:
        case LinearScores():
            return "linear", {"V": model.V, "c": model.c}
        case QuadraticScores():
            return "quadratic", {"A": model.A, "V": model.V, "c": model.c}
        case Scores():
            power = np.array(float(model.p))
            return "scores", {"W": model.W, "b": model.b, "V": model.V, "c": model.c, "p": power}
        case TwoClasses():
            n = model.network
            form = "network normalised" if n.normalised else "network"
            return form, {"W": n.W, "a": n.a, "b": n.b, "p": np.array(float(n.p))}
        case Layers():
            pairs = enumerate(zip(model.weights, model.biases, strict=True), start=1)
            arrays = {
                f"{name}{i}": array for i, layer in pairs for name, array in zip("Wb", layer, strict=True)
            }
            return f"layers {model.activation}", arrays


def model_sha256(model: Model) -> str:
    """SHA-256 of the weights, whatever file they stood in (docs/proof_format.md, "Hashes")."""
    form, arrays = named_arrays(model)
    digest = hashlib.sha256(f"featureprism model 2\n{form}\n".encode())
    for name, array in arrays.items():
        digest.update(f"{name} {'x'.join(map(str, array.shape))}\n".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def points_sha256(x: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 of points (n, d) and their labels as positions (n,)."""
    digest = hashlib.sha256(f"featureprism points 2\nx {'x'.join(map(str, x.shape))}\n".encode())
    digest.update(np.ascontiguousarray(x, dtype="<f8").tobytes())
    digest.update(f"label {len(labels)}\n".encode())
    digest.update(np.ascontiguousarray(labels, dtype="<i8").tobytes())
    return digest.hexdigest()


def read_weights(path: Path) -> tuple[Model, np.ndarray | None]:
    """The model of an .npz file (docs/proof_format.md, "Models"), and its classes if they are named."""
    return model_of(read_arrays(path), str(path))


def weights_of(content: bytes, name: str = "the model") -> tuple[Model, np.ndarray | None]:
    """The same from the content of the file."""
    return model_of(arrays_of(content, name), name)


def model_of(found: dict[str, np.ndarray], name: str) -> tuple[Model, np.ndarray | None]:
    """The same from arrays by name."""
    try:
        return _form(found), found.get("classes")
    except (ValueError, IndexError, TypeError) as error:  # shapes that do not fit each other
        raise ValueError(f"{name} holds no model that can be checked: {error}") from error


def _form(found: dict[str, np.ndarray]) -> Model:
    kind = str(found.get("activation"))
    if kind == "linear":
        _lacks(found, "V")
        V = real_numbers(found["V"], "V")
        return LinearScores(V, _numbers(found, "c", len(np.atleast_1d(V))))
    if kind == "quadratic":
        _lacks(found, "A", "V", "c")
        return QuadraticScores(*(real_numbers(found[name], name) for name in "AVc"))
    if "W1" in found:
        return _layers(found, kind)
    _lacks(found, "W", "activation")
    W = real_numbers(found["W"], "W")
    refuse_unless(W.ndim == 2 and W.size > 0, "W (h, d)")
    b = _numbers(found, "b", len(W))
    if "V" in found:
        V = real_numbers(found["V"], "V")
        refuse_unless(V.ndim == 2, "V (h, k)")
        return _scores(W, b, V, _numbers(found, "c", V.shape[1]), kind, found)
    if {
        "owner",
        "votes",
        "classes",
    } <= found.keys():  # a saved head: the votes of neuron j are for class owner_j
        classes = np.arange(found["classes"].size)
        V = real_numbers(found["votes"], "votes")[:, None] * (found["owner"][:, None] == classes)
        return Scores(W, b, V, np.zeros(len(classes)), _power(found))
    _lacks(found, "a")
    a = real_numbers(found["a"], "a")
    refuse_unless(a.shape == b.shape, f"a ({len(b)},)")
    c = real_numbers(found["c"], "c").reshape(-1) if "c" in found else None
    if c is None and kind in NORMALISED:
        return TwoClasses(Network(W, a, b, _power(found, kind), NORMALISED[kind]))
    both = np.zeros(2) if c is None else np.append(0.0, c) if c.size == 1 else c
    refuse_unless(both.shape == (2,), "c as one number, or one for each of two classes")
    return _scores(W, b, np.stack([np.zeros_like(a), a], axis=1), both, kind, found)


def _scores(
    W: np.ndarray, b: np.ndarray, V: np.ndarray, c: np.ndarray, kind: str, found: dict[str, np.ndarray]
) -> Model:
    if kind in ("tanh", "gelu", "silu"):
        return Layers((W, np.ascontiguousarray(V.T)), (b, c), kind)
    refuse_unless(
        kind in ("relu", "polynomial"),
        f"scores of relu, polynomial, tanh, gelu or silu neurons, not of {kind}",
    )
    return Scores(W, b, V, c, _power(found, kind))


def _layers(found: dict[str, np.ndarray], kind: str) -> Layers:
    """W1, b1, W2, b2, … and activation."""
    depth = 0
    while f"W{depth + 1}" in found:
        depth += 1
    names = [f"{n}{i + 1}" for i in range(depth) for n in "Wb"]
    _lacks(found, *names)
    arrays = [real_numbers(found[name], name) for name in names]
    return Layers(tuple(arrays[::2]), tuple(arrays[1::2]), kind)


def _power(found: dict[str, np.ndarray], kind: str = "") -> float:
    p = real_number(found["p"], "p") if "p" in found else 1.0
    refuse_unless(kind != "relu" or p == 1, "p = 1 with relu")
    refuse_unless("p" in found or kind == "relu", "p")
    return p


def _numbers(found: dict[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """A vector; zeros where it is missing."""
    return real_numbers(np.atleast_1d(found[name]), name) if name in found else np.zeros(size)


def _lacks(found: dict[str, np.ndarray], *names: str) -> None:
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"it lacks {', '.join(missing)}; it has {', '.join(found) or 'nothing'}.")
