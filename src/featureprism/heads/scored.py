"""What every fitted head can do: scores, labels, probabilities, radii."""

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from featureprism.certificates import robust_radius
from featureprism.heads.files import documentation
from featureprism.heads.scaling import CHUNK, is_sparse
from featureprism.records import RadiusBracket


class ScoredHead(ClassifierMixin, BaseEstimator):
    """A classifier whose fitted `net_` gives every class a score; abstract."""

    net_: Any
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray
    _doc_link_module = (
        "featureprism"  # whose documentation notebooks link to from the picture of an estimator
    )
    _doc_link_template = documentation()  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def _points(self, X: Any) -> Tensor:
        """Checked points as a dense tensor of its own: torch warns of arrays that it may not write to."""
        X = self._checked(X)
        return torch.tensor(X.toarray() if is_sparse(X) else X)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        accepted = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return validate_data(self, X, dtype=np.float64, order="C", reset=False, accept_sparse=accepted)

    def scores(self, X: Any) -> Tensor:
        """The score of every class, as a tensor (n, C)."""
        X = self._checked(X)
        with torch.no_grad():
            if not is_sparse(X):
                return self.net_(torch.tensor(X))
            parts = (X[start : start + CHUNK].toarray() for start in range(0, X.shape[0], CHUNK))
            return torch.cat([self.net_(torch.tensor(part)) for part in parts])

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, C), or for two classes the second score minus the first (n,)."""
        scores = self.scores(X).numpy()
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Softmax of the scores."""
        return self.scores(X).softmax(dim=1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score."""
        winners = self.scores(X).argmax(dim=1).numpy()
        return self.classes_[winners]

    def robust_radius(self, X: Any, y: Any, **options: Any) -> RadiusBracket:
        """Per point the proven and the attacked distance to the next decision for another class, in the units of X.

        Parameters
        ----------
        X, y
            Points and their labels.
        **options
            Those of `featureprism.robust_radius`, with the same defaults.

        Returns
        -------
        RadiusBracket
            What `featureprism.robust_radius(head, X, y)` gives.
        """
        points = self._points(X).numpy()
        self.class_indices(y)
        return robust_radius(self, points, y, **options)

    def class_indices(self, y: Any) -> Tensor:
        """Labels as positions in `classes_`; refuses labels that were not seen in fit."""
        y = np.asarray(y).reshape(-1)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"Labels {unknown[:5].tolist()} were not seen in fit; the head knows {self.classes_[:20].tolist()}."
            )
        return torch.as_tensor(np.searchsorted(self.classes_, y))

    def to_torch(self) -> nn.Module:
        """The fitted head as a torch module: points (n, d) to scores (n, C), in float64."""
        check_is_fitted(self)
        return self.net_
