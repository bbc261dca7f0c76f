"""Bad inputs to the functions of Python: one sentence each, a ValueError, and nothing silent."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import featureprism as fp

X, Y = load_iris(return_X_y=True)
MODEL = LogisticRegression(max_iter=500).fit(X, Y)
P, Q = X[::30], Y[::30]
S = np.where(Y == 0, -1.0, 1.0)
NET = fp.networks.TwoLayerNet(
    torch.ones(6, 4).double(), torch.ones(6).double(), activation=fp.networks.ReLU()
)
CALLS = {
    "seconds none": lambda: fp.Budget(seconds=None),
    "seconds str": lambda: fp.Budget(seconds="3"),
    "neg": lambda: fp.Budget(seconds=-1),
    "nan": lambda: fp.Budget(seconds=math.nan),
    "norm 3": lambda: fp.robust_radius(MODEL, P, Q, norm=3),
    "norm None": lambda: fp.robust_radius(MODEL, P, Q, norm=None),
    "norm list": lambda: fp.robust_radius(MODEL, P, Q, norm=[2]),
    "gap none": lambda: fp.robust_radius(MODEL, P, Q, gap=None),
    "gap 2": lambda: fp.robust_radius(MODEL, P, Q, gap=2),
    "eps str": lambda: fp.robust_radius(MODEL, P, Q, eps="a"),
    "eps nan": lambda: fp.robust_radius(MODEL, P, Q, eps=math.nan),
    "eps 0": lambda: fp.robust_radius(MODEL, P, Q, eps=0),
    "model None": lambda: fp.robust_radius(None, P, Q),
    "model int": lambda: fp.robust_radius(3, P, Q),
    "model class": lambda: fp.robust_radius(LogisticRegression, P, Q),
    "unfitted": lambda: fp.robust_radius(LogisticRegression(), P, Q),
    "str": lambda: fp.robust_radius("no.onnx", P, Q),
    "X None": lambda: fp.robust_radius(MODEL, None, Q),
    "y None": lambda: fp.robust_radius(MODEL, P, None),
    "y short": lambda: fp.robust_radius(MODEL, P, Q[:2]),
    "y words": lambda: fp.robust_radius(MODEL, P, list("abcde")),
    "X str": lambda: fp.robust_radius(MODEL, "abc", Q),
    "X nan": lambda: fp.robust_radius(MODEL, P * np.nan, Q),
    "X 1d": lambda: fp.robust_radius(MODEL, P[0], Q),
    "X 3 cols": lambda: fp.robust_radius(MODEL, P[:, :3], Q),
    "classes wrong": lambda: fp.robust_radius(MODEL, P, Q, classes=[1]),
    "output np": lambda: fp.robust_radius(MODEL, P, Q, output="logits"),
    "weights str": lambda: fp.robust_radius(MODEL, P, Q, weights="a"),
    "weights dict": lambda: fp.robust_radius(MODEL, P, Q, weights={}),
    "fixed float": lambda: fp.robust_radius(MODEL, P, Q, fixed=[0.5]),
    "fixed obj": lambda: fp.robust_radius(MODEL, P, Q, fixed=3.5),
    "ref": lambda: fp.robust_radius(MODEL, P, Q, unit="std", reference=X[:, :2]),
    "ref str": lambda: fp.robust_radius(MODEL, P, Q, unit="std", reference="a"),
    "unit int": lambda: fp.robust_radius(MODEL, P, Q, unit=3),
    "bounds rev": lambda: fp.robust_radius(MODEL, P, Q, bounds=(9, 0)),
    "bounds out": lambda: fp.robust_radius(MODEL, P, Q, bounds=(0, 1)),
    "bounds nan": lambda: fp.robust_radius(MODEL, P, Q, bounds=(math.nan, 1)),
    "max_radius": lambda: fp.robust_radius(MODEL, P, Q, max_radius=-1),
    "arith": lambda: fp.robust_radius(MODEL, P, Q, arithmetic="int"),
    "explain none": lambda: fp.RadiusBracket(np.zeros(1), np.ones(1)).explain(),
    "explain names": lambda: fp.robust_radius(MODEL, P, Q).explain(features=["a"]),
    "explain x": lambda: fp.robust_radius(MODEL, P, Q).explain(x=np.zeros(3)),
    "kkt of a wrong network": lambda: fp.probes.kkt_audit(NET, X, S),
    "kkt torch None": lambda: fp.probes.kkt_audit(NET, None, S),
    "head p": lambda: fp.PReLUHead(p="3").fit(X, y),
    "check other": lambda: fp.check(fp.robust_radius(MODEL, P, Q), MODEL, X[:5], Q),
    "check none": lambda: fp.check(None, MODEL, P, Q),
    "check norm": lambda: fp.check(fp.robust_radius(MODEL, P, Q), MODEL, P, Q, norm="l7"),
    "load": lambda: fp.RadiusBracket.load("no.npz"),
}


@pytest.mark.parametrize("name", CALLS)
def test_bad_inputs_are_refused_in_one_sentence(name):
    with pytest.raises((ValueError, TypeError)) as told:
        CALLS[name]()
    kinds = [kind.__name__ for kind in type(told.value).__mro__]
    assert "ValueError" in kinds or "TypeCheckError" in kinds  # the tests check types before the functions do
    assert str(told.value)


class WithoutGradient(torch.nn.Module):
    """Scores that nothing can be differentiated through."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            return torch.tanh(self.layer(x)) ** 2


def test_a_module_without_gradient_is_attacked_by_its_answers():
    torch.manual_seed(0)
    module = WithoutGradient()
    labels = module(torch.tensor(P).float()).argmax(dim=1)
    bracket = fp.robust_radius(module, P, labels)
    assert "no gradient" in str(bracket)
    assert np.isfinite(bracket.attacked).any()


def test_attacks_take_arrays():
    ball = fp.geometry.LpBall(2, 0.1)
    tensors = fp.attacks.pgd(NET, torch.tensor(X), torch.tensor(S), ball)
    assert torch.equal(fp.attacks.pgd(NET, X, S, ball).delta, tensors.delta)
