"""Proofs that a property of the outputs holds on boxes of inputs (docs/proof_format.md, "Properties").

Every case of the property (see vnnlib.py) has a tree. Cuts at inputs halve a box; its leaves are proven by linear bounds that the
checker computes alone. Cuts at neurons say z ≥ 0 or z ≤ 0; their leaves store slopes and multipliers, on top of bounds of all neurons
that a *domain* stores and proves. A leaf is proven if some combination of the rows A y - b with weights that are not negative is
positive.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from featureprism.checker.arrays import arrays_of
from featureprism.checker.layers import Layers
from featureprism.checker.linear_bounds import (
    BoundedLayer,
    Boxes,
    Multipliers,
    bounded_layers,
    least_outputs,
    least_values,
    ruled_bounds,
    sized,
)
from featureprism.checker.models import Model, Scores, as_layers, model_sha256
from featureprism.checker.proofs import Source
from featureprism.checker.vnnlib import Case, Property

FORMAT, VERSION = "featureprism property proof", 1
NONE = -1
MOST_NODES = 10_000_000
AT_ONCE = 32  # boxes whose bounds are computed together
COLUMNS = {
    "node_cut": "<i8",
    "node_value": "<f8",
    "node_below": "<i8",
    "node_above": "<i8",
    "node_domain": "<i8",
    "node_first": "<i8",
    "node_width": "<i8",
    "domain_case": "<i8",
    "domain_parent": "<i8",
    "domain_first": "<i8",
    "domain_width": "<i8",
    "case_root": "<i8",
    "numbers": "<f8",
}

Cuts = tuple[tuple[int, int], ...]  # (neuron, ±1), by neuron


class InvalidProof(ValueError):  # noqa: N818
    """A proof that does not show what it claims."""


@dataclass(frozen=True, eq=False)
class PropertyProof:
    """A file that was read: which model and property it is about, and its columns."""

    model: Source
    property_sha256: str
    columns: dict[str, np.ndarray]


def property_proof_bytes(model: Source, property_sha256: str, columns: dict[str, Any]) -> bytes:
    """The content of a file."""
    of_model = {name: getattr(model, name) for name in ("sha256", "source", "source_sha256", "reader")}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "model": of_model,
        "property": {"sha256": property_sha256},
    }
    arrays = {name: np.asarray(columns[name], dtype=kind) for name, kind in COLUMNS.items()}
    content = BytesIO()
    np.savez_compressed(content, header=np.array(json.dumps(header, ensure_ascii=True)), **arrays)  # pyright: ignore[reportArgumentType]
    return content.getvalue()


def read_property_proof(content: bytes, name: str = "the proof file") -> PropertyProof:
    """The file of such content; one ValueError, with its name, for whatever is wrong with it."""
    arrays = arrays_of(content, name)
    try:
        return _read(arrays)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name} holds no proof of a property that can be read: {error}.") from error


def _read(arrays: dict[str, np.ndarray]) -> PropertyProof:
    header = json.loads(str(arrays["header"]))
    _refuse((header["format"], header["version"]) != (FORMAT, VERSION), "it has another format or version")
    columns = {}
    for name, kind in COLUMNS.items():
        _refuse(name not in arrays, f"it lacks {name}")
        array, wanted = arrays[name], np.dtype(kind)
        _refuse(
            array.ndim != 1 or array.dtype.kind != wanted.kind or array.dtype.itemsize != wanted.itemsize,
            f"{name} must have one axis and the type {kind}",
        )
        columns[name] = array.astype(wanted.newbyteorder("="))
    _refuse(not np.isfinite(columns["numbers"]).all(), "numbers must be finite")
    _refuse(not np.isfinite(columns["node_value"]).all(), "cuts must be at finite values")
    for table in ("node", "domain"):
        lengths = {len(column) for name, column in columns.items() if name.startswith(table)}
        _refuse(len(lengths) != 1, f"the columns {table}_… differ in length")
        first, width = columns[f"{table}_first"], columns[f"{table}_width"]
        size = len(columns["numbers"])
        inside = (first >= 0) & (width >= 0) & (first <= size) & (width <= size - first)
        _refuse(not inside.all(), "a slice of numbers is out of range")
    _refuse(len(columns["node_cut"]) > MOST_NODES, f"it has more than {MOST_NODES} nodes")
    model, of_property = header["model"], header["property"]["sha256"]
    words = model["sha256"], model["source"], model["reader"], of_property
    _refuse(not all(isinstance(word, str) for word in words), "its header is not as the format has it")
    return PropertyProof(
        Source(model["sha256"], model["source"], model["source_sha256"], model["reader"]),
        of_property,
        columns,
    )


def _refuse(bad: bool | np.bool_, why: str) -> None:
    if bad:
        raise ValueError(why)


def _require(good: bool | np.bool_, why: str) -> None:
    if not good:
        raise InvalidProof(why)


def relu_layers(model: Model) -> Layers:
    """A model with one or more hidden layers of ReLU as layers; a ValueError for others."""
    layers = as_layers(model) if isinstance(model, Scores | Layers) else None
    if layers is not None and layers.activation == "relu":
        return layers
    raise ValueError("proofs of properties are about layers of ReLU, and this model has none")


def verify_property(proof: PropertyProof, model: Layers, prop: Property) -> int:
    """How many leaves there are, once all of them are proven; an InvalidProof where one is not, or where the file is about others."""
    _require(model.activation == "relu", "proofs of properties are about layers of ReLU")
    _require(proof.model.sha256 == model_sha256(model), "it is about another model")
    _require(proof.property_sha256 == prop.sha256, "it is about another property")
    sizes = prop.num_inputs, prop.num_outputs
    _require(
        sizes == (model.weights[0].shape[1], model.num_classes), "model and property do not fit together"
    )
    return _Check(proof.columns, model, prop).run()


@dataclass(frozen=True)
class _Leaf:
    case: int
    node: int
    box: tuple[np.ndarray, np.ndarray]
    cuts: Cuts


class _Check:
    """One file while it is checked."""

    def __init__(self, columns: dict[str, np.ndarray], model: Layers, prop: Property) -> None:
        self.columns, self.model, self.prop = columns, model, prop
        self.domains: dict[int, _Domain] = {}
        _require(len(columns["case_root"]) == len(prop.cases), "it has not one tree for each case")

    def run(self) -> int:
        """Prove every leaf; boxes that are ready are proven together, and so are leaves of one domain."""
        boxes: dict[int, list[_Leaf]] = {}
        cells: dict[tuple[int, int], list[_Leaf]] = {}
        num_leaves = 0
        for leaf in self.leaves():
            num_leaves += 1
            domain = int(self.columns["node_domain"][leaf.node])
            waiting = (
                boxes.setdefault(leaf.case, [])
                if domain == NONE
                else cells.setdefault((leaf.case, domain), [])
            )
            waiting.append(leaf)
            if domain == NONE and len(waiting) == AT_ONCE:
                self.prove_boxes(self.prop.cases[leaf.case], boxes.pop(leaf.case))
        for case, leaves in boxes.items():
            self.prove_boxes(self.prop.cases[case], leaves)
        for (case, domain), leaves in cells.items():
            for first in range(0, len(leaves), 8 * AT_ONCE):
                self.prove_cells(case, self.domain(domain), leaves[first : first + 8 * AT_ONCE])
        return num_leaves

    def leaves(self) -> Iterator[_Leaf]:
        """All leaves of all trees; a node that two ways lead to is refused."""
        cut, value = (self.columns[f"node_{name}"] for name in ("cut", "value"))
        below, above = (self.columns[f"node_{name}"] for name in ("below", "above"))
        d, H, total = self.prop.num_inputs, sum(self.model.widths), len(cut)
        seen = np.zeros(total, dtype=bool)
        for number, case in enumerate(self.prop.cases):
            waiting: list[tuple[int, tuple[np.ndarray, np.ndarray], Cuts]] = [
                (int(self.columns["case_root"][number]), (case.lower, case.upper), ())
            ]
            while waiting:
                i, (lower, upper), cuts = waiting.pop()
                _require(0 <= i < total and not seen[i], "a node is not there, or two ways lead to it")
                seen[i] = True
                at = int(cut[i])
                if at == NONE:
                    yield _Leaf(number, i, (lower, upper), cuts)
                    continue
                _require(0 <= at < d + H, "a cut is at no input and no neuron")
                sides = int(below[i]), int(above[i])
                if at < d:
                    _require(not cuts, "a cut at an input stands below one at a neuron")
                    _require(lower[at] <= value[i] <= upper[at], "a cut lies outside of its box")
                    less, more = upper.copy(), lower.copy()
                    less[at] = more[at] = value[i]
                    waiting += [(sides[0], (lower, less), ()), (sides[1], (more, upper), ())]
                else:
                    _require(all(at - d != j for j, _ in cuts), "a neuron is cut twice")
                    for side, sign in zip(sides, (-1, 1), strict=True):
                        waiting.append((side, (lower, upper), tuple(sorted((*cuts, (at - d, sign))))))

    def numbers(self, table: str, i: int) -> np.ndarray:
        first, width = (int(self.columns[f"{table}_{name}"][i]) for name in ("first", "width"))
        return self.columns["numbers"][first : first + width]

    def prove_boxes(self, case: Case, leaves: list[_Leaf]) -> None:
        """Leaves without numbers: some row is positive on the box."""
        _require(not any(leaf.cuts for leaf in leaves), "a leaf below a cut neuron has no domain")
        inputs = Boxes(*(np.stack([leaf.box[side] for leaf in leaves]) for side in (0, 1)))
        known = bounded_layers(self.model, inputs)
        every = np.broadcast_to(np.eye(len(case.b)), (len(leaves), len(case.b), len(case.b)))
        least, _ = least_outputs(every, case.A, case.b, known, self.model, inputs)
        _require(bool((least > 0).any(axis=1).all()), "a box is not proven")

    def domain(self, i: int) -> "_Domain":
        """The bounds of a domain, once they are proven; its parents come first."""
        chain = []
        while i not in self.domains:
            _require(0 <= i < len(self.columns["domain_case"]), "a domain is not there")
            chain.append(i)
            parent = int(self.columns["domain_parent"][i])
            if parent == NONE:
                break
            _require(0 <= parent < i, "a domain stands before its parent")
            i = parent
        for j in reversed(chain):
            parent, case = (int(self.columns[f"domain_{name}"][j]) for name in ("parent", "case"))
            _require(0 <= case < len(self.prop.cases), "a domain is about no case")
            before = self.domains.get(parent)
            _require(
                before is None or self.prop.cases[before.case].has_box_of(self.prop.cases[case]),
                "a domain has another box than its parent",
            )
            self.domains[j] = _Domain.of(self.numbers("domain", j), case, self.model, self.prop, before)
        return self.domains[chain[0] if chain else i]

    def prove_cells(self, case: int, domain: "_Domain", leaves: list[_Leaf]) -> None:
        """Leaves of one domain: weights of the rows, slopes of the domain's unstable neurons, β of their cuts."""
        rows, model = self.prop.cases[case], self.model
        _require(rows.has_box_of(self.prop.cases[domain.case]), "a leaf has another box than its domain")
        for leaf in leaves:
            same = all(np.array_equal(*pair) for pair in zip(leaf.box, (rows.lower, rows.upper), strict=True))
            _require(same, "a leaf with a domain stands below a cut at an input")
            _require(set(domain.cuts) <= set(leaf.cuts), "a leaf lies outside of its domain")
        if domain.is_empty:
            return
        signs = np.zeros((len(leaves), sum(model.widths)))
        for row, leaf in zip(signs, leaves, strict=True):
            for j, sign in leaf.cuts:
                row[j] = sign
        parts = _split(signs, model)
        known = [layer.with_cuts(sign) for layer, sign in zip(domain.known, parts, strict=True)]
        left = ~np.any([(layer.low > layer.high).any(axis=1) for layer in known], axis=0)  # others are empty
        if not left.any():
            return
        m, unstable = len(rows.b), domain.unstable
        weights = np.zeros((len(leaves), 1, m))
        slopes, cuts = np.zeros_like(signs), np.zeros_like(signs)
        for i, leaf in enumerate(leaves):
            block = self.numbers("node", leaf.node)
            if left[i]:
                _require(
                    len(block) == m + len(unstable) + len(leaf.cuts), "a leaf has too few or too many numbers"
                )
                weights[i, 0], slopes[i, unstable] = block[:m], block[m : m + len(unstable)]
                at = [j for j, _ in leaf.cuts]
                cuts[i, at] = block[m + len(unstable) :]
        good = (weights >= 0).all() and (slopes >= 0).all() and (slopes <= 1).all() and (cuts >= 0).all()
        _require(good, "weights and multipliers must not be negative, and slopes lie in [0, 1]")
        of_layers = zip(_split(slopes, model), _split(cuts * signs, model), strict=True)
        multipliers = [Multipliers(s[:, None], c[:, None]) for s, c in of_layers]
        inputs = Boxes(*(np.broadcast_to(v, (len(leaves), len(v))) for v in (rows.lower, rows.upper)))
        least, _ = least_outputs(weights, rows.A, rows.b, known, model, inputs, multipliers)
        _require(bool((least[left] > 0).all()), "a leaf is not proven")


