import pytest
import torch

from featureprism.networks.deep import ARCHITECTURES, image_network


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32)])
def test_every_architecture_takes_every_picture(name, shape, generator):
    net = image_network(name, shape, 7, factor=0.05, generator=generator).eval()
    assert net(torch.rand(2, *shape, generator=generator)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "millions"), [("resnet-18", 11.2), ("resnet-34", 21.3), ("wrn-28-10", 36.5), ("alexnet", 2.3)]
)
def test_sizes_are_those_of_the_literature(name, millions, generator):
    net = image_network(name, (3, 32, 32), 10, generator=generator)
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, rel=0.03)


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
    with pytest.raises(ValueError, match="resnet-18"):
        image_network("resnet18", (1, 8, 8), 2, generator=generator)
