"""Whether a property of the outputs holds: attack, proof, and the checker's word on the proof."""

import gzip
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from featureprism._threads import one_thread
from featureprism.checker.layers import Layers
from featureprism.checker.models import model_sha256
from featureprism.checker.proofs import Source
from featureprism.checker.property_proofs import (
    InvalidProof,
    property_proof_bytes,
    read_property_proof,
    relu_layers,
)
from featureprism.checker.property_proofs import verify_property as verified_leaves
from featureprism.checker.vnnlib import Case, Property, read_property
from featureprism.models import read_model
from featureprism.verify.properties.attack import counterexample
from featureprism.verify.properties.input_splitting import prove_by_inputs, violates
from featureprism.verify.properties.neuron_splitting import Prover
from featureprism.verify.properties.trees import Trees
from featureprism.verify.query import Budget, Limits

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "unknown"
COMPETITION = {HOLDS: "unsat", VIOLATED: "sat", UNKNOWN: "unknown"}
FEW_INPUTS = 12  # up to here boxes are halved, beyond neurons are split
STARTS = (100, 2000)  # of the attack on few inputs, first and later
STARTS_OF_MANY = 20  # each time
OF_SEARCH = 0.75, 0.85  # of the seconds, with few inputs and with many: checking takes the rest
LARGEST_MODEL = 2**31  # bytes, unpacked


@dataclass(frozen=True, eq=False)
class PropertyResult:
    """Whether a property holds.

    Parameters
    ----------
    answer : {"holds", "violated", "unknown"}
        "holds" only where the checker accepted the proof.
    reason : str
        How the answer was found, or why there is none.
    counterexample : array of shape (d,), optional
        An input that violates the property.
    outputs : array of shape (k,), optional
        The network's outputs there: onnxruntime's where it was asked, in float64 otherwise.
    is_confirmed : bool
        Whether onnxruntime agrees that the input violates the property.
    proof : bytes, optional
        The content of a proof file (docs/proof_format.md, "Properties").
    num_leaves : int
        Parts of the proof.
    seconds : float
        CPU seconds.
    """

    answer: str
    reason: str
    counterexample: np.ndarray | None = None
    outputs: np.ndarray | None = None
    is_confirmed: bool = False
    proof: bytes | None = None
    num_leaves: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.answer} ({COMPETITION[self.answer]}): {self.reason}"

    def counterexample_text(self) -> str:
        """The answer and the counterexample as the competition writes them."""
        lines = [COMPETITION[self.answer]]
        if self.counterexample is not None and self.outputs is not None:
            values = [*(("X", i, v) for i, v in enumerate(self.counterexample.tolist()))]
            values += [("Y", i, v) for i, v in enumerate(self.outputs.tolist())]
            lines.append("(" + "\n".join(f"({name}_{i} {v!r})" for name, i, v in values) + ")")
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> Path | None:
        """Write the proof (proof.npz) or the counterexample (counterexample.txt) into a folder; returns where."""
        if self.proof is None and self.counterexample is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        if self.proof is not None:
            path = folder / "proof.npz"
            path.write_bytes(self.proof)
        else:
            path = folder / "counterexample.txt"
            path.write_text(self.counterexample_text(), encoding="utf-8")
        return path


