import gzip

import numpy as np
import pytest

from featureprism.data.real import load_split, real_data, unit_norm


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def test_digits_come_with_scikit_learn():
    split = real_data("digits")
    assert split.x_train.shape == (1200, 64)
    assert len(split.x_test) == 597
    assert set(split.y_test) == set(range(10))


def test_files_are_found_where_the_variable_points(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATUREPRISM_DATA", str(tmp_path))
    assert real_data("cifar10 embeddings") is None
    assert real_data("mnist") is None
    images = np.arange(2 * 784).reshape(2, 28, 28) % 256
    (tmp_path / "mnist").mkdir()
    for part in ("train", "t10k"):
        (tmp_path / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (tmp_path / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(np.array([3, 7])))
    split = real_data("mnist")
    np.testing.assert_array_equal(split.x_train, images.reshape(2, 784))
    assert split.y_test.tolist() == [3, 7]
    np.savez(tmp_path / "cifar10_embeddings.npz", x_train=np.ones(1))
    with pytest.raises(ValueError, match="lacks y_train"):
        real_data("cifar10 embeddings")
    with pytest.raises(ValueError, match="Cannot read"):
        load_split(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="Unknown data"):
        real_data("words")


def test_rows_are_scaled_and_zero_stays():
    np.testing.assert_allclose(unit_norm(np.array([[3, 4], [0, 0]])), [[0.6, 0.8], [0, 0]])
