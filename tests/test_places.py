import pytest

from featureprism import places


def test_devices_that_are_not_there_are_named(monkeypatch):
    monkeypatch.delenv(places.DEVICE, raising=False)
    assert places.device() == "cpu"
    places.check_device()
    for name in ("abacus", "cuda:99", "meta"):
        monkeypatch.setenv(places.DEVICE, name)
        with pytest.raises(ValueError, match=f"Device '{name}' cannot be used"):
            places.check_device()


def test_a_place_that_was_named_must_exist(monkeypatch, tmp_path):
    monkeypatch.setenv(places.DATA, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="neither a folder nor"):
        places.data_place()
    monkeypatch.delenv(places.DATA)
    monkeypatch.setattr(places, "NEARBY", tmp_path / "none")
    assert places.data_place() is None
