"""Explanations of networks whose origin is known, of people's models, and of networks that no theorem speaks of."""

import json
import math

import numpy as np
import pytest
import synthetic_networks as nets
import torch
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import featureprism as fp
from featureprism.audit import neuron_cards
from featureprism.audit.anatomy import discovered, subject
from featureprism.audit.pictures import NONE, Mark, measures, named, ranked
from featureprism.cli import main


def picture(net, x, y):
    of = subject(net, x, y)
    return named(ranked(measures(of), of.num_classes))


HELD_OUT = range(201, 211)  # seeds, which draw their sizes too, that no bound was chosen with


@pytest.mark.slow
def test_held_out_networks_of_all_papers_are_named():
    answers = [
        (paper, recipe, seed, picture(*make(seed)))
        for paper, recipes in nets.RECIPES.items()
        for recipe, make in recipes.items()
        for seed in HELD_OUT
    ]
    wrong = [answer for answer in answers if answer[0] != answer[-1]]
    assert len(answers) == 110
    assert len(wrong) <= 0.05 * len(answers), wrong


@pytest.mark.slow
def test_random_networks_and_features_without_structure_are_none_of_these():
    answers = [picture(*net) for seed in HELD_OUT for net in nets.of_none(seed)]
    assert len(answers) == 90
    assert np.mean([answer == NONE for answer in answers]) >= 0.95, answers


QUICK = {
    "gmm-flow": lambda: nets.gmm_flow(50, 120, 2, 30),
    "feature-averaging": lambda: nets.averaging(50, 700, 3, 300),
    "double-edged": lambda: nets.at_kkt(50, 400, 2, 4),
    "feature-amplification": lambda: nets.amplified(50, 900, 200, 100),
    "feature-purification": lambda: nets.purified(50, 50, "clean", 400),
}


@pytest.mark.parametrize("paper", QUICK)
def test_a_network_of_each_paper_is_named(paper):
    assert picture(*QUICK[paper]()) == paper


def test_random_ones_are_none_of_these():
    assert {picture(*net) for net in nets.random_networks(50, 200, 3)} == {NONE}
    assert picture(*nets.structureless(50, 80, 3)) == NONE


def test_an_averaging_network_breaks_where_the_theorem_says():
    net, x, y = nets.averaging(51, 600, 3, 300)
    found = fp.explain(net, x, y, num_points=20)
    radius = next(c for c in found.comparisons if c.paper == "feature-averaging" and "radius" in c.quantity)
    assert radius.proven <= radius.measured
    assert radius.measured == pytest.approx(radius.predicted, rel=0.1)
    assert found.picture == "feature-averaging"
    lines = repr(found).splitlines()
    assert lines[0].startswith("Half of 20 points break")
    assert "most points share one weak direction" in lines[1]
    assert any(line.startswith("This is the picture of feature-averaging") for line in lines)
    assert {c.paper for c in found.predictions} == {"feature-averaging"}
    assert {p.source.split(",")[0] for p in found.premises} == {
        "feature-averaging",
        "gmm-flow",
        "double-edged",
    }


def test_clean_training_leaves_a_dense_mixture_that_adversarial_training_thins():
    shares = []
    for stage in ("clean", "adversarial"):
        net, x, y = nets.purified(50, 50, stage, 400)
        compared = fp.explain(net, x, y, num_points=2).comparisons
        assert not any("KKT" in c.quantity for c in compared)
        shares.append(next(c for c in compared if "dense mixture" in c.quantity))
    assert shares[0].predicted == pytest.approx(1 / 50)
    assert shares[0].measured > shares[1].measured > shares[1].predicted


def test_cards_tell_what_a_network_made_by_hand_looks_at():
    """Neuron 0 sees sub-class 0 alone, neuron 1 averages both of class 0, neuron 2 sees class 1."""
    mu = 5 * torch.eye(3).double()
    x = torch.cat(
        [
            mu[k] + 0.1 * torch.randn(10, 3, generator=torch.Generator().manual_seed(k)).double()
            for k in range(3)
        ]
    )
    fine = np.repeat([0, 1, 2], 10)
    W = torch.tensor([[1.0, 0, 0], [1.0, 1.0, 0], [0, 0, 1.0]]).double()
    net = fp.networks.TwoLayerNet(W, torch.tensor([-1.0, -1.0, 1.0]).double(), activation=fp.networks.ReLU())
    cards = {card.neuron: card for card in neuron_cards(net, x, (fine == 2).astype(int), fine)}
    assert cards[0].nearest == 0
    assert cards[2].nearest == 2
    assert cards[0].purity > 0.99
    assert cards[1].purity == pytest.approx(0.5, abs=0.05)
    assert [cards[j].votes_for for j in range(3)] == ["0", "0", "1"]
    assert set(cards[2].exciting) <= set(range(20, 30))
    assert set(cards[0].exciting) <= set(range(10))
    assert sum(card.margin_share for card in cards.values()) == pytest.approx(1)
    assert sum(abs(card.universal_share) for card in cards.values()) == pytest.approx(1)
    assert cards[0].active_share == pytest.approx(1 / 3, abs=0.5)


