from pathlib import Path

import pytest

from featureprism.commands import data
from featureprism.commands.data import context_from


def test_what_is_named_comes_before_the_environment(monkeypatch, tmp_path):
    (tmp_path / "named").mkdir()
    monkeypatch.setenv(data.DATA, str(tmp_path))
    monkeypatch.setenv(data.DEVICE, "abacus")
    context = context_from(tmp_path / "named", "cpu", networks=Path("kept"))
    assert (context.data, context.device, context.networks) == (tmp_path / "named", "cpu", Path("kept"))
    monkeypatch.setenv(data.DEVICE, "cpu")
    assert context_from(None, None).data == tmp_path


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_any_word_there_is_no_folder_and_the_cpu(nothing, monkeypatch):
    for name in (data.DATA, data.DEVICE):
        monkeypatch.delenv(name, raising=False)
        if nothing is not None:
            monkeypatch.setenv(name, nothing)
    context = context_from(None, None)
    assert (context.data, context.device, context.networks) == (None, "cpu", None)


def test_devices_that_are_not_there_are_named(monkeypatch):
    for name in ("abacus", "cuda:99", "meta"):
        with pytest.raises(ValueError, match=f"Device '{name}' cannot be used"):
            context_from(None, name)
        monkeypatch.setenv(data.DEVICE, name)
        with pytest.raises(ValueError, match=f"Device '{name}' cannot be used"):
            context_from(None, None)


def test_a_folder_that_was_named_must_exist(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="neither a folder nor"):
        context_from(tmp_path / "none", None)
    monkeypatch.setenv(data.DATA, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="neither a folder nor"):
        context_from(None, None)
