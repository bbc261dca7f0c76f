"""ONNX files as chains of layers, up to where they decide; unknown operators are named."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from featureprism.networks.reading.chain import Chain, Unreadable
from featureprism.networks.reading.operators import OPERATORS, SIZE, Label, Named, Traced, Unknown


@dataclass(frozen=True, eq=False)
class Graph:
    """What an ONNX file decides by: the scores, their classes and name, the shape of a point, the input and the whole file."""

    chain: Chain
    classes: np.ndarray | None
    tensor: str
    shape: tuple[int, ...]
    input: Any
    model: Any

    def until_scores(self) -> Any:
        """The file cut where the scores are: what follows decides by them."""
        import onnx

        cut = onnx.ModelProto()
        cut.CopyFrom(self.model)
        last = next(i for i, node in enumerate(cut.graph.node) if self.tensor in node.output)
        del cut.graph.node[last + 1 :], cut.graph.output[:]
        cut.graph.output.append(onnx.helper.make_value_info(self.tensor, onnx.TypeProto()))
        return cut


def read_onnx(path: Path) -> Graph:
    """The scores and classes of a file that torch, skl2onnx or this library wrote."""
    model = _load(path)
    constants: dict[str, Any] = {i.name: _array(i) for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    if len(inputs) != 1:
        raise ValueError(
            f"{path} must have one input, the points; it has {', '.join(i.name for i in inputs) or 'none'}."
        )
    shape = _point_shape(inputs[0])
    start = Chain() if shape is None else Chain(W=torch.ones(int(np.prod(shape)), dtype=torch.float64))
    values: dict[str, Any] = constants | {inputs[0].name: start}
    for node in model.graph.node:
        results = _run(node, [values.get(name) if name else None for name in node.input], model)
        values |= dict(zip(node.output, results, strict=False))
    try:
        decision = _decision({o.name: values.get(o.name) for o in model.graph.output})
    except Unreadable as error:
        raise ValueError(f"{path} cannot be read as a network: {error}.") from error
    chains = {
        n: v.chain if isinstance(v, Named) else v for n, v in values.items() if isinstance(v, Chain | Named)
    }
    tensor, chain = next(
        ((n, c) for n, c in chains.items() if _same(c, decision.chain)), ("", decision.chain)
    )
    return Graph(chain, decision.classes, tensor, shape or (), inputs[0], model)


def _load(path: Path) -> Any:
    try:
        import onnx
        from onnx import inliner
    except ImportError as error:
        raise ValueError("ONNX files need the package onnx: pip install 'featureprism[onnx]'.") from error
    try:
        model = onnx.load(str(path))
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # whatever protobuf raises on bytes that nobody wrote so
        raise ValueError(f"Cannot read {path}: it is no ONNX file, or cut short or damaged.") from error
    if not model.graph.node or not model.graph.output:
        raise ValueError(f"Cannot read {path}: it is no ONNX file, or cut short or damaged.")
    return inliner.inline_local_functions(model) if model.functions else model


def _array(tensor: Any) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def _point_shape(value: Any) -> tuple[int, ...] | None:
    """The fixed axes of the input after the first; None where one is free."""
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim][1:]
    return tuple(dims) if dims and all(d > 0 for d in dims) else None


def _decision(outputs: dict[str, Any]) -> Label | Named:
    """What the outputs agree on: a label if there is one, otherwise the scores."""
    labels = {n: v for n, v in outputs.items() if isinstance(v, Label)}
    scores = {
        n: Named(v) if isinstance(v, Chain) else v for n, v in outputs.items() if isinstance(v, Chain | Named)
    }
    if not labels and not scores:
        told = [v.told for v in outputs.values() if isinstance(v, Unknown)]
        raise Unreadable(told[0] if told else "no output depends on the points")
    found = labels or scores
    first = next(iter(found.values()))
    if any(not _same(v.chain, first.chain) for v in found.values()):
        raise Unreadable(f"its outputs {', '.join(found)} are different scores; keep one")
    known = [
        v.classes
        for v in (*labels.values(), *scores.values())
        if v.classes is not None and _same(v.chain, first.chain)
    ]
    return replace(first, classes=known[0] if known else None)


def _same(one: Chain, other: Chain) -> bool:
    return one.W is other.W and one.b is other.b and one.layers is other.layers


def _run(node: Any, inputs: list[Any], model: Any) -> tuple[Any, ...]:
    """What an operator makes of traced values; what depends on no points is computed."""
    from onnx import helper

    if unknown := next((v for v in inputs if isinstance(v, Unknown)), None):
        return (unknown,) * len(node.output)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if any(isinstance(v, Traced) for v in inputs):
        told = f"the operator {node.op_type} is not known"
        try:
            results = (
                OPERATORS[node.op_type](*inputs, **attributes) if node.op_type in OPERATORS else Unknown(told)
            )
        except Unreadable as error:
            results = Unknown(f"{error} ({node.op_type})")
        except TypeError:
            results = Unknown(f"the operator {node.op_type} is used in a way that is not known")
        return results if isinstance(results, tuple) else (results,)
    return _computed(node, inputs, model)


def _computed(node: Any, inputs: list[Any], model: Any) -> tuple[Any, ...]:
    """The constant results of an operator; a shape that depends on the number of points keeps SIZE there."""
    from onnx import TypeProto, helper
    from onnx.reference import ReferenceEvaluator

    if any(
        v is SIZE or (isinstance(v, np.ndarray) and v.dtype == object and SIZE in v.tolist()) for v in inputs
    ):
        if node.op_type == "Concat":
            parts = [
                np.array([SIZE], dtype=object) if v is SIZE else np.asarray(v, dtype=object) for v in inputs
            ]
            return (np.concatenate(parts),)
        return (SIZE,)  # Gather, Slice, Unsqueeze, Cast of a size
    names = [name for name in node.input if name]
    graph = helper.make_graph([node], "constant", [helper.make_value_info(n, TypeProto()) for n in names], [])
    graph.output.extend(helper.make_value_info(n, TypeProto()) for n in node.output)
    single = helper.make_model(graph, opset_imports=list(model.opset_import))
    try:
        feeds = {n: v for n, v in zip(node.input, inputs, strict=True) if n}
        return tuple(ReferenceEvaluator(single).run(None, feeds))  # pyright: ignore[reportReturnType]
    except Exception:  # an operator that the reference does not know
        return (Unknown(f"the operator {node.op_type} is not known"),) * len(node.output)
