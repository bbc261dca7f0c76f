"""CLIP ViT-B/32 embeddings of images, for those who have open_clip (pip install 'featureprism[clip]')."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from featureprism._progress import Progress, no_progress, part
from featureprism.data.images import ImageSet

MODEL, WEIGHTS, SIDE = (
    "ViT-B-32-quickgelu",
    "openai",
    224,
)  # the activation that OpenAI's weights were trained with


@torch.no_grad()
def clip_embeddings(
    images: Float[Tensor, "n c h w"],
    *,
    device: str = "cpu",
    batch: int = 64,
    progress: Progress = no_progress,
) -> Float[Tensor, "n d"]:
    """Rows of norm 1: pictures in [0, 1] enlarged to 224 × 224 (bicubic), normalised as CLIP was trained, and encoded."""
    try:
        import open_clip  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError("CLIP embeddings need open_clip: pip install 'featureprism[clip]'.") from error
    model = open_clip.create_model(MODEL, pretrained=WEIGHTS).to(device).eval()
    mean, std = (
        torch.tensor(values).reshape(1, 3, 1, 1)
        for values in (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    )
    rows = []
    for few in images.split(batch):
        colour = few if few.shape[1] == 3 else few.repeat(1, 3, 1, 1)
        large = interpolate(colour, (SIDE, SIDE), mode="bicubic", align_corners=False).clamp(0, 1)
        rows.append(normalize(model.encode_image(((large - mean) / std).to(device)).float().cpu(), dim=1))
        progress(sum(map(len, rows)) / len(images))
    return torch.cat(rows)


def save_embeddings(
    data: ImageSet, path: Path, *, device: str = "cpu", progress: Progress = no_progress
) -> None:
    """x_train, y_train, x_test, y_test as an .npz file that `featureprism audit` and the experiments read."""
    share = len(data.x_train) / (len(data.x_train) + len(data.x_test))
    train = clip_embeddings(data.x_train, device=device, progress=part(progress, 0, share))
    test = clip_embeddings(data.x_test, device=device, progress=part(progress, share, 1))
    with path.open("wb") as file:
        np.savez(
            file,
            x_train=train.numpy(),
            y_train=data.y_train.numpy(),
            x_test=test.numpy(),
            y_test=data.y_test.numpy(),
        )
