"""Embeddings and images of feature-averaging: pure functions against known answers, claims on rows whose verdict is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.data.real import real_data
from featureprism.heads import HeadNet, PReLUHead
from featureprism.heads.network import MergedHead
from featureprism.lab import Outcome, Rows, fields_of, judge
from featureprism.networks import GroupedNet
from featureprism.papers.feature_averaging import embedding_heads, embeddings, images
from featureprism.papers.feature_averaging.embedding_heads import EMBEDDING_HEADS, Heads
from featureprism.papers.feature_averaging.embeddings import FIGURE_2_EMBEDDINGS, FIGURE_10
from featureprism.papers.feature_averaging.images import FIGURE_3_MNIST
from featureprism.seeds import generator_for


def claim(experiment, name):
    return next(c for c in experiment.claims if c.name == name)


def test_the_interval_of_a_constant_gain_is_a_point():
    """Twice the radius for every image: every sample of the images gives about the same ratio."""
    two = torch.full((40,), 1.0)
    low, high = images.gain_interval(2 * two, two, [1.0, 2.0, 3.0], generator=generator_for("b", 0))
    assert low == high == pytest.approx(3.0)  # crossings at ½ and 1½: half of the step in which all are lost


def test_the_lead_is_read_at_half_the_radius_of_two_labels():
    curves = {("two-class", "merged decision"): (1.0, 0.8, 0.4), ("ten-class", "both"): (1.0, 0.9, 0.2)}
    rows = [
        {"kind": "curve", "seed": 0, "labels": labels, "attack": attack, "radius": r, "accuracy": accuracy}
        for (labels, attack), curve in curves.items()
        for r, accuracy in zip((0.0, 1.0, 2.0), curve, strict=True)
    ]
    half = {
        "kind": "half",
        "seed": 0,
        "labels": "two-class",
        "attack": "merged decision",
        "half_radius": 1.75,
    }
    assert images.lead_half_way(Rows.gather([*rows, half])) == pytest.approx([0.1])
    assert np.isnan(images.lead_half_way(Rows.gather([*rows, half | {"half_radius": None}]))).all()


def test_networks_of_the_zoo_are_measured_on_cifar_alone(monkeypatch):
    monkeypatch.setattr(images, "load", lambda name: torch.nn.Linear(1, len(name)))
    s = replace(images.FIGURE_3_CIFAR.scales["quick"][0], zoo="resnet-10 0", epochs=0)
    x, y = torch.zeros(10, 3, 32, 32), torch.arange(10)
    for labels, outputs in ((images.TWO, 2), (images.TEN, 10)):
        kept = images.trained(labels, ImageSet(x, y, x, y, "cifar10.npz"), s, 0, Context())
        assert kept.out_features == len(f"resnet-10-{images.MEMBER[labels]}")
        own = images.trained(labels, ImageSet(x, y, x, y, "digits"), s, 0, Context())
        assert own.head.out_features == outputs


def image_rows(*gains):
    """Rows of as many seeds, in which both attacks show the same gain."""
    rows = [
        {"kind": "gain", "seed": seed, "attack": attack, "gain": gain, "low": gain, "high": gain}
        for seed, gain in enumerate(gains)
        for attack in ("both", "ten-class cross-entropy")
    ]
    rows += [
        {"kind": "clean", "seed": seed, "labels": labels, "accuracy": 0.9}
        for seed in range(len(gains))
        for labels in ("two-class", "ten-class")
    ]
    return Rows.gather(rows)


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ((1.2, 1.2), Outcome.HOLDS),
        ((0.96, 0.96), Outcome.FAILS),
        ((0.9, 1.3), Outcome.UNDECIDED),
        ((1.2, math.nan), Outcome.NOT_MEASURED),
    ],
)
def test_claims_on_images_can_hold_and_fail(gains, outcome):
    for name in ("gain", "gain-seen"):
        verdict = judge(claim(FIGURE_3_MNIST, name), image_rows(*gains))
        assert verdict.outcome == outcome
        assert "tells little" not in verdict.note


def test_one_seed_that_loses_is_told():
    own = claim(FIGURE_3_MNIST, "gain-every-seed")
    assert judge(own, image_rows(0.9, 1.3)).outcome == Outcome.FAILS
    assert judge(own, image_rows(1.01, 1.3)).outcome == Outcome.HOLDS
    assert judge(own, image_rows(1.2, math.nan)).outcome == Outcome.NOT_MEASURED


def test_the_first_five_classes_are_merged():
    assert embeddings.GROUPS.tolist() == [0] * 5 + [1] * 5


def test_gaps_of_matrices_made_by_hand():
    groups = torch.tensor([0, 0, 1, 1])
    same = groups.unsqueeze(1) == groups
    averaging = embeddings.gaps(torch.where(same, 0.7, -0.2), groups)
    assert averaging.averaging == pytest.approx(0.9)
    assert averaging.decoupling == pytest.approx(0.7 - (4 * 0.7 - 8 * 0.2) / 12)
    decoupled = embeddings.gaps(torch.eye(4), groups)
    assert decoupled.decoupling == 1.0
    assert decoupled.averaging == pytest.approx(0.5)


def test_uniformly_larger_and_nearly_diagonal_matrices_made_by_hand():
    def rows(table):
        return Rows.gather(
            {"kind": "cosine", "seed": 0, "cluster": i, "neuron": j, "cosine": float(table[i, j])}
            for i in range(10)
            for j in range(10)
        )

    same = embeddings.GROUPS.unsqueeze(1) == embeddings.GROUPS
    table = torch.where(same, 0.7, -0.2)
    assert embeddings.least_gap(rows(table)) == pytest.approx(0.9)
    table[0, 4], table[0, 5] = 0.1, 0.3
    assert embeddings.least_gap(rows(table)) == pytest.approx(-0.2)
    table = 0.8 * torch.eye(10) + 0.2 * torch.ones(10, 10)
    assert embeddings.off_diagonal_share(rows(table)) == pytest.approx(0.2)
    assert embeddings.off_diagonal_share(rows(2 * torch.eye(10) - table)) == pytest.approx(0.2)


def test_other_embeddings_than_clips_are_told_apart():
    digits = real_data("digits")
    assert not embeddings.clip_premise(digits).holds
    wide = digits._replace(x_train=np.zeros((10, 512)))
    assert embeddings.clip_premise(wide).holds


def test_blocks_leave_a_point_out_of_its_own_class():
    y = torch.arange(10).repeat_interleave(2)
    x = torch.eye(20).double()
    assert float(embeddings.block_cosines(x, y).abs().max()) == 0.0
    x = torch.eye(10).double().repeat_interleave(2, dim=0)
    torch.testing.assert_close(embeddings.block_cosines(x, y), torch.eye(10).double())


def test_three_neurons_at_a_time_make_a_weight():
    W = torch.arange(30.0).double().unsqueeze(1)
    for k in (2, 10):
        found = embeddings.equivalent_weights(GroupedNet(W.reshape(k, 30 // k, 1)))
        assert found[:, 0].tolist() == [1.0 + 3 * i for i in range(10)]


def test_two_groups_as_a_two_layer_network():
    net = GroupedNet(torch.randn(2, 4, 6, generator=generator_for("W", 0), dtype=torch.float64))
    x = torch.randn(9, 6, generator=generator_for("x", 0), dtype=torch.float64)
    scores = net(x)
    torch.testing.assert_close(embedding_heads.two_layer(net)(x), scores[:, 0] - scores[:, 1])


def test_the_merged_head_is_bracketed():
    random = generator_for("head", 0)
    W, b, a = (torch.randn(*size, generator=random).double() for size in ((20, 6), (20,), (20,)))
    owner = torch.arange(10).repeat_interleave(2)
    signs = torch.tensor([1.0] * 5 + [-1.0] * 5).double()
    head = MergedHead(HeadNet(W, b, a.abs(), owner, 10, 1.0), signs)
    x = torch.randn(3, 6, generator=generator_for("x", 0)).double()
    y = torch.where(head(x).detach() > 0, 1, -1)
    found = embedding_heads.fitted(head, lipschitz=head.lipschitz()).radius(x.numpy(), y.numpy())
    assert bool((found.certified > 0).all())
    assert found.witness is not None
    assert bool((y * head(x + found.witness) <= 1e-6).all())


def test_found_labels_refine_the_two_classes_and_see_no_others():
    setting = Heads(train_points=300, descent_steps=1, held_points=100, test_points=1, width=5)
    task = embedding_heads.task_of(real_data("digits"), setting, 0)
    found = embedding_heads.found_labels(task, 0)
    assert set(found[task.y > 0]) == set(range(5))
    assert set(found[task.y < 0]) == set(range(5, 10))
    blind = embedding_heads.found_labels(task._replace(fine=None), 0)
    np.testing.assert_array_equal(found, blind)


def test_how_much_of_a_gain_remains():
    found, given = np.full(4, 1.3), np.array([1.6, 0.9, 1.0, math.nan])
    np.testing.assert_allclose(embedding_heads.survives(found, given), [0.5, math.nan, math.nan, math.nan])


def gain_rows(gain):
    told = dict.fromkeys(("gain", "low", "high", "certified_gain", "proven_gain"), gain)
    return Rows.gather(
        {"kind": "gain", "seed": seed, "which": which, **told, "loss": 0.2 - gain / 10}
        for seed in (0, 1)
        for which in embedding_heads.PAIRS
    )


def test_claims_on_embeddings_can_hold_and_fail():
    assert {v.outcome for v in EMBEDDING_HEADS.judge(gain_rows(2.0))} == {Outcome.HOLDS}
    failed = {v.claim.name: v.outcome for v in EMBEDDING_HEADS.judge(gain_rows(0.9))}
    assert failed.pop("discovered") == Outcome.NOT_MEASURED  # no gain of which a share could remain
    assert set(failed.values()) == {Outcome.FAILS}


def test_a_ten_label_head_has_its_classes_in_order():
    """The merged head takes the first five scores for the positive class: classes_ must be 0 to 9."""
    x = np.random.default_rng(0).normal(size=(200, 5))
    head = PReLUHead(1.0, 2, epochs=1, random_state=0).fit(x, np.arange(200) % 10)
    assert head.classes_.tolist() == list(range(10))


HOLD = (
    (FIGURE_2_EMBEDDINGS, "larger-in-the-mean diagonal averaging"),
    (FIGURE_10, "blocks every-class"),
    (EMBEDDING_HEADS, "prelu prelu-accuracy prelu-certified prelu-proven ten-labels ten-labels-adam"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "names"), HOLD, ids=lambda part: getattr(part, "item", ""))
def test_the_claims_on_embeddings_at_quick(experiment, names, data_folder):
    """What holds on the CIFAR-10 embeddings; the proven ratio of ten labels does not, and found labels depend on the seed."""
    (setting,), context = experiment.settings("quick"), Context(data=data_folder)
    if real_data(setting.data, data_folder) is None:
        pytest.skip("the CIFAR-10 embeddings are not here")
    rows = Rows.gather(
        {"seed": seed, **fields_of(setting), **row}
        for seed in (0, 1)
        for row in experiment.measure(setting, seed, context)
    )
    for name in names.split():
        own = claim(experiment, name)
        assert own.bound.holds(float(own.value(rows).mean())), name
