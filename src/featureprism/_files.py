"""Files: written in one motion, as strict JSON, into folders that can be written."""

import base64
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file in one motion, so that a kill, or a second writer, leaves the old or the new one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    if isinstance(content, str):
        partial.write_text(content, encoding="utf-8")
    else:
        partial.write_bytes(content)
    os.replace(partial, path)


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say in one sentence why it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"Cannot write to {folder}: {error.strerror}. Choose another --out.") from error


def strict(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {k: strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, readable in any alphabet."""
    return json.dumps(strict(value), indent=indent, ensure_ascii=False)


def csv_cell(value: Any) -> Any:
    """The same, with an apostrophe before words that a spreadsheet would run as a formula; numbers stay numbers."""
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
        return value
    except ValueError:
        return f"'{value}"


def content_hash(content: Any) -> str:
    """SHA-256 of something JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def packed(array: np.ndarray) -> str:
    """A float64 array as text that a row can hold."""
    return base64.b64encode(np.asarray(array, np.float64).tobytes()).decode()


def unpacked(text: str) -> np.ndarray:
    """The array of a text that `packed` made, flat."""
    return np.frombuffer(base64.b64decode(text), np.float64).copy()
