import pytest
import torch

from featureprism.training import Loss

LOSSES = [
    Loss(k, n, 4) for k in ("square", "exponential", "logistic") for n in ("sum", "per-cluster", "mean")
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_residual_is_the_derivative_of_the_loss(loss, generator):
    f = torch.randn(12, generator=generator).double().requires_grad_()
    y = torch.sign(torch.randn(12, generator=generator)).double()
    loss.value(f, y).backward()
    torch.testing.assert_close(loss.residual(f.detach(), y), f.grad)


def test_normalisations_differ_by_the_documented_factors():
    f, y = torch.linspace(-1, 1, 12).double(), torch.ones(12).double()
    total = Loss("square", "sum").value(f, y)
    torch.testing.assert_close(Loss("square", "per-cluster", 4).value(f, y), total / 3)  # N = 12/4
    torch.testing.assert_close(Loss("square", "mean").value(f, y), total / 12)


def test_large_margins_do_not_overflow():
    f, y = torch.tensor([1e4, -1e4]).double(), torch.ones(2).double()
    assert Loss("logistic", "sum").value(f, y) == pytest.approx(1e4)
    assert bool(torch.isfinite(Loss("logistic", "sum").residual(f, y)).all())


def test_unknown_losses_are_refused():
    with pytest.raises(ValueError, match="Unknown loss"):
        Loss("hinge")
    with pytest.raises(ValueError, match="Unknown normalisation"):
        Loss("square", "median")
    with pytest.raises(ValueError, match="num_clusters"):
        Loss("square", "per-cluster")
