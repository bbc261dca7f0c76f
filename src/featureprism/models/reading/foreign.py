"""Models of others, read with the libraries that they come from: torch modules, scikit-learn estimators, ONNX files."""

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from featureprism.models.model import Model, NotANetwork
from featureprism.models.read import Probe
from featureprism.models.reading.agreement import check_estimator, check_module, check_onnx
from featureprism.models.reading.called import called, drop_tail, numbers_of, refuse_probabilities, traced
from featureprism.models.reading.estimators import read_estimator
from featureprism.models.reading.graph import GraphScores, Node, Unreadable, Value, bare
from featureprism.models.reading.lowering import as_network
from featureprism.models.reading.modules import copied, plausible_shapes, read_module
from featureprism.models.reading.onnx_files import read_onnx


def read_fitted(model: Any, probe: Probe) -> Model:
    """A scikit-learn estimator."""
    found, names = read_estimator(model)
    found = replace(found, classes=names)
    check_estimator(found, model, probe.rows(found.dim), probe.given)
    return found


def read_onnx_file(path: Path, probe: Probe) -> tuple[Model, str]:
    """An ONNX file, and why it was not compared with onnx's own evaluator where it was not."""
    file = read_onnx(path, probe.shape)
    try:
        found = replace(_network(file.scores), classes=file.classes)
    except Unreadable as error:
        raise NotANetwork(f"{path} cannot be read as a network: {error}.") from error
    return found, check_onnx(found, file, probe.rows(found.dim))


def read_foreign(module: nn.Module, probe: Probe) -> Model:
    """A torch module, followed step by step, and only called where that fails."""
    module, own = copied(module), numbers_of(module)
    shapes = [] if probe.shape is None else [probe.shape]
    if len(probe.shape or (1,)) == 1:  # another number of coordinates is told as such
        shapes += plausible_shapes(module)
    try:
        value, shape = _followed(module.double(), shapes)
        scores, tail = bare(value)
        found = _network(scores)
    except Unreadable as error:
        return _called(module, probe, str(error), own)
    x = probe.rows(found.dim)
    check_module(found.net, tail, called(module, x, shape, own), x)
    return found


def _network(scores: Node) -> Model:
    """Dense layers where they exist and fit; otherwise the graph itself, and why it cannot be certified yet."""
    try:
        return as_network(scores)
    except Unreadable as error:
        return Model(GraphScores(scores), reason=str(error))


def _followed(module: nn.Module, shapes: Iterable[tuple[int, ...]]) -> tuple[Value, tuple[int, ...]]:
    """The scores of a module, and the first shape of points that it takes."""
    first: Unreadable | None = None
    for shape in shapes:
        try:
            return read_module(module, shape), shape
        except Unreadable as error:
            first = first or error
    raise first or Unreadable("no layer says how many inputs it takes")


def _called(module: nn.Module, probe: Probe, reason: str, own: torch.dtype) -> Model:
    """A module that can only be attacked, and why."""
    if probe.x is None or probe.shape is None:
        raise ValueError(
            f"The module cannot be read as layers: {reason}; give points (probe=X) to call it on."
        )
    scores = called(module, probe.x, probe.shape, own)
    with contextlib.suppress(Unreadable):  # what cannot be traced is called as it is
        drop_tail(scores, traced(module))
    refuse_probabilities(scores, probe.x)
    return Model(scores, reason=reason)
