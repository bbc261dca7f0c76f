"""ONNX files as graphs, up to where they decide: sizes, steps and time are limited before anything is computed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from featureprism.models.model import NotANetwork
from featureprism.models.reading import graph
from featureprism.models.reading.graph import Value, bare
from featureprism.models.reading.nodes import MOST_VALUES, Node, TooLarge, Unreadable
from featureprism.models.reading.onnx_operators import FLOATS, Allowance, Label, Named, Unknown, result

LARGEST_FILE = 2**30  # bytes
MOST_OPERATORS = 20_000
RUN_YOURSELF = "a Python function that runs it can be given in its place."


@dataclass(frozen=True, eq=False)
class OnnxScores:
    """What a file decides by: the node of the scores, a function of them that follows, their classes, and the file up to there."""

    scores: Node
    tail: str
    classes: np.ndarray | None
    tensor: str
    model: Any
    input: Any

    def outputs(self, x: np.ndarray) -> np.ndarray | None:
        """The tensor of the scores at points (n, d) by onnx's own reference, in float64; None where it does not know an operator."""
        from onnx.reference import ReferenceEvaluator

        if not self.tensor:
            return None
        dims = [d.dim_value for d in self.input.type.tensor_type.shape.dim]
        try:
            run = ReferenceEvaluator(_cut(self.model, self.tensor, self.input.name)).run
        except Exception:  # an operator that the reference does not know
            return None

        def at(rows: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):  # a sigmoid that overflows is no news to the user
                return np.asarray(next(iter(run(None, {self.input.name: rows}))), dtype=np.float64)

        point = [-1] if not all(dims[1:]) else dims[1:]
        try:
            if len(dims) == 1:  # a file for a single point without a first axis
                return np.stack([at(row) for row in x])
            rows = x[np.arange(dims[0]) % len(x)] if dims and dims[0] else x
            return at(rows.reshape(len(rows), *point))
        except Exception as error:
            try:
                at(x[:1].reshape(1, *point))
            except Exception:  # an operator that the reference does not know
                return None
            raise ValueError(
                "The ONNX file joins points with each other; export it for any number of points."
            ) from error


def read_onnx(path: Path, shape: tuple[int, ...] | None) -> OnnxScores:
    """The scores and classes of a file that torch, skl2onnx or this library wrote; `shape`: of a point, where one is known."""
    model = _load(path)
    constants = {i.name: i for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    if len(inputs) != 1:
        raise ValueError(
            f"{path} must have one input, the points; it has {', '.join(i.name for i in inputs[:5]) or 'none'}."
        )
    error: Exception | None = None
    for start in _starts(inputs[0], shape, model):
        try:
            return _read(model, inputs[0], start)
        except TooLarge as refused:
            raise ValueError(f"{path} cannot be read as a network: {refused}; {RUN_YOURSELF}") from refused
        except Unreadable as refused:
            error = error or refused
    reason = error or "no layer says how many inputs it takes; give points"
    raise NotANetwork(f"{path} cannot be read as a network: {reason}.") from error


def _load(path: Path) -> Any:
    try:
        import onnx
        from onnx import external_data_helper as outside
    except ImportError as error:
        raise ValueError("ONNX files need the package onnx: pip install 'featureprism[onnx]'.") from error
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"Cannot read {path}: it is larger than {LARGEST_FILE / 2**30:g} GB.")
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError:
        raise
    except Exception as error:  # whatever protobuf raises on bytes that nobody wrote so
        raise ValueError(f"Cannot read {path}: it is no ONNX file, or cut short or damaged.") from error
    if not model.graph.node or not model.graph.output:
        raise ValueError(f"Cannot read {path}: it is no ONNX file, or cut short or damaged.")
    _refuse_programs(model, path)
    try:
        outside.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # missing files, and paths that lead out of the folder
        raise ValueError(
            f"Cannot read {path}: the other file that holds its weights cannot be read."
        ) from error
    return model


def _refuse_programs(model: Any, path: Path) -> None:
    """Control flow and functions could compute anything for any time."""
    if len(model.graph.node) > MOST_OPERATORS:
        raise ValueError(f"{path} cannot be read as a network: it has more than {MOST_OPERATORS} operators.")
    functions = {(f.domain, f.name) for f in model.functions}
    for node in model.graph.node:
        if any(a.HasField("g") or len(a.graphs) for a in node.attribute):
            raise ValueError(
                f"{path} cannot be read as a network: it has control flow ({node.op_type}); {RUN_YOURSELF}"
            )
        if (node.domain, node.op_type) in functions:
            raise ValueError(
                f"{path} cannot be read as a network: it has functions ({node.op_type}); inline them first."
            )
    if len(model.graph.sparse_initializer):
        raise ValueError(f"{path} cannot be read as a network: it has sparse weights; make them dense first.")


