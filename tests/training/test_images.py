import pytest
import torch

from featureprism.networks.deep import image_network
from featureprism.training.images import (
    Recipe,
    augmented,
    checkpoint_for,
    mixed_precision,
    train_images,
)


@pytest.fixture
def problem(generator):
    """Two kinds of 8 × 8 pictures: bright above, bright below."""
    y = torch.randint(0, 2, (64,), generator=generator)
    x = 0.3 * torch.rand(64, 1, 8, 8, generator=generator)
    x[y == 0, :, :4] += 0.5
    x[y == 1, :, 4:] += 0.5
    return x, y


def small(seed=0):
    return image_network(
        "resnet-18", (1, 8, 8), 2, factor=0.05, generator=torch.Generator().manual_seed(seed)
    )


def same(a, b):
    return all(
        torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_training_learns(problem):
    x, y = problem
    net = train_images(small(), x, y, Recipe(10, batch_size=16, step_size=0.05), seed=0)
    assert float((net(x).argmax(dim=1) == y).float().mean()) > 0.95
    assert not net.training


class KilledError(RuntimeError):
    pass


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_a_killed_training_ends_with_the_same_weights(at, problem, tmp_path):
    x, y = problem
    recipe = Recipe(4, batch_size=16, step_size=0.05, augment=True)
    whole = train_images(small(), x, y, recipe, seed=3)

    def die(done):
        if done > at:
            raise KilledError

    with pytest.raises(KilledError):
        train_images(small(), x, y, recipe, seed=3, checkpoint=tmp_path / "net.pt", progress=die)
    resumed = train_images(small(), x, y, recipe, seed=3, checkpoint=tmp_path / "net.pt")
    assert same(whole, resumed)


def test_a_checkpoint_of_another_network_is_refused(problem, tmp_path):
    x, y = problem
    train_images(small(), x, y, Recipe(1), seed=0, checkpoint=tmp_path / "net.pt")
    other = image_network("mlp", (1, 8, 8), 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="Delete it"):
        train_images(other, x, y, Recipe(1), seed=0, checkpoint=tmp_path / "net.pt")


def test_the_adversary_sees_every_batch_at_a_growing_strength(problem):
    x, y = problem
    seen = []

    def adversary(_model, images, labels, strength, _generator):
        seen.append((len(images), strength))
        return images, labels

    train_images(small(), x, y, Recipe(3, batch_size=32, warm_up=2), seed=0, adversary=adversary)
    assert seen == [(32, 1 / 3)] * 2 + [(32, 2 / 3)] * 2 + [(32, 1.0)] * 2


def test_frozen_layers_stay_and_history_survives_a_kill(problem, tmp_path):
    x, y = problem
    file, seen = tmp_path / "net.pt", []

    def frozen():
        net = small()
        for layer in (net.features[0], net.features[1]):
            layer.requires_grad_(False)
        return net

    net = frozen()
    before = {
        k: v.clone()
        for k, v in net.state_dict().items()
        if k.startswith(("features.0.", "features.1.running"))
    }

    def watch(model):
        assert not any(module.training for module in model.modules())
        return {"size": float(model.head.weight.detach().norm())}

    seen.append({"epoch": 0})
    train_images(net, x, y, Recipe(2, batch_size=16), seed=0, watch=watch, history=seen, checkpoint=file)
    after = net.state_dict()
    assert all(torch.equal(after[k], v) for k, v in before.items())
    again = [{"epoch": 0}]
    train_images(
        frozen(), x, y, Recipe(2, batch_size=16), seed=0, watch=watch, history=again, checkpoint=file
    )
    assert again == seen
    assert [row["epoch"] for row in seen] == [0, 1, 2]


def test_networks_are_kept_under_all_they_depend_on(tmp_path):
    assert checkpoint_for(None, seed=0) is None
    first = checkpoint_for(tmp_path, seed=0, recipe=Recipe(3))
    assert first.parent == tmp_path
    assert first == checkpoint_for(tmp_path, recipe=Recipe(3), seed=0)
    assert first != checkpoint_for(tmp_path, seed=0, recipe=Recipe(4))


def test_half_precision_stays_off_where_it_does_not_pay():
    with mixed_precision(torch.device("cpu")):
        assert not torch.is_autocast_enabled("cpu")


def test_half_precision_where_it_is_wanted_reaches_the_adversary_too(problem):
    """One step ends within the rounding of bfloat16 (2⁻⁸) of the exact one, and not at it."""
    x, y = problem
    seen = []

    def adversary(_net, images, labels, _strength, _generator):
        seen.append(torch.is_autocast_enabled("cpu"))
        return images, labels

    exact, rough = (
        train_images(small(), x, y, Recipe(1, batch_size=64, bfloat16=half), seed=0, adversary=adversary)
        for half in (False, True)
    )
    assert seen == [False, True]
    assert not torch.equal(exact.head.weight, rough.head.weight)
    begin, end, near = (net.head.weight.detach() for net in (small(), exact, rough))
    assert float((end - near).norm()) < 0.1 * float((end - begin).norm())
    assert near.dtype == torch.float32


def test_every_batch_is_announced(problem):
    told = []
    train_images(small(), *problem, Recipe(2, batch_size=32), seed=0, announce=told.append)
    assert [text.partition(",")[0] for text in told] == ["epoch 1/2"] * 2 + ["epoch 2/2"] * 2


def test_a_file_that_is_no_checkpoint_is_refused(problem, tmp_path):
    (tmp_path / "net.pt").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="Delete it to start over"):
        train_images(small(), *problem, Recipe(1), seed=0, checkpoint=tmp_path / "net.pt")


