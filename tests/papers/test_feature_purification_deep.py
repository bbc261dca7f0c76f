"""The image experiments on scikit-learn's digits: networks that are kept, layers that are frozen, claims on known rows."""

from dataclasses import replace
from math import isnan, nan

import pytest
import torch
from scipy.stats import spearmanr

from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.lab import Rows
from featureprism.papers.feature_purification.deep_features import BY_STRENGTH, FIGURE_5, FIGURE_13, sparsity
from featureprism.papers.feature_purification.deep_perturbations import FIGURE_12, amplified, share_at
from featureprism.papers.feature_purification.deep_setting import (
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    MAIN,
    NOISE,
    ONLY_CLEAN,
    RANDOM,
    WHOLE,
    Setting,
    accuracies,
    images_of,
    passes,
    shipped,
    trained,
)
from featureprism.papers.feature_purification.deep_table import TABLE_1
from featureprism.papers.feature_purification.deep_tickets import own_minus_others, rank_correlation, tickets
from featureprism.papers.feature_purification.deep_zoo import ZOO
from featureprism.records import as_image, picture

TINY = Setting(
    data="digits",
    train_images=64,
    test_images=12,
    test_steps=2,
    epochs=1,
    adversarial_epochs=1,
    finetune_epochs=1,
    batch_size=32,
    factor=0.05,
)


def test_networks_are_trained_once(tmp_path):
    context = Context(networks=tmp_path / "networks")
    data = images_of(TINY, 0, context)
    first = trained(TINY, data, 0, FROM_CLEAN, context)
    kept = sorted((tmp_path / "networks").iterdir())
    assert len(kept) == 2  # the clean network, and the one that goes on from it
    times = [file.stat().st_mtime_ns for file in kept]
    again = trained(TINY, data, 0, FROM_CLEAN, context)
    assert [file.stat().st_mtime_ns for file in kept] == times
    assert torch.equal(first.head.weight, again.head.weight)
    clean = trained(TINY, data, 0, CLEAN, context)
    assert not torch.equal(clean.head.weight, first.head.weight)
    trained(replace(TINY, step_size=0.05), data, 0, RANDOM, context)
    assert len(list((tmp_path / "networks").iterdir())) == 3


def test_robust_accuracy_never_exceeds_clean_accuracy():
    data = images_of(TINY, 0, Context())
    net = trained(TINY, data, 0, CLEAN, Context()).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    told = accuracies(net, TINY, data, MAIN, 0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert told["zero_gradients"] == 0
    assert 0 <= told["robust"] <= told["clean"] <= 1
    assert told["robust_low"] <= told["robust"] <= told["robust_high"]


def test_attackers_are_judged_as_an_order():
    """Shares that rise with the attacker's strength give τ = 1; with one pair of six swapped 2/3."""
    claim = next(c for c in FIGURE_13.claims if c.name == "order")

    def told(shares):
        named = zip(BY_STRENGTH, shares, strict=True)
        return Rows.gather(
            {"kind": "features", "seed": 0, "network": n, "share": share} for n, share in named
        )

    assert claim.value(told((0.1, 0.2, 0.3, 0.4))) == pytest.approx([1.0])
    assert claim.value(told((0.1, 0.3, 0.2, 0.4))) == pytest.approx([2 / 3])


def test_the_least_of_the_robust_networks_is_set_against_each_control():
    claims = {c.name: c for c in FIGURE_13.claims}
    shares = dict(zip(BY_STRENGTH, (0.2, 0.3, 0.4, 0.5), strict=True)) | {CONTROL: 0.15, NOISE: 0.25}
    rows = Rows.gather(
        {"kind": "features", "seed": 0, "network": network, "share": share}
        for network, share in shares.items()
    )
    assert claims["control"].value(rows) == pytest.approx([0.05])
    assert claims["noise"].value(rows) == pytest.approx([-0.05])


def test_a_ticket_is_what_the_start_favoured_and_what_was_gained_beside_it(generator):
    """Two neurons and the axes: the start counts for nothing in what is gained; each gains what it favoured, or both the same."""
    begin = torch.tensor([[2.0, 0.0, 0.0, 0.1], [0.0, 3.0, 0.0, 0.0]])
    end = begin + torch.tensor([[0.0, 0.0, 0.7, 0.0], [0.0, -1.0, 0.0, 5.0]])
    early, late = tickets(begin, end, torch.eye(4))
    assert early.argmax(dim=1).tolist() == [0, 1]
    assert late.argmax(dim=1).tolist() == [2, 3]
    assert float(late[1, 1]) == pytest.approx(0)
    assert own_minus_others(torch.eye(3), torch.eye(3)) == pytest.approx(1)
    assert own_minus_others(torch.eye(3), torch.ones(3, 3)) == pytest.approx(0)
    x, y = torch.rand(2, 30, generator=generator)
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)


def test_time_is_foretold_in_proportion_to_the_epochs():
    """Twice the epochs, twice the passes; an attack of two steps costs 1 + 4/3 of a clean step."""
    assert passes(replace(TINY, epochs=6), CLEAN) == 2 * passes(replace(TINY, epochs=3), CLEAN)
    assert passes(replace(TINY, finetune_epochs=3), FROM_CLEAN) == pytest.approx(7.0)
    assert passes(replace(TINY, finetune_epochs=3), CONTROL) == 3
    assert FIGURE_12.foretell(TINY, Context()) > 0


