import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from featureprism.cli import main
from featureprism.data import images
from featureprism.data.clip import clip_embeddings


class FakeModel(nn.Module):
    """Stands for CLIP: the mean colour of the picture it is given."""

    def encode_image(self, x):
        assert x.shape[1:] == (3, 224, 224)
        return x.mean(dim=(2, 3))


@pytest.fixture
def _open_clip(monkeypatch):
    fake = SimpleNamespace(
        create_model=lambda *_name, **_how: FakeModel(),
        OPENAI_DATASET_MEAN=(0.0, 0.0, 0.0),
        OPENAI_DATASET_STD=(1.0, 1.0, 2.0),
    )
    monkeypatch.setitem(sys.modules, "open_clip", fake)


@pytest.mark.usefixtures("_open_clip")
def test_images_are_enlarged_normalised_and_encoded():
    found = clip_embeddings(torch.full((3, 3, 8, 8), 0.5), batch=2)
    expected = torch.tensor([0.5, 0.5, 0.25]) / torch.tensor([0.5, 0.5, 0.25]).norm()
    torch.testing.assert_close(found, expected.repeat(3, 1))
    assert clip_embeddings(torch.full((1, 1, 8, 8), 0.5)).shape == (1, 3)


@pytest.mark.usefixtures("_open_clip")
def test_the_command_writes_what_audit_reads(tmp_path, capsys, monkeypatch):
    def few(name, _folder):
        every = images.load_images(name)
        train, test = (every.x_train[:12], every.y_train[:12]), (every.x_test[:5], every.y_test[:5])
        return images.ImageSet(*train, *test, every.source)

    monkeypatch.setattr("featureprism.commands.data.load_images", few)
    file = tmp_path / "e.npz"
    assert main(["embed", "digits", "--out", str(file)]) == 0
    assert capsys.readouterr().out.strip().endswith("e.npz")
    with np.load(file) as found:
        assert found["x_train"].shape == (12, 3)
        assert found["y_test"].shape == (5,)
    assert main(["embed", "digits", "--out", str(tmp_path / "no" / "e.npz")]) == 2


def test_digits_do_not_pass_for_other_images(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(images, "cache_folder", lambda: tmp_path / "cache")
    assert main(["embed", "cifar10", "--data", str(tmp_path), "--out", str(tmp_path / "e.npz")]) == 2
    assert "fetch cifar10" in capsys.readouterr().err
    assert not (tmp_path / "e.npz").exists()


def test_without_open_clip_one_sentence_says_what_to_do(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    assert main(["embed", "digits", "--out", str(tmp_path / "e.npz")]) == 2
    assert "featureprism[clip]" in capsys.readouterr().err
