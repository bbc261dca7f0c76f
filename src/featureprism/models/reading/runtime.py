"""ONNX files that cannot be read as networks, run by onnxruntime: points in, labels or scores out."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
LABELS = ("tensor(int64)", "tensor(int32)", "tensor(string)", "tensor(bool)")
ERRORS_ALONE = 3  # of onnxruntime's levels of messages


class OnnxProgram:
    """An ONNX file as a function of points (n, d) that gives labels (n,), where it has them, or scores (n, k)."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ValueError(
                f"{path} cannot be read as a network, and running it needs onnxruntime: pip install onnxruntime."
            ) from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = ERRORS_ALONE, 1
        try:
            self.session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # whatever onnxruntime says of operators that it does not know either
            raise ValueError(
                f"{path} can neither be read as a network nor run by onnxruntime: {_first_line(error)}"
            ) from error
        (self.input,) = self.session.get_inputs()  # the reader has refused files with several
        if self.input.type not in NUMBERS:
            raise ValueError(f"{path} takes {self.input.type}, not points.")
        outputs = {o.name: o.type for o in self.session.get_outputs()}
        labels = [name for name, kind in outputs.items() if kind in LABELS]
        scores = [name for name, kind in outputs.items() if kind in NUMBERS]
        if not labels and not scores:
            raise ValueError(f"{path} gives {', '.join(outputs.values())}; wanted are labels or scores.")
        if not labels and len(scores) > 1:
            raise ValueError(
                f"{path} has the outputs {', '.join(scores)}; keep the one that holds the scores."
            )
        self.output = (labels or scores)[0]

    def __call__(self, x: Float[np.ndarray, "n d"]) -> np.ndarray:
        """Labels (n,) or scores (n, k); points one by one where the file takes one."""
        first, *shape = self.input.shape or [None]
        point = [d if isinstance(d, int) and d > 0 else -1 for d in shape]
        point = point if point.count(-1) <= 1 else [x.shape[1]]
        rows = x.astype(NUMBERS[self.input.type])
        size = first if isinstance(first, int) and first > 0 else max(len(rows), 1)
        parts = [self._run(rows[i : i + size], size, point) for i in range(0, len(rows), size)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _run(self, rows: np.ndarray, size: int, point: list[int]) -> np.ndarray:
        """A batch of as many points as the file takes, the last one repeated."""
        full = rows[np.minimum(np.arange(size), len(rows) - 1)].reshape(size, *point)
        out = np.asarray(self.session.run([self.output], {self.input.name: full})[0])
        return out.reshape(size, -1)[: len(rows)] if out.ndim != 1 or len(out) != size else out[: len(rows)]


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
