"""Models as the checker reads them: plain arrays from an .npz file, turned into the margins that proofs speak of."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.scaled import Network, Neurons, is_array, refuse_unless
from featureprism.files import read_arrays, real_number, real_numbers

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
        refuse_unless(is_array(self.V, (h, k)) and k > 1, "V as a finite float64 array (h, k), k ≥ 2")
        refuse_unless(is_array(self.c, (k,)), f"c as a finite float64 array ({k},)")
        refuse_unless(isinstance(self.W, np.ndarray) and len(self.W) == h, f"weights W of {h} neurons")

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


def read_weights(path: Path) -> tuple[Model, np.ndarray | None]:
    """The model of an .npz file (W, b, a or V, c, activation, p; linear: V, c; quadratic: A, V, c), its classes if named."""
    found = read_arrays(path)
    kind = str(found.get("activation"))
    if kind == "linear" and {"V", "c"} <= found.keys():
        return LinearScores(*(real_numbers(found[name], name) for name in "Vc")), found.get("classes")
    if kind == "quadratic" and {"A", "V", "c"} <= found.keys():
        return QuadraticScores(*(real_numbers(found[name], name) for name in "AVc")), found.get("classes")
    if "W1" in found:
        return _layers(found, path), found.get("classes")
    missing = [name for name in ("W", "activation") if name not in found]
    if missing or not {"a", "V", "owner"} & found.keys():
        raise ValueError(
            f"{path} lacks {', '.join([*missing, 'a or V'])}; it has {', '.join(found) or 'nothing'}."
        )
    name = str(found["activation"])
    if name == "tanh" and "V" in found:
        return _layers(_as_layers(found), path), found.get("classes")
    if name not in NORMALISED:
        raise ValueError(f"{path}: proofs exist for {', '.join(NORMALISED)} networks, not for {name!r}.")
    try:
        p = real_number(found["p"], "p") if "p" in found else 1.0
        W = real_numbers(found["W"], "W")
        b = real_numbers(found["b"], "b") if "b" in found else np.zeros(len(W))
        return _model(found, W, b, p, NORMALISED[name]), found.get("classes")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _as_layers(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One hidden layer W, b, V, c under the names of several."""
    W, V = found["W"], found["V"]
    b, c = found.get("b", np.zeros(len(W))), found.get("c", np.zeros(V.shape[-1]))
    return {"W1": W, "b1": b, "W2": np.ascontiguousarray(V.T), "b2": c, "activation": found["activation"]}


def _layers(found: dict[str, np.ndarray], path: Path) -> Layers:
    """W1, b1, W2, b2, … and activation."""
    depth = sum(name.startswith("W") for name in found)
    try:
        if missing := [f"{n}{i + 1}" for i in range(depth) for n in "Wb" if f"{n}{i + 1}" not in found]:
            raise ValueError(f"it lacks {', '.join(missing)}")
        weights = tuple(real_numbers(found[f"W{i + 1}"], f"W{i + 1}") for i in range(depth))
        biases = tuple(real_numbers(found[f"b{i + 1}"], f"b{i + 1}") for i in range(depth))
        return Layers(weights, biases, str(found.get("activation")))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _model(
    found: dict[str, np.ndarray], W: np.ndarray, b: np.ndarray, p: float, normalised: bool
) -> Scores | TwoClasses:
    if "V" not in found and "owner" in found:  # a saved head: the votes of neuron j are for class owner_j
        classes = np.arange(found["classes"].size)
        votes = real_numbers(found["votes"], "votes")
        return Scores(W, b, votes[:, None] * (found["owner"][:, None] == classes), np.zeros(len(classes)), p)
    if "V" in found:
        refuse_unless(not normalised, "V with relu or polynomial neurons, not with prelu")
        V = real_numbers(found["V"], "V")
        return Scores(W, b, V, real_numbers(found["c"], "c") if "c" in found else np.zeros(V.shape[-1]), p)
    return TwoClasses(Network(W, real_numbers(found["a"], "a"), b, p, normalised))
