"""ONNX files that cannot be read as networks, run by onnxruntime: points in, labels or scores out.

What such a file computes is limited: values between operators to 256 MB, the first point to four seconds of processor time.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
LABELS = ("tensor(int64)", "tensor(int32)", "tensor(string)", "tensor(bool)")
SILENT = 4  # of onnxruntime's levels of messages: what goes wrong is said in our words
MOST_BYTES = 2**28
MOST_SECONDS = 4.0


class OnnxProgram:
    """An ONNX file as a function of points (n, d) that gives labels (n,), where it has them, or scores (n, k)."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ValueError(
                f"{path} cannot be read as a network, and running it needs onnxruntime: pip install onnxruntime."
            ) from error
        self.path, self.is_tried = path, False
        try:
            _limit_memory()
            options = onnxruntime.SessionOptions()
            options.log_severity_level, options.intra_op_num_threads = SILENT, 1
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.add_session_config_entry("session.use_env_allocators", "1")
            options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
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
        try:
            if not self.is_tried and len(rows):
                with _limited_time() as options:
                    self._run(rows[:1], size if size == first else 1, point, options)
                self.is_tried = True
            parts = [self._run(rows[i : i + size], size, point) for i in range(0, len(rows), size)]
        except Exception as error:  # whatever onnxruntime says
            raise ValueError(f"{self.path} cannot be run by onnxruntime: {_first_line(error)}") from error
        return np.concatenate(parts) if parts else np.zeros(0)

    def _run(self, rows: np.ndarray, size: int, point: list[int], options: Any = None) -> np.ndarray:
        """A batch of as many points as the file takes, the last one repeated."""
        full = rows[np.minimum(np.arange(size), len(rows) - 1)].reshape(size, *point)
        out = np.asarray(self.session.run([self.output], {self.input.name: full}, options)[0])
        return out.reshape(size, -1)[: len(rows)] if out.ndim != 1 or len(out) != size else out[: len(rows)]


@cache
def _limit_memory() -> None:
    """Once for a process: all sessions take what lies between operators from one arena."""
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg({"max_mem": MOST_BYTES}))


@contextmanager
def _limited_time() -> Iterator[Any]:
    """Options of a run in this thread that ends after so many seconds of its processor time, between two operators."""
    import onnxruntime

    options, is_over = onnxruntime.RunOptions(), threading.Event()
    clock = time.pthread_getcpuclockid(threading.get_ident())
    end = time.clock_gettime(clock) + MOST_SECONDS

    def watch() -> None:
        while not is_over.wait(0.1):
            options.terminate = options.terminate or time.clock_gettime(clock) > end

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield options
    finally:
        is_over.set()
        watcher.join()


def _first_line(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if "terminate flag" in text:
        return f"a point takes longer than {MOST_SECONDS:.0f} seconds."
    if "arena" in text:
        return f"its values between operators need more than {MOST_BYTES // 2**20} MB."
    return text.splitlines()[0][:200]
