"""Files: written in one motion, as strict JSON, into folders that can be written; and arrays that people bring."""

import base64
import hashlib
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

WANTED = "an .npz file is wanted, as numpy.savez(path, name=array, ...) writes it"
ARCHIVE = b"PK"  # how every .npz file begins
BEGINNINGS = {  # of files that people take for .npz files
    b"\x93NUMPY": "a single .npy array",
    b"\x08": "what looks like an ONNX model",
    b"\x80": "a pickle, which is never loaded",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
}
MOST_BYTES = 2**32  # that an archive may unpack to
SMALL, MOST_TIMES = (
    2**26,
    100,
)  # an archive that unpacks to more than so many bytes may grow by this factor: measured data do not
KINDS = {"U": "words", "S": "bytes", "c": "complex numbers", "M": "dates", "m": "times", "V": "records"}


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file by its name; nothing is unpickled. Whatever is wrong with it is one ValueError that names it."""
    try:
        with path.open("rb") as file:
            beginning = file.read(64)
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}; {WANTED}.") from error
    if not beginning.startswith(ARCHIVE):
        raise ValueError(f"Cannot read {path}: it is {_looks_like(beginning)}; {WANTED}.")
    try:
        _refuse_bomb(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # whatever zipfile, zlib and numpy raise on bytes that nobody wrote so
        raise ValueError(f"Cannot read {path}: {_told(error)}.") from error
    if strange := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"Cannot read {path}: it is an archive of other files ({strange[0]}); {WANTED}.")
    return arrays


class TooLargeArchive(ValueError):  # noqa: N818
    """An archive that would fill the memory."""


def _refuse_bomb(path: Path) -> None:
    """Sizes are compared before anything is unpacked: of the whole archive, and of each array with what its header promises."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > min(MOST_BYTES, max(SMALL, MOST_TIMES * path.stat().st_size)):
            raise TooLargeArchive(f"it unpacks to {unpacked:.2g} bytes, more than is read")
        for member in members:
            with archive.open(member) as file:
                if not member.filename.endswith(".npy"):
                    continue
                version = np.lib.format.read_magic(file)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }
                if version in read:
                    shape, _, dtype = read[version](file)
                    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
                        raise TooLargeArchive(
                            f"its array {member.filename} is larger than what the archive holds"
                        )


def _told(error: Exception) -> str:
    """What is wrong with an archive, and what to do; numpy's advice to load pickles is not passed on."""
    if isinstance(error, TooLargeArchive):
        return str(error)
    if "Object arrays" in str(error):
        return "it holds Python objects, which are never loaded; save arrays of numbers or words instead"
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return f"it is cut short or damaged ({reason}); write or copy it again"


def _looks_like(beginning: bytes) -> str:
    """What a file that is no archive seems to be."""
    if not beginning:
        return "empty"
    for start, words in BEGINNINGS.items():
        if beginning.startswith(start):
            return words
    is_text = all(byte >= 32 or byte in b"\t\n\r" for byte in beginning)
    return "a text file" if is_text else "no archive of arrays"


def real_numbers(array: np.ndarray, name: str) -> np.ndarray:
    """The array in float64; words, complex numbers and whatever else is no real number are refused."""
    if array.dtype.kind not in "biuf":
        found = KINDS.get(array.dtype.kind, "something else")
        raise ValueError(f"{name} must hold real numbers, got {found} ({array.dtype}); convert them first.")
    with np.errstate(over="ignore"):  # longer floats may become infinite, which is refused where it matters
        return array.astype(np.float64)


def real_number(array: np.ndarray, name: str) -> float:
    """The one real number that an array holds."""
    if array.size != 1:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(real_numbers(array, name).item())


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


def content_hash(content: Any) -> str:
    """SHA-256 of something JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def packed(array: np.ndarray) -> str:
    """A float64 array as text that a row can hold."""
    return base64.b64encode(np.asarray(array, np.float64).tobytes()).decode()


def unpacked(text: str) -> np.ndarray:
    """The array of a text that `packed` made, flat."""
    return np.frombuffer(base64.b64decode(text), np.float64).copy()