def test_near_duplicates_share_a_card_that_adds_them_up():
    """Each of 3 neurons in 4 copies that are turned and scaled a little: cards are the sums over copies of single cards."""
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([5 * torch.eye(6)[k] + 0.3 * torch.randn(20, 6, generator=generator) for k in range(3)])
    fine = np.repeat([0, 1, 2], 20)
    W = torch.eye(6)[:3].repeat(4, 1) + 0.05 * torch.randn(12, 6, generator=generator)
    a = torch.tensor([-1.0, -1.0, 1.0]).repeat(4) * torch.rand(12, generator=generator).add(0.5)
    net = fp.networks.TwoLayerNet(W.double(), a.double(), activation=fp.networks.ReLU())
    labels = (fine == 2).astype(int)
    alone = {card.neuron: card for card in neuron_cards(net, x, labels, fine, alike=1.0)}
    groups = neuron_cards(net, x, labels, fine)
    assert sorted(alone) == list(range(12))
    assert all(card.members == (card.neuron,) for card in alone.values())
    assert {tuple(sorted(card.members)) for card in groups} == {(k, k + 3, k + 6, k + 9) for k in range(3)}
    for card in groups:
        members = [alone[j] for j in card.members]
        assert card.neuron == max(members, key=lambda m: m.margin_share).neuron
        assert card.margin_share == pytest.approx(sum(m.margin_share for m in members))
        assert card.universal_share == pytest.approx(sum(m.universal_share for m in members))
        assert card.active_share >= max(m.active_share for m in members)
        assert card.nearest == card.neuron % 3
        assert set(card.exciting) <= set(np.flatnonzero(fine == card.nearest).tolist())
        assert card.as_row()["size"] == 4
    assert [card.margin_share for card in groups] == sorted((c.margin_share for c in groups), reverse=True)


def test_the_same_direction_with_opposite_votes_is_two_cards():
    x, y = torch.eye(4).double(), [0, 0, 1, 1]
    net = fp.networks.TwoLayerNet(
        torch.ones(2, 4).double(), torch.tensor([1.0, -1.0]).double(), activation=fp.networks.ReLU()
    )
    assert len(neuron_cards(net, x, y, y)) == 2


def test_clusters_are_found_where_there_are_some():
    x, fine = make_blobs(300, n_features=20, centers=5, random_state=0)
    own = torch.as_tensor((fine >= 3).astype(np.int64))
    _, parent = discovered(torch.as_tensor(x), own)
    assert parent.tolist() == [0, 0, 0, 1, 1]
    noise = torch.randn(300, 20, generator=torch.Generator().manual_seed(0)).double()
    _, parent = discovered(noise, own)
    assert parent.tolist() == [0, 1]


def test_a_dozen_clusters_are_found_and_a_few_points_apart_are_none():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(360, 20, generator=generator).double()
    own = (torch.arange(360) >= 240).long()
    dozen = noise.clone()
    dozen[:240] += 10 * torch.eye(20).double().repeat_interleave(20, dim=0)[:240]
    assert discovered(dozen, own)[1].tolist() == [0] * 12 + [1]
    apart = noise.clone()
    apart[:6] += 50
    assert discovered(apart, own)[1].tolist() == [0, 1]
    few = torch.arange(6).double().unsqueeze(1)
    assert discovered(few, (few[:, 0] > 2).long())[1].tolist() == [0, 1]


