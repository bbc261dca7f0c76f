import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from featureprism.models import read_model
from featureprism.networks import ReLU, gaussian_start
from featureprism.seeds import generator_for
from featureprism.verify import Budget, Query, batches
from featureprism.verify.batches import bracket_in_batches

BUDGET = Budget(branches=500)


@pytest.fixture
def problem():
    net = gaussian_start(6, 4, 1.0, ReLU(), generator=generator_for("net", 0))
    x = torch.randn(10, 4, generator=generator_for("points", 0)).double()
    with torch.no_grad():
        return read_model(net), x, (net(x) >= 0).long()


def test_a_stopped_run_goes_on_and_does_nothing_twice(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 4)
    net, x, y = problem
    whole = bracket_in_batches(net, x, y, Query(), BUDGET, tmp_path / "whole")
    calls = []

    def some(*args, **options):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(len(args[1]))
        return real(*args, **options)

    real = batches.bracket_points
    monkeypatch.setattr(batches, "bracket_points", some)
    with pytest.raises(KeyboardInterrupt):
        bracket_in_batches(net, x, y, Query(), BUDGET, tmp_path / "stopped")
    calls[:] = [-1, -1]  # lets the rest pass
    again = bracket_in_batches(net, x, y, Query(), BUDGET, tmp_path / "stopped")
    assert calls == [-1, -1, 4, 2]
    assert again.attacked.tolist() == whole.attacked.tolist()
    assert again.certified.tolist() == whole.certified.tolist()
    np.testing.assert_allclose(again.witness, whole.witness)
    assert again.zero_gradient_share == whole.zero_gradient_share
    assert len(again.proofs()) == len(whole.proofs())
    done = bracket_in_batches(net, x, y, Query(), BUDGET, tmp_path / "stopped")
    assert len(calls) == 4
    assert done.method == whole.method


def test_an_interrupt_inside_the_proof_loses_the_batch_and_stops(problem, tmp_path, monkeypatch):
    net, x, y = problem

    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("featureprism.verify.one_layer.methods.prove", stop)
    with pytest.raises(KeyboardInterrupt):
        bracket_in_batches(net, x, y, Query(gap=1e-6), BUDGET, tmp_path)
    assert not (tmp_path / "brackets.csv").exists()


def test_what_another_request_found_is_kept_beside_the_first(problem, tmp_path, monkeypatch):
    net, x, y = problem
    first = bracket_in_batches(net, x[:3], y[:3], Query(), BUDGET, tmp_path)
    bracket_in_batches(net, x[:2], y[:2], Query(), BUDGET, tmp_path)
    monkeypatch.setattr(batches, "bracket_points", None)  # nothing is left to do
    again = bracket_in_batches(net, x[:3], y[:3], Query(), BUDGET, tmp_path)
    assert again.attacked.tolist() == first.attacked.tolist()
    assert len((tmp_path / "brackets.csv").read_text().splitlines()) == 4
    with np.load(tmp_path / "witnesses.npz") as file:
        np.testing.assert_array_equal(file["delta"], first.witness)


def test_batches_of_other_code_or_another_processor_are_not_used(problem, tmp_path, monkeypatch):
    net, x, y = problem
    bracket_in_batches(net, x[:2], y[:2], Query(), BUDGET, tmp_path)
    assert len(list((tmp_path / batches.SHARDS).iterdir())) == 1
    monkeypatch.setattr(batches, "environment", lambda: "kernels DEFAULT")
    bracket_in_batches(net, x[:2], y[:2], Query(), BUDGET, tmp_path)
    assert len(list((tmp_path / batches.SHARDS).iterdir())) == 2
    copy = tmp_path / "featureprism"
    shutil.copytree(Path(batches.__file__).parents[1] / "attacks", copy / "attacks")
    monkeypatch.setattr(batches, "__file__", str(copy / "verify" / "batches.py"))
    batches._code.cache_clear()
    before = batches._code()
    edited = copy / "attacks" / "radius.py"
    edited.write_text(edited.read_text() + "\nSTEPS = 1\n")
    batches._code.cache_clear()
    assert batches._code() != before
    batches._code.cache_clear()
