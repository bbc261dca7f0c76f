"""
My torch or ONNX model's proven radius
======================================

A module as it is, and the same network from an .onnx file: the brackets agree.
"""

import logging
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import featureprism as fp

X, y = load_digits(return_X_y=True)
x, labels = torch.tensor(X / 16).float(), torch.tensor(y)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(150):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(x[:1500]), labels[:1500]).backward()
    optimiser.step()
model.eval()

bracket = fp.robust_radius(model, x[1500:1520], labels[1500:1520], budget=fp.Budget(branches=20))
print(f"torch: {bracket}")

# %%
# The same from a file.
logging.getLogger("torch.onnx").setLevel(logging.ERROR)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.onnx"
    with warnings.catch_warnings(action="ignore"):  # torch's exporter warns about itself
        program = torch.onnx.export(model, (x[:1],), verbose=False, dynamo=True)
    assert program is not None
    program.save(str(path))
    from_file = fp.robust_radius(path, x[1500:1520], labels[1500:1520], budget=fp.Budget(branches=20))
print(f"farthest apart: {np.abs(bracket.attacked - from_file.attacked).max():.4f}")

# %%
# Three digits, and beside each the nearest picture that the network takes for something else.
assert bracket.witness is not None
assert bracket.target is not None
figure, axes = plt.subplots(1, 6, figsize=(8, 1.7), layout="constrained")
for i, (left, right) in enumerate(zip(axes[::2], axes[1::2], strict=True)):
    left.imshow(x[1500 + i].reshape(8, 8).numpy(), cmap="gray_r")
    right.imshow((x[1500 + i].numpy() + bracket.witness[i]).reshape(8, 8), cmap="gray_r")
    left.set_title(f"{int(labels[1500 + i])}")
    right.set_title(f"taken for {int(bracket.target[i])}")
for ax in axes:
    ax.set_axis_off()
plt.show()
