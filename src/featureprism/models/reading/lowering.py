"""A graph as dense layers of one activation: affine maps merged, and what a later layer needs of an earlier one carried through.

Every activated node is a block of neurons; every other node is an affine function of the point and of blocks. A block of depth l needs
blocks of depth below l, so the blocks of depth l are layer l. What skips a layer is carried by neurons of that layer that stay active
near any data: for s > 0

    v = [v + s]₊ - [-v - s]₊ - s  for every v,    and  v = [v + s]₊ - s  for v ≥ 0, as every sum of ReLUs with weights ≥ 0 is.

Both hold for all real numbers, so the layers are the same function as the graph; s only keeps the neurons that carry away from their
kinks.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse

from featureprism._inputs import LARGEST
from featureprism.models.activations import Activation, PowerReLU, ReLU
from featureprism.models.model import Model, of_layers
from featureprism.models.reading.nodes import Activated, Affine, Input, Node, Sum, Unreadable, ordered

MOST_ENTRIES = 20_000_000  # of all dense matrices together
MOST_NEURONS = 5000  # of a layer
FAR = 4.0  # times the spread of a value on random points: the distance of a carrying neuron from its kink
SAMPLES = 16


class TooLarge(Unreadable):
    """A network whose dense matrices would not fit."""


@dataclass
class Form:
    """Σ_j M_j u_j + b over blocks of units u_j; block 0 is the point itself."""

    parts: dict[int, sparse.csr_array]
    offset: np.ndarray


@dataclass
class Target:
    """What a block of neurons, a value that several later nodes use (`is_sum`), or the output takes in.

    `known` is the part on the units of the layer that was made last; `parts` is what remains, on other blocks.
    """

    depth: int
    parts: dict[int, sparse.csr_array]
    offset: np.ndarray
    is_sum: bool
    known: sparse.csr_array


def as_network(output: Node) -> Model:
    """The scores of the output as dense layers; Unreadable where they are none, TooLarge where they would not fit."""
    weights, biases, activation = dense_layers(output)
    top = float(np.max([np.abs(t).max(initial=0) for t in (*weights, *biases)]))
    if not np.isfinite(top):
        raise ValueError("Its weights must be finite numbers, got NaN or infinite ones.")
    if top > LARGEST:
        raise ValueError(f"It has weights up to {top:.3g}, which overflow when squared; scale them down.")
    if len(weights) > 2 and isinstance(activation, PowerReLU):
        raise Unreadable("several hidden layers are known with ReLU, tanh, GELU or SiLU only")
    return of_layers(weights, biases, activation)


def dense_layers(output: Node) -> tuple[list[np.ndarray], list[np.ndarray], Activation]:
    """Weights (h, d) and biases of all layers, and the activation between them."""
    order = ordered(output)
    activation = _one_activation(order)
    widest = max((n.size for n in order if isinstance(n, Activated)), default=0)
    if widest > MOST_NEURONS:
        raise TooLarge(f"a layer has {widest} neurons, more than {MOST_NEURONS}")
    targets = _targets(order)
    layers = _stacked(targets, next(n.size for n in order if isinstance(n, Input)), activation)
    if sum(math.prod(_shape(W)) for W, _ in layers) > MOST_ENTRIES:
        raise TooLarge(f"its dense layers would have more than {MOST_ENTRIES:.0e} entries")
    if (width := max(len(b) for _, b in layers)) > MOST_NEURONS:
        raise TooLarge(f"a layer would have {width} neurons, more than {MOST_NEURONS}")
    return [np.ascontiguousarray(W.toarray()) for W, _ in layers], [b for _, b in layers], activation


def _one_activation(order: Sequence[Node]) -> Activation:
    activations = list(dict.fromkeys(n.activation for n in order if isinstance(n, Activated)))
    if len(activations) > 1:
        names = " and ".join(type(a).__name__ for a in activations[:2])
        raise Unreadable(f"it mixes the activations {names}")
    return activations[0] if activations else ReLU()


def _targets(order: Sequence[Node]) -> dict[int, Target]:
    """What every block takes in, by its number, and the output (-1)."""
    dim = next((n.size for n in order if isinstance(n, Input)), 0)
    uses = Counter(before for node in order for before in node.inputs)
    activated = {before for node in order if isinstance(node, Activated) for before in node.inputs}
    value: dict[Node, Form] = {}
    targets: dict[int, Target] = {}
    depths = {0: 0}

    def target(form: Form, depth: int, is_sum: bool) -> Target:
        empty = sparse.csr_array((len(form.offset), dim))
        parts = {b: M for b, M in form.parts.items() if b}
        return Target(depth, parts, form.offset.copy(), is_sum, form.parts.get(0, empty))

    for node in order:
        if isinstance(node, Input):
            value[node] = Form({0: _identity(node.size)}, np.zeros(node.size))
            continue
        if not isinstance(node, Affine | Activated):
            raise Unreadable(f"layers follow its {getattr(node, 'kind', type(node).__name__)}")
        is_block = isinstance(node, Activated)
        form = value[node.inputs[0]] if is_block else _applied(node, [value[i] for i in node.inputs])
        is_shared_sum = isinstance(node, Sum) and len(form.parts) > 1
        is_sum = uses[node] > 1 and not is_block and (is_shared_sum or node in activated)
        if is_block or is_sum:
            block = len(depths)
            depths[block] = is_block + max((depths[b] for b in form.parts), default=0)
            targets[block] = target(form, depths[block], is_sum)
            form = Form({block: _identity(node.size)}, np.zeros(node.size))
        value[node] = form
    last = value[order[-1]]
    if not last.parts:
        raise Unreadable("its scores do not depend on the points")
    return targets | {-1: target(last, 1 + max(depths.values()), False)}


def _shape(matrix: sparse.csr_array) -> tuple[int, int]:
    rows, columns = matrix.shape  # pyright: ignore[reportGeneralTypeIssues]
    return int(rows), int(columns)


def _identity(size: int) -> sparse.csr_array:
    return sparse.csr_array(sparse.eye_array(size))


def _applied(node: Affine, inputs: Sequence[Form]) -> Form:
    if node.num_entries() > MOST_ENTRIES:
        raise TooLarge(f"a linear map has {node.num_entries()} entries")
    parts: dict[int, sparse.csr_array] = {}
    offset = node.offset().copy()
    for M, form in zip(node.matrices(), inputs, strict=True):
        offset += M @ form.offset
        for block, part in form.parts.items():
            work = int(np.bincount(M.indices, minlength=_shape(M)[1]) @ np.diff(part.indptr))
            if work > 10 * MOST_ENTRIES:
                raise TooLarge("its linear maps are too large to be merged")
            product = sparse.csr_array(M @ part)
            parts[block] = sparse.csr_array(parts[block] + product) if block in parts else product
            if parts[block].nnz > MOST_ENTRIES:
                raise TooLarge(f"a linear map has {parts[block].nnz} entries")
    return Form(parts, offset)


def _stacked(
    targets: dict[int, Target], dim: int, activation: Activation
) -> list[tuple[sparse.csr_array, np.ndarray]]:
    """The layers, the first on the point; units that no later layer needs are dropped, equal ones merged."""
    units = np.random.default_rng(0).normal(size=(dim, SAMPLES))  # of the layer so far, on random points
    signed = True
    layers: list[tuple[sparse.csr_array, np.ndarray]] = []
    sums: dict[int, Target] = {}  # that are known on the units of the layer so far
    for depth in range(1, targets[-1].depth + 1):
        for b, t in targets.items():
            if t.is_sum and t.depth == depth - 1:
                _insert(t, sums)
                sums[b] = t
        now = {b: t for b, t in targets.items() if t.depth == depth and not t.is_sum}
        for t in now.values():
            _insert(t, sums)
        rest = [t for t in targets.values() if t.depth > depth or (t.is_sum and t.depth == depth)]
        if not rest:
            break
        sums = {b: t for b, t in sums.items() if any(b in other.parts for other in rest)}
        carry, sums = _carried(rest, sums, units, signed, is_first=depth == 1)
        if len(carry.offset) and not isinstance(activation, ReLU):
            raise Unreadable(f"it joins branches around its {type(activation).__name__}")
        W = _stack([*(t.known for t in now.values()), carry.matrix])
        b = np.concatenate([*(t.offset for t in now.values()), carry.offset])
        later = [*rest, *sums.values()]
        _pass_on(later, now, carry)
        keep, merge = _needed(W, b, later)
        layers.append((sparse.csr_array(W[keep]), b[keep]))
        for t in later:
            t.known = sparse.csr_array(t.known @ merge)
        units = activation.value(torch.from_numpy(layers[-1][0] @ units + b[keep][:, None])).numpy()
        signed = not isinstance(activation, ReLU)
    return [*layers, (targets[-1].known, targets[-1].offset)]


def _insert(target: Target, sums: dict[int, Target]) -> None:
    """Write a target on units in place of the sums that it uses."""
    for b in sums.keys() & target.parts.keys():
        M = target.parts.pop(b)
        target.known = sparse.csr_array(target.known + M @ sums[b].known)
        target.offset = target.offset + M @ sums[b].offset


def _carried(
    rest: Sequence[Target], sums: dict[int, Target], units: np.ndarray, signed: bool, *, is_first: bool
) -> tuple["_Carry", dict[int, Target]]:
    """What is carried past a layer, and the sums that are: sums are written out where that takes fewer neurons.

    Not in the first layer: the value before an activation is carried along the neurons' own weights, which costs a proof nothing.
    """
    whole = _Carry.of([t.known for t in (*rest, *sums.values())], units, signed)
    if is_first and sums:
        return whole, sums
    copies = [replace(t, parts=dict(t.parts)) for t in rest]
    for t in copies:
        _insert(t, sums)
    written = _Carry.of([t.known for t in copies], units, signed)
    if len(written.offset) > len(whole.offset):
        return whole, sums
    for t, copy in zip(rest, copies, strict=True):
        t.known, t.offset, t.parts = copy.known, copy.offset, copy.parts
    return written, {}


def _stack(parts: Sequence[sparse.csr_array]) -> sparse.csr_array:
    return sparse.csr_array(sparse.vstack(parts))


def _pass_on(later: Sequence[Target], now: dict[int, Target], carry: "_Carry") -> None:
    """Write what later targets need on the units of the new layer: its blocks, then what is carried."""
    first = 0
    for t in later:
        rows = slice(first, first + len(t.offset))
        first = rows.stop
        t.offset = t.offset + carry.constant[rows]
        blocks = [
            t.parts.pop(b, sparse.csr_array((len(t.offset), len(block.offset)))) for b, block in now.items()
        ]
        t.known = sparse.csr_array(sparse.hstack([*blocks, sparse.csr_array(carry.back[rows])]))


def _needed(
    W: sparse.csr_array, b: np.ndarray, rest: Sequence[Target]
) -> tuple[np.ndarray, sparse.csr_array]:
    """The units that are kept, and the matrix (all, kept) that gives each its place; equal rows share one."""
    used = np.zeros(len(b), dtype=bool)
    for t in rest:
        used[t.known.indices[t.known.data != 0]] = True
    W = sparse.csr_array(W)
    W.sort_indices()
    places: dict[tuple[bytes, bytes, float], int] = {}
    keep, rows, columns = [], [], []
    for i in np.flatnonzero(used).tolist():
        row = slice(W.indptr[i], W.indptr[i + 1])
        key = W.indices[row].tobytes(), W.data[row].tobytes(), float(b[i])
        if key not in places:
            places[key] = len(keep)
            keep.append(i)
        rows.append(i)
        columns.append(places[key])
    if not keep:
        raise Unreadable("its scores do not depend on the points")
    merge = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(b), len(keep)))
    return np.array(keep), merge


@dataclass(frozen=True, eq=False)
class _Carry:
    """Neurons [matrix · u + offset]₊ =: v such that what is carried is back · v + constant."""

    matrix: sparse.csr_array
    offset: np.ndarray
    back: sparse.csr_array
    constant: np.ndarray

    @classmethod
    def of(cls, needed: Sequence[sparse.csr_array], units: np.ndarray, signed: bool) -> "_Carry":
        """Carry the units themselves, or the rows that are needed of them: whichever takes fewer neurons."""
        R = _stack(needed)
        R.eliminate_zeros()
        columns = np.unique(R.indices)
        rows = np.flatnonzero(np.diff(R.indptr))
        one = R[rows]
        double = np.full(len(rows), signed)  # may be negative
        if len(rows) and not signed:
            double = np.asarray(one.min(axis=1).toarray()).ravel() < 0
        by_unit = len(columns) * (2 if signed else 1)
        if by_unit <= len(rows) + int(double.sum()):
            M = sparse.csr_array(_identity(_shape(R)[1])[columns])
            return cls._through(M, np.full(len(columns), signed), sparse.csr_array(R[:, columns]), units)
        places = rows, np.arange(len(rows))
        place = sparse.csr_array((np.ones(len(rows)), places), shape=(_shape(R)[0], len(rows)))
        return cls._through(sparse.csr_array(one), double, place, units)

    @classmethod
    def _through(
        cls, M: sparse.csr_array, double: np.ndarray, back: sparse.csr_array, units: np.ndarray
    ) -> "_Carry":
        """v = M u by one neuron each, and by a second where v may be negative."""
        v = M @ units
        centre, spread = v.mean(axis=1), np.ptp(v, axis=1)
        away = FAR * 2.0 ** np.ceil(np.log2(np.where(spread > 0, spread, 1.0)))
        s = np.where(centre > away / 2, 0.0, away)  # what is carried already is far enough
        twice = np.flatnonzero(double)
        matrix = _stack([M, -M[twice]]) if len(twice) else sparse.csr_array(M)
        both = sparse.csr_array(sparse.hstack([back, -back[:, twice]])) if len(twice) else back
        return cls(matrix, np.concatenate([s, -s[twice]]), both, -(back @ s))
