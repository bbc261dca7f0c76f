"""The exact checker: a proof file verified in rational arithmetic, with the standard library alone.

It follows docs/proof_format.md and shares no code with the fast checker. Every double is an integer times a power of two, so sums and
products are exact. Square roots, quotients and real powers are rounded to 256 bits towards the side that proves less. Vectors are
pairs (integers, e) that stand for the integers times 2^-e; scalars are fractions.
"""

import ast
import hashlib
import json
import math
import struct
import sys
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from io import BytesIO
from itertools import pairwise
from operator import mul
from typing import Any

BITS = 256  # of everything that is rounded; files leave a share 2^-33 of room
LARGEST = 1e100
SMALLEST = 1e-100
MAX_POWER = 64
MAX_CUTS = 100_000
MAX_LEVELS = 5000
MAX_SCALE = 10_000
MAX_FILE = 2**32
MAX_ARRAY = 2**31
MAX_MEMBERS = 10_000
MOST_WORK = 1e10  # multiplications that `featureprism check --exact` takes on: about an hour
EXACT_SIZE = 48  # larger matrices that 256 bits do not decide count as not positive

KINDS = (
    "closed form", "lipschitz", "crown", "lines", "cells", "ellipsoid", "deep", "norm product", "balls", "relaxation",
)  # fmt: skip
ACTIVATIONS = ("relu", "tanh", "gelu", "silu")
WITH_REGION = ("crown", "lines", "cells", "ellipsoid", "deep")

Vector = tuple[list[int], int]
Cuts = dict[int, Fraction]  # of neurons, the last value
Interval = tuple[Fraction, Fraction]
ZERO, ONE, HALF = Fraction(0), Fraction(1), Fraction(1, 2)


def verify(
    proofs: bytes, model: bytes, points: bytes, progress: Callable[[float], object] = lambda _: None
) -> list[float]:
    """Verified radius of every point: the least over target classes of the largest radius of a valid proof.

    Parameters
    ----------
    proofs, model, points
        Contents of a proof file, of a model file (.npz) and of a file of points (.npz).
    progress
        Called with the share of the work that is done.

    Returns
    -------
    list of float
        One radius for each point, 0 where a target class has no valid proof. The array `certified` of the file is not looked at.

    Raises
    ------
    ValueError
        If a file is malformed, or if the proofs are about another model or other points.

    References
    ----------
    docs/proof_format.md, version 2.
    """
    weights = read_model(model)
    file = read_proofs(proofs)
    check = _Check(file, weights, read_points(points, file.classes or weights.names, weights.num_classes))
    for m in range(len(file.kind)):
        check.structure(m)
    radii: dict[tuple[int, int], float] = {}
    costs = [cost(file, weights, m) for m in range(len(file.kind))]
    total, done = sum(costs) or 1.0, 0.0
    for m in sorted(range(len(file.kind)), key=lambda m: -file.radius[m]):
        pair = file.point[m], file.target[m]
        if pair not in radii and check.valid(m):  # a smaller radius of the same pair would not count
            radii[pair] = file.radius[m]
        done += costs[m]
        progress(done / total)
    others = [[r for r in range(weights.num_classes) if r != label] for label in file.label]
    return [min(radii.get((i, r), 0.0) for r in rest) for i, rest in enumerate(others)]


def estimate(proofs: bytes, model: bytes) -> float:
    """About how many multiplications `verify` needs, before any of them is done."""
    file, weights = read_proofs(proofs), read_model(model)
    return sum(cost(file, weights, m) for m in range(len(file.kind)))


# ---------------------------------------------------------------------------------------------------------------------------------
# Bytes


@dataclass(frozen=True)
class Entries:
    """One array of an archive in C order: floats, integers or words."""

    name: str
    type: str
    shape: tuple[int, ...]
    flat: Sequence[Any]

    def doubles(self, *, axes: int | None = None) -> "Entries":
        """The same numbers as doubles; NaN, infinities and words are refused."""
        _require(self.type != "U", f"The array {self.name} must hold numbers.")
        _require(axes is None or len(self.shape) == axes, f"The array {self.name} must have {axes} axes.")
        flat = self.flat if isinstance(self.flat, array) else array("d", map(float, self.flat))
        _require(
            all(abs(t) <= LARGEST for t in flat), f"The array {self.name} holds NaN or a number beyond 1e100."
        )
        return Entries(self.name, "f8", self.shape, flat)

    def rows(self) -> list[list[float]]:
        """The rows of a matrix."""
        n, d = self.shape
        return [list(self.flat[i * d : (i + 1) * d]) for i in range(n)]


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)


class Archive:
    """The arrays of an .npz file, each unpacked when it is asked for and never beyond its declared size."""

    def __init__(self, content: bytes, what: str) -> None:
        self.what = what
        try:
            self.zip = zipfile.ZipFile(BytesIO(content))
            members = self.zip.infolist()
        except (
            zipfile.BadZipFile,
            struct.error,
            ValueError,
            OSError,
            NotImplementedError,
            EOFError,
        ) as error:
            raise ValueError(f"The {what} is no .npz archive.") from error
        _require(len(members) <= MAX_MEMBERS, f"The {what} has more than {MAX_MEMBERS} members.")
        _require(
            sum(m.file_size for m in members) <= MAX_FILE,
            f"The {what} is larger than 2^32 bytes when unpacked.",
        )
        self.members = {m.filename: m for m in members}
        _require(len(self.members) == len(members), f"The {what} has two arrays of one name.")

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self.members

    def __getitem__(self, name: str) -> Entries:
        _require(name in self, f"The {self.what} has no array {name}.")
        member = self.members[f"{name}.npy"]
        _require(member.file_size <= MAX_ARRAY, f"The array {name} is larger than 2^31 bytes.")
        allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        _require(
            member.compress_type in allowed,
            f"The array {name} is packed in another way than zip's stored or deflated.",
        )
        try:
            with self.zip.open(member) as stream:
                data = stream.read(member.file_size + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            RuntimeError,
            OSError,
            EOFError,
            struct.error,
            ValueError,
        ) as error:
            raise ValueError(f"The array {name} of the {self.what} cannot be unpacked.") from error
        try:
            return _entries(name, data)
        except (
            struct.error,
            SyntaxError,
            TypeError,
            KeyError,
            RecursionError,
            MemoryError,
            UnicodeError,
        ) as error:
            raise ValueError(f"The array {name} of the {self.what} is not in numpy's .npy format.") from error

    def exactly(self, name: str, kind: str, axes: int) -> Entries:
        """An array of a proof file, which has one type and order only."""
        found = self[name]
        _require(
            found.type == kind and len(found.shape) == axes,
            f"The array {name} must be {kind} with {axes} axes.",
        )
        return found

    def word(self, name: str) -> str:
        return self.exactly(name, "U", 0).flat[0]