def test_sub_classes_that_look_the_same_way_are_not_averaged():
    """The neuron of class 0 looks at two means with a cosine of 0.97: the mark of orthogonal means is missing."""
    mu = 20 * torch.tensor([[1.0, 0.25, 0.0], [1.0, -0.25, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]).double()
    fine = np.repeat([0, 1, 2, 3], 20)
    x = mu[fine] + 0.1 * torch.randn(80, 3, generator=torch.Generator().manual_seed(0)).double()
    net = fp.networks.TwoLayerNet(
        torch.tensor([[1.0, 0, 0], [0, 0, 1.0]]).double(),
        torch.tensor([-1.0, 1.0]).double(),
        activation=fp.networks.ReLU(),
    )
    of = subject(net, x, fine // 2, fine)
    found = measures(of)
    assert found.parallel == pytest.approx(1.0, abs=1e-3)
    assert named(ranked(found, 2)) != "feature-averaging"


@pytest.mark.parametrize(("measured", "fit"), [(0.0, 0.0), (0.5, 0.5), (2.0, 1.0), (math.nan, 0.0)])
def test_a_mark_is_linear_between_absent_and_present(measured, fit):
    assert Mark("m", measured, 0.0, 1.0).fit == fit
    assert Mark("m", -measured, 0.0, -1.0).fit == fit


def test_a_perceptron_of_scikit_learn_gets_a_page_with_thumbnails(tmp_path):
    X, y = load_digits(n_class=3, return_X_y=True)
    model = MLPClassifier((8,), max_iter=400, tol=1e-2, random_state=0).fit(X, y)
    found = fp.explain(model, X, y, num_points=4)
    found.save(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "Radii are medians over 4 points, 100% of them" in page
    assert page.index(found.sentence) < page.index("How far is the picture of each theorem")
    assert found.picture != NONE or "theorems that do not fit" in page
    assert page.count("image/png") > 8 * 3
    assert {p.source.split(",")[0] for p in found.premises} == {"feature-averaging", "gmm-flow"}
    rows = json.loads((tmp_path / "explanation.json").read_text())
    assert sum(row["kind"] == "card" for row in rows) == 8


def test_models_without_one_hidden_layer_get_radii_and_a_universal_direction():
    X, y = load_digits(n_class=3, return_X_y=True)
    found = fp.explain(LogisticRegression(max_iter=2000).fit(X, y), X, y, num_points=10)
    assert found.picture == NONE
    assert not found.cards
    assert not found.fits
    assert [seen.name.split()[0] for seen in found.seen] == ["radius", "share"]
    assert "one hidden layer" in repr(found).splitlines()[-1]
    assert not found.predictions


def test_of_a_linear_model_one_direction_flips_every_point():
    """Of two classes the universal direction is the weight: at 1.5 times the half radius it flips what lies nearer than that."""
    X, y = make_blobs(200, n_features=5, centers=2, cluster_std=3.0, random_state=0)
    model = LogisticRegression().fit(X, y)
    found = fp.explain(model, X, y, num_points=200)
    distance = (2 * y - 1) * model.decision_function(X) / np.linalg.norm(model.coef_)
    right, reach = distance > 0, 1.5 * found.bracket.half_radius[1]
    assert found.seen[1].value == pytest.approx((distance[right] <= reach).sum() / right.sum(), abs=0.02)


def test_sub_classes_have_the_names_that_were_given():
    x, y = torch.eye(4).double().repeat(3, 1), np.tile([0, 0, 1, 1], 3)
    net = fp.networks.TwoLayerNet(
        torch.eye(4).double(), torch.tensor([-1.0, -1, 1, 1]).double(), activation=fp.networks.ReLU()
    )
    names = np.tile(["cat", "dog", "car", "bus"], 3)
    of = subject(net, x, y, names)
    assert [of.fine_names[i] for i in of.fine[:4].tolist()] == ["cat", "dog", "car", "bus"]
    assert subject(net, x, y).fine_names == ("0", "1")


def test_the_command_writes_a_page_and_says_one_sentence_first(tmp_path, capsys):
    net, x, y = nets.averaging(52, 400, 2, 200)
    fp.networks.save_net(tmp_path / "net.npz", net)
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    arguments = [
        "explain",
        str(tmp_path / "net.npz"),
        str(tmp_path / "data.npz"),
        "--out",
        str(tmp_path / "page"),
        "--points",
        "5",
    ]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith("Half of 5 points break")
    assert "This is the picture of feature-averaging" in said
    assert "what the theorem predicts" in said
    assert (tmp_path / "page" / "index.html").exists()
    np.savez(tmp_path / "narrow.npz", x=x.numpy()[:, :9], y=y.numpy())
    assert main(["explain", arguments[1], str(tmp_path / "narrow.npz")]) == 2
    assert "9 coordinates, the model takes 400" in capsys.readouterr().err
    np.savez(tmp_path / "one.npz", x=x.numpy(), y=np.ones(len(y)))
    assert main(["explain", arguments[1], str(tmp_path / "one.npz")]) == 2
    assert "one label" in capsys.readouterr().err
    np.savez(tmp_path / "torn.npz", x=x.numpy(), y=y.numpy(), fine=np.zeros(len(y)))
    assert main(["explain", arguments[1], str(tmp_path / "torn.npz")]) == 2
    assert "must belong to one class" in capsys.readouterr().err
