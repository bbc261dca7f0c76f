"""The zoo: what is shipped can be read, what is damaged is refused in one sentence, what was killed goes on."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.cli import main
from featureprism.data.images import ImageSet
from featureprism.lab import Context, Rows
from featureprism.networks.deep import conv_layers
from featureprism.probes.image_attacks import ImageAttack, noise_adversary, perturb
from featureprism.zoo import MEMBERS, load, read_card
from featureprism.zoo.evaluation import judged, standing
from featureprism.zoo.files import KEPT, family_mark, save, share_weights
from featureprism.zoo.members import ALEXNET, LABELLED, MORE_CLEAN, NOISE, SET, SETS, member_of
from featureprism.zoo.rebuild import kept_parent
from featureprism.zoo.training import data_hash, fresh, grow

SHIPPED = [name for name in MEMBERS if (KEPT / f"{name}.json").exists()]
MEGABYTES = 15


@pytest.fixture
def pictures(generator):
    x = torch.randint(0, 256, (60, 3, 32, 32), generator=generator).float() / 255
    y = torch.arange(60) % 10
    return ImageSet(x[:40], y[:40], x[40:], y[40:], "cifar10")


def test_a_family_has_one_start_and_both_controls():
    for family in (ALEXNET, *SETS):
        clean, *rest = family
        assert clean.parent is None
        assert {member.parent for member in rest} == {clean.name}
        assert {MORE_CLEAN, NOISE} <= {member.training for member in rest}
        assert len({replace(member.recipe, bfloat16=False) for member in rest}) == 1
        starts = [conv_layers(fresh(member))[0].weight for member in family[:2]]
        assert torch.equal(*starts)


def test_every_set_has_its_own_start_and_seeds_that_repeat_a_set_share_weights():
    starts = [conv_layers(fresh(clean))[0].weight for clean, *_ in SETS]
    assert all(not torch.equal(starts[0], other) for other in starts[1:])
    names = {member_of(SET, "clean", seed).name for seed in range(2000, 2000 + len(SETS))}
    assert names == {clean.name for clean, *_ in SETS}
    run = Rows.gather(
        {"seed": seed, "zoo": f"{SET} 0", "source": "cifar10.npz 1"} for seed in range(2000, 2000 + len(SETS))
    )
    assert not share_weights(run)
    assert share_weights(Rows.gather([*run, {**run[0], "seed": 2000 + len(SETS)}]))
    one_family = Rows.gather({**row, "zoo": "alexnet 0"} for row in run)
    assert share_weights(one_family)
    assert not share_weights(Rows.gather({**row, "source": "digits"} for row in one_family))


def test_two_labels_and_ten_differ_in_nothing_else():
    two, ten = LABELLED
    assert replace(ten, name=two.name, parent=two.parent, labels=2) == two
    assert [fresh(member).head.out_features for member in (two, ten)] == [2, 10]
    assert torch.equal(*(conv_layers(fresh(member))[0].weight for member in (two, ten)))
    classes = torch.arange(10)
    assert ten.labelled(classes).tolist() == list(range(10))
    assert two.labelled(classes).tolist() == [int(c >= 5) for c in range(10)]


def test_a_network_of_ten_labels_is_also_judged_by_its_two_groups(generator):
    """Beside the definition: the group with the larger sum of probabilities."""
    x, y = torch.rand(50, 3, 2, 2, generator=generator), torch.arange(50) % 10
    data = ImageSet(x, y, x, y, "cifar10")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 10))
    torch.nn.init.normal_(net[1].weight, std=3.0, generator=generator)
    found = judged(LABELLED[1], net, data, num_images=2)
    p = torch.softmax(net(x), dim=1)
    right = [bool((p[i, 5:].sum() > p[i, :5].sum()) == (y[i] >= 5)) for i in range(50)]
    assert found["two groups"]["share"] == pytest.approx(sum(right) / 50)
    assert found["accuracy"]["share"] == pytest.approx(float((net(x).argmax(1) == y).double().mean()))
    assert "two groups" not in judged(LABELLED[0], net, data, num_images=2)


def test_what_is_shipped_is_small_whole_and_described():
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < MEGABYTES * 2**20
    for name in SHIPPED:
        card = read_card(name)
        assert card["recipe"]["epochs"] == MEMBERS[name].recipe.epochs == len(card["curve"])
        assert card["parameters"] == sum(p.numel() for p in load(name).parameters())
        assert card["data"]["images"] == 50_000
        assert card["seed"] == MEMBERS[name].seed
        found = card["accuracies"]
        assert found["l2 1"]["low"] <= found["l2 1"]["share"] <= found["accuracy"]["share"]
        arrays = np.load(KEPT / f"{name}.npz", allow_pickle=False)
        assert {arrays[key].dtype for key in arrays.files} == {np.dtype(np.float16)}


def test_the_robust_alexnet_stands_above_the_clean_one_and_both_controls():
    """With intervals that do not touch."""
    cards = {
        name: read_card(f"alexnet-{name}") for name in ("clean", "more-clean", "noise", "adversarial-l2-1")
    }
    robust = {name: card["accuracies"]["l2 1"] for name, card in cards.items()}
    least = robust.pop("adversarial-l2-1")["low"]
    assert all(found["high"] < least for found in robust.values())
    assert cards["clean"]["accuracies"]["accuracy"]["share"] >= 0.70


def test_weights_come_back_in_half_precision(tmp_path):
    member = MEMBERS["wrn-10-1-set-1-clean"]
    net = fresh(member)
    save(member, net, {"accuracies": {}}, tmp_path)
    back = load(member.name, tmp_path)
    for (name, value), other in zip(net.state_dict().items(), back.state_dict().values(), strict=True):
        if "num_batches" not in name:
            assert torch.equal(value.half().float(), other)
    assert not back.training


def test_damaged_files_are_refused_in_one_sentence(tmp_path):
    member = MEMBERS["wrn-10-1-set-1-clean"]
    with pytest.raises(ValueError, match="--rebuild wrn-10-1-set-1-clean"):
        load(member.name, tmp_path)
    with pytest.raises(ValueError, match="alexnet-clean"):
        load("alexnet")
    path = save(member, fresh(member), {}, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    with pytest.raises(ValueError, match="cut short or damaged"):
        load(member.name, tmp_path)
    np.savez(path, W=np.zeros(3))
    with pytest.raises(ValueError, match="SHA-256 differs"):
        load(member.name, tmp_path)
    other = save(replace(member, name="wrn-10-1-set-1-noise"), fresh(MEMBERS["alexnet-clean"]), {}, tmp_path)
    with pytest.raises(ValueError, match="does not hold the weights"):
        load("wrn-10-1-set-1-noise", tmp_path)
    other.with_suffix(".json").write_text("{")
    with pytest.raises(ValueError, match="copy it again"):
        read_card("wrn-10-1-set-1-noise", tmp_path)


def test_a_mark_changes_with_the_weights_and_is_empty_without_them(tmp_path):
    member = MEMBERS["wrn-10-1-set-1-clean"]
    assert family_mark("wrn-10-1-set-1", ("clean",), tmp_path) == ""
    net = fresh(member)
    save(member, net, {}, tmp_path)
    first = family_mark("wrn-10-1-set-1", ("clean",), tmp_path)
    conv_layers(net)[0].weight.data.mul_(2)
    save(member, net, {}, tmp_path)
    assert first.startswith("wrn-10-1-set-1 ")
    assert family_mark("wrn-10-1-set-1", ("clean",), tmp_path) != first


def test_a_child_goes_on_from_its_parent_and_from_its_checkpoint(pictures, tmp_path):
    context = Context(networks=tmp_path)
    child = MEMBERS["alexnet-noise"]
    curve = []
    net = grow(child, pictures, context, curve=curve)
    assert [row["epoch"] for row in curve] == list(range(1, child.recipe.epochs + 1))
    assert len(list(tmp_path.iterdir())) == 2
    told = []
    again = grow(child, pictures, replace(context, log=told.append), hashed=data_hash(pictures))
    assert not told
    assert torch.equal(net.head.weight, again.head.weight)


def test_a_child_starts_from_the_parent_that_is_kept(pictures, tmp_path):
    """In the folder at hand, else in the package; it is trained first where neither has it."""
    child = MEMBERS["wrn-10-1-set-1-noise"]
    parent = MEMBERS[child.parent]
    path = save(parent, fresh(replace(parent, seed=7)), {}, tmp_path)
    begun = kept_parent(child, tmp_path)
    assert begun.mark == hashlib.sha256(path.read_bytes()).hexdigest()
    kept = load(parent.name, tmp_path)
    assert torch.equal(begun.net.net.head.weight, kept.net.head.weight)
    assert kept_parent(parent, tmp_path) is None
    still = replace(child, recipe=replace(child.recipe, step_size=0.0, weight_decay=0.0))
    net = grow(still, pictures, Context(networks=tmp_path / "networks"), start=begun)
    assert torch.equal(net.net.head.weight, kept.net.head.weight)
    assert len(list((tmp_path / "networks").iterdir())) == 1
    assert kept_parent(MEMBERS["alexnet-noise"], tmp_path).mark == read_card("alexnet-clean")["sha256"]


def test_noise_moves_every_image_as_far_as_the_attack_may(generator):
    x, y = torch.rand(5, 3, 4, 4, generator=generator), torch.zeros(5, dtype=torch.long)
    for norm in (2, torch.inf):
        moved, _ = noise_adversary(ImageAttack(norm, 0.3))(torch.nn.Identity(), x, y, 0.5, generator)
        sizes = torch.linalg.vector_norm((moved - x).flatten(1), ord=norm, dim=1)
        torch.testing.assert_close(sizes, torch.full((5,), 0.15))


def test_who_stands_is_exact_for_a_linear_network(generator):
    """Two classes, pixels far from the edge: right iff the margin exceeds eps times the norm of the difference of weights."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2, bias=False))
    x = 0.5 + 0.1 * torch.randn(40, 3, 2, 2, generator=generator).clamp(-2, 2)
    y = net(x).argmax(dim=1)
    w = net[1].weight.detach()
    gap = (net(x).detach() @ torch.tensor([1.0, -1.0])).abs() / (w[0] - w[1]).norm()
    held = standing(net, x, y, ImageAttack(2, 0.05, steps=20, restarts=2), seed=0)
    sure = (gap - 0.05).abs() > 1e-3
    assert torch.equal(held[sure], (gap > 0.05)[sure])
    last = perturb(net, x, y, ImageAttack(2, 0.05, steps=1, step_size=0.1), last=True, generator=generator)
    assert float(last.flatten(1).norm(dim=1).max()) <= 0.05 + 1e-6


def test_the_command_lists_and_refuses(capsys, tmp_path, monkeypatch):
    assert main(["zoo", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(SHIPPED)
    assert main(["zoo"]) == 0
    assert "alexnet-clean" in capsys.readouterr().out
    assert main(["zoo", "--rebuild", "lenet"]) == 2
    assert "alexnet-clean" in capsys.readouterr().err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["zoo", "--rebuild", "alexnet-clean", "--data", str(tmp_path)]) == 2
    assert "CIFAR-10 is not at hand" in capsys.readouterr().err
    assert main(["zoo", "--rebuild", "alexnet-clean", "--device", "cuda:7"]) == 2
    assert "cannot be used" in capsys.readouterr().err
