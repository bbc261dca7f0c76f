"""What image networks look at: their filters, the pictures that excite a neuron, how many neurons fire, where energy lies."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.networks.deep import home_of

GREY = 0.5  # RGB (128, 128, 128)


def layer_cosines(first: nn.Conv2d | nn.Linear, second: nn.Conv2d | nn.Linear) -> Float[Tensor, " neurons"]:
    """θ(w, w') = |⟨w, w'⟩|/(‖w‖ ‖w'‖) of each neuron (output channel). Source: feature-purification, Section 1."""
    u, v = (layer.weight.detach().cpu().flatten(1).double() for layer in (first, second))
    lengths = torch.linalg.vector_norm(u, dim=1) * torch.linalg.vector_norm(v, dim=1)
    return ((u * v).sum(dim=1).abs() / lengths.clamp_min(1e-300)).clamp_max(1.0)


class _Reached(Exception):  # noqa: N818 - nothing went wrong
    """A layer has spoken; what comes after it is not needed."""

    def __init__(self, out: Tensor) -> None:
        super().__init__()
        self.out = out


def output_at(net: nn.Module, layer: nn.Module, x: Tensor) -> Tensor:
    """The output of one layer; nothing after it is computed."""

    def stop(_layer: nn.Module, _given: Any, out: Any) -> None:
        raise _Reached(out)

    hook = layer.register_forward_hook(stop)
    try:
        net(x)
    except _Reached as reached:
        return reached.out
    finally:
        hook.remove()
    raise ValueError("The network does not use this layer.")


def exciting_images(
    net: nn.Module,
    layer: nn.Module,
    channels: Int[Tensor, " n"],
    shape: tuple[int, int, int],
    *,
    steps: int = 2000,
    step_size: float = 0.01,
    decay: float = 0.01,
    towards: float = GREY,
    generator: torch.Generator,
) -> Float[Tensor, "n c h w"]:
    """Pictures that excite the middle neuron of each channel: plain gradient ascent from random pictures, nothing added.

    x ← clip[x + η √D g/‖g‖ - decay (x - towards)] with g the gradient of that neuron's output and D the number of pixels: the
    gradient's length differs by orders of magnitude between networks, so only its direction is used. Source: feature-purification,
    Section 8.1, footnote 16 (step size and decay are not given there).
    """
    net.eval()
    x = torch.rand((len(channels), *shape), generator=generator).to(home_of(net))
    rows, size = torch.arange(len(channels)), x[0].numel() ** 0.5
    for _ in range(steps):
        x.requires_grad_()
        out = output_at(net, layer, x)
        middle = out[rows, channels, out.shape[2] // 2, out.shape[3] // 2]
        (slope,) = torch.autograd.grad(middle.sum(), x)
        length = torch.linalg.vector_norm(slope.flatten(1), dim=1).clamp_min(1e-30).reshape(-1, 1, 1, 1)
        with torch.no_grad():
            x = (x + step_size * size * slope / length - decay * (x - towards)).clamp(0, 1)
    return x.detach().cpu()


def principal_directions(x: Float[Tensor, "n d"], share: float = 0.1) -> Float[Tensor, "d r"]:
    """The first `share` of the principal directions of points around their mean, as columns."""
    centred, wanted = (x - x.mean(dim=0)).double(), max(1, round(share * x.shape[1]))
    if (
        wanted < len(x) < x.shape[1]
    ):  # the smaller of the two matrices with the same spectrum; the mean costs one of its directions
        values, codes = _last_eigenvectors(centred @ centred.T, wanted)
        return centred.T @ codes / values.clamp_min(1e-300).sqrt()
    return _last_eigenvectors(centred.T @ centred, wanted)[1]


def _last_eigenvectors(
    matrix: Float[Tensor, "n n"], num: int
) -> tuple[Float[Tensor, " r"], Float[Tensor, "n r"]]:
    """The largest eigenvalues of a symmetric matrix, rising, and their vectors: a third of the time that all of them take."""
    from scipy.linalg import eigh  # takes a while to import

    last = [len(matrix) - num, len(matrix) - 1]
    values, vectors = eigh(matrix.cpu().numpy(), subset_by_index=last, driver="evr")
    return torch.from_numpy(values).to(matrix.device), torch.from_numpy(vectors).to(matrix.device)


def energy_share(vectors: Float[Tensor, "n d"], directions: Float[Tensor, "d r"]) -> Float[Tensor, " n"]:
    """‖Pv‖²/‖v‖² with P the projection on orthonormal directions; a vector of zeros has 0."""
    v = vectors.to(directions.dtype)
    energy = (v * v).sum(dim=1)
    return ((v @ directions) ** 2).sum(dim=1) / energy.clamp_min(1e-300)
