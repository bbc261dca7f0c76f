"""The image experiments at toy size on scikit-learn's digits: they run, keep their networks, and judge what they measured."""

from math import isnan

import pytest
import torch
from torch import nn

from featureprism import places
from featureprism.data import images
from featureprism.networks.deep import conv_layers, image_network
from featureprism.papers.feature_purification import EXPERIMENTS
from featureprism.papers.feature_purification.deep_layers import restart_from
from featureprism.papers.feature_purification.deep_perturbations import amplified, share_at
from featureprism.papers.feature_purification.deep_setting import (
    CLEAN,
    FROM_CLEAN,
    MAIN,
    RANDOM,
    accuracies,
    images_of,
    trained,
)
from featureprism.papers.feature_purification.deep_table import TABLE_1
from featureprism.records import as_image, picture
from featureprism.report.figures import save_figure

TINY = {
    "train_images": 64,
    "test_images": 12,
    "test_steps": 2,
    "epochs": 1,
    "adversarial_epochs": 1,
    "finetune_epochs": 1,
    "batch_size": 32,
    "factor": 0.05,
    "lasso_images": 4,
    "ascent": 2,
}
DEEP = [e for e in EXPERIMENTS if "data" in e.scales["quick"][0]]


@pytest.fixture(autouse=True)
def _digits_only(tmp_path, monkeypatch):
    monkeypatch.setenv(places.DATA, str(tmp_path))
    monkeypatch.setenv(places.NETWORKS, str(tmp_path / "networks"))
    monkeypatch.setattr(images, "cache_folder", lambda: tmp_path / "cache")


def tiny(experiment, **more):
    settings = experiment.scales["quick"]
    return [{**s, **{k: v for k, v in TINY.items() if k in s}, **more} for s in settings]


def test_the_paper_has_eleven_image_figures():
    assert {e.id.split("/")[1] for e in DEEP} == {
        "table-1",
        *(f"figure-{i}" for i in ("1", "2-deep", "4", "5", "6", "7", "10", "11", "12", "13")),
    }


@pytest.mark.parametrize("experiment", DEEP, ids=lambda e: e.id)
def test_every_item_runs_and_is_drawn(experiment, tmp_path):
    rows, done = [], []
    for setting in tiny(experiment):
        for seed in (0, 1):
            found = experiment.measure(setting, seed, done.append)
            rows += [{**setting, "seed": seed, **row} for row in found]
    assert 0 < max(done) <= 1
    claims = experiment.claims(rows)
    assert claims
    assert all(claim.num_seeds == 2 for claim in claims)
    assert len({claim.id for claim in claims}) == len(claims)
    save_figure(experiment.id, rows, tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_networks_are_trained_once(tmp_path):
    setting = tiny(TABLE_1)[0]
    data = images_of(setting, 0)
    first = trained(setting, data, 0, FROM_CLEAN, MAIN)
    kept = sorted((tmp_path / "networks").iterdir())
    assert len(kept) == 2  # the clean network, and the one that goes on from it
    times = [file.stat().st_mtime_ns for file in kept]
    again = trained(setting, data, 0, FROM_CLEAN, MAIN)
    assert [file.stat().st_mtime_ns for file in kept] == times
    assert torch.equal(first.head.weight, again.head.weight)
    clean = trained(setting, data, 0, CLEAN)
    assert not torch.equal(clean.head.weight, first.head.weight)
    trained({**setting, "step_size": 0.05}, data, 0, RANDOM)
    assert len(list((tmp_path / "networks").iterdir())) == 3


def test_robust_accuracy_never_exceeds_clean_accuracy():
    setting = tiny(TABLE_1)[0]
    data = images_of(setting, 0)
    net = trained(setting, data, 0, CLEAN).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    told = accuracies(net, setting, data, MAIN, 0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert told["zero_gradients"] == 0
    with pytest.raises(ValueError, match="but digits is what is found"):
        images_of({**setting, "source": "another file"}, 0)
    assert 0 <= told["robust"] <= told["clean"] <= 1
    assert told["robust_low"] <= told["robust"] <= told["robust_high"]


def test_what_comes_before_a_layer_is_frozen_and_the_rest_is_new(generator):
    net = image_network("preact-resnet-18", (1, 8, 8), 10, factor=0.05, generator=generator)
    before = {name: weight.clone() for name, weight in net.named_parameters()}
    restart_from(net, 5, generator=generator)
    layers = conv_layers(net)
    assert [w.weight.requires_grad for w in layers[:4]] == [False] * 4
    assert all(w.weight.requires_grad for w in layers[4:])
    for name, weight in net.named_parameters():
        changed = not torch.equal(weight, before[name])
        if not weight.requires_grad:
            assert not changed
        elif weight.ndim > 1:
            assert changed
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert sum(not m.weight.requires_grad for m in norms) == 4


def test_shares_are_read_off_the_path():
    path = [{"error": 0.2, "share": 0.1}, {"error": 0.04, "share": 0.3}, {"error": 0.1, "share": 0.2}]
    assert share_at(path, 0.07) == pytest.approx(0.25)
    assert isnan(share_at(path, 0.01))
    assert isnan(share_at(path, 0.5))


def test_pictures_survive_their_rows(generator):
    image = torch.rand(3, 4, 5, generator=generator)
    back = as_image(picture(image)).permute(2, 0, 1)
    torch.testing.assert_close(back, image, atol=1 / 255, rtol=0)
    delta = torch.tensor([-2.0, 1.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    assert amplified(delta).flatten().tolist() == [0.0, 0.75, 0.5, 0.5]
