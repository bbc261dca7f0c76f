"""The image experiments on scikit-learn's digits: networks that are kept, and those of the zoo."""

from dataclasses import replace

import torch

from featureprism.data.images import ImageSet
from featureprism.lab.context import Context
from featureprism.lab.images import as_image, picture
from featureprism.papers.feature_purification import PAPER
from featureprism.papers.feature_purification.image_setting import (
    CLEAN,
    FROM_CLEAN,
    MAIN,
    RANDOM,
    ImageSetting,
    accuracies,
    images_of,
    shipped,
    trained,
)

DIGITS = ImageSetting(
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
    data = images_of(DIGITS, 0, context)
    first = trained(DIGITS, data, 0, FROM_CLEAN, context)
    kept = sorted((tmp_path / "networks").iterdir())
    assert len(kept) == 2  # the clean network, and the one that goes on from it
    times = [file.stat().st_mtime_ns for file in kept]
    again = trained(DIGITS, data, 0, FROM_CLEAN, context)
    assert [file.stat().st_mtime_ns for file in kept] == times
    assert torch.equal(first.head.weight, again.head.weight)
    clean = trained(DIGITS, data, 0, CLEAN, context)
    assert not torch.equal(clean.head.weight, first.head.weight)
    trained(replace(DIGITS, step_size=0.05), data, 0, RANDOM, context)
    assert len(list((tmp_path / "networks").iterdir())) == 3


def test_robust_accuracy_never_exceeds_clean_accuracy():
    data = images_of(DIGITS, 0, Context())
    net = trained(DIGITS, data, 0, CLEAN, Context()).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    row = accuracies(net, DIGITS, data, MAIN, 0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert row["zero_gradients"] == 0
    assert 0 <= row["robust"] <= row["clean"] <= 1
    assert row["robust_low"] <= row["robust"] <= row["robust_high"]


def test_the_zoo_is_measured_on_cifar_alone():
    marked = replace(DIGITS, zoo="alexnet 0")
    digits = images_of(DIGITS, 0, Context())
    assert shipped(marked, digits, CLEAN, 0) is None
    one, label = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.long)
    pictures = ImageSet(one, label, one, label, "cifar10.npz")
    assert shipped(marked, pictures, CLEAN, 0).name == "alexnet-clean"
    assert shipped(marked, pictures, RANDOM, 0) is None
    assert shipped(DIGITS, pictures, CLEAN, 0) is None


def test_a_seed_measures_a_set_of_its_own_and_resnets_are_never_alexnets():
    one, label = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.long)
    pictures = ImageSet(one, label, one, label, "cifar10.npz")
    marked = replace(DIGITS, zoo="wrn-10-1-set 0")
    members = [shipped(marked, pictures, FROM_CLEAN, seed) for seed in (0, 1)]
    assert [member.name for member in members] == [f"wrn-10-1-set-{i}-adversarial-l2-1" for i in (1, 2)]
    for item in PAPER.experiments:
        for setting in item.settings("quick"):
            if getattr(setting, "zoo", ""):
                network = shipped(setting, pictures, CLEAN, 0).network
                assert (network == "alexnet") == (setting.network == "alexnet"), item.id


def test_pictures_survive_their_rows(generator):
    image = torch.rand(3, 4, 5, generator=generator)
    torch.testing.assert_close(as_image(picture(image)).permute(2, 0, 1), image, atol=1 / 255, rtol=0)