def _entries(name: str, data: bytes) -> Entries:
    """The entries of a member in numpy's .npy format."""
    wrong = f"The array {name} is not in numpy's .npy format."
    _require(data[:6] == b"\x93NUMPY" and data[6:8] in (b"\x01\x00", b"\x02\x00", b"\x03\x00"), wrong)
    start = 10 if data[6] == 1 else 12
    (length,) = struct.unpack("<H" if data[6] == 1 else "<I", data[8:start])
    _require(length <= 10_000 and start + length <= len(data), wrong)
    text = data[start : start + length].decode("latin1" if data[6] < 3 else "utf8")
    try:
        header = ast.literal_eval(text.strip())
    except ValueError as error:
        raise ValueError(wrong) from error
    _require(isinstance(header, dict) and set(header) == {"descr", "fortran_order", "shape"}, wrong)
    descr, shape, body = header["descr"], header["shape"], data[start + length :]
    _require(
        isinstance(descr, str) and len(descr) >= 3 and descr[0] in "<>|",
        f"The array {name} is of a refused type.",
    )
    _require(isinstance(header["fortran_order"], bool), wrong)
    _require(isinstance(shape, tuple) and all(type(s) is int and s >= 0 for s in shape), wrong)
    count = math.prod(shape)
    codes = {"f8": "d", "f4": "f", "f2": "e", "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q"}
    codes |= {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
    kind = descr[1:]
    if kind[0] == "U" and kind[1:].isdecimal() and len(kind) < 12 and descr[0] in "<>":
        size = 4 * int(kind[1:])
        _require(len(body) == count * size, wrong)
        code = "utf-32-le" if descr[0] == "<" else "utf-32-be"
        flat: Sequence[Any] = [
            body[i * size : (i + 1) * size].decode(code).rstrip("\0") for i in range(count if size else 0)
        ] or [""] * min(count, MAX_CUTS)
        kind = "U"
    else:
        _require(
            kind in codes and (descr[0] != "|" or kind[1] == "1"), f"The array {name} is of a refused type."
        )
        _require(len(body) == count * int(kind[1]), wrong)
        if kind == "f8":
            flat = array("d", body)
            if (descr[0] == ">") == (sys.byteorder == "little"):
                flat.byteswap()
        else:
            flat = struct.unpack(f"{descr[0].replace('|', '<')}{count}{codes[kind]}", body)
    _require(len(flat) == count, wrong)
    if header["fortran_order"] and len(shape) > 1 and count:
        flat = _c_order(flat, shape)
    return Entries(name, kind, shape, flat)


def _c_order(flat: Sequence[Any], shape: tuple[int, ...]) -> Sequence[Any]:
    """Entries whose first index runs fastest, in the order in which the last one does."""
    places = [0]
    stride = 1
    for size in shape:
        places = [p + stride * i for p in places for i in range(size)]
        stride *= size
    ordered = [flat[p] for p in places]
    return array("d", ordered) if isinstance(flat, array) else ordered


# ---------------------------------------------------------------------------------------------------------------------------------
# Models and points


@dataclass
class Model:
    """One of the canonical forms; `arrays` in the order in which they are hashed."""

    form: str
    arrays: dict[str, Entries]
    names: list[Any] | None
    p: Fraction = ONE
    cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def last_biases(self) -> Sequence[float]:
        if self.form.startswith("network"):
            return (0.0, 0.0)
        return list(self.arrays.values())[-2 if self.form == "scores" else -1].flat

    @property
    def num_classes(self) -> int:
        return len(self.last_biases)

    @property
    def dimension(self) -> int:
        return next(iter(self.arrays.values())).shape[-1]

    @property
    def widths(self) -> list[int]:
        """Neurons of every hidden layer."""
        if self.form.startswith("layers"):
            return [b.shape[0] for name, b in self.arrays.items() if name[0] == "b"][:-1]
        return [self.arrays["W"].shape[0]] if "W" in self.arrays else []

    def rows(self, name: str) -> list[list[float]]:
        return self.once(("rows", name), self.arrays[name].rows)

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """A value that many proofs share."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    def sha256(self) -> str:
        return _sha256(f"featureprism model 2\n{self.form}\n", self.arrays)

    def in_units(self, w: Sequence[float]) -> "Model":
        """The model in units of 1/w_j for every coordinate, in doubles."""
        _require(not self.form.startswith("network"), "A model with one output takes no weights of features.")
        d, arrays = len(w), dict(self.arrays)
        name = {"scores": "W", "linear": "V", "quadratic": "V"}.get(self.form, "W1")
        arrays[name] = _array(
            name, [[t / u for t, u in zip(row, w, strict=True)] for row in arrays[name].rows()]
        )
        if self.form == "quadratic":
            A = arrays["A"]
            flat = array("d", [t / (w[i // d % d] * w[i % d]) for i, t in enumerate(A.flat)])
            arrays["A"] = Entries("A", "f8", A.shape, flat)
        _require(
            all(abs(t) <= LARGEST for a in arrays.values() for t in a.flat),
            "A weighted model is beyond 1e100.",
        )
        return Model(self.form, arrays, self.names, self.p)


def _sha256(text: str, arrays: dict[str, Entries]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, a in arrays.items():
        digest.update(f"{name} {'x'.join(map(str, a.shape))}\n".encode())
        digest.update(struct.pack(f"<{len(a.flat)}{'q' if name == 'label' else 'd'}", *a.flat))
    return digest.hexdigest()


def _array(name: str, rows: Sequence[Sequence[float]]) -> Entries:
    return Entries(name, "f8", (len(rows), len(rows[0])), array("d", [t for row in rows for t in row]))


def _vector(name: str, values: Sequence[float]) -> Entries:
    return Entries(name, "f8", (len(values),), array("d", values))


def read_model(content: bytes) -> Model:
    """The canonical form of the weights in a model file."""
    archive = Archive(content, "model file")
    activation = archive.word("activation")
    names = _names(archive["classes"]) if "classes" in archive else None
    form, arrays = _form(archive, activation, names)
    p = ONE
    if form in ("scores", "network", "network normalised"):
        p = _power(archive, activation)
        arrays["p"] = Entries("p", "f8", (), array("d", [float(p)]))
    model = Model(form, arrays, names, p)
    _require_shapes(model)
    _require(
        names is None or len(names) == model.num_classes,
        "The model file names another number of classes than it has.",
    )
    return model


def _names(a: Entries) -> list[Any]:
    _require(len(a.shape) == 1, f"The array {a.name} must have 1 axis.")
    _require(
        not any(isinstance(t, float) and not math.isfinite(t) for t in a.flat),
        f"The array {a.name} holds NaN.",
    )
    return list(a.flat)


def _power(archive: Archive, activation: str) -> Fraction:
    if "p" not in archive and activation == "relu":
        return ONE
    p = archive["p"].doubles()
    _require(
        p.shape in ((), (1,)) and 1 <= p.flat[0] <= MAX_POWER, "The power p must be one number from 1 to 64."
    )
    _require(activation != "relu" or p.flat[0] == 1, "A relu network has p = 1.")
    return Fraction(p.flat[0])


def _form(archive: Archive, activation: str, names: list[Any] | None) -> tuple[str, dict[str, Entries]]:
    """The form and its arrays without p; the first rule of the specification that fits."""

    def get(name: str, axes: int, length: int | None = None) -> Entries:
        if name not in archive and length is not None:  # a bias that is missing is 0
            return _vector(name, [0.0] * length)
        found = archive[name].doubles(axes=axes)
        _require(len(found.flat) > 0, f"The array {name} is empty.")
        return found

    if activation == "linear":
        V = get("V", 2)
        return "linear", {"V": V, "c": get("c", 1, V.shape[0])}
    if activation == "quadratic":
        return "quadratic", {"A": get("A", 3), "V": get("V", 2), "c": get("c", 1)}
    if "W1" in archive:
        _require(activation in ACTIVATIONS, f"Layers must be {', '.join(ACTIVATIONS)}, not {activation}.")
        layers: dict[str, Entries] = {}
        k = 1
        while f"W{k}" in archive:
            layers[f"W{k}"], layers[f"b{k}"] = get(f"W{k}", 2), get(f"b{k}", 1)
            k += 1
        return f"layers {activation}", layers
    _require(activation in (*ACTIVATIONS, "polynomial", "prelu"), f"The activation {activation} is unknown.")
    W = get("W", 2)
    h = W.shape[0]
    b = get("b", 1, h)
    if "V" in archive:
        V = get("V", 2)
        return _scores(activation, W, b, V, get("c", 1, V.shape[1]))
    if "owner" in archive and "votes" in archive and names is not None:
        _require(activation in ("relu", "polynomial"), f"Neurons with owners cannot be {activation}.")
        owner, votes = archive["owner"], get("votes", 1)
        _require(
            owner.type[0] in "iu" and owner.shape == votes.shape == (h,),
            "Every neuron needs one owner and one vote.",
        )
        _require(all(0 <= o < len(names) for o in owner.flat), "An owner is no class.")
        rows = [
            [v if o == r else 0.0 for r in range(len(names))]
            for o, v in zip(owner.flat, votes.flat, strict=True)
        ]
        _require(bool(rows) and bool(rows[0]), "A model needs neurons and classes.")
        return _scores(activation, W, b, _array("V", rows), _vector("c", [0.0] * len(names)))
    a = get("a", 1)
    V = _array("V", [[0.0, t] for t in a.flat] or [[0.0]])
    if "c" in archive:
        c = archive["c"].doubles()
        _require(c.shape in ((), (1,), (2,)), "The array c must hold one number or two.")
        return _scores(activation, W, b, V, _vector("c", [0.0, *c.flat][-2:]))
    if activation in ACTIVATIONS[1:]:
        return _scores(activation, W, b, V, _vector("c", [0.0, 0.0]))
    return ("network normalised" if activation == "prelu" else "network"), {"W": W, "a": a, "b": b}


def _scores(
    activation: str, W: Entries, b: Entries, V: Entries, c: Entries
) -> tuple[str, dict[str, Entries]]:
    _require(activation != "prelu", "A prelu network has one output and no bias at it.")
    if activation in ACTIVATIONS[1:]:
        columns = _array("W2", list(zip(*V.rows(), strict=True)) or [[0.0]])
        return f"layers {activation}", {"W1": W, "b1": b, "W2": columns, "b2": c}
    return "scores", {"W": W, "b": b, "V": V, "c": c}


def _require_shapes(model: Model) -> None:
    """Lengths that fit together, at least two classes, at least one neuron and coordinate."""
    shapes = {name: a.shape for name, a in model.arrays.items()}
    d, k = model.dimension, model.num_classes
    if model.form == "linear":
        expected: dict[str, tuple[int, ...]] = {"V": (k, d), "c": (k,)}
    elif model.form == "quadratic":
        expected = {"A": (k, d, d), "V": (k, d), "c": (k,)}
    elif model.form.startswith("layers"):
        depth = len(shapes) // 2
        _require(depth >= 2, "A network of layers needs at least two.")
        widths = [d, *(shapes[f"W{i}"][0] for i in range(1, depth + 1))]
        expected = {}
        for i in range(1, depth + 1):
            expected |= {f"W{i}": (widths[i], widths[i - 1]), f"b{i}": (widths[i],)}
    else:
        h = shapes["W"][0]
        expected = {"W": (h, d), "a": (h,), "b": (h,), "V": (h, k), "c": (k,), "p": ()}
        expected = {name: expected[name] for name in shapes}
    _require(
        shapes == expected and all(math.prod(s) > 0 for s in shapes.values()),
        "The shapes of the weights do not fit together.",
    )
    _require(model.num_classes >= 2, "A model needs at least two classes.")
    if model.form == "quadratic":
        A = model.arrays["A"].flat
        symmetric = all(
            A[(r * d + i) * d + j] == A[(r * d + j) * d + i]
            for r in range(k)
            for i in range(d)
            for j in range(i)
        )
        _require(symmetric, "The matrices A must be symmetric.")


@dataclass(frozen=True)
class Points:
    x: Entries
    label: list[int]

    def sha256(self) -> str:
        label = Entries("label", "i8", (len(self.label),), self.label)
        return _sha256("featureprism points 2\n", {"x": self.x, "label": label})

    def in_units(self, w: Sequence[float]) -> "Points":
        """The points in units of 1/w_j for every coordinate, in doubles."""
        d = len(w)
        flat = array("d", [t * w[i % d] for i, t in enumerate(self.x.flat)])
        _require(all(abs(t) <= LARGEST for t in flat), "A weighted point is beyond 1e100.")
        return Points(Entries("x", "f8", self.x.shape, flat), self.label)

    def row(self, i: int) -> list[float]:
        d = self.x.shape[1]
        return list(self.x.flat[i * d : (i + 1) * d])


def read_points(content: bytes, names: list[Any] | None, num_classes: int) -> Points:
    """Points as rows, labels as positions of classes."""
    archive = Archive(content, "file of points")
    x = archive["x" if "x" in archive else "X"].doubles()
    y = _names(archive["y" if "y" in archive else "Y"])
    _require(len(x.shape) >= 1 and x.shape[0] == len(y), "There must be one label for each point.")
    d = math.prod(x.shape[1:])
    if names is None:
        names = [(-1, 0), (1,)] if num_classes == 2 else [(r,) for r in range(num_classes)]
        places = {number: r for r, group in enumerate(names) for number in group}
    else:
        places = {name: r for r, name in enumerate(names)}
        _require(len(places) == len(names), "Two classes have one name.")
    _require(all(label in places for label in y), "A label of the points is no class.")
    return Points(Entries("x", "f8", (len(y), d), x.flat), [places[label] for label in y])


# ---------------------------------------------------------------------------------------------------------------------------------
# Proof files


@dataclass(frozen=True)
class ProofFile:
    """The arrays of a proof file, every index in range."""

    norm: str
    classes: list[Any] | None
    model_sha256: str
    points_sha256: str
    label: Sequence[int]
    margin: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]
    weights: Sequence[float] | None
    point: Sequence[int]
    target: Sequence[int]
    kind: Sequence[str]
    radius: Sequence[float]
    reach: Sequence[float]
    root: Sequence[int]
    votes: Sequence[int]
    first: Sequence[int]
    width: Sequence[int]
    votes_first: Sequence[int]
    votes_width: Sequence[int]
    votes_scale: Sequence[int]
    node_cut: Sequence[int]
    node_value: Sequence[float]
    node_below: Sequence[int]
    node_above: Sequence[int]
    node_first: Sequence[int]
    node_width: Sequence[int]
    numbers: Sequence[float]

    def own_numbers(self, m: int) -> Sequence[float]:
        return self.numbers[self.first[m] : self.first[m] + self.width[m]]

    def leaf_numbers(self, node: int) -> list[Fraction]:
        first = self.node_first[node]
        return [Fraction(t) for t in self.numbers[first : first + self.node_width[node]]]

    def nodes(self, root: int) -> Iterator[tuple[int, int]]:
        """Nodes of a tree with their depth, parents first."""
        stack, seen, cuts = [(root, 0)], {root}, 0
        while stack:
            node, depth = stack.pop()
            yield node, depth
            if self.node_cut[node] >= 0:
                cuts += 1
                _require(
                    cuts <= MAX_CUTS and depth < MAX_LEVELS,
                    "A tree has more than 100000 cuts or 5000 levels.",
                )
                for child in (self.node_below[node], self.node_above[node]):
                    _require(
                        child >= 0 and child not in seen, "A node is reached twice or is missing in a tree."
                    )
                    seen.add(child)
                    stack.append((child, depth + 1))


def read_proofs(content: bytes) -> ProofFile:
    """The arrays of a proof file; refused if a type, a length, a number or an index is wrong."""
    archive = Archive(content, "proof file")
    norm, classes, model_sha256, points_sha256 = _header(archive.word("header"))

    def reals(name: str, count: int | None = None, infinite: bool = False) -> Sequence[float]:
        flat = archive.exactly(name, "f8", 1).flat
        _require(
            count is None or len(flat) == count,
            f"The array {name} has another length than those it belongs to.",
        )
        _require(
            all(t == t and (infinite or abs(t) != math.inf) for t in flat),
            f"The array {name} holds NaN or infinity.",
        )
        return flat

    def integers(
        name: str, count: int | None = None, below: float = math.inf, least: int = 0
    ) -> Sequence[int]:
        flat = archive.exactly(name, "i8", 1).flat
        _require(
            count is None or len(flat) == count,
            f"The array {name} has another length than those it belongs to.",
        )
        _require(
            all(least <= t < below for t in flat), f"The array {name} holds an index that is out of range."
        )
        return flat

    def slices(name: str, count: int) -> tuple[Sequence[int], Sequence[int]]:
        first, width = integers(f"{name}_first", count), integers(f"{name}_width", count)
        inside = all(f + w <= len(numbers) for f, w in zip(first, width, strict=True))
        _require(inside, f"A slice of {name} is beyond the end of the numbers.")
        return first, width

    numbers = reals("numbers")
    label = integers("label")
    n = len(label)
    certified, margin = reals("certified", n, infinite=True), reals("margin", n)
    _require(all(t >= 0 for t in (*certified, *margin)), "Radii and margins must not be negative.")
    lower = reals("lower", infinite=True)
    upper = reals("upper", len(lower), infinite=True)
    ordered = all(lo <= hi and lo < math.inf and hi > -math.inf for lo, hi in zip(lower, upper, strict=True))
    _require(ordered, "Lower bounds must not be above upper bounds.")
    weights = reals("weights", len(lower)) if "weights" in archive else None
    if weights is not None:
        _require(all(1e-50 <= w <= 1e50 for w in weights), "A weight of a feature is beyond its limits.")
        lower = [_times(lo, w, -math.inf) for lo, w in zip(lower, weights, strict=True)]
        upper = [_times(hi, w, math.inf) for hi, w in zip(upper, weights, strict=True)]
    point = integers("proof_point", None, n)
    m = len(point)
    kind = archive.exactly("proof_kind", "U", 1).flat
    _require(
        len(kind) == m and all(t in KINDS for t in kind),
        "The array proof_kind must name a known kind for each proof.",
    )
    radius, reach = reals("proof_radius", m, infinite=True), reals("proof_reach", m)
    for word, r, big in zip(kind, radius, reach, strict=True):
        _require(
            SMALLEST <= r <= LARGEST or (r == math.inf and word == "closed form"),
            "A radius is beyond its limits.",
        )
        _require(word not in WITH_REGION or SMALLEST <= big <= LARGEST, "A reach is beyond its limits.")
    scale = integers("votes_scale", None, MAX_SCALE + 1, -MAX_SCALE)
    cut = integers("node_cut", None, least=-1)
    nodes = len(cut)
    below, above = integers("node_below", nodes, nodes, -1), integers("node_above", nodes, nodes, -1)
    target, root = integers("proof_target", m), integers("proof_root", m, nodes, -1)
    votes = integers("proof_votes", m, len(scale), -1)
    value = reals("node_value", nodes)
    own, vote, node = slices("proof", m), slices("votes", len(scale)), slices("node", nodes)
    for c, b, a, w in zip(cut, below, above, node[1], strict=True):
        _require(
            (b == a == -1) if c < 0 else (b >= 0 and a >= 0 and w == 0), "A node is neither a leaf nor a cut."
        )
    return ProofFile(
        norm, classes, model_sha256, points_sha256, label, margin, lower, upper, weights, point, target, kind, radius, reach, root,
        votes, *own, *vote, scale, cut, value, below, above, *node, numbers,
    )  # fmt: skip


def _times(bound: float, w: float, outward: float) -> float:
    """A bound in the unit of a coordinate, in doubles and rounded outward."""
    return bound if w == 1 else math.nextafter(bound * w, outward)


def _header(text: str) -> tuple[str, list[Any] | None, str, str]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("The header of the proof file is no JSON.") from error
    _require(
        isinstance(header, dict) and header.get("format") == "featureprism proof", "This is no proof file."
    )
    _require(
        type(header.get("version")) is int and header["version"] == 2,
        "Only version 2 of the format is understood.",
    )
    norm = header.get("norm")
    _require((type(norm) is int and norm in (1, 2)) or norm == "inf", "The norm must be 1, 2 or inf.")
    classes = header.get("classes")
    fine = classes is None or (
        isinstance(classes, list) and all(isinstance(c, str | int | float) for c in classes)
    )
    _require(fine, "The classes of the header must be names or null.")
    hashes = [
        part.get("sha256") if isinstance(part := header.get(key), dict) else None
        for key in ("model", "points")
    ]
    _require(all(isinstance(h, str) for h in hashes), "The header must have the hashes of model and points.")
    return str(norm), classes, str(hashes[0]), str(hashes[1])


# ---------------------------------------------------------------------------------------------------------------------------------
# Arithmetic


def two(k: int) -> Fraction:
    """2^k."""
    return Fraction(1 << k) if k >= 0 else Fraction(1, 1 << -k)


def rounded(x: Fraction, up: bool) -> Fraction:
    """A number of 256 bits below (or above) x."""
    n, d = x.numerator, x.denominator
    if d & (d - 1) == 0 and n.bit_length() <= BITS:
        return x
    e = n.bit_length() - d.bit_length() - BITS
    n, d = (n << -e, d) if e < 0 else (n, d << e)
    return (-(-n // d) if up else n // d) * two(e)


def root(x: Fraction, up: bool) -> Fraction:
    """A bound of √x, exact for squares of short numbers."""
    if x <= 0:
        return ZERO
    n, d = x.numerator, x.denominator
    k = max(BITS - (n.bit_length() - d.bit_length()) // 2, 0)
    square = -((-n << 2 * k) // d) if up else (n << 2 * k) // d
    r = math.isqrt(square)
    return Fraction(r + (up and r * r < square), 1 << k)


def power(x: Fraction, y: Fraction, up: bool) -> Fraction:
    """A bound of x^y, x ≥ 0, for y with a finite binary expansion: every binary digit of y is one more square root."""
    if y < 0:
        return rounded(1 / power(x, -y, not up), up)
    whole = math.floor(y)
    result = rounded(x**whole, up) if y != whole else x**whole
    if result == 0 or y == whole:
        return result
    rest, digit = y - whole, x
    while rest:
        rest *= 2
        digit = rounded(root(digit, up), up)
        if rest >= 1:
            rest -= 1
            result = rounded(result * digit, up)
    return result


def tanh(t: Fraction, up: bool) -> Fraction:
    """A bound of tanh t."""
    if t < 0:
        return -tanh(-t, not up)
    if t < two(-70):  # t - t³/3 ≤ tanh t ≤ t
        return rounded(t if up else t - t**3 / 3, up)
    if t > 200:
        return ONE if up else 1 - two(-500)  # 2/(exp(400) + 1) < 2^-500
    fine, halvings = 2 * BITS, 10
    z = rounded(2 * t / two(halvings), up)  # below 1/2
    z = -((-z.numerator << fine) // z.denominator) if up else (z.numerator << fine) // z.denominator
    term = total = 1 << fine
    for n in range(1, 101):
        term = -(-term * z // (n << fine)) if up else term * z // (n << fine)
        total += term
    total += up  # the other terms are below 2^-600
    for _ in range(halvings):
        total = -(-total * total >> fine) if up else total * total >> fine
    return rounded(1 - 2 / (Fraction(total, 1 << fine) + 1), up)


def dyadic(values: Iterable[float | Fraction]) -> Vector:
    """Numbers with finite binary expansions as integers with one power of two."""
    ratios = [v.as_integer_ratio() for v in values]
    e = max((d.bit_length() for _, d in ratios), default=1) - 1
    return [n << (e + 1 - d.bit_length()) for n, d in ratios], e


def value(integer: int, e: int) -> Fraction:
    return Fraction(integer, 1 << e) if e >= 0 else Fraction(integer << -e)


def dot(a: Vector, b: Vector) -> Fraction:
    return value(sum(map(mul, a[0], b[0])), a[1] + b[1])


def matrix(rows: Iterable[Iterable[float | Fraction]]) -> tuple[list[list[int]], int]:
    """Rows as integers with one power of two."""
    listed = [list(row) for row in rows]
    flat, e = dyadic(t for row in listed for t in row)
    d = len(listed[0]) if listed else 0
    return [flat[i * d : (i + 1) * d] for i in range(len(listed))], e


def positive(form: list[list[int]], strict: bool = True) -> bool:
    """Whether a quadratic form, given by the rows of its lower triangle, is positive: definite in all variables but the last one, and
    what is left of the last corner by elimination positive (or, not strict, 0). A variable that does not occur at all is left out.

    After powers of two have brought the diagonal below 1, M - μI is factorised as CCᵀ + E in integers of 256 bits. By construction
    0 ≤ E_ij ≤ 2^-256 off the diagonal and E_ii ≥ 0, and μ is larger than a row of E, so M = CCᵀ + (μI + E) is positive definite.
    A matrix that is so close to singular that this does not decide is eliminated exactly.
    """
    size = len(form)
    used = [i for i in range(size) if any(form[i]) or any(form[k][i] for k in range(i + 1, size))]
    if size - 1 not in used:
        return not strict and (size == 1 or positive(form[:-1], strict=False))
    form = [[form[i][k] for k in used if k <= i] for i in used]
    size = len(form)
    if any(row[-1] <= 0 for row in form[:-1]) or form[-1][-1] < 0:
        return False
    half = [(row[-1].bit_length() + 1) // 2 for row in form]
    mu = (size + 2) << BITS
    rows: list[list[int]] = []
    for i, entries in enumerate(form):
        row: list[int] = []
        for k, entry in enumerate(entries):
            shift = 2 * BITS - half[i] - half[k]
            left = (entry << shift if shift >= 0 else entry >> -shift) - sum(
                map(mul, row, rows[k] if k < i else row)
            )
            if k < i:
                row.append(left // rows[k][k])
            elif left <= mu:
                return left > -mu << BITS // 2 and size <= EXACT_SIZE and _eliminated(form, strict)
            else:
                row.append(math.isqrt(left - mu))
        rows.append(row)
    return True


def _eliminated(form: list[list[int]], strict: bool) -> bool:
    """The same by exact elimination without fractions (Bareiss, 1968)."""
    rows = [[*row, *(form[k][i] for k in range(i + 1, len(form)))] for i, row in enumerate(form)]
    before = 1
    while len(rows) > 1:
        pivot = rows[0][0]
        if pivot < 0 or (pivot == 0 and any(rows[0])):
            return False
        if pivot == 0:
            rows = [row[1:] for row in rows[1:]]
            continue
        rows = [
            [(pivot * t - row[0] * u) // before for t, u in zip(row[1:], rows[0][1:], strict=True)]
            for row in rows[1:]
        ]
        before = pivot
    return rows[0][0] > 0 or (rows[0][0] == 0 and not strict)


# ---------------------------------------------------------------------------------------------------------------------------------
# The verdict on one proof


@dataclass
class _Check:
    """Proofs beside the model and the points they are about."""

    file: ProofFile
    model: Model
    points: Points

    def __post_init__(self) -> None:
        file, model, points = self.file, self.model, self.points
        k, d = model.num_classes, model.dimension
        _require(points.x.shape[1] == d, "Points and model have different numbers of coordinates.")
        _require(file.model_sha256 == model.sha256(), "The proofs are about another model.")
        _require(file.points_sha256 == points.sha256(), "The proofs are about other points.")
        _require(list(file.label) == points.label, "The labels of the proofs are not those of the points.")
        _require(len(file.lower) == d, "There must be a lower and an upper bound for each coordinate.")
        _require(
            file.classes is None or len(file.classes) == k, "The header names another number of classes."
        )
        targets = zip(file.target, file.point, strict=True)
        _require(
            all(r < k and r != file.label[i] for r, i in targets), "The target of a proof is no other class."
        )
        if file.weights is not None:
            self.model, self.points = model.in_units(file.weights), points.in_units(file.weights)

    def fits(self, m: int) -> bool:
        """Whether the kind of a proof is one for this model and norm."""
        kind, form, norm = self.file.kind[m], self.model.form, self.file.norm
        if form in ("linear", "quadratic"):
            return kind == "closed form"
        if kind == "relaxation":
            return form.startswith("layers") or (self.model.p == 1 and form != "network normalised")
        if norm == "1":
            return False
        if form.startswith("layers"):
            return (kind == "norm product" and form in ("layers relu", "layers tanh")) or (
                kind in ("deep", "crown", "balls") and form == "layers relu"
            )
        if kind == "lipschitz":
            return norm == "2" and self.model.p == 1
        return kind in ("crown", "lines", "ellipsoid") or (kind == "cells" and norm == "2")

    def structure(self, m: int) -> None:
        """Refuse a proof whose slices or tree do not have the lengths of its kind."""
        file, kind, d = self.file, self.file.kind[m], self.model.dimension
        if not self.fits(m):
            return
        widths = self.model.widths
        own = {
            "ellipsoid": 2 * d,
            "norm product": len(widths),
            "balls": 2 * len(widths) + sum(widths),
            "relaxation": 6 * sum(widths),
        }.get(kind, 0)
        own = 1 if self.model.form == "quadratic" else own
        _require(own == 0 or file.width[m] == own, f"A proof of kind {kind} needs {own} numbers.")
        size = sum(self.model.widths)
        widths = (2 * size, 5 * size + d + 2)  # a crown proof of layers with multipliers or cuts is as good
        if not self.model.form.startswith("layers") and kind not in ("closed form", "relaxation"):
            size = len(neurons(self, m)[0])
            votes = file.votes[m]
            _require(
                votes >= 0 and file.votes_width[votes] == size,
                "A proof needs one vote for each useful neuron.",
            )
            widths = (1 + 5 * size if kind in ("crown", "lines") else 1 + 7 * size,)
        if kind not in WITH_REGION:
            return
        _require(file.root[m] >= 0, f"A proof of kind {kind} needs a tree.")
        for node, _ in file.nodes(file.root[m]):
            leaf = file.node_cut[node] < 0
            _require(
                not leaf or file.node_width[node] in widths,
                f"A leaf of kind {kind} has another number of numbers.",
            )
            _require(leaf or file.node_cut[node] < size, "A cut is at a neuron that is not there.")

    def valid(self, m: int) -> bool:
        """Whether a proof proves its radius."""
        file, kind = self.file, self.file.kind[m]
        if not self.fits(m) or not math.isfinite(self.margin_bias(m)):
            return False
        if self.model.form.startswith("network") and file.margin[file.point[m]] > 0:
            return False  # there is no bias that could carry it
        if kind in WITH_REGION and file.radius[m] > file.reach[m]:
            return False
        if kind == "closed form":
            return linear(self, m) if self.model.form == "linear" else quadratic(self, m)
        if kind == "norm product":
            return norm_product(self, m)
        if kind == "balls":
            return balls(self, m)
        if kind == "relaxation":
            return Relaxation(self, m).valid()
        if self.model.form == "layers relu":
            return Deep(self, m).valid()
        return OneHidden(self, m).valid()

    def classes(self, m: int) -> tuple[int, int]:
        return self.file.label[self.file.point[m]], self.file.target[m]

    def x(self, m: int) -> list[float]:
        return self.points.row(self.file.point[m])

    def margin_bias(self, m: int) -> float:
        """The last bias of the true class, less the margin: down(c_o - m_i) in doubles."""
        bias, margin = self.model.last_biases[self.classes(m)[0]], self.file.margin[self.file.point[m]]
        return math.nextafter(bias - margin, -math.inf) if margin > 0 else bias

    def bias_gap(self, m: int) -> Fraction:
        """c_o - c_r."""
        return Fraction(self.margin_bias(m)) - Fraction(self.model.last_biases[self.classes(m)[1]])

    def room(self, m: int, reach: float) -> tuple[list[float], list[float]] | None:
        """A and B of the box -A ≤ δ ≤ B around the point, None if the point is outside of its bounds."""
        file, x = self.file, self.x(m)
        if not all(lo <= t <= hi for lo, t, hi in zip(file.lower, x, file.upper, strict=True)):
            return None
        down = [min(math.nextafter(t - lo, math.inf), reach) for t, lo in zip(x, file.lower, strict=True)]
        return down, [
            min(math.nextafter(hi - t, math.inf), reach) for t, hi in zip(x, file.upper, strict=True)
        ]


def linear(check: _Check, m: int) -> bool:
    """Kind `closed form` of linear scores: g ≥ radius ‖v‖_*."""
    o, r = check.classes(m)
    V = check.model.rows("V")
    v = dyadic([Fraction(s) - Fraction(t) for s, t in zip(V[o], V[r], strict=True)])
    g = dot(v, dyadic(check.x(m))) + check.bias_gap(m)
    if g <= 0 or not any(v[0]):
        return g > 0
    if check.file.radius[m] == math.inf:
        return False
    radius = Fraction(check.file.radius[m])
    if check.file.norm == "2":
        return g * g >= radius * radius * dot(v, v)
    if check.file.norm == "1":
        return g >= radius * value(max(map(abs, v[0])), v[1])
    return g >= radius * value(sum(map(abs, v[0])), v[1])


def quadratic(check: _Check, m: int) -> bool:
    """Kind `closed form` of quadratic scores: the form ‖δ‖² + λ(margin) - radius² of (δ, 1) is positive."""
    o, r = check.classes(m)
    d = check.model.dimension
    scale = Fraction(check.file.own_numbers(m)[0])
    if scale < 0 or check.file.radius[m] == math.inf:
        return False
    A, V = check.model.arrays["A"].flat, check.model.rows("V")
    x = dyadic(check.x(m))
    Q = [
        [Fraction(A[(o * d + i) * d + k]) - Fraction(A[(r * d + i) * d + k]) for k in range(d)]
        for i in range(d)
    ]
    rows, e = matrix(Q)
    Qx = [dot((row, e), x) for row in rows]
    v = [Fraction(s) - Fraction(t) for s, t in zip(V[o], V[r], strict=True)]
    point = [Fraction(t) for t in check.x(m)]
    g = check.bias_gap(m) + sum(t * (s - HALF * q) for t, s, q in zip(point, v, Qx, strict=True))
    radius = Fraction(check.file.radius[m]) ** 2 * (d if check.file.norm == "inf" else 1)
    form = [[(i == k) - HALF * scale * Q[i][k] for k in range(i + 1)] for i in range(d)]
    form.append([HALF * scale * (s - q) for s, q in zip(v, Qx, strict=True)] + [scale * g - radius])
    return positive(triangle(form)[0], strict=False)


def norm_product(check: _Check, m: int) -> bool:
    """Kind `norm product`: g ≥ radius ‖W_L,o - W_L,r‖ Π s_l with s_l ≥ ‖W_l‖."""
    model, radius = check.model, Fraction(check.file.radius[m])
    bound = radius * radius * (1 if check.file.norm == "2" else model.dimension)
    for k, number in enumerate(check.file.own_numbers(m), 1):
        s = Fraction(number)
        if s <= 0 or not model.once(("norm", k, s), lambda k=k, s=s: _spectral(model, k, s)):
            return False
        bound *= s * s
    o, r = check.classes(m)
    W = model.rows(f"W{len(model.widths) + 1}")
    a = dyadic([Fraction(s) - Fraction(t) for s, t in zip(W[o], W[r], strict=True)])
    low, high = model.once(("hidden", tuple(check.x(m))), lambda: _hidden(model, check.x(m)))
    g = check.bias_gap(m) + least(a, low, high)
    return g > 0 and g * g >= bound * dot(a, a)


def balls(check: _Check, m: int) -> bool:
    """Kind `balls`: one multiplier for each layer's ball of values."""
    model, radius = check.model, Fraction(check.file.radius[m])
    if check.file.norm != "2":
        return False
    numbers = [Fraction(v) for v in check.file.own_numbers(m)]
    count = len(model.widths)
    norms, lams, slopes = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    for k, s in enumerate(norms, 1):
        if s <= 0 or not model.once(("norm", k, s), lambda k=k, s=s: _spectral(model, k, s)):
            return False
    if any(lam <= 0 for lam in lams):
        return False
    o, r = check.classes(m)
    x = [Fraction(v) for v in check.x(m)]
    h, values = x, []
    for k in range(1, count + 1):
        rows, biases = model.rows(f"W{k}"), model.arrays[f"b{k}"].flat
        z = [
            sum((Fraction(w) * v for w, v in zip(row, h, strict=True)), Fraction(b))
            for row, b in zip(rows, biases, strict=True)
        ]
        values.append(z)
        h = [max(v, ZERO) for v in z]
    W = model.rows(f"W{count + 1}")
    c = [Fraction(s) - Fraction(t) for s, t in zip(W[o], W[r], strict=True)]
    total, end = check.bias_gap(m), len(slopes)
    for k in range(count, 0, -1):
        z, lam = values[k - 1], lams[k - 1]
        g, end = slopes[end - len(z) : end], end - len(z)
        rho = radius * math.prod(norms[:k])
        shifted = [a + lam * b for a, b in zip(g, z, strict=True)]
        phi = [min(a - b, b, ZERO) for a, b in zip(c, shifted, strict=True)]
        total += lam / 2 * (sum(v * v for v in z) - rho * rho) - sum(v * v for v in phi) / (2 * lam)
        biases = model.arrays[f"b{k}"].flat
        total += sum((a * Fraction(b) for a, b in zip(g, biases, strict=True)), ZERO)
        c = [
            sum((a * Fraction(w) for a, w in zip(g, column, strict=True)), ZERO)
            for column in zip(*model.rows(f"W{k}"), strict=True)
        ]
    total += sum((a * b for a, b in zip(c, x, strict=True)), ZERO)
    return total > 0 and total * total > radius * radius * sum(v * v for v in c)


def _spectral(model: Model, k: int, s: Fraction) -> bool:
    """Whether s² I - W_k W_kᵀ (or W_kᵀ W_k, whichever is smaller) has no negative eigenvalue."""
    rows, e = matrix(model.rows(f"W{k}"))
    if len(rows) > len(rows[0]):
        rows = [list(column) for column in zip(*rows, strict=True)]
    s2, shift = dyadic([s * s])
    both = max(shift, 2 * e)
    form = [
        [-sum(map(mul, row, other)) << both - 2 * e for other in rows[: i + 1]] for i, row in enumerate(rows)
    ]
    for row in form:
        row[-1] += s2[0] << both - shift
    return positive(form, strict=False)


def least(a: Vector, low: Vector, high: Vector) -> Fraction:
    """The least ⟨a, h⟩ for low ≤ h ≤ high (of one power of two)."""
    return value(
        sum(t * (p if t >= 0 else q) for t, p, q in zip(a[0], low[0], high[0], strict=True)), a[1] + low[1]
    )


def _hidden(model: Model, x: list[float]) -> tuple[Vector, Vector]:
    """Enclosures of the last hidden layer's values at a point."""
    low = high = dyadic(x)
    for k in range(1, len(model.widths) + 1):
        rows, e = model.once(("layer", k), lambda k=k: matrix(model.rows(f"W{k}")))
        b = model.arrays[f"b{k}"].flat
        lows = [least((row, e), low, high) + Fraction(t) for row, t in zip(rows, b, strict=True)]
        highs = [
            Fraction(t) - least(([-w for w in row], e), low, high) for row, t in zip(rows, b, strict=True)
        ]
        if model.form == "layers relu":
            lows, highs = [max(t, ZERO) for t in lows], [max(t, ZERO) for t in highs]
        else:
            lows, highs = [tanh(t, False) for t in lows], [tanh(t, True) for t in highs]
        both, e = dyadic(lows + highs)
        low, high = (both[: len(lows)], e), (both[len(lows) :], e)
    return low, high


def farthest(
    w: Vector, below: Vector, above: Vector, reach: Fraction, norm: str, boxed: bool = True
) -> Fraction:
    """An upper bound of ⟨w, δ⟩ over ‖δ‖ ≤ reach, -below ≤ δ ≤ above.

    For ℓ2, w = u + (w - u) with u = clip(w, -θ below, θ above): ⟨u, δ⟩ ≤ reach ‖u‖ by the norm, the rest by the box. Every θ ≥ 0 gives
    an upper bound; the best θ is found in doubles, near which the bound is flat.
    """
    corner = value(
        sum(t * b if t >= 0 else -t * a for t, a, b in zip(w[0], below[0], above[0], strict=True)),
        w[1] + above[1],
    )
    if norm == "inf":
        return corner
    if norm == "1":
        return _filled(w, below, above, reach)
    ball = root(reach * reach * dot(w, w), True)
    if not boxed or ball == 0:
        return ball if not boxed else min(ball, corner)
    theta = dyadic([_multiplier(w, below, above, reach)])
    e = max(w[1], theta[1] + above[1])
    u = [
        max(
            min(t << e - w[1], theta[0][0] * b << e - theta[1] - above[1]),
            -theta[0][0] * a << e - theta[1] - above[1],
        )
        for t, a, b in zip(w[0], below[0], above[0], strict=True)
    ]
    rest = [(t << e - w[1]) - s for t, s in zip(w[0], u, strict=True)]
    split = root(reach * reach * dot((u, e), (u, e)), True)
    split += value(
        sum(t * b if t >= 0 else -t * a for t, a, b in zip(rest, below[0], above[0], strict=True)),
        e + above[1],
    )
    return min(ball, corner, split)


def _filled(w: Vector, below: Vector, above: Vector, reach: Fraction) -> Fraction:
    """The maximum of ⟨w, δ⟩ over ‖δ‖₁ ≤ reach, -below ≤ δ ≤ above: the largest weights come first."""
    total, left = ZERO, reach
    ends = zip(
        map(abs, w[0]),
        (b if t > 0 else a for t, a, b in zip(w[0], below[0], above[0], strict=True)),
        strict=True,
    )
    for size, end in sorted(ends, reverse=True):
        step = min(left, value(end, above[1]))
        total, left = total + value(size, w[1]) * step, left - step
        if left <= 0 or size == 0:
            break
    return total


def _multiplier(w: Vector, below: Vector, above: Vector, reach: Fraction) -> float:
    """θ with ‖clip(w/θ, -below, above)‖ = reach, in doubles; 0 if there is none."""
    scale = max(t.bit_length() for t in w[0])
    unit = max(max(a.bit_length() for a in side[0]) for side in (below, above))
    caps = [float(Fraction(abs(t), 1 << scale)) for t in w[0]]
    ends = [
        float(Fraction(b if t >= 0 else a, 1 << unit))
        for t, a, b in zip(w[0], below[0], above[0], strict=True)
    ]
    goal = float(reach * two(above[1] - unit)) ** 2
    order = sorted(range(len(caps)), key=lambda i: caps[i] / ends[i] if ends[i] else math.inf, reverse=True)
    free, clipped, theta = sum(t * t for t in caps), 0.0, 0.0
    for place, i in enumerate(order):
        if goal > clipped:
            theta = math.sqrt(max(free, 0.0) / (goal - clipped))
            if caps[i] <= theta * ends[i]:
                break
        free = (
            sum(caps[k] * caps[k] for k in order[place + 1 :])
            if place % 64 == 63
            else free - caps[i] * caps[i]
        )
        clipped += ends[i] * ends[i]
    exponent = scale - unit - w[1] + above[1]  # w/θ has the unit of the box
    return math.ldexp(theta, max(min(exponent, 900), -900)) if theta else 0.0


# ---------------------------------------------------------------------------------------------------------------------------------
# One hidden layer


def neurons(check: _Check, m: int) -> tuple[list[int], list[Fraction]]:
    """Useful neurons and their α; number h is the constant one."""
    model, (o, r) = check.model, check.classes(m)
    bias = check.margin_bias(m)
    return model.once(
        ("neurons", o, r, bias),
        lambda: _neurons(model, o, r, check.bias_gap(m) if math.isfinite(bias) else ONE),
    )


def _neurons(model: Model, o: int, r: int, bias_gap: Fraction) -> tuple[list[int], list[Fraction]]:
    if model.form == "scores":
        alpha = [Fraction(row[o]) - Fraction(row[r]) for row in model.rows("V")] + [bias_gap]
    else:
        alpha = [Fraction(a if o == 1 else -a) for a in model.arrays["a"].flat]
        if model.form == "network normalised":
            alpha = [a if any(w) else ZERO for a, w in zip(alpha, model.rows("W"), strict=True)]
    useful = [j for j, a in enumerate(alpha) if a]
    return useful, [alpha[j] for j in useful]


def _scaled_rows(model: Model) -> tuple[list[list[int]], int, list[int]]:
    """w_j 2^(-ρ_j) of all neurons and the constant one, and ρ."""
    W = [*model.rows("W"), [0.0] * model.dimension]
    rho = [math.frexp(max(map(abs, w)))[1] for w in W]
    rows, e = matrix([Fraction(t) * two(-k) for t in w] for w, k in zip(W, rho, strict=True))
    return rows, e, rho


class OneHidden:
    """The scaled problem of one proof, and the rules of its kinds."""

    def __init__(self, check: _Check, m: int) -> None:
        self.check, self.m = check, m
        file, model = check.file, check.model
        self.file, self.model, self.p, self.d = file, model, model.p, model.dimension
        self.kind, self.norm = file.kind[m], file.norm
        rows, self.e, self.rho = model.once("scaled", lambda: _scaled_rows(model))
        self.useful, self.alpha = neurons(check, m)
        self.w = [rows[j] for j in self.useful]
        self.num = len(self.useful)
        level = math.frexp(file.radius[m] if self.kind == "lipschitz" else file.reach[m])[1]
        self.shrink = two(-level)
        self.radius, self.reach = (
            Fraction(file.radius[m]) * self.shrink,
            Fraction(file.reach[m]) * self.shrink,
        )
        before = model.once(("inside", tuple(check.x(m))), lambda: self._inside(rows))
        self.c = [before[j] * self.shrink for j in self.useful]
        first = file.votes_first[file.votes[m]]
        self.votes = [Fraction(t) for t in file.numbers[first : first + self.num]]

    def _inside(self, rows: list[list[int]]) -> list[Fraction]:
        """⟨w_j, x⟩ + b_j of all neurons, before the division by the reach's power of two."""
        x, b = dyadic(self.check.x(self.m)), [*self.model.arrays["b"].flat, 1.0]
        return [
            dot((w, self.e), x) + Fraction(t) * two(-k) for w, t, k in zip(rows, b, self.rho, strict=True)
        ]

    def square(self, j: int) -> Fraction:
        """‖w_j‖² of a neuron of the model."""
        rows = self.model.cache["scaled"][0]
        return self.model.once(("square", j), lambda: dot((rows[j], self.e), (rows[j], self.e)))

    def gram(self, j: int, k: int) -> int:
        """⟨w_j, w_k⟩ of two neurons of the model, as an integer."""
        rows = self.model.cache["scaled"][0]
        pair = ("gram", min(j, k), max(j, k))
        return self.model.once(pair, lambda: sum(map(mul, rows[j], rows[k])))

    def votes_are_low(self) -> bool:
        """v_j ≤ a_j for all neurons."""
        scale = self.file.votes_scale[self.file.votes[self.m]]
        return all(
            v <= a * self._factor(j, a < 0) * two(-scale)
            for v, a, j in zip(self.votes, self.alpha, self.useful, strict=True)
        )

    def _factor(self, j: int, up: bool) -> Fraction:
        """A bound of 2^(pρ_j), for a normalised network of 2^ρ_j ‖w_j‖^(1-p)."""
        if self.model.form == "network normalised":
            bound = lambda: two(self.rho[j]) * power(self.square(j), (1 - self.p) / 2, up)  # noqa: E731
        else:
            bound = lambda: _two_to(self.p * self.rho[j], up)  # noqa: E731
        return self.model.once(("factor", j, up), bound)

    def valid(self) -> bool:
        if not self.num or not self.votes_are_low():
            return False
        if self.kind == "lipschitz":
            return self.lipschitz()
        self.supporting = [v > 0 for v in self.votes]
        room = self.check.room(self.m, self.file.reach[self.m])
        if room is None and (self.norm == "inf" or self.kind == "ellipsoid"):
            return False
        below, above = room or ([0.0], [0.0])
        both, e = dyadic(Fraction(t) * self.shrink for t in (*below, *above))
        self.below, self.above = (both[: len(below)], e), (both[len(below) :], e)
        if self.kind in ("crown", "lines"):
            ends = self.box_ends() if self.norm == "inf" else self.ball_ends()
            return self.tree(ends, self.cut_alone, self.lines_leaf)
        return self.cells() if self.kind == "cells" else self.ellipsoid()

    def lipschitz(self) -> bool:
        S = sum((v * c for v, c in zip(self.votes, self.c, strict=True) if c > 0), ZERO)
        votes, e = dyadic(self.votes)
        products = (
            votes[a] * votes[b] * self.gram(j, k) * (1 if a == b else 2)
            for a, j in enumerate(self.useful)
            for b, k in enumerate(self.useful[: a + 1])
        )
        square = value(sum(t for t in products if t > 0), 2 * e + 2 * self.e)
        return S > 0 and self.radius**2 * square <= S * S

    # Trees

    def ball_ends(self) -> tuple[list[Fraction], list[Fraction]]:
        spans = [root(self.reach**2 * self.square(j), True) for j in self.useful]
        return [c - s for c, s in zip(self.c, spans, strict=True)], [
            c + s for c, s in zip(self.c, spans, strict=True)
        ]

    def box_ends(self) -> tuple[list[Fraction], list[Fraction]]:
        """Intervals of all t_j over the ball (of either norm) and the box."""
        boxed = any(value(t, self.above[1]) < self.reach for t in (*self.below[0], *self.above[0]))
        ends = [
            [
                farthest(([s * t for t in w], self.e), self.below, self.above, self.reach, self.norm, boxed)
                for w in self.w
            ]
            for s in (-1, 1)
        ]
        lo = [c - t for c, t in zip(self.c, ends[0], strict=True)]
        return lo, [c + t for c, t in zip(self.c, ends[1], strict=True)]

    def tree(self, ends: Any, refine: Callable[..., Any], holds: Callable[..., bool]) -> bool:
        """Whether `holds` is true of all leaves that are not empty. What is empty has only empty parts."""
        file = self.file
        stack: list[tuple[int, Any, dict[int, Fraction], dict[int, Fraction]]] = [
            (file.root[self.m], ends, {}, {})
        ]
        while stack:
            node, ends, floor, ceiling = stack.pop()
            if ends is None or any(lo > hi for lo, hi in zip(*ends, strict=True)):
                continue
            j, t = file.node_cut[node], Fraction(file.node_value[node])
            if j < 0:
                if not holds(file.leaf_numbers(node), ends, floor, ceiling):
                    return False
                continue
            lower, upper = min(ceiling.get(j, t), t), max(floor.get(j, t), t)
            stack.append((file.node_below[node], refine(ends, j, t, False), floor, {**ceiling, j: lower}))
            stack.append((file.node_above[node], refine(ends, j, t, True), {**floor, j: upper}, ceiling))
        return True

    def cut_alone(self, ends: Any, j: int, t: Fraction, above: bool) -> tuple[list[Fraction], list[Fraction]]:
        """The intervals of a part, by its own cut alone."""
        lo, hi = list(ends[0]), list(ends[1])
        if above:
            lo[j] = max(lo[j], t)
        else:
            hi[j] = min(hi[j], t)
        return lo, hi

    def _leaf(self, numbers: list[Fraction], ends: Any) -> list[list[Fraction]] | None:
        """The arrays of a leaf after τ, None if its bounds do not enclose."""
        n = self.num
        parts = [numbers[1 + i : 1 + i + n] for i in range(0, len(numbers) - 1, n)]
        encloses = all(a <= b for a, b in zip(parts[0], ends[0], strict=True)) and all(
            b <= a for a, b in zip(parts[1], ends[1], strict=True)
        )
        return parts if encloses and numbers[0] >= 0 else None

    def lines_leaf(self, numbers: list[Fraction], ends: Any, floor: Cuts, ceiling: Cuts) -> bool:
        parts = self._leaf(numbers, ends)
        if parts is None or any(t < 0 for t in (*parts[3], *parts[4])):
            return False
        low, high, line, nu_floor, nu_ceiling = parts
        tau, u, H = numbers[0], [], ZERO
        for j, v in enumerate(self.votes):
            if self.supporting[j]:
                curve = below_curve(self.p, low[j], high[j], (ends[0][j], ends[1][j]), line[j], bent=False)
                if curve is None:
                    return False
                offset, slope = curve[0], curve[1]
            else:
                slope = line[j]
                offset = chord_offset(self.p, low[j], high[j], slope)
            H += tau * v * offset
            u.append(tau * v * slope)
            if j in floor:
                u[j] -= nu_floor[j]
                H += nu_floor[j] * floor[j]
            if j in ceiling:
                u[j] += nu_ceiling[j]
                H -= nu_ceiling[j] * ceiling[j]
            H += u[j] * self.c[j]
        if H <= 0:
            return False
        weights, e = dyadic(u)
        v = [sum(map(mul, weights, column)) for column in zip(*self.w, strict=True)], e + self.e
        if self.norm == "2":
            return self.radius**2 * dot(v, v) < H * H
        capped, shift = dyadic([self.radius])
        both = max(shift, self.below[1])
        top, lift = capped[0] << both - shift, both - self.below[1]
        lost = sum(
            max(t * min(a << lift, top), -t * min(b << lift, top))
            for t, a, b in zip(v[0], self.below[0], self.above[0], strict=True)
        )
        return value(lost, v[1] + both) < H

    # Quadratics

    def cells(self) -> bool:
        self.centre, self.stiffness, self.square_radius = self.c, [ONE] * self.d, self.reach**2
        grams = [[self.gram(j, k) for k in self.useful] for j in self.useful]
        self.K, self.K_e = grams, 2 * self.e
        return self.tree(
            self.ball_ends(), self.halved, lambda *leaf: self.quadratic_leaf(self.radius**2, False, *leaf)
        )

    def ellipsoid(self) -> bool:
        numbers = [Fraction(t) for t in self.file.own_numbers(self.m)]
        s, middle = numbers[: self.d], numbers[self.d :]
        if not all(t > 0 if self.norm == "inf" else t >= 1 for t in s):
            return False
        A = [value(t, self.below[1]) for t in self.below[0]]
        B = [value(t, self.above[1]) for t in self.above[0]]
        if self.norm == "inf":
            goal = sum((t * max(b - m, a + m) ** 2 for t, m, a, b in zip(s, middle, A, B, strict=True)), ZERO)
            self.square_radius = goal
        else:
            extra = sum(
                max((t - 1) * a * a + 2 * t * m * a, (t - 1) * b * b - 2 * t * m * b, -t * m * m) + t * m * m
                for t, m, a, b in zip(s, middle, A, B, strict=True)
            )
            self.square_radius, goal = self.reach**2 + extra, self.radius**2 + extra
        shift = dyadic(middle)
        self.centre = [c + dot((w, self.e), shift) for c, w in zip(self.c, self.w, strict=True)]
        self.stiffness = s
        inverse, e = dyadic(rounded(1 / t, True) for t in s)  # a larger ellipsoid, a smaller ‖δ'‖
        weighted = [list(map(mul, w, inverse)) for w in self.w]
        half = [[sum(map(mul, v, w)) for w in self.w[: j + 1]] for j, v in enumerate(weighted)]
        self.K = [[half[max(j, k)][min(j, k)] for k in range(self.num)] for j in range(self.num)]
        self.K_e = 2 * self.e + e
        strict = self.norm == "inf"
        return self.tree(self.box_ends(), self.halved, lambda *leaf: self.quadratic_leaf(goal, strict, *leaf))

    def halved(
        self, ends: Any, cut: int, t: Fraction, above: bool
    ) -> tuple[list[Fraction], list[Fraction]] | None:
        """The intervals in a part: over the ball's half, by the cut; None if the half space misses the ball."""
        K = [value(k, self.K_e) for k in self.K[cut]]
        q = t - self.centre[cut] if above else self.centre[cut] - t
        depth = self.square_radius * K[cut] - q * q
        lo, hi = self.cut_alone(ends, cut, t, above)
        if depth < 0 or K[cut] == 0:
            return None if q > 0 else (lo, hi)
        for j, c in enumerate(self.centre):
            k, kk = K[j] if above else -K[j], value(self.K[j][j], self.K_e)
            aside = (
                q * abs(q) * kk
            )  # the ball's own minimiser is outside of the half space if -R K_jl < q ‖w_j‖
            outside = -k * abs(k) * self.square_radius < aside, k * abs(k) * self.square_radius < aside
            if any(outside):
                spread = root((kk * K[cut] - k * k) * depth, True)
                if outside[0]:
                    lo[j] = max(lo[j], c + rounded((k * q - spread) / K[cut], False))
                if outside[1]:
                    hi[j] = min(hi[j], c + rounded((k * q + spread) / K[cut], True))
        return lo, hi

    def quadratic_leaf(
        self, goal: Fraction, strict: bool, numbers: list[Fraction], ends: Any, floor: Cuts, ceiling: Cuts
    ) -> bool:
        """Whether 2 min F is at least (strict: above) the goal on the cell of a leaf."""
        parts = self._leaf(numbers, ends)
        if parts is None or any(t < 0 for part in parts[4:] for t in part):
            return False
        low, high, line, centre, kappa, nu_floor, nu_ceiling = parts
        tau, C = numbers[0], ZERO
        gamma, bend = [ZERO] * self.num, [ZERO] * self.num
        for j, v in enumerate(self.votes):
            if self.supporting[j]:
                curve = below_curve(self.p, low[j], high[j], (ends[0][j], ends[1][j]), line[j], bent=True)
            else:
                curve = above_curve(
                    self.p, low[j], high[j], (ends[0][j], ends[1][j]), line[j], centre[j], kappa[j]
                )
            if curve is None:
                return False
            weight = tau * v
            C += weight * curve[0]
            gamma[j], bend[j] = weight * curve[1], -weight * curve[2]
            if j in floor:
                gamma[j] -= nu_floor[j]
                C += nu_floor[j] * floor[j]
            if j in ceiling:
                gamma[j] += nu_ceiling[j]
                C -= nu_ceiling[j] * ceiling[j]
        bent = [j for j, e in enumerate(bend) if e]
        corner = 2 * C - goal + 2 * sum(g * c for g, c in zip(gamma, self.centre, strict=True))
        if len(bent) < self.d and all(e >= 0 for e in bend):
            return self._by_neurons(bent, bend, gamma, corner, strict)
        return self._by_coordinates(bend, gamma, corner, strict)

    def _by_neurons(
        self, bent: list[int], bend: list[Fraction], gamma: list[Fraction], corner: Fraction, strict: bool
    ) -> bool:
        """-e t² = min_y (y²/e - 2yt), and without δ the form of (y, 1) is left, with the matrix diag(1/e) - K."""
        g = dyadic(gamma)
        pull = [value(sum(map(mul, row, g[0])), self.K_e + g[1]) for row in self.K]
        corner -= sum(a * b for a, b in zip(gamma, pull, strict=True))
        last = [pull[j] - self.centre[j] for j in bent] + [corner]
        inverse = [rounded(1 / bend[j], False) for j in bent]  # a larger e
        tail, e = dyadic(last + inverse)
        both = max(e, self.K_e)
        form = [[-self.K[j][k] << both - self.K_e for k in bent[: i + 1]] for i, j in enumerate(bent)]
        for row, t in zip(form, tail[len(last) :], strict=True):
            row[-1] += t << both - e
        return positive([*form, [t << both - e for t in tail[: len(last)]]], strict)

    def _by_coordinates(
        self, bend: list[Fraction], gamma: list[Fraction], corner: Fraction, strict: bool
    ) -> bool:
        """The form 2F - goal of (δ, 1), with the matrix diag(s) - Σ e_j w_j w_jᵀ."""
        corner -= sum(e * c * c for e, c in zip(bend, self.centre, strict=True))
        slopes = dyadic(g - e * c for g, e, c in zip(gamma, bend, self.centre, strict=True))
        e_int, e_shift = dyadic(bend)
        columns = list(zip(*self.w, strict=True))
        weighted = [list(map(mul, e_int, column)) for column in columns]
        tail, shift = dyadic([*self.stiffness, corner])
        both = max(shift, e_shift + 2 * self.e, slopes[1] + self.e)
        lift = both - e_shift - 2 * self.e
        form = [[-sum(map(mul, a, b)) << lift for b in columns[: i + 1]] for i, a in enumerate(weighted)]
        for row, t in zip(form, tail, strict=False):
            row[-1] += t << both - shift
        last = [sum(map(mul, slopes[0], column)) << both - slopes[1] - self.e for column in columns]
        return positive([*form, [*last, tail[-1] << both - shift]], strict)


def _two_to(y: Fraction, up: bool) -> Fraction:
    """A bound of 2^y for y of any sign."""
    whole = math.floor(y)
    return two(whole) * power(Fraction(2), y - whole, up)


Curve = tuple[Fraction, Fraction, Fraction]  # q0 + q1 t + ½ q2 t²


def phi(p: Fraction, t: Fraction, up: bool) -> Fraction:
    return power(t, p, up) if t > 0 else ZERO


def slope(p: Fraction, t: Fraction, up: bool) -> Fraction:
    """φ'(t), for p = 1 that from the right."""
    if p == 1:
        return ONE if t >= 0 else ZERO
    return p * power(t, p - 1, up) if t > 0 else ZERO


def bending(p: Fraction, s: Fraction, t: Fraction, up: bool) -> Fraction | None:
    """A bound of Q_s(t), s ≥ 0; None where it is infinite."""
    if t == s:
        if s == 0:
            return None if p < 2 else Fraction(2 if p == 2 else 0)
        return p * (p - 1) * power(s, p - 2, up)
    rise = phi(p, t, up) - phi(p, s, not up) - slope(p, s, (t < s) == up) * (t - s)
    return rounded(max(2 * rise / (t - s) ** 2, ZERO), up)


def tangent(p: Fraction, s: Fraction, ends: Interval, k: Fraction, up: bool) -> Curve:
    """φ(s) + φ'(s)(t - s) + ½k(t - s)², valid from its side for t between the ends although φ'(s) is rounded down."""
    inclination = slope(p, s, False)
    error = (slope(p, s, True) - inclination) * max(s - ends[0], ends[1] - s, ZERO)
    height = phi(p, s, up) + (error if up else -error)
    return height - inclination * s + HALF * k * s * s, inclination - k * s, k


def below_curve(
    p: Fraction, low: Fraction, high: Fraction, ends: Interval, line: Fraction, bent: bool
) -> Curve | None:
    """A quadratic below φ on [low, high]; None if `line` is no choice for it."""
    if p == 1:
        return (ZERO, line, ZERO) if 0 <= line <= 1 else None
    if line < 0:
        return None
    k = ZERO
    if bent:
        limits = [bending(p, line, t, False) for t in ((low,) if p >= 2 else (low, high))]
        k = min((t for t in limits if t is not None), default=ZERO)
    return tangent(p, line, ends, k, False)


def chord_offset(p: Fraction, low: Fraction, high: Fraction, line: Fraction) -> Fraction:
    """The least o such that o + line·t is above φ at both ends, hence between them."""
    return max(phi(p, low, True) - line * low, phi(p, high, True) - line * high)


def above_curve(
    p: Fraction,
    low: Fraction,
    high: Fraction,
    ends: Interval,
    line: Fraction,
    centre: Fraction,
    kappa: Fraction,
) -> Curve | None:
    """A quadratic above φ on [low, high]; None if κ is too large."""
    if high <= 0:
        return ZERO, ZERO, ZERO
    if centre > 0:
        s = min(centre, high)
        if p > 2:
            k = bending(p, s, high, True)
        elif low < (1 - 2 / p) * s:
            k = rounded(p * p * power(s, p - 2, True) / 2, True)
        else:
            k = bending(p, s, low, True)
        assert k is not None  # s > 0
        return tangent(p, s, ends, k, True)
    if centre < 0:
        peak = None if p >= 2 else -centre * p / (2 - p)
        top = high if peak is None else min(high, peak)
        k = (
            p * p * power(top, p - 2, True) / 2
            if top == peak
            else 2 * phi(p, top, True) / (top - centre) ** 2
        )
        k = rounded(k, True)
        return HALF * k * centre * centre, -k * centre, k
    width = high - low
    if kappa and (width <= 0 or kappa > _largest_kappa(p, low, high)):
        return None
    offset = chord_offset(p, low, high, line)
    return offset + HALF * kappa * low * high, line - HALF * kappa * (low + high), kappa


def _largest_kappa(p: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """A lower bound of κ*."""
    width = high - low
    room = phi(p, high, False) - phi(p, low, True) - slope(p, low, True) * width
    if p < 2:
        room = min(room, slope(p, high, False) * width - phi(p, high, True) + phi(p, low, False))
    return 2 * room / width**2


# ---------------------------------------------------------------------------------------------------------------------------------
# Several layers of ReLU


class Deep:
    """Kinds `deep` and `crown` of several layers."""

    def __init__(self, check: _Check, m: int) -> None:
        model, o, r = as_layers(check.model), *check.classes(m)
        self.check, self.m, self.file, self.model = check, m, check.file, model
        self.widths, self.d, self.norm = model.widths, model.dimension, check.file.norm
        self.starts = [sum(self.widths[:k]) for k in range(len(self.widths) + 1)]
        self.size = self.starts[-1]
        self.layers = [self._layer(k) for k in range(1, len(self.widths) + 1)]
        last = model.rows(f"W{len(self.widths) + 1}")
        self.readout = dyadic([Fraction(s) - Fraction(t) for s, t in zip(last[o], last[r], strict=True)])
        self.offset = check.bias_gap(m)
        rows, e = self.layers[0][:2]
        x = dyadic(check.x(m))
        self.c = [
            dot((row, e), x) + Fraction(b) for row, b in zip(rows, model.arrays["b1"].flat, strict=True)
        ]
        biases = [list(map(Fraction, model.arrays[f"b{k}"].flat)) for k in range(2, len(self.widths) + 1)]
        self.biases = [self.c, *biases]
        self.biases_dyadic = [dyadic(b) for b in self.biases]

    def _layer(self, k: int) -> tuple[list[list[int]], int, list[list[int]]]:
        rows, e = self.model.once(("layer", k), lambda: matrix(self.model.rows(f"W{k}")))
        columns = self.model.once(("columns", k), lambda: [list(c) for c in zip(*rows, strict=True)])
        return rows, e, columns

    def enter(self, reach: float) -> bool:
        """Look at the region of a radius; False where the point is outside of its bounds."""
        room = self.check.room(self.m, reach)
        if room is None:
            return False
        self.reach = Fraction(reach)
        self.boxed = any(t < reach for side in room for t in side)
        both, e = dyadic([*room[0], *room[1]])
        self.below, self.above = (both[: self.d], e), (both[self.d :], e)
        rows, e, _ = self.layers[0]
        self.first = [
            (c - self.span(([-t for t in w], e)), c + self.span((w, e)))
            for c, w in zip(self.c, rows, strict=True)
        ]
        return True

    def valid(self) -> bool:
        if not self.enter(self.file.reach[self.m]):
            return False
        stack: list[tuple[int, dict[int, bool]]] = [(self.file.root[self.m], {})]
        while stack:
            node, cuts = stack.pop()
            j = self.file.node_cut[node]
            if j < 0:
                if not self.leaf(self.file.leaf_numbers(node), cuts):
                    return False
                continue
            if self.file.node_value[node] != 0 or j in cuts:
                return False
            stack.append((self.file.node_below[node], {**cuts, j: False}))
            stack.append((self.file.node_above[node], {**cuts, j: True}))
        return True

    def span(self, v: Vector) -> Fraction:
        """An upper bound of ⟨v, δ⟩ over the region."""
        return farthest(v, self.below, self.above, self.reach, self.norm, self.boxed)

    def leaf(self, numbers: list[Fraction], cuts: dict[int, bool]) -> bool:
        """Whether a leaf is proven. Cheap bounds come first; a leaf may still be empty by the best ones."""
        low, high = numbers[: self.size], numbers[self.size : 2 * self.size]
        lines = [self.relaxed(low[s:t], high[s:t]) for s, t in pairwise(self.starts)]
        for k in range(len(self.widths)):
            found = self.layer_bounds(k, lines, low, high, cuts, best=False)
            if any(lo > hi for lo, hi in found):
                return True
            here = range(self.starts[k], self.starts[k + 1])
            if not all(low[j] <= lo and hi <= high[j] for j, (lo, hi) in zip(here, found, strict=True)):
                found = self.layer_bounds(k, lines, low, high, cuts, best=True)
                return any(lo > hi for lo, hi in found)
        depth = len(self.widths)
        if len(numbers) > 2 * self.size:
            proven = self.quadratic(numbers, cuts)
        else:
            proven = any(
                self.from_below(self.readout, self.offset, depth, lines, way) > 0 for way in range(3)
            )
        return proven or any(
            lo > hi
            for k in range(1, depth)
            for lo, hi in self.layer_bounds(k, lines, low, high, cuts, best=True)
        )

    def layer_bounds(
        self,
        k: int,
        lines: list[Any],
        low: list[Fraction],
        high: list[Fraction],
        cuts: dict[int, bool],
        best: bool,
    ) -> list[Interval]:
        """Intervals of a layer's neurons. Unless the best are asked for, the first of the three choices that will do."""
        rows, e, _ = self.layers[k]
        found = []
        for i in range(self.widths[k]):
            j = self.starts[k] + i
            if k == 0:
                lo, hi = self.first[i]
            else:
                a, b, full = rows[i], self.biases[k][i], best or j in cuts
                lo = self.tried((a, e), b, k, lines, None if full else low[j])
                hi = -self.tried(([-t for t in a], e), -b, k, lines, None if full else -high[j])
            if j in cuts:
                lo, hi = (max(lo, ZERO), hi) if cuts[j] else (lo, min(hi, ZERO))
            found.append((lo, hi))
        return found

    def tried(self, a: Vector, b: Fraction, k: int, lines: list[Any], enough: Fraction | None) -> Fraction:
        best = self.from_below(a, b, k, lines, 0)
        for way in (1, 2):
            if enough is None or best < enough:
                best = max(best, self.from_below(a, b, k, lines, way))
        return best

    def relaxed(self, low: list[Fraction], high: list[Fraction]) -> "Lines":
        """Lines of a layer's neurons: three choices below, through 0, then the one above."""
        below: list[list[float]] = [[], [], []]
        above: list[float] = []
        offsets: list[Fraction] = []
        for lo, hi in zip(low, high, strict=True):
            if lo >= 0 or hi <= 0:
                steep = 1.0 if lo >= 0 else 0.0
                choices = (steep, steep, steep)
                offsets.append(ZERO)
            else:
                steep = min(max(float(hi) / (float(hi) - float(lo)), 0.0), 1.0)
                choices = (1.0 if hi > -lo else 0.0, steep, 0.0)
                offsets.append(max(-Fraction(steep) * lo, hi - Fraction(steep) * hi))
            above.append(steep)
            for row, t in zip(below, choices, strict=True):
                row.append(t)
        return _lines([*below, above], [[ZERO] * len(offsets), offsets])

    def from_below(self, a: Vector, b: Fraction, k: int, lines: list[Any], way: int) -> Fraction:
        """A lower bound of ⟨a, h⟩ + b, h the values of layer k after ReLU, by lines from layer k back to the first."""
        for layer in range(k - 1, -1, -1):
            slopes, e, (below, above), f = lines[layer]
            shifts = (t * (o if t >= 0 else p) for t, o, p in zip(a[0], below, above, strict=True))
            b += value(sum(shifts), a[1] + f)
            inner = (
                [t * (s if t >= 0 else u) for t, s, u in zip(a[0], slopes[way], slopes[-1], strict=True)],
                a[1] + e,
            )
            b += dot(inner, self.biases_dyadic[layer])
            _, e, columns = self.layers[layer]
            a = [sum(map(mul, inner[0], column)) for column in columns], inner[1] + e
        return b - self.span(([-t for t in a[0]], a[1]))

    def quadratic(self, numbers: list[Fraction], cuts: dict[int, bool]) -> bool:
        """A leaf with multipliers: L(y) > 0 for all y = (δ, h of unstable neurons)."""
        H, d = self.size, self.d
        low, high, (scale, outer) = numbers[:H], numbers[H : 2 * H], numbers[2 * H : 2 * H + 2]
        s = numbers[2 * H + 2 : 2 * H + 2 + d]
        kappa, tau, sigma = (numbers[2 * H + 2 + d + i * H : 2 * H + 2 + d + (i + 1) * H] for i in range(3))
        if any(t < 0 for t in (scale, outer, *s, *tau, *sigma)):
            return False
        unstable = [j for j in range(H) if low[j] < 0 < high[j]]
        place = {j: d + i for i, j in enumerate(unstable)}
        size = d + len(unstable)
        z, margin = self.affine(low, high, place, size)
        form = [[ZERO] * (i + 1) for i in range(size + 1)]  # twice L, as a form of (y, 1)
        last = form[size]

        def add(row: list[Fraction], weight: Fraction) -> None:
            """Add an affine function."""
            for i, t in enumerate(row):
                if t:
                    last[i] += (weight if i < size else 2 * weight) * t

        add(margin, ONE)
        A, B = ([value(t, side[1]) for t in side[0]] for side in (self.below, self.above))
        ball = outer if self.norm == "2" else ZERO
        last[size] -= (
            2 * scale * (ball * self.reach**2 + sum(t * a * b for t, a, b in zip(s, A, B, strict=True)))
        )
        for i in range(d):
            form[i][i] += 2 * scale * (ball + s[i])
            last[i] -= scale * s[i] * (B[i] - A[i])
        squares: list[tuple[Fraction, list[Fraction]]] = []
        for j in unstable:
            k = place[j]
            last[k] -= tau[j] * high[j]
            form[k][k] += 2 * tau[j] - 2 * kappa[j]
            for i, t in enumerate(z[j]):  # κ h z
                if t:
                    target = last if i == size else form[max(i, k)]
                    target[k if i == size else min(i, k)] += kappa[j] * t
            if sigma[j]:
                inactive = [-t for t in z[j]]
                inactive[k] += 1
                add(inactive, sigma[j] * low[j])
                squares.append((2 * sigma[j], inactive))
        for j, above in cuts.items():
            side = z[j] if above else [-t for t in z[j]]
            add(side, -tau[j] * (high[j] if above else -low[j]))
            squares.append((2 * tau[j], side))
        return positive(with_squares(form, squares))

    def affine(
        self, low: list[Fraction], high: list[Fraction], place: dict[int, int], size: int
    ) -> tuple[list[list[Fraction]], list[Fraction]]:
        """All z, and f_o - f_r, as affine functions: coefficients of y, then the constant."""
        z: list[list[Fraction]] = []
        values: list[list[Fraction]] = []
        readout = [value(t, self.readout[1]) for t in self.readout[0]]
        for k in range(len(self.widths) + 1):
            if k == len(self.widths):
                rows, biases = [readout], [self.offset]
            else:
                ints, e, _ = self.layers[k]
                rows, biases = [[value(t, e) for t in row] for row in ints], self.biases[k]
            if k == 0:
                z = [[*row, *[ZERO] * (size - self.d), b] for row, b in zip(rows, biases, strict=True)]
            else:
                columns, e = matrix(zip(*values, strict=True))
                exact = [dyadic(row) for row in rows]
                fresh = [[value(sum(map(mul, row, column)), f + e) for column in columns] for row, f in exact]
                for row, b in zip(fresh, biases, strict=True):
                    row[size] += b
                z += fresh
            values = []
            for j in range(self.starts[min(k, len(self.starts) - 1)], len(z) if k < len(self.widths) else 0):
                unit = [ZERO] * (size + 1)
                if j in place:
                    unit[place[j]] = ONE
                values.append(z[j] if low[j] >= 0 else unit)
        return z[:-1], z[-1]


Lines = tuple[
    list[list[int]], int, list[list[int]], int
]  # slopes times 2^e, offsets below and above times 2^f


def _lines(slopes: list[list[Any]], offsets: list[list[Fraction]]) -> Lines:
    return *matrix(slopes), *matrix(offsets)


class Relaxation(Deep):
    """Kind `relaxation`: bounds of neurons and slopes of lines, for any activation and norm."""

    def valid(self) -> bool:
        if not self.enter(self.file.radius[self.m]):
            return False
        H, numbers = self.size, [Fraction(t) for t in self.file.own_numbers(self.m)]
        low, high, *slopes = (numbers[i * H : (i + 1) * H] for i in range(6))
        if any(lo > hi for lo, hi in zip(low, high, strict=True)):
            return False
        key = "hold", self.file.point[self.m], self.reach, *numbers[: 4 * H]
        if not self.model.once(key, lambda: self._hold(low, high, slopes)):
            return False
        lines = self._of_layers(low, high, slopes[2:])
        return self.from_below(self.readout, self.offset, len(self.widths), lines, 0) > 0

    def _hold(self, low: list[Fraction], high: list[Fraction], slopes: list[list[Fraction]]) -> bool:
        lines = self._of_layers(low, high, slopes[:2])
        return all(
            low[j] <= lo and hi <= high[j]
            for k in range(len(self.widths))
            for j, (lo, hi) in enumerate(self._bounds(k, lines), self.starts[k])
        )

    def _bounds(self, k: int, lines: list[Lines]) -> Iterator[Interval]:
        if k == 0:
            yield from self.first
            return
        rows, e, _ = self.layers[k]
        for row, b in zip(rows, self.biases[k], strict=True):
            lo = self.from_below((row, e), b, k, lines, 0)
            yield lo, -self.from_below(([-t for t in row], e), -b, k, lines, 0)

    def _of_layers(
        self, low: list[Fraction], high: list[Fraction], slopes: list[list[Fraction]]
    ) -> list[Lines]:
        """Lines of these slopes, shifted below and above the activation."""
        name = self.model.form.removeprefix("layers ")
        offsets = [
            [
                self.model.once((lo, hi, s, side), lambda a=(name, lo, hi, s, side): line_offset(*a))
                for lo, hi, s in zip(low, high, part, strict=True)
            ]
            for part, side in zip(slopes, (1, -1), strict=True)
        ]
        return [
            _lines([part[s:t] for part in slopes], [part[s:t] for part in offsets])
            for s, t in pairwise(self.starts)
        ]


def as_layers(model: Model) -> Model:
    """Layers that compute the same as one hidden layer of ReLU; layers as they are."""

    def build() -> Model:
        W, b = model.arrays["W"], model.arrays["b"]
        if model.form == "scores":
            V = [list(column) for column in zip(*model.rows("V"), strict=True)]
            last = model.arrays["c"].flat
        else:
            a = list(model.arrays["a"].flat)
            V, last = [[0.0] * len(a), a], [0.0, 0.0]
        arrays = {"W1": W, "b1": b, "W2": _array("W2", V), "b2": _vector("b2", last)}
        return Model("layers relu", arrays, model.names)

    return model if model.form.startswith("layers") else model.once("as layers", build)


# ---------------------------------------------------------------------------------------------------------------------------------
# Activations


PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230"
)  # less than 2^-200 below π
BENDS = {  # convex (1) or concave (-1) pieces, between inflection points that lie between two doubles
    "tanh": ([(0.0, 0.0)], (1, -1)),
    "gelu": (
        [(-1.4142135623730951, -1.414213562373095), (1.414213562373095, 1.4142135623730951)],
        (-1, 1, -1),
    ),
    "silu": (
        [(-2.399357280515468, -2.3993572805154675), (2.3993572805154675, 2.399357280515468)],
        (-1, 1, -1),
    ),
}


def line_offset(name: str, low: Fraction, high: Fraction, s: Fraction, side: int) -> Fraction:
    """Nearly the least (side 1) or largest (side -1) φ(z) - s z over low ≤ z ≤ high, on the safe side."""
    if name == "relu":
        places = [z for z in (low, high, ZERO) if low <= z <= high]
        return side * min(side * (max(z, ZERO) - s * z) for z in places)

    def gap(z: Fraction) -> Fraction:
        least, most = activation(name, z)
        return least - s * z if side > 0 else s * z - most

    inflections, bends = BENDS[name]
    borders = [low, *(Fraction(t) for pair in inflections for t in pair), high]
    found = []
    for piece, bend in enumerate(bends):
        a, b = max(low, borders[2 * piece]), min(high, borders[2 * piece + 1])
        if a > b:
            continue
        if bend != side:
            found += [gap(a), gap(b)]
            continue
        at = _tangent(name, a, b, s, side)
        least, most = derivative(name, at)
        rise = (least - s, most - s) if side > 0 else (s - most, s - least)
        found += [gap(at) + min(t * (end - at) for t in rise) for end in (a, b)]
    for pair in inflections:
        left, right = Fraction(pair[0]), Fraction(pair[1])
        if left < right and low < right and high > left:
            found.append(gap(left) - (right - left) * (abs(s) + 2))
    return rounded(side * min(found), side < 0)


def _tangent(name: str, a: Fraction, b: Fraction, s: Fraction, side: int) -> Fraction:
    """A place in [a, b] near which φ' = s: any is sound, so it is found in doubles."""
    left, right, goal = float(a), float(b), float(s)
    for _ in range(60):
        middle = left / 2 + right / 2
        z = max(min(middle, 40.0), -40.0)
        if name == "tanh":
            steep = 1 - math.tanh(z) ** 2
        elif name == "gelu":
            steep = (1 + math.erf(z / math.sqrt(2))) / 2 + z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        else:
            steep = (1 + z / (1 + math.exp(z))) / (1 + math.exp(-z))
        left, right = (middle, right) if side * (steep - goal) < 0 else (left, middle)
    return max(a, min(b, Fraction(left)))


def exponential(t: Fraction) -> Interval:
    """Bounds of exp t for |t| ≤ 500: exp(t/2^k) by its series, squared k times, in integers of 512 bits."""
    fine, halvings = 2 * BITS, 10
    z = (t.numerator << fine - halvings) // t.denominator  # t/2^k, off by less than 1 in the last place
    found = []
    for number, up in ((abs(z) - 1 if z < 0 else z, False), (abs(z) if z < 0 else z + 1, True)):
        term = total = 1 << fine
        for n in range(1, 101):
            term = -(-term * number // (n << fine)) if up else term * number // (n << fine)
            total += term
        total += up  # the other terms are below 2^-600, for |z| < 1/2
        for _ in range(halvings):
            total = -(-total * total >> fine) if up else total * total >> fine
        found.append(Fraction(total, 1 << fine))
    low, high = found
    return (1 / high, 1 / low) if z < 0 else (low, high)


def _rounded(ends: Interval) -> Interval:
    return rounded(ends[0], False), rounded(ends[1], True)


def _products(a: Interval, b: Interval) -> Interval:
    every = [s * t for s in a for t in b]
    return _rounded((min(every), max(every)))


def _logistic(z: Fraction) -> Interval:
    """1/(1 + exp(-z))."""
    if abs(z) > 400:
        return (1 - two(-500), ONE) if z > 0 else (ZERO, two(-500))
    low, high = exponential(-z)
    return _rounded((1 / (1 + high), 1 / (1 + low)))


def _normal(z: Fraction) -> tuple[Interval, Interval]:
    """Φ(z) = ½ + φ(z) Σ z^(2n+1)/(2n+1)!! and its density φ(z) = exp(-z²/2)/√(2π)."""
    if abs(z) > 25:  # both are below 2^-400, or 1 less so much
        tiny = (ZERO, two(-400))
        return ((1 - two(-400), ONE) if z > 0 else tiny), tiny
    roots = 1 / root(2 * (PI + two(-200)), True), 1 / root(2 * PI, False)
    density = _products(exponential(-z * z / 2), roots)
    size, fine = abs(z), 2 * BITS
    square = [(size * size).numerator << fine, (size * size).denominator]
    ends = []
    for up in (False, True):
        term = size.numerator << fine
        term = -(-term // size.denominator) if up else term // size.denominator
        factor = -(-square[0] // square[1]) if up else square[0] // square[1]
        total, n = term, 0
        while 2 * n + 1 < 2 * size * size or term > 1:
            n += 1
            term = (
                -(-term * factor // ((2 * n + 1) << fine)) if up else term * factor // ((2 * n + 1) << fine)
            )
            total += term
        ends.append(Fraction(total + (4 if up else 0), 1 << fine))  # later terms halve at least
    part = _products(density, (ends[0], ends[1]))
    normal = (HALF + part[0], HALF + part[1]) if z >= 0 else (HALF - part[1], HALF - part[0])
    return normal, density


def activation(name: str, z: Fraction) -> Interval:
    """Bounds of φ(z)."""
    if name == "tanh":
        return tanh(z, False), tanh(z, True)
    return _products((z, z), _logistic(z) if name == "silu" else _normal(z)[0])


def derivative(name: str, z: Fraction) -> Interval:
    """Bounds of φ'(z)."""
    if name == "tanh":
        low, high = sorted(abs(t) for t in activation("tanh", z))
        return _rounded((1 - high * high, 1 - low * low))
    if name == "silu":
        other = _products((z, z), _logistic(-z))
        return _products(_logistic(z), (1 + other[0], 1 + other[1]))
    normal, density = _normal(z)
    other = _products((z, z), density)
    return normal[0] + other[0], normal[1] + other[1]


def with_squares(
    form: list[list[Fraction]], squares: list[tuple[Fraction, list[Fraction]]]
) -> list[list[int]]:
    """A form plus Σ weight · (affine function)², times a common power of two."""
    flat = triangle(form)
    if not squares:
        return flat[0]
    rows, e = matrix(row for _, row in squares)
    weights, shift = dyadic(w for w, _ in squares)
    columns = list(zip(*rows, strict=True))
    weighted = [list(map(mul, weights, column)) for column in columns]
    both = max(flat[1], 2 * e + shift)
    return [
        [
            (t << both - flat[1]) + (sum(map(mul, weighted[i], columns[k])) << both - 2 * e - shift)
            for k, t in enumerate(row)
        ]
        for i, row in enumerate(flat[0])
    ]


def triangle(form: list[list[Fraction]]) -> tuple[list[list[int]], int]:
    """The rows of a lower triangle as integers with one power of two."""
    flat, e = dyadic(t for row in form for t in row)
    return [flat[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2] for i in range(len(form))], e


# ---------------------------------------------------------------------------------------------------------------------------------
# Work


def cost(file: ProofFile, model: Model, m: int) -> float:
    """About how many multiplications one proof needs."""
    d, widths, kind = model.dimension, model.widths, file.kind[m]
    if kind == "closed form":
        return d if model.form == "linear" else 10.0 * d * d + d**3 / 6
    if not widths:
        return 0.0
    if kind == "relaxation":
        inner = [d * widths[0], *(a * b for a, b in pairwise(widths))]
        return sum(2 * w * sum(inner[:k]) for k, w in enumerate([*widths, 1])) + 2e3 * sum(widths)
    if kind in ("norm product", "balls"):
        sizes = [d, *widths]
        small = [min(a, b) for a, b in zip(sizes, widths, strict=False)]
        return sum(a * b * s + s**3 / 6 for a, b, s in zip(sizes, widths, small, strict=False))
    tree = list(file.nodes(file.root[m])) if file.root[m] >= 0 else []
    num_leaves = sum(file.node_cut[node] < 0 for node, _ in tree)
    h = widths[0] + 1
    if model.form.startswith("layers"):
        inner = [d * widths[0], *(a * b for a, b in pairwise(widths))]
        work = sum(3 * w * sum(inner[:k]) for k, w in enumerate([*widths, 1]))
        size = d + sum(widths)
        long = sum(file.node_width[node] > 2 * sum(widths) for node, _ in tree)
        return num_leaves * (work + 100.0 * size) + long * (size * size * sum(widths) / 2 + size**3 / 6)
    if kind in ("crown", "lines"):
        return 2.0 * h * d + num_leaves * h * (d + 100.0)
    by_neurons = h * h + h**3 / 6
    by_coordinates = h * d * d / 2 + d**3 / 6
    leaf = min(by_neurons, by_coordinates) if model.p == 1 else by_coordinates
    return h * h * d / 2 + len(tree) * 100.0 * h + (num_leaves * leaf if kind != "lipschitz" else 0.0)
