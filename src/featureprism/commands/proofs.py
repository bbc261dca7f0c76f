"""check: proofs verified from the weights and the points alone. Nothing but numpy is imported for a model in an .npz file."""

import argparse
import math
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from featureprism._files import as_json
from featureprism._labels import class_positions
from featureprism._points import read_points
from featureprism.checker.layers import Layers
from featureprism.checker.models import Model, model_sha256, named_arrays, read_weights
from featureprism.checker.proofs import read_proofs
from featureprism.checker.property_proofs import read_property_proof, relu_layers, verify_property
from featureprism.checker.stated import Stated, checked, file_content
from featureprism.checker.vnnlib import Property, read_property
from featureprism.commands.units import stated_units
from featureprism.commands.words import say

REFUSED = 3
NORMS = {"1": 1.0, "l1": 1.0, "2": 2.0, "l2": 2.0, "inf": math.inf, "linf": math.inf}
ABOUT = {"real": "about real numbers", "float32": "about a program in float32"}
EVERY = 10  # percent between two lines of progress


def check(args: argparse.Namespace) -> int:
    """Answer the stated question; 3 if the proofs do not establish what they claim, or are about something else."""
    if args.data.suffix.lower() == ".vnnlib" or args.data.name.lower().endswith(".vnnlib.gz"):
        return _check_property(args)
    bounds = None if args.bounds is None else (args.bounds[0], args.bounds[1])
    x, y = read_points(args.data)
    _, _, weights = stated_units(args, x)
    stated = Stated(NORMS.get(args.norm, math.nan), args.eps, bounds, args.arithmetic, weights)
    model, classes, reader = _model(args.model)
    try:
        content = file_content(args.proofs)
        file = read_proofs(content, str(args.proofs))
        if file.statement.arithmetic == "float32" and args.model.suffix.lower() == ".onnx":
            raise ValueError(
                "Proofs about float32 speak of layers as an .npz file has them; an .onnx file computes otherwise."
            )
        names = classes if file.statement.classes is None else np.array(file.statement.classes)
        labels = class_positions(y, names, model.num_classes)
        exact = _exactly(content, model, names, x, labels) if args.exact else None
        result = checked(file, model, x, labels, stated, exact, _Lines())
    except ValueError as error:
        if args.json:
            print(as_json({"refused": str(error)}, indent=1))
        else:
            say(f"refused: {error}")
        return REFUSED
    if args.json:
        facts = result.facts() | {"read_by": reader, "checker": "exact" if args.exact else "float64"}
        print(as_json(facts, indent=1))
        return 0 if result else REFUSED
    say(result)
    s = result.statement
    of = f" of {s.model.source}" if s.model.source else ""
    say(f"model {s.model.sha256[:16]}{of}, {reader}; points {s.points_sha256[:16]}; {ABOUT[s.arithmetic]}")
    return 0 if result else REFUSED


def _check_property(args: argparse.Namespace) -> int:
    """Whether a property holds, from its file, the weights and the proof alone."""
    prop = read_property(args.data)
    model, _, reader = _model(args.model)
    try:
        layers = relu_layers(model)
        content = file_content(args.proofs)
        if args.exact:
            num_leaves = _property_exactly(content, layers, prop)
        else:
            num_leaves = verify_property(read_property_proof(content, str(args.proofs)), layers, prop)
    except ValueError as error:
        print(as_json({"refused": str(error)}, indent=1) if args.json else f"refused: {error}")
        return REFUSED
    facts = {"answer": "holds", "parts": num_leaves, "model": model_sha256(layers), "property": prop.sha256}
    if args.json:
        print(as_json(facts | {"read_by": reader, "checker": "exact" if args.exact else "float64"}, indent=1))
        return 0
    say(f"holds (unsat): no input violates the property; {num_leaves} of {num_leaves} parts are proven")
    say(f"model {facts['model'][:16]}, {reader}; property {prop.sha256[:16]}; about real numbers")
    return 0


def _model(path: Path) -> tuple[Model, np.ndarray | None, str]:
    """The weights of an .npz file; an .onnx file is read as `radius` reads it, which needs all of featureprism."""
    if path.suffix.lower() != ".onnx":
        return *read_weights(path), "read by the checker"
    from featureprism.models import read_model

    model = read_model(path)
    return (
        model.checkable(),
        model.classes,
        f"read from {path.name} by {model.origin.reader}, which you trust for that",
    )


def _exactly(
    content: bytes, model: Model, names: np.ndarray | None, x: np.ndarray, labels: np.ndarray
) -> Callable[[], Any]:
    """The exact checker, on the same proofs, weights and points."""
    from featureprism.checker import exact

    form, arrays = named_arrays(model)
    kind = {"network normalised": "prelu", "network": "polynomial", "scores": "polynomial"}
    named = {} if names is None else {"classes": names}
    weights, points = BytesIO(), BytesIO()
    np.savez(weights, activation=np.array(kind.get(form, form.removeprefix("layers "))), **arrays, **named)  # pyright: ignore[reportArgumentType]
    np.savez(points, x=x, y=labels if names is None else names[labels])
    work = exact.estimate(content, weights.getvalue())
    if work > exact.MOST_WORK:
        raise ValueError(
            f"The exact checker would need about {work:.0e} multiplications, more than its limit of {exact.MOST_WORK:.0e}; "
            "check without --exact, or fewer points at a time."
        )
    return lambda: exact.verify(content, weights.getvalue(), points.getvalue(), progress=_Lines())


def _property_exactly(content: bytes, model: Layers, prop: Property) -> int:
    """The exact checker, on the same proof, weights and property."""
    from featureprism.checker import exact_properties

    work = exact_properties.estimate(content, model.weights)
    if work > exact_properties.MOST_WORK:
        raise ValueError(
            f"The exact checker would need about {work:.0e} multiplications, more than its limit of "
            f"{exact_properties.MOST_WORK:.0e}; check without --exact."
        )
    return exact_properties.verify(content, model.weights, model.biases, prop)


class _Lines:
    """Progress in plain lines on stderr, on long checks only."""

    def __init__(self) -> None:
        self.next = EVERY

    def __call__(self, share: float) -> None:
        if 100 * share >= self.next and sys.stderr.isatty():
            print(f"checked {share:.0%}", file=sys.stderr)
            self.next += EVERY
