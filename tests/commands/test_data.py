from argparse import Namespace
from pathlib import Path

import pytest

from featureprism.commands import common


def context_from(data, device, **more):
    return common.context_from(Namespace(data=data, device=device), **more)


def test_what_is_named_comes_before_the_environment(monkeypatch, tmp_path):
    (tmp_path / "named").mkdir()
    monkeypatch.setenv(common.DATA, str(tmp_path))
    monkeypatch.setenv(common.DEVICE, "abacus")
    context = context_from(tmp_path / "named", "cpu", networks=Path("kept"))
    assert (context.data, context.device, context.networks) == (tmp_path / "named", "cpu", Path("kept"))
    monkeypatch.setenv(common.DEVICE, "cpu")
    assert context_from(None, None).data == tmp_path


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_any_word_there_is_no_folder_and_the_cpu(nothing, monkeypatch):
    for name in (common.DATA, common.DEVICE):
        monkeypatch.delenv(name, raising=False)
        if nothing is not None:
            monkeypatch.setenv(name, nothing)
    context = context_from(None, None)
    assert (context.data, context.device, context.networks) == (None, "cpu", None)


def test_devices_that_are_not_there_are_named_in_one_sentence(monkeypatch):
    with pytest.raises(ValueError, match=r"has none; cpu is always there\.$"):
        context_from(None, "cuda:99")
    for name in ("abacus", "cuda:99", "meta"):
        with pytest.raises(ValueError, match=f"Device '{name}' cannot be used"):
            context_from(None, name)
        monkeypatch.setenv(common.DEVICE, name)
        with pytest.raises(ValueError, match=f"Device '{name}' cannot be used"):
            context_from(None, None)


def test_a_folder_that_was_named_must_exist(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="neither a folder nor"):
        context_from(tmp_path / "none", None)
    monkeypatch.setenv(common.DATA, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="neither a folder nor"):
        context_from(None, None)
