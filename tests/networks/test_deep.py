import pytest
import torch

from featureprism.networks.deep import ARCHITECTURES, conv_layers, image_network


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32)])
def test_every_architecture_takes_every_picture(name, shape, generator):
    net = image_network(name, shape, 7, factor=0.05, generator=generator).eval()
    assert net(torch.rand(2, *shape, generator=generator)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "millions"), [("resnet-18", 11.2), ("resnet-34", 21.3), ("wrn-28-10", 36.48), ("alexnet", 2.47)]
)
def test_sizes_are_those_of_the_literature(name, millions, generator):
    net = image_network(name, (3, 32, 32), 10, generator=generator)
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(
    ("name", "convolutions"),
    [
        ("alexnet", 5),
        ("wrn-16-4", 13),
        ("wrn-28-10", 25),
        ("wrn-34-4", 31),
        ("resnet-18", 17),
        ("wrn-10-1", 7),
    ],
)
def test_convolutions_are_counted_as_the_paper_counts_them(name, convolutions, generator):
    """ "ResNet-34 (pre-activation), which has 31 convolutional layers": layers 9, …, 29 of Figure 11 exist."""
    net = image_network(name, (3, 32, 32), 10, factor=0.05, generator=generator)
    assert len(conv_layers(net)) == convolutions


def test_a_wide_resnet_has_the_parameters_of_its_formula(generator):
    """WRN-16-1 by hand: every 3 × 3, 1 × 1, normalisation and the linear layer."""
    convs = 3 * 16 * 9 + 4 * 16 * 16 * 9 + (16 * 32 + 3 * 32 * 32 + 32 * 64 + 3 * 64 * 64) * 9
    shortcuts, norms = 16 * 32 + 32 * 64, 2 * (4 * 16 + 16 + 3 * 32 + 32 + 3 * 64 + 64)
    net = image_network("wrn-16-1", (3, 32, 32), 10, generator=generator)
    assert sum(p.numel() for p in net.parameters()) == convs + shortcuts + norms + 64 * 10 + 10


def test_alexnet_is_as_wide_as_the_papers(generator):
    widths = [
        layer.out_channels
        for layer in conv_layers(image_network("alexnet", (3, 32, 32), 10, generator=generator))
    ]
    assert widths == [64, 192, 384, 256, 256]


def test_the_start_depends_on_the_generator_alone():
    nets = [
        image_network("resnet-18", (1, 8, 8), 2, factor=0.1, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    same = [
        all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), n.parameters(), strict=True))
        for n in nets[1:]
    ]
    assert same == [True, False]


def test_unknown_names_are_refused(generator):
    with pytest.raises(ValueError, match="6n"):
        image_network("wrn-18-2", (1, 8, 8), 2, generator=generator)
    with pytest.raises(ValueError, match="resnet-18"):
        image_network("resnet18", (1, 8, 8), 2, generator=generator)