def test_training_ends_when_the_watch_is_content(problem, tmp_path):
    x, y = problem
    for _ in range(2):  # the second time from the checkpoint
        seen = []
        train_images(
            small(),
            x,
            y,
            Recipe(5, batch_size=32),
            seed=0,
            watch=lambda _net: {},
            history=seen,
            until=lambda row: row["epoch"] == 2,
            checkpoint=tmp_path / "net.pt",
        )
        assert len(seen) == 2


def test_schedules():
    assert Recipe(100, step_size=1.0).rate(0) == pytest.approx(1.0)
    assert Recipe(100, step_size=1.0).rate(50) == pytest.approx(0.5)
    assert [Recipe(100, step_size=1.0, schedule="step").rate(e) for e in (49, 50, 75)] == pytest.approx(
        [1.0, 0.1, 0.01]
    )
    footnote = Recipe(164, step_size=0.1, schedule="step", milestones=(81, 122))
    assert [footnote.rate(e) for e in (80, 81, 122)] == pytest.approx([0.1, 0.01, 0.001])
    cycle = Recipe(8, step_size=1.0, schedule="one-cycle")
    assert [cycle.rate(e) for e in (0, 1, 2, 5, 8)] == pytest.approx([0.1, 0.55, 1.0, 0.5, 0.0])
    with pytest.raises(ValueError, match="cosine"):
        Recipe(1, schedule="linear")


def test_augmented_pictures_are_shifted_copies(generator):
    """A single bright pixel in the middle moves by at most an eighth, and half of the pictures are mirrored."""
    x = torch.zeros(200, 1, 8, 8)
    x[:, :, 4, 2] = 1
    moved = augmented(x, flip=True, generator=generator)
    rows, columns = moved[:, 0].sum(dim=2).argmax(dim=1), moved[:, 0].sum(dim=1).argmax(dim=1)
    assert set(rows.tolist()) == {3, 4, 5}
    assert set(columns.tolist()) == {1, 2, 3, 4, 5, 6}
    assert float(moved.sum()) == 200
    still = augmented(x, flip=False, generator=generator)
    assert set(still[:, 0].sum(dim=1).argmax(dim=1).tolist()) == {1, 2, 3}