def verify_property(
    model: Any, prop: Property | Path | str, *, budget: Budget | None = None
) -> PropertyResult:
    """Whether a property of the outputs holds on its box of inputs.

    A property describes counterexamples, as VNN-LIB 1.0 does. It is attacked first; then boxes of inputs are halved (few inputs) or
    neurons are split (many), each part bounded by linear relaxations. "holds" means that the checker accepted a proof about real
    numbers.

    Parameters
    ----------
    model
        As `robust_radius` takes it, and ``.onnx.gz`` files; layers of ReLU once it is read.
    prop : Property or path
        The path of a .vnnlib file, gzipped or not.
    budget : Budget, optional
        CPU seconds and branches (default: 120 seconds).

    Returns
    -------
    PropertyResult
        The answer with its proof or its counterexample.

    Raises
    ------
    ValueError
        Where a file cannot be read, or model and property do not fit together.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    >>> for p in net.parameters():
    ...     _ = torch.nn.init.constant_(p, 1.0)
    >>> text = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)"
    >>> text += "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 0))(assert (<= X_1 1))(assert (>= Y_0 7.5))"
    >>> print(fp.verify_property(net, fp.verify.property_of(text)).answer)
    holds
    """
    began = time.thread_time()
    budget = budget or Budget(seconds=120)
    prop = prop if isinstance(prop, Property) else read_property(Path(prop))
    layers, source, onnx = _opened(model, prop)
    result = _answer(layers, source, prop, budget, onnx)
    return replace(result, seconds=time.thread_time() - began)


def _opened(model: Any, prop: Property) -> tuple[Layers, Source, bytes | None]:
    """Layers of ReLU, what they were read from, and the ONNX file for onnxruntime."""
    onnx = None
    if isinstance(model, str | Path):
        path = Path(model)
        if path.suffix.lower() == ".gz":
            onnx = _unpacked(path)
            with tempfile.TemporaryDirectory() as folder:
                plain = Path(folder) / path.stem
                plain.write_bytes(onnx)
                read = read_model(plain)
        else:
            read = read_model(path)
            onnx = path.read_bytes() if path.suffix.lower() == ".onnx" else None
    else:
        read = read_model(model)
    if read.weights is None:
        raise ValueError(
            f"No proof can speak of this model: {read.reason or 'it is not made of layers of ReLU'}."
        )
    layers = relu_layers(read.weights)
    found = layers.weights[0].shape[1], layers.num_classes
    if found != (prop.num_inputs, prop.num_outputs):
        raise ValueError(
            f"The property has {prop.num_inputs} inputs and {prop.num_outputs} outputs, the model {found[0]} and {found[1]}."
        )
    return layers, replace(read.origin, sha256=model_sha256(layers)), onnx


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            content = file.read(LARGEST_MODEL + 1)
    except (OSError, EOFError) as error:
        raise ValueError(f"Cannot read {path}: {error}; a gzipped model is wanted.") from error
    if len(content) > LARGEST_MODEL:
        raise ValueError(f"{path} unpacks to more than {LARGEST_MODEL} bytes, more than is read.")
    return content


@torch.no_grad()
@one_thread()
def _answer(
    layers: Layers, source: Source, prop: Property, budget: Budget, onnx: bytes | None
) -> PropertyResult:
    """Attack, prove, check."""
    cases = list(prop.cases)
    if not cases:
        return _proven(Trees(), layers, source, prop)
    doubt = ""
    has_few_inputs = prop.num_inputs <= FEW_INPUTS
    for num_starts in STARTS if has_few_inputs else (STARTS_OF_MANY,):
        if (x := counterexample(cases, layers, num_starts, seed=0)) is not None:
            result = _refuted(x, cases, layers, onnx)
            if result.answer == VIOLATED:
                return result
            doubt = result.reason
    limits = Limits.of(budget, OF_SEARCH[not has_few_inputs] * budget.seconds)
    trees = Trees()
    x = _searched(cases, layers, trees, limits, has_few_inputs)
    if isinstance(x, np.ndarray):
        return _refuted(x, cases, layers, onnx)
    if x:
        return _proven(trees, layers, source, prop)
    if (
        y := counterexample(cases, layers, STARTS[1] if has_few_inputs else STARTS_OF_MANY, seed=1)
    ) is not None:
        return _refuted(y, cases, layers, onnx)
    why = (
        "the seconds were used up"
        if limits.out_of_seconds
        else "the branches were used up"
        if limits.out_of_branches
        else "branching led no further"
    )
    return PropertyResult(UNKNOWN, doubt or f"{why} before it was proven or refuted")