def _starts(value: Any, shape: tuple[int, ...] | None, model: Any) -> Iterator[tuple[int, ...]]:
    """Shapes that the input may have for one point: as declared, else as the points have it, else as some weights may want it."""
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    if len(dims) == 1 and dims[0] > 0:
        yield (dims[0],)
    elif len(dims) > 1 and all(d > 0 for d in dims[1:]):
        yield (1, *dims[1:])
    elif shape is not None:
        yield (1, *shape)
        if len(dims) > len(shape) + 1 and sum(d <= 0 for d in dims[1:]) == 1:
            known = int(np.prod([d for d in dims[1:] if d > 0]))
            yield (1, *(d if d > 0 else int(np.prod(shape)) // known for d in dims[1:]))
    else:
        lengths = (d for i in model.graph.initializer for d in i.dims[:2])
        yield from ((1, d) for d in dict.fromkeys(lengths) if 0 < d <= MOST_VALUES)


def _read(model: Any, given: Any, shape: tuple[int, ...]) -> OnnxScores:
    values = _run(model, given, shape)
    decision = _decision({o.name: values.get(o.name) for o in model.graph.output})
    scores = bare(decision.value)[0]
    seen = {
        n: v.value if isinstance(v, Named) else v for n, v in values.items() if isinstance(v, Value | Named)
    }
    kinds = {n: bare(v)[1] for n, v in seen.items() if bare(v)[0] is scores or v.node is scores}
    kinds = {n: "" if seen[n].node is scores else kind for n, kind in kinds.items()}
    tensor = min(kinds, key=lambda n: kinds[n] != "", default="")
    return OnnxScores(scores, kinds.get(tensor, ""), decision.classes, tensor, model, given)


def _needed(model: Any, names: Sequence[str]) -> list[Any]:
    """The nodes that some tensors need, in the order of the file."""
    maker = {name: node for node in model.graph.node for name in node.output if name}
    needed: set[int] = set()
    waiting = [maker[n] for n in names if n in maker]
    while waiting:
        node = waiting.pop()
        if id(node) not in needed:
            needed.add(id(node))
            waiting.extend(maker[n] for n in node.input if n in maker)
    return [node for node in model.graph.node if id(node) in needed]


def _cut(model: Any, tensor: str, point: str) -> Any:
    """The file up to a tensor, computing in float64."""
    import onnx
    from onnx import numpy_helper

    nodes = _needed(model, [tensor])
    names = {name for node in nodes for name in node.input}
    cut = onnx.ModelProto()
    cut.CopyFrom(onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import))
    cut.graph.name = "scores"
    cut.graph.node.extend(nodes)
    cut.graph.initializer.extend(_double(i) for i in model.graph.initializer if i.name in names)
    for node in cut.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in FLOATS:
                attribute.i = onnx.TensorProto.DOUBLE
            if attribute.HasField("t") and attribute.t.data_type in FLOATS:
                wide = numpy_helper.to_array(attribute.t).astype(np.float64)
                attribute.t.CopyFrom(numpy_helper.from_array(wide))
    cut.graph.input.append(onnx.helper.make_value_info(point, onnx.TypeProto()))
    cut.graph.output.append(onnx.helper.make_value_info(tensor, onnx.TypeProto()))
    return cut


def _double(tensor: Any) -> Any:
    from onnx import numpy_helper

    if tensor.data_type not in FLOATS:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def _decision(outputs: dict[str, Any]) -> Label | Named:
    """What the outputs agree on: a label if there is one, otherwise the scores."""
    labels = {n: v for n, v in outputs.items() if isinstance(v, Label)}
    scores = {
        n: Named(v) if isinstance(v, Value) else v for n, v in outputs.items() if isinstance(v, Value | Named)
    }
    if not labels and not scores:
        unknown = [v.error for v in outputs.values() if isinstance(v, Unknown)]
        raise unknown[0] if unknown else Unreadable("no output depends on the points")
    decisions = labels or scores
    first = next(iter(decisions.values()))
    same = [v for v in (*labels.values(), *scores.values()) if bare(v.value)[0] is bare(first.value)[0]]
    if any(v not in same for v in decisions.values()):
        raise Unreadable(f"its outputs {', '.join(decisions)} are different scores; keep one")
    known = [v.classes for v in same if v.classes is not None]
    return replace(first, classes=known[0] if known else None)


def _run(model: Any, given: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """The value of every tensor that the outputs need."""
    from onnx import helper, numpy_helper

    allowance = Allowance()
    dims = [d.dim_value for d in given.type.tensor_type.shape.dim]
    batch = dims[0] if len(dims) > 1 else 0
    nodes = _needed(model, [o.name for o in model.graph.output])
    names = {name for node in nodes for name in node.input} | {o.name for o in model.graph.output}
    try:
        values: dict[str, Any] = {
            i.name: numpy_helper.to_array(i) for i in model.graph.initializer if i.name in names
        }
    except Exception as error:  # sizes that do not fit what the file holds
        raise Unreadable("its weights are damaged") from error
    values[given.name] = graph.start(shape)
    for node in nodes:
        inputs = [values.get(name) if name else None for name in node.input]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type in ("Reshape", "Expand") and batch > 1 and len(inputs) == 2:
            inputs[1] = _of_one_point(inputs[1], batch)
        results = result(node, inputs, attributes, allowance)
        values |= dict(zip(node.output, results, strict=False))
    return values


def _of_one_point(shape: Any, batch: int) -> Any:
    """A shape whose first axis is the number of points that the file fixes."""
    if isinstance(shape, np.ndarray) and shape.ndim == 1 and len(shape) > 1 and shape[0] == batch:
        return np.array([1, *shape[1:]])
    return shape