def _split(values: np.ndarray, model: Layers) -> list[np.ndarray]:
    """The last axis, layer by layer."""
    return np.split(values, np.cumsum(model.widths)[:-1], axis=-1)


@dataclass(frozen=True, eq=False)
class _Domain:
    """Bounds of all neurons on a box, where some neurons have a sign."""

    case: int
    cuts: Cuts
    known: list[BoundedLayer]  # (1, h)
    is_empty: bool = False

    @property
    def unstable(self) -> np.ndarray:
        """Numbers of the neurons whose sign is not known."""
        return np.flatnonzero(np.concatenate([layer.is_unstable[0] for layer in self.known]))

    @classmethod
    def of(
        cls, block: np.ndarray, case: int, model: Layers, prop: Property, parent: "_Domain | None"
    ) -> "_Domain":
        """Prove the stored bounds layer by layer: by the rule, by the parent, by cuts, and by rows with stored multipliers."""
        reader = _Reader(block)
        H = sum(model.widths)
        pairs = [(reader.whole(H), 2 * reader.whole(2) - 1) for _ in range(reader.whole(H + 1))]
        cuts: Cuts = tuple(pairs)
        _require(list(cuts) == sorted(dict(cuts).items()), "the cuts of a domain are not in order")
        _require(parent is None or set(parent.cuts) <= set(cuts), "a domain lies outside of its parent")
        if parent is not None and parent.is_empty:
            return cls(case, cuts, [], is_empty=True)
        lows, highs = (_split(reader.take(H), model) for _ in range(2))
        signs = np.zeros(H)
        for j, sign in cuts:
            signs[j] = sign
        box = prop.cases[case]
        inputs = Boxes(box.lower[None], box.upper[None])
        known: list[BoundedLayer] = []
        for k, sign in enumerate(_split(signs, model)):
            low, high = (v[0].copy() for v in ruled_bounds(model, known, inputs))
            if parent is not None:
                low, high = np.maximum(low, parent.known[k].low[0]), np.minimum(high, parent.known[k].high[0])
            target, least = _rows(reader, k, cuts, known, model, inputs)
            down, up = target[target % 2 == 0] // 2, target[target % 2 == 1] // 2
            np.maximum.at(low, down, least[target % 2 == 0])
            np.minimum.at(high, up, -least[target % 2 == 1])
            low, high = (
                np.where(sign > 0, np.maximum(low, 0), low),
                np.where(sign < 0, np.minimum(high, 0), high),
            )
            _require(
                bool((lows[k] <= low).all() and (high <= highs[k]).all()), "bounds of neurons do not hold"
            )
            if (lows[k] > highs[k]).any():  # no input has these signs
                return cls(case, cuts, known, is_empty=True)
            known.append(sized(model, known, inputs, lows[k][None], highs[k][None]))
        _require(reader.at == len(block), "a domain has too many numbers")
        return cls(case, cuts, known)


