"""GaussianHead: the Bayes rule of one Gaussian for each class, with radii in closed form."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from featureprism._progress import Progress, no_progress
from featureprism.heads.covariance import covariances_of, inverse
from featureprism.heads.files import GAUSSIAN, described, write_arrays
from featureprism.heads.scaling import SCALINGS, Scaling, fitted_scaling
from featureprism.heads.scored import ScoredHead
from featureprism.heads.targets import Targets, targets
from featureprism.models.scores import LinearScores, QuadraticScores

COVARIANCES = ("shared", "per_class")
STRUCTURES = ("full", "diagonal")
PARTS = ("means", "covariances", "priors")


class GaussianHead(ScoredHead):
    """Classes as Gaussians N(m_c, Σ_c) and their Bayes rule; nothing is trained and nothing is random.

    Scores are log π_c - ½ log det Σ_c - ½ (x - m_c)ᵀ Σ_c⁻¹ (x - m_c). With a shared Σ they are linear and a
    radius is a distance to half-spaces;
    otherwise the nearest point of a quadric is found by a one-dimensional secular equation, and its dual value is proven.

    Parameters
    ----------
    covariance : str
        "shared" or "per_class".
    structure : str
        "full" or "diagonal".
    shrinkage : float or "auto"
        Σ = (1 - s) S + s tr(S)/d I in the units of `scaling`; "auto" is the s of Ledoit and Wolf (2004).
    scaling : str
        As for `PReLUHead`.

    Examples
    --------
    >>> import featureprism as fp
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> head = fp.GaussianHead("per_class").fit(X, y)
    >>> head.score(X, y) > 0.95, float(head.robust_radius(X, y).gap.max()) < 1e-4
    (True, True)
    """

    means_: Float[np.ndarray, "k d"]
    covariances_: Float[np.ndarray, "c d d"]  # one, or one for each class
    priors_: Float[np.ndarray, " k"]

    def __init__(
        self,
        covariance: str = "shared",
        structure: str = "full",
        shrinkage: float | str = "auto",
        *,
        scaling: str = "auto",
    ) -> None:
        self.covariance = covariance
        self.structure = structure
        self.shrinkage = shrinkage
        self.scaling = scaling

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _check(self) -> None:
        for name, known in (("covariance", COVARIANCES), ("structure", STRUCTURES), ("scaling", SCALINGS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}.")
        is_share = isinstance(self.shrinkage, int | float) and 0 <= self.shrinkage <= 1
        if not (is_share or self.shrinkage == "auto"):
            raise ValueError(f"shrinkage must be 'auto' or a number from 0 to 1, got {self.shrinkage!r}.")

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, progress: Progress = no_progress
    ) -> "GaussianHead":
        """Means, covariances and shares of the classes of points X (n, d) with labels y (n,)."""
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        task = targets(X, y, None, sample_weight, None, 0)
        self.classes_ = task.classes
        scaling = fitted_scaling(task.X, task.weight, self.scaling, False)
        self._learn(task, scaling)
        progress(1.0)
        return self

    def _learn(self, task: Targets, scaling: Scaling) -> None:
        """In the units of training, then in those of the points."""
        z, index = (task.X - scaling.centre) / scaling.scale, task.y.numpy()
        weight = np.ones(len(z)) if task.weight is None else task.weight
        k = len(task.classes)
        mass = np.bincount(index, weights=weight, minlength=k)
        means = np.stack([np.average(z[index == c], axis=0, weights=weight[index == c]) for c in range(k)])
        shared = self.covariance == "shared"
        found = covariances_of(z - means[index], index, weight, k, shared, self.structure, self.shrinkage)
        self.priors_, self.means_ = mass / mass.sum(), scaling.centre + means * scaling.scale
        self.covariances_ = found * np.outer(scaling.scale, scaling.scale)
        precisions, log_det = inverse(found)
        precisions = precisions / np.outer(scaling.scale, scaling.scale)
        self.net_ = self._scores(precisions, log_det)

    def _scores(self, A: np.ndarray, log_det: np.ndarray) -> LinearScores | QuadraticScores:
        """The Bayes rule as scores of x; log-determinants up to what all classes share."""
        Am = np.einsum("kij,kj->ki", np.broadcast_to(A, (len(self.means_), *A.shape[1:])), self.means_)
        c = np.log(self.priors_) - log_det / 2 - (Am * self.means_).sum(axis=1) / 2
        V, c = torch.from_numpy(Am), torch.from_numpy(c)
        return LinearScores(V, c) if len(A) == 1 else QuadraticScores(torch.from_numpy(A), V, c)

    def sample(self, num_points: int, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Points and labels of the mixture that the head believes in."""
        check_is_fitted(self)
        draw = check_random_state(random_state)
        index = draw.choice(len(self.classes_), size=num_points, p=self.priors_)
        noise, roots = draw.normal(size=(num_points, self.n_features_in_)), _roots(self.covariances_)
        x = self.means_[index].copy()
        for c in range(len(self.classes_)):
            x[index == c] += noise[index == c] @ roots[min(c, len(roots) - 1)].T
        return x, self.classes_[index]

    def save(self, path: Path | str) -> None:
        """Write an .npz file that `load_head`, `featureprism radius` and `featureprism check` read."""
        check_is_fitted(self)
        arrays: dict[str, Any] = {
            n: getattr(self.net_, n).detach().numpy() for n in "VcA" if hasattr(self.net_, n)
        }
        arrays |= {name: getattr(self, f"{name}_") for name in PARTS}
        arrays["activation"] = "quadratic" if "A" in arrays else "linear"
        names = getattr(self, "feature_names_in_", None)
        write_arrays(Path(path), arrays | described(self.classes_, GAUSSIAN, self.get_params(), names))


def _roots(covariances: Float[np.ndarray, "c d d"]) -> Float[np.ndarray, "c d d"]:
    """R with R Rᵀ = Σ."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
