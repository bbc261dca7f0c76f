import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from featureprism._inputs import as_points
from featureprism.models import Model
from featureprism.models.scores import LinearScores


def classifier(k, classes=None):
    return Model(
        LinearScores(torch.ones(k, 2), torch.zeros(k)), classes=None if classes is None else np.array(classes)
    )


LABELS = {
    "words": (3, ["cat", "dog", "eel"], ["eel", "cat"], [2, 0]),
    "numpy words": (2, ["cat", "dog"], np.array(["dog", "cat"]), [1, 0]),
    "objects": (2, ["cat", "dog"], np.array(["dog", "cat"], dtype=object), [1, 0]),
    "series": (2, ["cat", "dog"], pd.Series(["dog", "cat"]), [1, 0]),
    "categories": (2, ["cat", "dog"], pd.Series(["dog", "cat"], dtype="category"), [1, 0]),
    "numbers of one's own": (3, [3, 5, 8], np.array([8, 3], dtype=np.int8), [2, 0]),
    "numbers as floats": (3, [3, 5, 8], torch.tensor([8.0, 3.0]), [2, 0]),
    "bools": (2, [False, True], [True, False], [1, 0]),
    "bools as 0 and 1": (2, [False, True], [1, 0], [1, 0]),
    "0 and 1 as bools": (2, [0, 1], np.array([True, False]), [1, 0]),
    "signs": (2, [-1, 1], [1, -1], [1, 0]),
    "unnamed signs": (2, None, [1, -1], [1, 0]),
    "unnamed 0 and 1": (2, None, torch.tensor([1, 0]), [1, 0]),
    "unnamed bools": (2, None, [True, False], [1, 0]),
    "unnamed": (4, None, np.array([3, 0, 1]), [3, 0, 1]),
    "a column": (4, None, pd.DataFrame({"y": [3, 0]}), [3, 0]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_become_positions_of_the_scores(name):
    k, classes, y, expected = LABELS[name]
    found = classifier(k, classes).indices(y, num_points=len(expected))
    assert found.dtype == torch.int64
    assert found.tolist() == expected


BAD_LABELS = {
    "unknown word": (2, ["cat", "dog"], ["dog", "cow"], "Unknown labels cow; the model's are cat, dog"),
    "numbers for words": (2, ["cat", "dog"], [0, 1], "Unknown labels 0, 1"),
    "words for numbers": (2, [0, 1], ["0", "1"], "Unknown labels"),
    "0 for signs": (2, [-1, 1], [0, 1], "Unknown labels 0"),
    "2 of two": (2, None, [0, 1, 2], "Unknown labels 2; the model's are 0 and 1, or -1 and"),
    "three of two": (2, None, [-1, 0, 1], "both mean"),
    "-1 of many": (3, None, [-1, 0], "Unknown labels -1; the model's are 0 to 2"),
    "half": (3, None, [0.5, 1], "Unknown labels 0.5"),
    "bools of many": (3, None, [True, False], "True and False"),
    "NaN": (2, None, [np.nan, 1], "missing"),
    "None": (2, ["cat", "dog"], ["cat", None], "missing"),
    "NA": (2, None, pd.array([1, None], dtype="Int64"), "missing"),
    "one-hot": (2, None, np.eye(2), "one per point"),
    "empty": (2, None, [], "empty"),
    "ragged": (2, None, [[1], [1, 2]], "different lengths"),
    "complex": (2, None, [1j], "real"),
    "words and numbers": (2, ["1", "2"], ["1", 2], "Unknown labels 2"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_labels_that_the_model_does_not_have_are_refused(name):
    k, classes, y, told = BAD_LABELS[name]
    with pytest.raises(ValueError, match=told) as caught:
        classifier(k, classes).indices(y)
    assert "\n" not in str(caught.value)


def test_one_label_per_point():
    with pytest.raises(ValueError, match="3 points, 2 labels"):
        classifier(2).indices([0, 1], num_points=3)


ROWS = [[1.0, 2.0], [0.0, -3.0], [4.0, 5.0]]
HOLDERS = {
    "list": lambda x: x,
    "tuples": lambda x: tuple(map(tuple, x)),
    "numpy": np.array,
    "float32": lambda x: np.array(x, dtype=np.float32),
    "integers": lambda x: np.array(x, dtype=np.int16),
    "objects": lambda x: np.array(x, dtype=object),
    "torch": torch.tensor,
    "torch, half": lambda x: torch.tensor(x, dtype=torch.bfloat16),
    "torch, sparse": lambda x: torch.tensor(x).to_sparse(),
    "parameters": lambda x: torch.nn.Parameter(torch.tensor(x)),
    "table": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "table of mixed numbers": lambda x: pd.DataFrame(x, columns=["a", "b"]).astype({"a": "Int64"}),
    "csr": scipy.sparse.csr_matrix,
    "coo": scipy.sparse.coo_array,
    "images": lambda x: np.array(x).reshape(3, 1, 2, 1),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_points_come_in_whatever_holds_them(name):
    found = as_points(HOLDERS[name](ROWS))
    assert found.dtype == torch.float64
    assert found.tolist() == ROWS


def test_points_are_a_copy_or_leave_the_data_alone():
    x = np.array(ROWS)
    as_points(x).add_(1)
    assert x.tolist() == ROWS


BAD_POINTS = {
    "NaN": ([[np.nan, 1.0]], "NaN"),
    "infinite": (torch.tensor([[torch.inf, 1.0]]), "infinite"),
    "words": ([["a", "b"]], "words"),
    "words in a table": (pd.DataFrame({"size": [1.0], "name": ["a"]}), "'name'"),
    "missing in a table": (pd.DataFrame({"size": pd.array([1, None], dtype="Int64")}), "NaN"),
    "None": ([[None, 1.0]], "real numbers"),
    "complex": (np.array([[1j]]), "complex"),
    "complex tensor": (torch.tensor([[1j]]), "complex"),
    "no points": (np.zeros((0, 3)), "empty"),
    "no coordinates": (np.zeros((3, 0)), "empty"),
    "one point": ([1.0, 2.0], "reshape"),
    "number": (3.0, "rows"),
    "ragged": ([[1.0], [1.0, 2.0]], "different lengths"),
    "huge": ([[1e200, 1.0]], "overflow"),
    "masked": (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
    "nothing": (None, "rows|real"),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "dates"),
}


@pytest.mark.parametrize("name", BAD_POINTS)
def test_what_is_no_point_is_refused_in_one_sentence(name):
    X, told = BAD_POINTS[name]
    with pytest.raises(ValueError, match=told) as caught:
        as_points(X)
    assert "\n" not in str(caught.value)