def test_the_zoo_is_measured_on_cifar_alone():
    marked = replace(TINY, zoo="alexnet 0")
    digits = images_of(TINY, 0, Context())
    assert shipped(marked, digits, CLEAN) is None
    one, label = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.long)
    pictures = ImageSet(one, label, one, label, "cifar10.npz")
    assert shipped(marked, pictures, CLEAN).name == "alexnet-clean"
    assert shipped(marked, pictures, RANDOM) is None
    alone = replace(TINY, zoo=ONLY_CLEAN)
    assert shipped(alone, pictures, CLEAN).name == "alexnet-clean"
    assert shipped(alone, pictures, FROM_CLEAN) is None
    assert shipped(marked, pictures, FROM_CLEAN, "l-infinity 8/255").name == "alexnet-adversarial-l2-1"
    assert shipped(TINY, pictures, CLEAN) is None


def test_in_a_whole_family_every_attacker_has_its_network(monkeypatch):
    monkeypatch.setitem(WHOLE, "wrn-10-1", "wrn-10-1 0")
    one, label = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.long)
    pictures = ImageSet(one, label, one, label, "cifar10.npz")
    names = {MAIN: "l2-1", "l2 0.5": "l2-0.5", "l2 (0.5, 0.12)": "l2-0.5", "l-infinity 4/255": "linf-4"}
    for attacker, name in names.items():
        member = shipped(replace(TINY, zoo="wrn-10-1 0"), pictures, FROM_CLEAN, attacker)
        assert member.name == f"wrn-10-1-adversarial-{name}"


def test_shares_are_read_off_the_path():
    points = ((0.2, 0.1), (0.04, 0.3), (0.1, 0.2))
    path = Rows.gather({"seed": 0, "error": error, "share": share} for error, share in points)
    assert share_at(path, 0.07) == pytest.approx(0.25)
    assert isnan(share_at(path, 0.01))
    assert isnan(share_at(path, 0.5))


def test_sparsities_are_compared_at_the_same_error():
    """Robust filters need half the coefficients of clean ones at every error."""
    claim = next(c for c in FIGURE_12.claims if c.name == "sparser")
    rows = Rows.gather(
        {
            "kind": "path",
            "seed": 0,
            "target": "images",
            "network": network,
            "error": error,
            "share": size * share,
        }
        for network, size in (("clean", 1.0), ("adversarial", 0.5))
        for error, share in ((0.3, 0.1), (0.05, 0.4))
    )
    assert claim.value(rows) == pytest.approx([0.5])


def test_sparsity_is_that_of_the_deeper_half():
    shares = {(0, 1): 0.9, (0, 2): 0.5, (4, 1): 0.9, (4, 2): 0.25}
    rows = Rows.gather(
        {"kind": "activation", "seed": 0, "epoch": epoch, "layer": layer, "share": share}
        for (epoch, layer), share in shares.items()
    )
    assert [sparsity(rows, when)[0] for when in ("start", "end")] == [0.5, 0.25]
    assert FIGURE_5.claims[0].value(rows) == pytest.approx([0.5])


def test_the_table_is_judged_by_its_hardest_attacker():
    robust = {
        "weak": {"clean": 0.05, "adversarial": 0.6, "adversarial from clean": 0.65},
        "strong": {"clean": 0.0, "adversarial": 0.3, "adversarial from clean": 0.2},
    }
    rows = [
        {"kind": "accuracy", "seed": 0, "attacker": attacker, "training": training, "robust": accuracy}
        for attacker, column in robust.items()
        for training, accuracy in column.items()
    ]
    claims = {c.name: c for c in TABLE_1.claims}
    values = {
        name: claims[name].value(Rows.gather(rows))[0]
        for name in ("clean", "adversarial", "from-clean", "no-worse")
    }
    assert values == pytest.approx({"clean": 0.05, "adversarial": 0.3, "from-clean": 0.2, "no-worse": -0.1})
    unknown = Rows.gather([*rows[:-1], rows[-1] | {"robust": nan}])
    assert isnan(claims["no-worse"].value(unknown)[0])
    assert isnan(claims["noise"].value(Rows.gather(rows))[0])


def test_the_zoo_is_judged_by_the_family_that_gains_less():
    robust = {"alexnet": (0.02, 0.03, 0.01, 0.3), "wrn-10-1": (0.0, 0.1, 0.0, 0.25)}
    rows = Rows.gather(
        {
            "kind": "worth",
            "seed": 0,
            "network": network,
            "training": training,
            "accuracy": 0.7,
            "robust": share,
        }
        for network, shares in robust.items()
        for training, share in zip((CLEAN, CONTROL, NOISE, RANDOM), shares, strict=True)
    )
    claims = {c.name: c.value(rows)[0] for c in ZOO.claims}
    assert claims == pytest.approx(
        {"accuracy-alexnet": 0.7, "accuracy-wrn-10-1": 0.7, "robust": 0.25, "control": 0.15, "noise": 0.25}
    )


def test_pictures_survive_their_rows(generator):
    image = torch.rand(3, 4, 5, generator=generator)
    back = as_image(picture(image)).permute(2, 0, 1)
    torch.testing.assert_close(back, image, atol=1 / 255, rtol=0)
    delta = torch.tensor([-2.0, 1.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    assert amplified(delta).flatten().tolist() == [0.0, 0.75, 0.5, 0.5]
