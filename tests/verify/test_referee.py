"""A mixed-integer solver as referee: it shares nothing with our search, and proves the radius of small ReLU networks itself."""

import pytest
import torch
from asking import asked

from featureprism.networks import ReLU, TwoLayerNet

scip = pytest.importorskip("pyscipopt")
TOLERANCE = 2e-3  # the solver's gap 1e-3, and its feasibility tolerance


def solved_radius(net, x, y, reach):
    """[dual, primal] bound of min ‖δ‖ s.t. y f(x + δ) ≤ 0, ‖δ‖ ≤ reach, ReLUs as big-M binaries."""
    model = scip.Model()
    model.hideOutput()
    model.setParam("limits/gap", 1e-3)
    W, a = net.W.detach(), (y * net.a.detach()).tolist()
    centre = (W @ x + net.b.detach()).tolist()
    reaches = (reach * W.norm(dim=1)).tolist()
    delta = [model.addVar(lb=-reach, ub=reach) for _ in x]
    radius = model.addVar(lb=0, ub=reach)
    model.addCons(scip.quicksum(d * d for d in delta) <= radius * radius)
    after = []
    for row, c, r in zip(W.tolist(), centre, reaches, strict=True):
        t = c + scip.quicksum(w * d for w, d in zip(row, delta, strict=True))
        s, on = model.addVar(lb=0, ub=max(0.0, c + r)), model.addVar(vtype="B")
        model.addCons(s >= t)
        model.addCons(s <= t + (r - c) * (1 - on))
        model.addCons(s <= max(0.0, c + r) * on)
        after.append(s)
    model.addCons(scip.quicksum(v * s for v, s in zip(a, after, strict=True)) <= 0)
    model.setObjective(radius)
    model.optimize()
    return model.getDualbound(), model.getObjVal() if model.getNSols() else float("inf")


@pytest.mark.parametrize("width", [4, 10])
def test_brackets_agree_with_a_mixed_integer_solver(width, generator):
    net = TwoLayerNet(
        torch.randn(width, 5, generator=generator).double(),
        torch.randn(width, generator=generator).double(),
        0.5 * torch.randn(width, generator=generator).double(),
        activation=ReLU(),
    )
    x = torch.randn(4, 5, generator=generator).double()
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    bracket = asked(net, x, y, branches=50, max_radius=8.0)
    met = 0
    for i in range(len(x)):
        if not torch.isfinite(bracket.attacked[i]):
            continue
        dual, primal = solved_radius(net, x[i], float(y[i]), 1.5 * float(bracket.attacked[i]))
        assert float(bracket.certified[i]) <= primal * (1 + TOLERANCE) + 1e-6
        assert float(bracket.attacked[i]) >= dual * (1 - TOLERANCE) - 1e-6
        met += 1
    assert met >= 2