def _searched(
    cases: list[Case], layers: Layers, trees: Trees, limits: Limits, has_few_inputs: bool
) -> bool | np.ndarray:
    """Whether the trees of all cases are complete; or a counterexample."""
    if has_few_inputs:
        for number, case in enumerate(cases):
            share = limits.share(len(cases) - number)
            found = prove_by_inputs(case, layers, trees, share)
            limits.note(share)
            if found is not True:
                return found
        return True
    roots: dict[int, int] = {}
    left = list(enumerate(cases))
    while left:
        same = [pair for pair in left if pair[1].has_box_of(left[0][1])]
        prover = Prover(layers, same, trees, limits)
        if not prover.prove():
            return False if prover.witness is None else prover.witness
        roots |= prover.roots
        left = [pair for pair in left if pair[0] not in roots]
    trees.case_root = [roots[number] for number in range(len(cases))]
    return True


def _proven(trees: Trees, layers: Layers, source: Source, prop: Property) -> PropertyResult:
    """The proof once the checker has accepted it."""
    content = property_proof_bytes(source, prop.sha256, trees.columns())
    try:
        num_leaves = verified_leaves(read_property_proof(content), layers, prop)
    except InvalidProof as error:
        return PropertyResult(UNKNOWN, f"the checker refused the proof that was found: {error}")
    parts = "one part" if num_leaves == 1 else f"{num_leaves} parts"
    return PropertyResult(
        HOLDS,
        f"no input violates the property; the checker accepted a proof of {parts}",
        proof=content,
        num_leaves=num_leaves,
    )


def _refuted(x: np.ndarray, cases: Sequence[Case], layers: Layers, onnx: bytes | None) -> PropertyResult:
    """A counterexample, confirmed by onnxruntime where it is there and the model is an ONNX file."""
    from featureprism.verify.properties.input_splitting import outputs

    for candidate in (_as_float32(x, cases, layers), x):
        realised = [
            case for case in cases if _inside(case, candidate) and violates(case, layers, candidate[None])[0]
        ]
        if not realised:
            continue
        y = outputs(layers, candidate[None])[0]
        if onnx is None or importlib.util.find_spec("onnxruntime") is None:
            return PropertyResult(VIOLATED, "an input violates the property", candidate, y)
        y = _onnx_outputs(onnx, candidate)
        if any((case.A @ y <= case.b).all() for case in realised):
            reason = "an input violates the property; onnxruntime confirms it"
            return PropertyResult(VIOLATED, reason, candidate, y, is_confirmed=True)
    return PropertyResult(
        UNKNOWN, "an input violates the property in real numbers, which onnxruntime does not confirm"
    )


def _inside(case: Case, x: np.ndarray) -> bool:
    return bool((case.lower <= x).all() and (x <= case.upper).all())


def _as_float32(x: np.ndarray, cases: Sequence[Case], layers: Layers) -> np.ndarray:
    """A point of float32 numbers in the same box, where there is one."""
    case = next((c for c in cases if _inside(c, x) and violates(c, layers, x[None])[0]), cases[0])
    near = x.astype(np.float32)
    near = np.where(near > case.upper, np.nextafter(near, np.float32(-np.inf)), near)
    near = np.where(near < case.lower, np.nextafter(near, np.float32(np.inf)), near).astype(np.float64)
    return np.where((case.lower <= near) & (near <= case.upper), near, x)


def _onnx_outputs(onnx: bytes, x: np.ndarray) -> np.ndarray:
    """What onnxruntime computes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [n if isinstance(n, int) else 1 for n in given.shape]
    kind = np.float64 if given.type == "tensor(double)" else np.float32
    (y,) = session.run([session.get_outputs()[0].name], {given.name: x.reshape(shape).astype(kind)})
    return np.asarray(y, dtype=np.float64).reshape(-1)
