"""Properties of outputs: the least output is known by enumeration, so every threshold has a true answer."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

import featureprism as fp
from featureprism.checker import exact_properties
from featureprism.checker.layers import Layers
from featureprism.checker.linear_bounds import Boxes, bounded_layers
from featureprism.checker.models import model_sha256
from featureprism.checker.proofs import Source
from featureprism.checker.property_proofs import (
    InvalidProof,
    property_proof_bytes,
    read_property_proof,
    verify_property,
)
from featureprism.checker.vnnlib import Case, Property
from featureprism.cli import main
from featureprism.verify.properties import api, neuron_splitting
from featureprism.verify.properties.input_splitting import outputs
from featureprism.verify.properties.trees import Trees
from featureprism.verify.query import Limits

DIM = 3


def small_network(seed, widths=(DIM, 3, 3, 2)):
    generator = np.random.default_rng(seed)
    shapes = list(itertools.pairwise(widths))
    weights = tuple(generator.normal(size=(h, d)) for d, h in shapes)
    return Layers(weights, tuple(0.3 * generator.normal(size=h) for _, h in shapes), "relu")


def least_difference(model, lower, upper):
    """min y_0 - y_1 over the box: a linear programme for every pattern of signs."""
    best = np.inf
    widths = model.widths
    for signs in itertools.product((0.0, 1.0), repeat=sum(widths)):
        A, c, rows, ends = np.eye(DIM), np.zeros(DIM), [], []
        for k, sign in enumerate(np.split(np.array(signs), np.cumsum(widths)[:-1])):
            A, c = model.weights[k] @ A, model.weights[k] @ c + model.biases[k]
            rows.append((1 - 2 * sign)[:, None] * A)
            ends.append((2 * sign - 1) * c)
            A, c = sign[:, None] * A, sign * c
        v = model.weights[-1][0] - model.weights[-1][1]
        found = linprog(
            v @ A, np.concatenate(rows), np.concatenate(ends), bounds=list(zip(lower, upper, strict=True))
        )
        if found.status == 0:
            best = min(best, found.fun + v @ c + model.biases[-1][0] - model.biases[-1][1])
    return best


def at_most(threshold, lower, upper):
    """Violated where y_0 - y_1 ≤ threshold."""
    return Property((Case(lower, upper, np.array([[1.0, -1.0]]), np.array([threshold])),), DIM, 2)


def box(seed):
    generator = np.random.default_rng(1000 + seed)
    lower = generator.normal(size=DIM)
    return lower, lower + generator.uniform(0.5, 2.0, size=DIM)


def searched(model, prop, by_inputs, seconds=20.0):
    """The columns of a proof, False, or a counterexample."""
    trees = Trees()
    with torch.no_grad():
        found = api._searched(
            list(prop.cases),
            model,
            trees,
            Limits.of(fp.Budget(seconds=seconds, branches=5000), seconds),
            by_inputs,
        )
    return trees.columns() if found is True else found


@pytest.mark.parametrize("by_inputs", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_thresholds_below_the_least_value_are_proven_and_others_are_not(seed, by_inputs):
    model, (lower, upper) = small_network(seed), box(seed)
    least = least_difference(model, lower, upper)
    slack = 0.01 * max(1.0, abs(least))
    good, bad = at_most(least - slack, lower, upper), at_most(least + 1e-6, lower, upper)
    columns = searched(model, good, by_inputs)
    content = property_proof_bytes(Source(model_sha256(model)), good.sha256, columns)
    assert verify_property(read_property_proof(content), model, good) > 0
    assert exact_properties.verify(content, model.weights, model.biases, good) > 0
    assert not isinstance(searched(model, bad, by_inputs, seconds=1.0), dict)
    forged = property_proof_bytes(Source(model_sha256(model)), bad.sha256, columns)
    with pytest.raises(InvalidProof):
        verify_property(read_property_proof(forged), model, bad)
    with pytest.raises(exact_properties.Refused):
        exact_properties.verify(forged, model.weights, model.biases, bad)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_neurons_enclose_what_sampled_inputs_do(seed):
    model, (lower, upper) = small_network(seed, (DIM, 20, 20, 2)), box(seed)
    x = np.random.default_rng(seed).uniform(lower, upper, size=(2000, DIM))
    for layer, W, b in zip(
        bounded_layers(model, Boxes(lower[None], upper[None])), model.weights, model.biases, strict=False
    ):
        z = x @ W.T + b
        assert (layer.low <= z).all()
        assert (z <= layer.high).all()
        x = np.maximum(z, 0)


@pytest.mark.parametrize("by_inputs", [True, False])
def test_forged_proofs_of_a_false_property_are_refused_by_both_checkers(by_inputs):
    """Columns of an honest proof of a weaker property, changed at random, under the name of a property that is violated."""
    model, (lower, upper) = small_network(2), box(2)
    least = least_difference(model, lower, upper)
    columns = searched(model, at_most(least - 0.02, lower, upper), by_inputs)
    false = at_most(least + 1e-4, lower, upper)
    generator = np.random.default_rng(0)
    for _ in range(150):
        forged = {name: np.array(column) for name, column in columns.items()}
        for _ in range(generator.integers(1, 4)):
            name = generator.choice([name for name, column in forged.items() if len(column)])
            at = generator.integers(len(forged[name]))
            value = forged[name][at]
            changes = [
                0,
                1,
                -1,
                value + 1,
                -value,
                2 * value,
                forged[name][generator.integers(len(forged[name]))],
            ]
            forged[name][at] = generator.choice(np.array(changes, dtype=float))
        content = property_proof_bytes(Source(model_sha256(model)), false.sha256, forged)
        with pytest.raises(ValueError, match=r"."):
            verify_property(read_property_proof(content), model, false)
        with pytest.raises(exact_properties.Refused):
            exact_properties.verify(content, model.weights, model.biases, false)


def test_bounds_that_are_too_narrow_and_multipliers_out_of_range_are_refused():
    model, (lower, upper) = small_network(2), box(2)
    least = least_difference(model, lower, upper)
    prop = at_most(least - 0.02, lower, upper)
    columns = searched(model, prop, by_inputs=False)
    H = sum(model.widths)
    start = int(columns["domain_first"][0]) + 1

    def is_refused(at, value):
        forged = dict(columns, numbers=np.array(columns["numbers"]))
        forged["numbers"][at] = value
        content = property_proof_bytes(Source(model_sha256(model)), prop.sha256, forged)
        with pytest.raises(InvalidProof):
            verify_property(read_property_proof(content), model, prop)
        with pytest.raises(exact_properties.Refused):
            exact_properties.verify(content, model.weights, model.biases, prop)

    for j in range(H):
        low, high = columns["numbers"][start + j], columns["numbers"][start + H + j]
        is_refused(start + j, low + 1e-6 * (high - low))
    leaf = next(i for i, width in enumerate(columns["node_width"]) if width)
    first, width = columns["node_first"][leaf], columns["node_width"][leaf]
    for at, value in (
        (first, -1.0),
        (first + 1, 1.5),
        (first + 1, -0.5),
        (first + width - 1, np.nextafter(-0.0, -1)),
    ):
        is_refused(int(at), value)


@pytest.mark.parametrize("seed", [5, 6])
def test_domains_without_inputs_are_leaves_that_both_checkers_accept(seed, monkeypatch):
    monkeypatch.setattr(neuron_splitting, "TRIED_BRANCHES", 0)  # domains alone are divided
    monkeypatch.setattr(neuron_splitting, "BRANCHES_OF_DOMAIN", 0)
    model, (lower, upper) = small_network(seed, (DIM, 6, 6, 6, 2)), box(seed)
    y = outputs(model, np.random.default_rng(0).uniform(lower, upper, size=(20000, DIM)))
    least = (y[:, 0] - y[:, 1]).min()
    prop = at_most(least - 0.3 * abs(least) - 0.05, lower, upper)
    columns = searched(model, prop, by_inputs=False)
    parts = zip(columns["node_cut"], columns["node_domain"], columns["node_width"], strict=True)
    assert any(cut == -1 and domain >= 0 and width == 0 for cut, domain, width in parts)
    content = property_proof_bytes(Source(model_sha256(model)), prop.sha256, columns)
    num_leaves = verify_property(read_property_proof(content), model, prop)
    assert exact_properties.verify(content, model.weights, model.biases, prop) == num_leaves


def test_several_rows_and_cases_with_different_boxes():
    model, (lower, upper) = small_network(5), box(5)
    y = outputs(model, np.random.default_rng(0).uniform(lower, upper, size=(4000, DIM)))
    low, high = y.min(axis=0) - 0.3, y.max(axis=0) + 0.3
    never = Case(lower, upper, np.array([[1.0, 0.0], [0.0, 1.0]]), low)
    half = Case(lower, (lower + upper) / 2, np.array([[-1.0, 0.0]]), -high[:1])
    prop = Property((never, half), DIM, 2)
    for by_inputs in (True, False):
        content = property_proof_bytes(
            Source(model_sha256(model)), prop.sha256, searched(model, prop, by_inputs)
        )
        assert verify_property(read_property_proof(content), model, prop) > 1
        assert exact_properties.verify(content, model.weights, model.biases, prop) > 1


VNNLIB = "".join(f"(declare-const {n} Real)" for n in ("X_0", "X_1", "Y_0", "Y_1"))
VNNLIB += "(assert (>= X_0 -1))(assert (<= X_0 1))(assert (>= X_1 -1))(assert (<= X_1 1))"


def written_files(folder: Path, assertion: str):
    """A network y = (|x_0|, x_0 + x_1 in pieces) as an .onnx file, and a property."""
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        net[2].weight.copy_(torch.eye(4))
        net[4].weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
        for part in (net[0], net[2], net[4]):
            part.bias.zero_()
    arrays = {f"W{i + 1}": net[2 * i].weight.numpy(force=True) for i in range(3)}
    arrays |= {f"b{i + 1}": net[2 * i].bias.numpy(force=True) for i in range(3)}
    np.savez(folder / "net.npz", activation=np.array("relu"), **arrays)
    (folder / "p.vnnlib").write_text(VNNLIB + assertion)
    return str(folder / "net.npz"), str(folder / "p.vnnlib")


def test_from_file_to_file_a_proof(tmp_path, capsys):
    model, prop = written_files(tmp_path, "(assert (>= Y_0 1.01))")  # |x_0| never is
    assert main(["verify", model, prop, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("holds (unsat): no input violates the property")
    proof = str(tmp_path / "out" / "proof.npz")
    for extra in ([], ["--exact"], ["--json"]):
        assert main(["check", proof, model, prop, *extra]) == 0
        assert "holds" in capsys.readouterr().out
    _, other = written_files(tmp_path, "(assert (>= Y_0 0.99))")
    assert main(["check", proof, model, other]) == 3
    assert main(["verify", model, other, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("violated (sat)")
    text = (tmp_path / "out" / "counterexample.txt").read_text()
    values = {
        line.strip("()").split()[0]: float(line.strip("()").split()[1]) for line in text.splitlines()[1:]
    }
    assert abs(values["X_0"]) >= 0.99
    assert values["Y_0"] == pytest.approx(abs(values["X_0"]))


def test_bad_files_are_bad_usage(tmp_path, capsys):
    model, prop = written_files(tmp_path, "(assert (>= Y_5 1))")
    assert main(["verify", model, prop]) == 2
    assert "Y_5 is not declared" in capsys.readouterr().err
    assert main(["verify", model, str(tmp_path / "nothing.vnnlib")]) == 2
    assert main(["verify", str(tmp_path / "nothing.npz"), prop]) == 2


def test_a_limit_in_branches_ends_the_search_and_repeats(tmp_path, capsys):
    rng = np.random.default_rng(0)
    W, b, V, c = (rng.normal(size=s) for s in ((32, 5), 32, (32, 2), 2))
    np.savez(tmp_path / "model.npz", W=W, b=b, V=V, c=c, activation="relu")
    inputs = [
        f"(declare-const X_{i} Real)\n(assert (<= X_{i} 0.5))\n(assert (>= X_{i} -0.5))" for i in range(5)
    ]
    outputs_ = ["(declare-const Y_0 Real)", "(declare-const Y_1 Real)", "(assert (>= Y_0 0.0))"]
    (tmp_path / "p.vnnlib").write_text("\n".join([*inputs, *outputs_]))
    words = ["verify", str(tmp_path / "model.npz"), str(tmp_path / "p.vnnlib")]
    assert main([*words, "--branches", "10"]) == 0
    assert "the branches were used up" in capsys.readouterr().out
    proofs = []
    for name in ("one", "two"):
        assert main([*words, "--branches", "5000", "--out", str(tmp_path / name)]) == 0
        with np.load(tmp_path / name / "proof.npz") as arrays:
            proofs.append({key: value.tobytes() for key, value in arrays.items()})
    assert "holds" in capsys.readouterr().out
    assert proofs[0] == proofs[1]
    assert main([*words, "--branches", "-1"]) == 2
    assert "branches must be a whole number" in capsys.readouterr().err
