"""Real images: MNIST and CIFAR-10 from files at hand or fetched on request, scikit-learn's digits when there are none.

Nothing is downloaded unless `fetch_images` is called. `load_images` looks, in this order, into the folder given (if one is), into the
cache that `fetch_images` fills, and then takes the 1797 digits that come with scikit-learn.
"""

import gzip
import hashlib
import pickle
import struct
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker.arrays import read_arrays
from featureprism.seeds import generator_for

DIGITS = "digits"
TABLES = ("breast cancer", "wine")  # of scikit-learn, always at hand; no images
EMBEDDINGS = "cifar10 embeddings"
DIGITS_TEST = 597  # of the 1797 digits
ARCHIVES = {  # name: where from, {file: md5}
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "cifar10": (
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"},
    ),
}
KEYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class ImageSet:
    """Images in [0, 1] with labels 0, 1, …; `source` says where they came from."""

    x_train: Float[Tensor, "n c h w"]
    y_train: Int[Tensor, " n"]
    x_test: Float[Tensor, "m c h w"]
    y_test: Int[Tensor, " m"]
    source: str


def find_source(name: str, folder: Path | None = None) -> tuple[str, list[Path]]:
    """What would be read under this name: a word for it that tells files apart, and the files (none for the digits).

    `folder` may also be one .npz file, which then stands for the data whatever its name.
    """
    known = [*ARCHIVES, EMBEDDINGS, DIGITS]
    if name in TABLES:
        return name, []
    if name not in known:
        raise ValueError(f"Unknown data {name!r}; choose one of {', '.join(known)}.")
    if folder is not None and not is_data(folder):
        raise ValueError(f"{folder} is neither a folder nor an .npz file; real data is in one of them.")
    if name == DIGITS:
        return DIGITS, []
    if folder is not None and folder.is_file():
        return _told(folder), [folder]
    stem = name.replace(" ", "_")
    for parent in (cache_folder(),) if folder is None else (folder, cache_folder()):
        for file in (parent / f"{stem}.npz", parent / f"{stem}_subset.npz"):
            if file.exists():
                return _told(file), [file]
        for base in (parent / name, parent):
            files = [base / file for file in ARCHIVES.get(name, ("", {}))[1]]
            if files and all(file.exists() for file in files):
                return name, files
    return DIGITS, []


def _told(file: Path) -> str:
    """The name of a file and the beginning of its SHA-256 sum."""
    found = file.stat()
    return f"{file.name} {_digest(file, found.st_size, found.st_mtime_ns)}"


@lru_cache(maxsize=16)
def _digest(file: Path, _size: int, _changed: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:8]


def load_images(name: str, folder: Path | None = None) -> ImageSet:
    """MNIST ("mnist"), CIFAR-10 ("cifar10") or scikit-learn's digits ("digits"), whole; see the module for where it looks."""
    if name == EMBEDDINGS:
        raise ValueError("Embeddings are no images; real_data reads them.")
    if name in TABLES:
        raise ValueError(f"The table {name!r} has no images; scikit-learn's datasets load it.")
    source, files = find_source(name, folder)
    if not files:
        return _digits()
    if files[0].suffix == ".npz":
        return _image_set(read_npz(files[0], axes=4), source)
    for file in files:
        _check(file, ARCHIVES[name][1][file.name])
    arrays = _from_idx(files) if name == "mnist" else _from_tar(files[0])
    return _image_set(arrays, source)


def draw_images(whole: ImageSet, num_train: int, num_test: int, *, seed: int) -> ImageSet:
    """A seed's draw of so many training and test images, without replacement."""
    train = torch.randperm(len(whole.x_train), generator=generator_for("training images", seed))[:num_train]
    test = torch.randperm(len(whole.x_test), generator=generator_for("test images", seed))[:num_test]
    return ImageSet(
        whole.x_train[train], whole.y_train[train], whole.x_test[test], whole.y_test[test], whole.source
    )


def fetch_images(name: str, progress: bool = True) -> Path:
    """Download the official archives of one data set into the cache, checked against their MD5 sums; returns the folder."""
    import pooch

    if name not in ARCHIVES:
        raise ValueError(f"Cannot fetch {name!r}; choose one of {', '.join(ARCHIVES)}.")
    address, files = ARCHIVES[name]
    folder = cache_folder() / name
    for file, md5 in files.items():
        try:
            pooch.retrieve(address + file, f"md5:{md5}", fname=file, path=folder, progressbar=progress)
        except PermissionError as error:
            raise ValueError(
                f"Cannot write to {folder}: {error}. Set XDG_CACHE_HOME to another folder."
            ) from error
        except OSError as error:  # no network, no answer, or the answer of a server that has lost the file
            raise ValueError(
                f"Cannot fetch {file} from {address} ({type(error).__name__}): is there a network? Without one, copy "
                f"{', '.join(files)} into {folder}, or name a folder that holds them with --data."
            ) from error
    return folder


