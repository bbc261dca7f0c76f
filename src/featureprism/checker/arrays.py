"""Arrays that people bring, in .npz files: nothing is unpickled, and whatever is wrong is one sentence."""

import math
import zipfile
from io import BytesIO
from pathlib import Path

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
KINDS = {"U": "words", "S": "bytes", "c": "complex numbers", "M": "dates", "m": "times", "V": "records"}
LARGEST_FILE, LARGEST_ARRAY = 2**32, 2**31  # bytes when unpacked
SMALL, MOST_TIMES = (
    2**26,
    100,
)  # an archive that unpacks to more than so many bytes may grow by this factor: measured data do not
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of an .npz file by its name. Whatever is wrong with it is one ValueError that names the file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}; {WANTED}.") from error
    return arrays_of(content, str(path))


def arrays_of(content: bytes, name: str) -> dict[str, np.ndarray]:
    """Every array of the content of an .npz file."""
    if not content.startswith(ARCHIVE):
        raise ValueError(f"Cannot read {name}: it is {_looks_like(content[:64])}; {WANTED}.")
    try:
        _refuse_too_large(content)
        with np.load(BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # whatever zipfile, zlib and numpy raise on bytes that nobody wrote so
        raise ValueError(f"Cannot read {name}: {_reason(error)}.") from error
    if strange := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"Cannot read {name}: it is an archive of other files ({strange[0]}); {WANTED}.")
    return arrays


class TooLargeArchive(ValueError):  # noqa: N818
    """An archive that would fill the memory."""


def _refuse_too_large(content: bytes) -> None:
    """Sizes are compared before anything is unpacked: of the whole archive, and of each array with what its header promises."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = archive.infolist()
        sizes = [member.file_size for member in members]
        most = min(LARGEST_FILE, max(SMALL, MOST_TIMES * len(content)))
        if sum(sizes) > most or max(sizes, default=0) > LARGEST_ARRAY:
            raise TooLargeArchive(f"it unpacks to {sum(sizes):.2g} bytes, more than is read")
        for member in members:
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                if version in HEADERS:
                    shape, _, dtype = HEADERS[version](file)
                    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
                        raise TooLargeArchive(
                            f"its array {member.filename} is larger than what the archive holds"
                        )


def _reason(error: Exception) -> str:
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
    """The array in float64 and C order; words, complex numbers and whatever else is no real number are refused."""
    if array.dtype.kind not in "biuf":
        found = KINDS.get(array.dtype.kind, "something else")
        raise ValueError(f"{name} must hold real numbers, got {found} ({array.dtype}); convert them first.")
    with np.errstate(over="ignore"):  # longer floats may become infinite, which is refused where it matters
        return array.astype(np.float64, order="C")


def real_number(array: np.ndarray, name: str) -> float:
    """The one real number that an array holds."""
    if array.size != 1:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}.")
    return float(real_numbers(array, name).item())
