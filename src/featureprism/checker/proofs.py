"""Proof files (docs/proof_format.md): what is claimed of which points and model, and the trees of all certificates, node after node."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np

from featureprism.checker.arrays import arrays_of
from featureprism.checker.cells import DEEPEST, MOST_CUTS, OF_LINES, PARAMETERS
from featureprism.checker.certificate import Certificate
from featureprism.checker.lines import Bounds
from featureprism.checker.scaled import LARGEST
from featureprism.checker.weights import is_weight, weighted_bounds

FORMAT, VERSION = "featureprism proof", 2
ARITHMETICS = ("real", "float32")
NONE = -1
KINDS = (
    "closed form",
    "lipschitz",
    "crown",
    "lines",
    "cells",
    "ellipsoid",
    "deep",
    "norm product",
    "balls",
    "relaxation",
)
NORMS = {1: 1.0, 2: 2.0, "inf": np.inf}
WITH_REGION = ("crown", "lines", "cells", "ellipsoid", "deep")

POINTS = {"certified": "<f8", "label": "<i8", "margin": "<f8"}
OF_PROOF = {
    "point": "<i8",
    "target": "<i8",
    "kind": "<U16",
    "radius": "<f8",
    "reach": "<f8",
    "root": "<i8",
    "votes": "<i8",
    "first": "<i8",
    "width": "<i8",
}
OF_VOTES = {"first": "<i8", "width": "<i8", "scale": "<i8"}
OF_NODE = {"cut": "<i8", "value": "<f8", "below": "<i8", "above": "<i8", "first": "<i8", "width": "<i8"}
TABLES = {"proof": OF_PROOF, "votes": OF_VOTES, "node": OF_NODE}


def norm_word(norm: float) -> int | str:
    """A norm as a header has it."""
    return "inf" if norm == np.inf else int(norm)


@dataclass(frozen=True)
class Proof:
    """Why point number `point`, of the class `own`, is not taken for `rival` within a radius."""

    point: int
    own: int
    rival: int
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Source:
    """Which model it is: the hash of its weights, what it was read from, the hash of that, and who read it."""

    sha256: str = ""
    source: str = ""
    source_sha256: str | None = None
    reader: str = ""


@dataclass(frozen=True, eq=False)
class Statement:
    """What all claims of a file have in common; bounds are (d,) arrays, weights of features too, or None for 1."""

    lower: np.ndarray
    upper: np.ndarray
    norm: float = 2
    eps: float | None = None
    classes: list[Any] | None = None
    arithmetic: str = "real"
    model: Source = field(default_factory=Source)
    points_sha256: str = ""
    weights: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ProofFile:
    """A file that was read: the statement, the claims (n,), and the proofs; `others` are arrays that no checker looks at."""

    statement: Statement
    certified: np.ndarray
    label: np.ndarray
    margin: np.ndarray
    proofs: list[Proof]
    others: dict[str, np.ndarray]


class _Numbers:
    """One array of all real parameters; equal blocks are kept once."""

    def __init__(self) -> None:
        self.blocks: list[np.ndarray] = []
        self.places: dict[bytes, tuple[int, int]] = {}
        self.size = 0

    def add(self, *parts: Any) -> dict[str, int]:
        """Where a block stands."""
        block = np.concatenate(
            [np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in parts] or [np.empty(0)]
        )
        key = block.tobytes()
        if key not in self.places:
            self.places[key] = self.size, len(block)
            self.blocks.append(block)
            self.size += len(block)
        first, width = self.places[key]
        return {"first": first, "width": width}


def proof_arrays(proofs: Iterable[Proof]) -> dict[str, np.ndarray]:
    """The tables of proofs, votes and nodes, and the numbers."""
    rows: dict[str, list[dict[str, Any]]] = {"proof": [], "votes": [], "node": []}
    numbers, votes = _Numbers(), {}
    for proof in proofs:
        c, which = proof.certificate, NONE
        if "votes" in c.tree:
            key = (c.tree["votes"].tobytes(), c.tree["scale"])
            if key not in votes:
                votes[key] = len(votes)
                rows["votes"].append(numbers.add(c.tree["votes"]) | {"scale": c.tree["scale"]})
            which = votes[key]
        has_tree = c.kind in WITH_REGION
        rows["proof"].append(
            {
                "point": proof.point,
                "target": proof.rival,
                "kind": c.kind,
                "radius": c.radius,
                "reach": c.reach,
            }
            | {"root": _lay_out(c.tree, c.kind, rows["node"], numbers) if has_tree else NONE, "votes": which}
            | numbers.add(c.tree.get("numbers", np.empty(0)))
        )
    arrays = {
        f"{table}_{name}": np.array([row[name] for row in rows[table]], dtype=kind)
        for table, columns in TABLES.items()
        for name, kind in columns.items()
    }
    return arrays | {"numbers": np.concatenate([np.empty(0), *numbers.blocks])}


def _lay_out(tree: dict[str, Any], kind: str, nodes: list[dict[str, Any]], numbers: _Numbers) -> int:
    """Append a tree to the nodes; returns the number of its root."""
    root, waiting = len(nodes), [(tree, NONE, "")]
    while waiting:
        plain, parent, side = waiting.pop()
        if parent != NONE:
            nodes[parent][side] = len(nodes)
        node = {"cut": NONE, "value": 0.0, "below": NONE, "above": NONE, "first": 0, "width": 0}
        if "cut" in plain:
            node |= {"cut": plain["cut"], "value": plain["value"]}
            waiting += [(plain["below"], len(nodes), "below"), (plain["above"], len(nodes), "above")]
        elif "tau" not in plain:
            node |= numbers.add(plain["block"])
        else:
            names = PARAMETERS if kind in ("cells", "ellipsoid") else OF_LINES
            node |= numbers.add(plain["tau"], *(plain[name] for name in names))
        nodes.append(node)
    return root


def proof_bytes(
    statement: Statement,
    certified: np.ndarray,
    label: np.ndarray,
    proofs: Iterable[Proof],
    margin: np.ndarray | None = None,
    others: dict[str, np.ndarray] | None = None,
) -> bytes:
    """The content of a proof file."""
    s = statement
    model = {name: getattr(s.model, name) for name in ("sha256", "source", "source_sha256", "reader")}
    header = {"format": FORMAT, "version": VERSION, "norm": norm_word(s.norm), "eps": s.eps}
    header |= {
        "classes": s.classes,
        "arithmetic": s.arithmetic,
        "model": model,
        "points": {"sha256": s.points_sha256},
    }
    points = {
        "certified": certified,
        "label": label,
        "margin": np.zeros(len(label)) if margin is None else margin,
    }
    arrays = {name: np.ascontiguousarray(points[name], dtype=kind) for name, kind in POINTS.items()}
    arrays |= {name: np.ascontiguousarray(getattr(s, name), dtype="<f8") for name in ("lower", "upper")}
    arrays |= {} if s.weights is None else {"weights": np.ascontiguousarray(s.weights, dtype="<f8")}
    content = BytesIO()
    words = np.array(json.dumps(header, ensure_ascii=True))
    np.savez_compressed(content, header=words, **arrays, **proof_arrays(proofs), **(others or {}))  # pyright: ignore[reportArgumentType]
    return content.getvalue()


def read_proofs(content: bytes, name: str = "the proof file") -> ProofFile:
    """The file of such content; one ValueError, with its name, for whatever is wrong with it."""
    arrays = arrays_of(content, name)
    try:
        return _read(arrays)
    except ValueError as error:
        raise ValueError(f"{name} holds no proofs that can be read: {error}.") from error


def _read(arrays: dict[str, np.ndarray]) -> ProofFile:
    statement = _statement(arrays)
    points = {name: _column(arrays, name, kind) for name, kind in POINTS.items()}
    n = len(points["certified"])
    _refuse(
        any(len(column) != n for column in points.values()), "certified, label and margin differ in length"
    )
    certified, label, margin = points.values()
    _refuse(not (certified >= 0).all(), "certified radii must be numbers that are not negative")
    _refuse(not ((margin >= 0) & (margin <= LARGEST)).all(), f"margins must be from 0 to {LARGEST:g}")
    _refuse(bool((label < 0).any()), "labels must be positions among the classes")
    bounds = statement.lower, statement.upper
    if statement.weights is not None:
        bounds = weighted_bounds(*bounds, statement.weights)
    proofs = [
        Proof(i, int(label[i]), target, certificate)
        for i, target, certificate in tree_proofs(arrays, statement.norm, bounds, n)
    ]
    known = {"header", "numbers", "lower", "upper", "weights", *POINTS}
    known |= {f"{table}_{name}" for table, columns in TABLES.items() for name in columns}
    others = {name: array for name, array in arrays.items() if name not in known}
    return ProofFile(statement, certified, label, margin, proofs, others)


def _statement(arrays: dict[str, np.ndarray]) -> Statement:
    words = arrays.get("header")
    _refuse(words is None or words.shape != () or words.dtype.kind != "U", "it lacks a header of words")
    try:
        header = json.loads(str(words))
        found = header.get("format"), header.get("version")
        _refuse(
            found != (FORMAT, VERSION),
            f"it is {found[0]!r:.40}, version {found[1]!r:.20}; version {VERSION} is read",
        )
        norm = NORMS.get(header["norm"]) if type(header["norm"]) in (int, str) else None
        eps, classes, model = header["eps"], header["classes"], header["model"]
        hashes = [
            model["sha256"],
            header["points"]["sha256"],
            header["arithmetic"],
            model["source"],
            model["reader"],
        ]
        good = norm is not None and all(isinstance(word, str) for word in hashes)
        good &= header["arithmetic"] in ARITHMETICS
        good &= eps is None or (isinstance(eps, int | float) and 0 < eps < np.inf)
        good &= classes is None or (
            isinstance(classes, list) and all(isinstance(v, str | int | float) for v in classes)
        )
        good &= model["source_sha256"] is None or isinstance(model["source_sha256"], str)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header is not as the format has it ({type(error).__name__})") from error
    except json.JSONDecodeError as error:
        raise ValueError("its header is no JSON") from error
    _refuse(not good, "its header is not as the format has it")
    assert norm is not None
    lower, upper = (_column(arrays, name, "<f8") for name in ("lower", "upper"))
    _refuse(
        lower.shape != upper.shape or not (lower <= upper).all(), "lower bounds must not be above upper ones"
    )
    source = Source(model["sha256"], model["source"], model["source_sha256"], model["reader"])
    points, weights = header["points"]["sha256"], None
    if "weights" in arrays:
        weights = _column(arrays, "weights", "<f8")
        _refuse(
            weights.shape != lower.shape or not is_weight(weights),
            "weights must be positive numbers, one for each coordinate",
        )
    return Statement(lower, upper, norm, eps, classes, header["arithmetic"], source, points, weights)


def _column(arrays: dict[str, np.ndarray], name: str, kind: str) -> np.ndarray:
    """An array of one axis and of that type, as this machine has it."""
    _refuse(name not in arrays, f"it lacks {name}")
    array, wanted = arrays[name], np.dtype(kind)
    fits = array.dtype.kind == wanted.kind and (wanted.kind == "U" or array.dtype.itemsize == wanted.itemsize)
    _refuse(
        array.ndim != 1 or not fits,
        f"{name} must have one axis and the type {kind}, got {array.dtype}, {array.ndim} axes",
    )
    return array if wanted.kind == "U" else array.astype(wanted.newbyteorder("="))


def _refuse(bad: Any, why: str) -> None:
    if bad:
        raise ValueError(why)


def tree_proofs(
    arrays: dict[str, np.ndarray], norm: float, bounds: Bounds, num_points: int
) -> list[tuple[int, int, Certificate]]:
    """(point, target, certificate) of the tables that `proof_arrays` made; a ValueError where they do not fit together."""
    tables = {}
    for table, columns in TABLES.items():
        tables[table] = {name: _column(arrays, f"{table}_{name}", kind) for name, kind in columns.items()}
        lengths = {len(column) for column in tables[table].values()}
        _refuse(len(lengths) > 1, f"the columns {table}_… differ in length")
    numbers = _column(arrays, "numbers", "<f8")
    _refuse(not np.isfinite(numbers).all(), "numbers must be finite")
    _refuse_other_nodes(tables["node"], len(numbers))

    def block(first: int, width: int) -> np.ndarray:
        _refuse(
            not (0 <= first <= len(numbers) and 0 <= width <= len(numbers) - first),
            "a slice of numbers is out of range",
        )
        return numbers[first : first + width]

    votes = [
        {"votes": block(int(first), int(width)), "scale": int(scale)}
        for first, width, scale in zip(*tables["votes"].values(), strict=True)
    ]
    found = []
    for row in zip(*(column.tolist() for column in tables["proof"].values()), strict=True):
        point, target, kind, radius, reach, root, which, first, width = row
        _refuse(kind not in KINDS, f"the kind {kind!r:.20} is not known")
        _refuse(not 0 <= point < num_points or target < 0, "a proof is about no point, or no class")
        _refuse(not radius > 0 or not 0 <= reach <= LARGEST, "a radius or reach is no usual number")
        _refuse(not -1 <= which < len(votes), "a proof has votes that are not there")
        _refuse((root == NONE) == (kind in WITH_REGION), "a proof lacks its tree, or has one too many")
        _refuse(kind in WITH_REGION and not radius <= reach, "a radius is beyond its reach")
        tree = _tree(root, tables["node"], kind, block) if root != NONE else {}
        tree |= votes[which] if which != NONE else {}
        if len(own := block(first, width)):
            tree["numbers"] = own
        found.append((point, target, Certificate(radius, kind, norm, reach, tree, bounds)))
    return found


def _refuse_other_nodes(nodes: dict[str, np.ndarray], num_numbers: int) -> None:
    """Every node is a leaf or a cut, also those that no proof leads to."""
    leaf, total = nodes["cut"] == NONE, len(nodes["cut"])
    for side in (nodes["below"], nodes["above"]):
        _refuse(not np.where(leaf, side == NONE, (side >= 0) & (side < total)).all(), "a node leads to none")
    first, width = nodes["first"], nodes["width"]
    inside = (first >= 0) & (width >= 0) & (first <= num_numbers) & (width <= num_numbers - first)
    _refuse(not (inside & (leaf | (width == 0))).all(), "a slice of numbers is out of range")
    _refuse(not np.isfinite(nodes["value"]).all() or (nodes["cut"] < NONE).any(), "a cut is at no place")


def _tree(root: int, nodes: dict[str, np.ndarray], kind: str, block: Any) -> dict[str, Any]:
    """The tree at a node; every node is used at most once, so that no tree holds itself."""
    tree: dict[str, Any] = {}
    waiting, seen, total = [(root, tree, 0)], set(), len(nodes["cut"])
    while waiting:
        i, plain, depth = waiting.pop()
        _refuse(
            not 0 <= i < total or i in seen,
            f"a tree leads to the node {i}, which is not there or was met before",
        )
        _refuse(depth > DEEPEST or len(seen) > 2 * MOST_CUTS, "a tree is too large")
        seen.add(i)
        cut = int(nodes["cut"][i])
        if cut != NONE:
            plain |= {"cut": cut, "value": float(nodes["value"][i]), "below": {}, "above": {}}
            waiting += [(int(nodes[side][i]), plain[side], depth + 1) for side in ("below", "above")]
        else:
            plain |= _leaf(block(int(nodes["first"][i]), int(nodes["width"][i])), kind)
    return tree


def _leaf(values: np.ndarray, kind: str) -> dict[str, Any]:
    """The parameters of a leaf; of one hidden layer by name, of several as one block that the model divides."""
    if kind == "deep":
        return {"block": values}
    names = PARAMETERS if kind in ("cells", "ellipsoid") else OF_LINES
    count, rest = divmod(len(values) - 1, len(names))
    if rest or count < 1:
        return {"block": values}  # of several layers, or of nothing
    parts = values[1:].reshape(len(names), count)
    return {"block": values, "tau": float(values[0]), **dict(zip(names, parts, strict=True))}