def cache_folder() -> Path:
    """Where fetched archives are kept."""
    import pooch

    return Path(pooch.os_cache("featureprism"))


def _check(file: Path, md5: str) -> None:
    found = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    if found != md5:
        raise ValueError(
            f"{file} is damaged or not the official file (MD5 {found}, expected {md5}); fetch it again."
        )


def _from_idx(files: list[Path]) -> list[np.ndarray]:
    """The four files of MNIST: images and labels of the training set, then of the test set."""
    arrays = []
    for file in files:
        raw = gzip.decompress(file.read_bytes())
        ndim = raw[3]
        shape = struct.unpack(f">{ndim}I", raw[4 : 4 + 4 * ndim])
        arrays.append(np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape))
    return [a[:, None] if a.ndim == 3 else a for a in arrays]


def _from_tar(file: Path) -> list[np.ndarray]:
    """CIFAR-10's five training batches and its test batch."""
    found: dict[str, dict] = {}
    with tarfile.open(file) as archive:
        for member in archive.getmembers():
            stream = archive.extractfile(member) if member.isfile() else None
            name = Path(member.name).name
            if stream is not None and (name.startswith("data_batch") or name == "test_batch"):
                found[name] = pickle.load(stream, encoding="bytes")
    train = [found[f"data_batch_{i}"] for i in range(1, 6)]
    images = np.concatenate([b[b"data"] for b in train]), found["test_batch"][b"data"]
    labels = np.concatenate([b[b"labels"] for b in train]), np.array(found["test_batch"][b"labels"])
    return [images[0].reshape(-1, 3, 32, 32), labels[0], images[1].reshape(-1, 3, 32, 32), labels[1]]


def read_npz(file: Path, axes: int) -> list[np.ndarray]:
    """x_train, y_train, x_test, y_test of an .npz file, x with so many axes; what is wrong with it is said in one sentence."""
    found = read_arrays(file)
    if missing := [repr(key) for key in KEYS if key not in found]:
        raise ValueError(f"{file} lacks {', '.join(missing)}; it needs {', '.join(KEYS)}.")
    arrays = [found[key] for key in KEYS]
    for points, labels in ((arrays[0], arrays[1]), (arrays[2], arrays[3])):
        if points.ndim != axes or labels.shape != points.shape[:1]:
            shape = "(n, c, h, w)" if axes == 4 else "(n, d)"
            raise ValueError(
                f"{file} holds points {points.shape} with labels {labels.shape}; need {shape} and (n,)."
            )
        if len(labels) == 0 or points.dtype.kind not in "iuf":
            raise ValueError(
                f"{file} holds {len(labels)} points of type {points.dtype}; need numbers, and at least one."
            )
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
            raise ValueError(f"{file} holds labels that are not the whole numbers 0, 1, …")
        if not np.isfinite(points).all():
            raise ValueError(f"{file} holds NaN or infinite values.")
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise ValueError(
            f"{file} holds training points {arrays[0].shape} and test points {arrays[2].shape}; all but n must agree."
        )
    return arrays


def _image_set(arrays: list[np.ndarray], source: str) -> ImageSet:
    x_train, y_train, x_test, y_test = arrays
    labels = [torch.from_numpy(np.asarray(y, np.int64)) for y in (y_train, y_test)]
    return ImageSet(_in_unit_box(x_train, source), labels[0], _in_unit_box(x_test, source), labels[1], source)


def _in_unit_box(pixels: np.ndarray, source: str) -> Float[Tensor, "n c h w"]:
    """Bytes divided by 255, or fractions as they are; anything else is refused."""
    if pixels.shape[2] != pixels.shape[3]:
        raise ValueError(
            f"{source} holds images of {pixels.shape[2]} × {pixels.shape[3]} pixels; need squares."
        )
    if pixels.dtype == np.uint8:
        return torch.from_numpy(np.array(pixels)).float() / 255
    if not np.issubdtype(pixels.dtype, np.floating) or pixels.min() < 0 or pixels.max() > 1:
        raise ValueError(
            f"{source} holds pixels of type {pixels.dtype}; need bytes, or fractions from 0 to 1."
        )
    return torch.from_numpy(np.array(pixels)).float()


def _digits() -> ImageSet:
    """1797 digits of 8 × 8 pixels, a third for testing."""
    from sklearn.datasets import load_digits  # takes a second

    pixels, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(labels))
    x = torch.from_numpy(pixels[order]).float().reshape(-1, 1, 8, 8) / 16
    y = torch.from_numpy(labels[order]).long()
    return ImageSet(x[DIGITS_TEST:], y[DIGITS_TEST:], x[:DIGITS_TEST], y[:DIGITS_TEST], DIGITS)


def is_data(path: Path) -> bool:
    """Whether a path can hold real data: a folder or an .npz file."""
    return path.is_dir() or (path.is_file() and path.suffix == ".npz")
