"""AutoAttack, where it is installed: an adapter that says which box the pixels live in."""

from math import inf

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featureprism.networks.deep import home_of


def has_auto_attack() -> bool:
    """Whether AutoAttack can be imported."""
    try:
        import pyautoattack  # pyright: ignore[reportMissingImports] # noqa: F401
    except ImportError:
        return False
    return True


def auto_attack_survivors(
    model: nn.Module,
    x: Float[Tensor, "n c h w"],
    y: Int[Tensor, " n"],
    norm: float,
    eps: float,
    *,
    box: tuple[float, float] = (0.0, 1.0),
    batch: int = 250,
    seed: int = 0,
) -> Bool[Tensor, " n"]:
    """Which images keep their label under AutoAttack's standard battery (Croce & Hein 2020).

    AutoAttack clips to [0, 1]: images with pixels in another `box` are mapped there, and eps with them.
    """
    if not has_auto_attack():
        raise ValueError("AutoAttack is not installed: pip install pyautoattack")
    from pyautoattack import AutoAttack  # pyright: ignore[reportMissingImports]

    low, high = box
    if not bool(((x >= low) & (x <= high)).all()):
        raise ValueError(f"Some pixels are outside the box [{low:g}, {high:g}].")
    names = {2: "L2", inf: "Linf"}
    if norm not in names:
        raise ValueError(f"norm must be 2 or math.inf, got {norm}.")
    width = high - low

    def in_box(images: Tensor) -> Tensor:
        return model(low + width * images)

    model.eval()
    home = home_of(model)
    x, y = x.to(home), y.to(home)
    attack = AutoAttack(in_box, norm=names[norm], eps=eps / width, seed=seed, device=str(home))
    moved, _ = attack.run_standard_evaluation((x - low) / width, y, batch_size=batch)
    with torch.no_grad():
        return (in_box(moved).argmax(dim=1) == y).cpu()
