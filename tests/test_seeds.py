import torch

from featureprism.seeds import generator_for


def draw(generator):
    return torch.randn(5, generator=generator)


def test_the_same_name_and_seed_give_the_same_numbers_whatever_else_runs():
    first = draw(generator_for("data", 3))
    torch.manual_seed(99)
    torch.randn(1000)
    draw(generator_for("init", 3))
    assert torch.equal(first, draw(generator_for("data", 3)))


def test_other_names_and_seeds_give_other_numbers():
    streams = [draw(generator_for(*key)) for key in [("data", 3), ("data", 4), ("init", 3), ("data", 34)]]
    assert len({tuple(s.tolist()) for s in streams}) == 4