def _rows(
    reader: "_Reader", k: int, cuts: Cuts, known: list[BoundedLayer], model: Layers, inputs: Boxes
) -> tuple[np.ndarray, np.ndarray]:
    """Targets 2j (z_j from below) and 2j + 1 (-z_j from below) of layer k that have multipliers, and what they prove."""
    if k == 0:
        return np.empty(0, dtype=int), np.empty(0)
    before = model.widths[:k]
    n = reader.whole(2 * model.widths[k] + 1)
    target = np.array([reader.whole(2 * model.widths[k]) for _ in range(n)], dtype=int)
    unstable = np.flatnonzero(np.concatenate([layer.is_unstable[0] for layer in known]))
    earlier = [(j, sign) for j, sign in cuts if j < sum(before)]
    slopes, multipliers = np.zeros((2, n, sum(before)))
    slopes[:, unstable] = reader.take(n * len(unstable)).reshape(n, len(unstable))
    beta = reader.take(n * len(earlier)).reshape(n, len(earlier))
    _require(
        bool((slopes >= 0).all() and (slopes <= 1).all() and (beta >= 0).all()),
        "multipliers of bounds are none",
    )
    for column, (j, sign) in enumerate(earlier):
        multipliers[:, j] = sign * beta[:, column]
    parts = (np.split(v, np.cumsum(before)[:-1], axis=-1) for v in (slopes, multipliers))
    sign = np.where(target % 2 == 0, 1.0, -1.0)
    c, value = sign[:, None] * model.weights[k][target // 2], sign * model.biases[k][target // 2]
    every = [Multipliers(s[None], m[None]) for s, m in zip(*parts, strict=True)]
    least, _ = least_values(c[None], value[None], np.abs(value)[None], known, model, inputs, every)
    return target, least[0]


class _Reader:
    """The numbers of a block, one after another."""

    def __init__(self, block: np.ndarray) -> None:
        self.block, self.at = block, 0

    def take(self, count: int) -> np.ndarray:
        _require(count <= len(self.block) - self.at, "a domain has too few numbers")
        self.at += count
        return self.block[self.at - count : self.at]

    def whole(self, end: int) -> int:
        """A whole number from 0 to end - 1."""
        value = float(self.take(1)[0])
        _require(0 <= value < end and value == int(value), "a whole number of a domain is out of range")
        return int(value)
