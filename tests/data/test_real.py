import numpy as np
import pytest

from featureprism.data import images
from featureprism.data.real import real_data, unit_norm


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "cache_folder", lambda: tmp_path / "cache")


def test_digits_come_with_scikit_learn():
    split = real_data("digits")
    assert split.x_train.shape == (1200, 64)
    assert len(split.x_test) == 597
    assert set(split.y_test) == set(range(10))


def test_what_is_not_at_hand_is_none(tmp_path):
    assert real_data("cifar10 embeddings") is None
    assert real_data("cifar10 embeddings", tmp_path) is None
    assert real_data("mnist") is None
    with pytest.raises(ValueError, match="Unknown data"):
        real_data("words")


def test_images_become_rows(tmp_path):
    x, y = np.arange(2 * 3 * 16).reshape(2, 3, 4, 4).astype(np.uint8), np.array([3, 7])
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    split = real_data("mnist", tmp_path)
    np.testing.assert_allclose(split.x_train, x.reshape(2, 48) / 255, rtol=1e-6)
    assert split.y_test.tolist() == [3, 7]


def test_embeddings_are_read_as_they_are_and_checked(tmp_path):
    file, x, y = tmp_path / "cifar10_embeddings.npz", np.eye(3, dtype=np.float16), np.arange(3)
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    np.testing.assert_array_equal(real_data("cifar10 embeddings", tmp_path).x_test, x)
    np.savez(file, x_train=x * np.nan, y_train=y, x_test=x, y_test=y)
    with pytest.raises(ValueError, match="NaN"):
        real_data("cifar10 embeddings", tmp_path)
    np.savez(file, x_train=np.ones(1))
    with pytest.raises(ValueError, match="lacks 'y_train"):
        real_data("cifar10 embeddings", tmp_path)


def test_one_file_may_stand_for_the_embeddings(tmp_path):
    x, y, file = np.eye(3, dtype=np.float32), np.arange(3), tmp_path / "mine.npz"
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    np.testing.assert_array_equal(real_data("cifar10 embeddings", file).x_train, x)
    with pytest.raises(ValueError, match=r"need \(n, c, h, w\)"):
        real_data("mnist", file)
    assert len(real_data("digits", file).x_test) == 597


def test_rows_are_scaled_and_zero_stays():
    np.testing.assert_allclose(unit_norm(np.array([[3, 4], [0, 0]])), [[0.6, 0.8], [0, 0]])
