"""Files as users have them: official archives, .npz, nothing at all; and what is wrong with broken ones."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest
import torch

from featureprism.data import images
from featureprism.data.images import fetch_images, find_source, load_images


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "cache_folder", lambda: tmp_path / "cache")


def idx(array):
    return gzip.compress(
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def small_arrays(shape):
    random = np.random.default_rng(0)
    return {
        "x_train": random.integers(0, 256, (6, *shape), np.uint8),
        "y_train": np.arange(6, dtype=np.uint8),
        "x_test": random.integers(0, 256, (3, *shape), np.uint8),
        "y_test": np.arange(3, dtype=np.uint8),
    }


def write_official(folder, name, monkeypatch):
    """Small files in the official formats, with their checksums registered."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "mnist":
        arrays = small_arrays((5, 5))
        contents = [idx(arrays[key]) for key in ("x_train", "y_train", "x_test", "y_test")]
        files = dict(zip(images.ARCHIVES["mnist"][1], contents, strict=True))
    else:
        arrays = small_arrays((3, 32, 32))
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            parts = {f"data_batch_{i}": ("train", slice(i - 1, i if i < 5 else 6)) for i in range(1, 6)}
            for part, (side, chosen) in (parts | {"test_batch": ("test", slice(None))}).items():
                x, y = arrays[f"x_{side}"][chosen], arrays[f"y_{side}"][chosen]
                raw = pickle.dumps({b"data": x.reshape(len(x), -1), b"labels": y.tolist()})
                info = tarfile.TarInfo(f"cifar-10-batches-py/{part}")
                info.size = len(raw)
                archive.addfile(info, io.BytesIO(raw))
        files = {"cifar-10-python.tar.gz": stream.getvalue()}
    for file, content in files.items():
        (folder / file).write_bytes(content)
    sums = {file: hashlib.md5(content).hexdigest() for file, content in files.items()}
    monkeypatch.setitem(images.ARCHIVES, name, (images.ARCHIVES[name][0], sums))
    return arrays


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("nested", [True, False])
def test_official_files_are_read_as_they_are(name, nested, tmp_path, monkeypatch):
    arrays = write_official(tmp_path / name if nested else tmp_path, name, monkeypatch)
    found = load_images(name, tmp_path)
    expected = torch.from_numpy(arrays["x_train"]).float() / 255
    torch.testing.assert_close(found.x_train.reshape(expected.shape), expected)
    assert found.x_train.ndim == 4
    assert found.y_test.tolist() == arrays["y_test"].tolist()
    assert found.source == name


def test_a_damaged_archive_is_named(tmp_path, monkeypatch):
    write_official(tmp_path, "mnist", monkeypatch)
    file = tmp_path / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte.gz is damaged"):
        load_images("mnist", tmp_path)


def test_npz_files_are_looked_for_where_one_says(tmp_path, monkeypatch):
    np.savez(tmp_path / "cifar10_subset.npz", **small_arrays((3, 8, 8)))
    found = load_images("cifar10", tmp_path)
    assert found.source.startswith("cifar10_subset.npz ")
    assert float(found.x_test.max()) <= 1
    monkeypatch.setenv("FEATUREPRISM_DATA", str(tmp_path))  # the command line's affair
    assert find_source("cifar10") == ("digits", [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y_test": None}, "lacks"),
        ({"y_train": np.arange(5, dtype=np.uint8)}, "labels"),
        ({"y_train": np.full(6, 0.5)}, "whole numbers"),
        ({"x_test": np.zeros((3, 4), np.uint8)}, "need"),
        ({"x_test": np.zeros((3, 1, 4, 5), np.uint8)}, "must agree"),
        (
            {"x_train": np.zeros((6, 1, 4, 5), np.uint8), "x_test": np.zeros((3, 1, 4, 5), np.uint8)},
            "squares",
        ),
        ({"x_test": np.full((3, 1, 4, 4), 2.0)}, "fractions from 0 to 1"),
        ({"x_test": np.zeros((3, 1, 4, 4), np.int64)}, "bytes"),
        ({"x_test": np.full((3, 1, 4, 4), "a")}, "numbers"),
        ({"x_test": np.zeros((0, 1, 4, 4), np.uint8), "y_test": np.zeros(0, np.uint8)}, "at least one"),
    ],
)
def test_what_is_wrong_with_an_npz_file_is_said(change, said, tmp_path):
    arrays = {k: v for k, v in (small_arrays((1, 4, 4)) | change).items() if v is not None}
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(ValueError, match=said) as error:
        load_images("mnist", tmp_path)
    assert "mnist.npz" in str(error.value)


def test_fractions_are_kept_as_they_are(tmp_path):
    arrays = small_arrays((1, 4, 4))
    arrays["x_train"] = arrays["x_train"] / 255.0
    np.savez(tmp_path / "mnist.npz", **arrays)
    found = load_images("mnist", tmp_path)
    np.testing.assert_allclose(found.x_train, arrays["x_train"], atol=1e-6)


def test_files_of_one_size_are_told_apart(tmp_path):
    arrays, names = small_arrays((1, 4, 4)), set()
    for pixel in (0, 1):
        arrays["x_train"][:] = pixel
        np.savez(tmp_path / "mnist.npz", **arrays)
        names.add(find_source("mnist", tmp_path)[0])
    assert len(names) == 2
    np.save(tmp_path / "other.npy", arrays["x_train"])
    (tmp_path / "other.npy").rename(tmp_path / "mnist.npz")
    with pytest.raises(ValueError, match=r"Cannot read .*mnist.npz"):
        load_images("mnist", tmp_path)


def test_a_truncated_npz_file_is_named(tmp_path):
    np.savez(tmp_path / "mnist.npz", **small_arrays((1, 4, 4)))
    file = tmp_path / "mnist.npz"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"Cannot read .*mnist.npz"):
        load_images("mnist", tmp_path)


def test_digits_when_nothing_is_at_hand(tmp_path):
    found = load_images("cifar10", tmp_path)
    assert found.source == "digits"
    assert tuple(found.x_train.shape[1:]) == (1, 8, 8)
    assert len(found.x_train) + len(found.x_test) == 1797
    assert set(found.y_test.tolist()) == set(range(10))


def test_names_and_folders_that_do_not_exist(tmp_path):
    with pytest.raises(ValueError, match="Unknown data 'imagenet'"):
        find_source("imagenet")
    with pytest.raises(ValueError, match="neither a folder"):
        load_images("mnist", tmp_path / "none")
    with pytest.raises(ValueError, match="Cannot fetch"):
        fetch_images("digits")


def test_fetching_checks_the_sums(tmp_path, monkeypatch):
    """The server here is a folder on disk: pooch fetches, compares, and load_images finds the files in the cache."""
    write_official(tmp_path / "server", "mnist", monkeypatch)
    asked = []

    def retrieve(address, known_hash, fname, path, progressbar):
        asked.append((address, known_hash, progressbar))
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_bytes((tmp_path / "server" / fname).read_bytes())

    monkeypatch.setattr("pooch.retrieve", retrieve)
    folder = fetch_images("mnist", progress=False)
    assert folder == tmp_path / "cache" / "mnist"
    assert all(known.startswith("md5:") for _, known, _ in asked)
    assert load_images("mnist").source == "mnist"
