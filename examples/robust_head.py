"""
A robust head in a pipeline
===========================

Heads are scikit-learn classifiers: a pipeline, a grid search and a cross-validation take them as they are. On digits (five classes
against five) the head that finds sub-classes holds furthest, without adversarial training; the power p alone gains nothing on these
20 points.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import featureprism as fp

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y >= 5, random_state=0)
heads = {
    "ReLU": fp.PReLUHead(p=1, width=50, random_state=0),
    "pReLU": fp.PReLUHead(p=3, width=50, random_state=0),
    "sub-classes found": fp.DecoupledHead(num_subclasses=10, p=3, random_state=0),
}
radii = torch.linspace(0, 0.4, 100).double()
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, head in heads.items():
    model = make_pipeline(Normalizer(), head).fit(X_train, y_train)
    points = model[:-1].transform(X_test[:20])  # radii on the sphere, where digits are comparable
    bracket = head.robust_radius(points, y_test[:20])
    low, high = bracket.half_radius
    print(
        f"{name}: accuracy {model.score(X_test, y_test):.1%}, median radius {low:.3f} (proven) to {high:.3f}"
    )
    proven, attacked = bracket.accuracy(radii)
    (line,) = axes.plot(radii, attacked, label=name)
    axes.fill_between(radii, proven, attacked, alpha=0.3, color=line.get_color())
axes.set(xlabel="radius", ylabel="robust accuracy")
axes.legend()
plt.show()

# %%
# Robust accuracy, as bands from what is proven to what an attack shows; where brackets close, a band is a line.
