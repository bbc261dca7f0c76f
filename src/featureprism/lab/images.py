"""Pictures as fields of a row."""

import base64

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.lab.rows import Row


def picture(image: Float[Tensor, "c h w"]) -> Row:
    """A picture with values in [0, 1] as fields of a row: its shape, and its bytes in base64."""
    data = (image.detach().clamp(0, 1) * 255).round().to(torch.uint8).numpy().tobytes()
    channels, height, width = image.shape
    return {
        "channels": channels,
        "height": height,
        "width": width,
        "pixels": base64.b64encode(data).decode(),
    }


def as_image(row: Row) -> Float[Tensor, "h w c"]:
    """The picture of a row, as drawing programs want it."""
    data = torch.frombuffer(bytearray(base64.b64decode(row["pixels"])), dtype=torch.uint8)
    return (data.reshape(row["channels"], row["height"], row["width"]).float() / 255).permute(1, 2, 0)
