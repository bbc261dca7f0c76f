"""One feature at a time: a fine grid along every feature knows the truth."""

import numpy as np
import pytest
import torch
from torch import nn

from featureprism.verify import feature_radii


def test_brackets_of_single_features_hold_the_first_flip_on_a_grid():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    x = torch.randn(3, 3, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
        radii = feature_radii(net, x, y, max_radius=20.0)
        assert list(radii) == [0, 1, 2]
        steps = np.linspace(-20, 20, 20001)
        for j, bracket in radii.items():
            for i in range(len(x)):
                moved = x[i].repeat(len(steps), 1)
                moved[:, j] += torch.from_numpy(steps)
                flips = np.abs(steps[(net(moved).argmax(dim=1) != y[i]).numpy()])
                nearest = flips.min(initial=np.inf)
                assert bracket.certified[i] <= nearest
                assert nearest == np.inf or bracket.attacked[i] <= 1.002 * nearest + 1e-9
            assert bracket.witness is not None
            others = np.delete(bracket.witness, j, axis=1)
            assert (others == 0).all()


def test_features_have_names_and_unknown_ones_are_refused():
    pandas = pytest.importorskip("pandas")
    net = nn.Linear(2, 2).double()
    table = pandas.DataFrame({"age": [1.0], "dose": [2.0]})
    with torch.no_grad():
        y = net(torch.tensor(table.to_numpy())).argmax(dim=1).numpy()
    assert list(feature_radii(net, table, y, features=["dose"])) == ["dose"]
    assert list(feature_radii(net, table, y, features=[0])) == ["age"]
    with pytest.raises(ValueError, match="no feature of X"):
        feature_radii(net, table, y, features=["size"])
