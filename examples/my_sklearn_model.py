"""
My scikit-learn model's proven radius
=====================================

A pipeline as it is: for each point a distance below which nothing changes the answer, proven, and a perturbation that does change it.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import featureprism as fp

cancer: Any = load_breast_cancer()
X, y, names = cancer.data, cancer.target, cancer.feature_names
X = StandardScaler().fit_transform(X)  # radii are then in standard deviations
models = {
    "logistic regression": LogisticRegression(),
    "MLP, 16 neurons": MLPClassifier((16,), solver="lbfgs", alpha=1.0, max_iter=2000, random_state=0),
}
brackets = {
    name: fp.robust_radius(model.fit(X[:400], y[:400]), X[400:430], y[400:430], budget=fp.Budget(branches=20))
    for name, model in models.items()
}
for name, bracket in brackets.items():
    print(f"{name}: {bracket}")

# %%
# The curve of the network: the truth lies in the band.
bracket = brackets["MLP, 16 neurons"]
bracket.plot()
plt.show()

# %%
# Which features does the nearest flip move? The witness of the most fragile point says so.
right = bracket.attacked > 0
worst = int(np.where(right, bracket.attacked, np.inf).argmin())
assert bracket.witness is not None
moved = np.abs(bracket.witness[worst]).argsort()[::-1][:3].tolist()
print([str(names[i]) for i in moved])
