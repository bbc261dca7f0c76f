"""Trees of scikit-learn, XGBoost, LightGBM and ONNX files as leaves; other models, and trees with categories, are not read."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from featureprism.verify.called.trees import Trees

MOST_LEAVES = 2_000_000  # times the length of their paths
Split = tuple[int, float, int, int]  # feature, threshold, and the nodes where x ≤ threshold and where not


def trees_of(model: Any) -> Trees | None:
    """All trees of a classifier, None for other models."""
    read = READERS.get(type(model).__name__)
    if read is None:
        return None
    try:
        found = read(model)
    except (AttributeError, KeyError):  # another version of the library
        return None
    return None if found is None else _stacked(*found)


Leaf = tuple[dict[int, list[float]], np.ndarray]
Found = tuple[list[list[Leaf]], np.ndarray]


def leaves(split: Callable[[int], Split | None], value: Callable[[int], np.ndarray]) -> list[Leaf]:
    """The leaves of one tree: the sides of its path, and what it adds; `split` of a leaf is None."""
    found: list[Leaf] = []
    waiting: list[tuple[int, dict[int, list[float]]]] = [(0, {})]
    while waiting:
        node, sides = waiting.pop()
        parts = split(node)
        if parts is None:
            found.append((sides, value(node)))
            continue
        j, threshold, left, right = parts
        low, high = sides.get(j, [-np.inf, np.inf])
        waiting.append((left, sides | {j: [low, min(high, threshold)]}))
        waiting.append((right, sides | {j: [max(low, threshold), high]}))
    return found


def _stacked(parts: list[list[Leaf]], start: np.ndarray) -> Trees | None:
    every = [(t, sides, value) for t, part in enumerate(parts) for sides, value in part]
    longest = max((len(sides) for _, sides, _ in every), default=0) or 1
    if not every or len(every) * longest > MOST_LEAVES:
        return None
    feature = np.zeros((len(every), longest), dtype=np.int64)
    lower, upper = np.full(feature.shape, -np.inf), np.full(feature.shape, np.inf)
    for row, (_, sides, _) in enumerate(every):
        for m, (j, (low, high)) in enumerate(sides.items()):
            feature[row, m], lower[row, m], upper[row, m] = j, low, high
    values = np.stack([value for _, _, value in every]).astype(np.float64)
    return Trees(feature, lower, upper, values, np.array([t for t, _, _ in every]), start.astype(np.float64))


def _of_sklearn(tree: Any, values: np.ndarray, columns: Any = None) -> list[Leaf]:
    def split(node: int) -> Split | None:
        if tree.children_left[node] < 0:
            return None
        j = int(tree.feature[node])
        place = j if columns is None else int(columns[j])
        return (
            place,
            float(tree.threshold[node]),
            int(tree.children_left[node]),
            int(tree.children_right[node]),
        )

    return leaves(split, lambda node: values[node])


def _shares(tree: Any, k: int, places: Any) -> np.ndarray:
    """What each node says of the classes."""
    counts = np.asarray(tree.value)[:, 0, :]
    found = np.zeros((len(counts), k))
    found[:, list(places)] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    return found


def _forest(model: Any) -> Found | None:
    if not np.isscalar(getattr(model, "n_outputs_", 1)) or model.n_outputs_ != 1:
        return None
    k, parts = len(model.classes_), [model] if hasattr(model, "tree_") else list(model.estimators_)
    return [_of_sklearn(part.tree_, _shares(part.tree_, k, range(k))) for part in parts], np.zeros(k)


def _bagging(model: Any) -> Found | None:
    k = len(model.classes_)
    if not all(hasattr(part, "tree_") for part in model.estimators_):
        return None
    trees = zip(model.estimators_, model.estimators_features_, strict=True)
    return [
        _of_sklearn(part.tree_, _shares(part.tree_, k, part.classes_.astype(int)), columns)
        for part, columns in trees
    ], np.zeros(k)


def _boosted_votes(model: Any) -> Found | None:
    """AdaBoost: every tree votes with its weight."""
    k, names = len(model.classes_), model.classes_.tolist()
    if not all(hasattr(part, "tree_") for part in model.estimators_):
        return None
    parts = []
    for part, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        chosen = np.asarray(part.tree_.value)[:, 0, :].argmax(axis=1)
        votes = weight * np.eye(k)[[names.index(name) for name in part.classes_[chosen].tolist()]]
        parts.append(_of_sklearn(part.tree_, votes))
    return parts, np.zeros(k)


def _gradient_boosting(model: Any) -> Found | None:
    k = len(model.classes_)
    if model.init is not None:
        return None  # a start that depends on the point
    raw = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0])
    parts = []
    for stage in model.estimators_:
        for c, part in enumerate(stage):
            values = np.zeros((part.tree_.node_count, k))
            values[:, 1 if k == 2 else c] = model.learning_rate * part.tree_.value[:, 0, 0]
            parts.append(_of_sklearn(part.tree_, values))
    return parts, _start(raw, k)


def _start(raw: np.ndarray, k: int) -> np.ndarray:
    return np.array([0.0, raw[0]]) if k == 2 else np.broadcast_to(raw, (k,))


def _one_class(k: int, c: int) -> Callable[[float], np.ndarray]:
    """What a leaf of a tree for one class adds."""
    unit = np.eye(k)[1 if k == 2 else c]
    return lambda value: value * unit


def _histogram_boosting(model: Any) -> Found | None:
    k = len(model.classes_)
    if getattr(model, "_preprocessor", None) is not None:
        return None  # categories
    parts = []
    for stage in model._predictors:
        for c, predictor in enumerate(stage):
            nodes, adds = predictor.nodes, _one_class(k, c)
            if nodes["is_categorical"].any():
                return None
            rows = nodes[["is_leaf", "feature_idx", "num_threshold", "left", "right"]].tolist()
            values = nodes["value"].tolist()
            parts.append(
                leaves(
                    lambda n, rows=rows: None if rows[n][0] else rows[n][1:],
                    lambda n, values=values, adds=adds: adds(values[n]),
                )
            )
    return parts, _start(model._baseline_prediction[0], k)


def _xgboost(model: Any) -> Found | None:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, k = learner["gradient_booster"], len(model.classes_)
    if booster["name"] != "gbtree" or learner["objective"]["name"] not in (
        "binary:logistic",
        "multi:softprob",
    ):
        return None
    end = (model.best_iteration + 1) if getattr(model, "early_stopping_rounds", None) else None
    trees, classes = booster["model"]["trees"], booster["model"]["tree_info"]
    if end is not None:
        stop = booster["model"]["iteration_indptr"][end]
        trees, classes = trees[:stop], classes[:stop]
    parts = []
    for tree, c in zip(trees, classes, strict=True):
        if any(tree["split_type"]) or len(tree["base_weights"]) != len(tree["left_children"]):
            return None
        left, right, adds = tree["left_children"], tree["right_children"], _one_class(k, c)
        rows = list(zip(tree["split_indices"], tree["split_conditions"], left, right, strict=True))
        parts.append(
            leaves(
                lambda n, rows=rows: None if rows[n][2] < 0 else rows[n],
                lambda n, rows=rows, adds=adds: adds(rows[n][1]),
            )
        )
    base = np.array(
        [float(v) for v in str(learner["learner_model_param"]["base_score"]).strip("[]").split(",")]
    )
    raw = np.log(base / (1 - base)) if k == 2 else base
    return parts, _start(raw, k)


def _lightgbm(model: Any) -> Found | None:
    dump, k = model.booster_.dump_model(), len(model.classes_)
    if dump["objective"].split()[0] not in ("binary", "multiclass") or dump.get("average_output"):
        return None
    parts = []
    for info in dump["tree_info"]:
        nodes = list(_flattened(info["tree_structure"]))
        place = {id(node): i for i, node in enumerate(nodes)}
        adds = _one_class(k, info["tree_index"] % max(1, dump["num_tree_per_iteration"]))
        if any(node.get("decision_type", "<=") != "<=" for node in nodes):
            return None

        def split(n: int, nodes: list[Any] = nodes, place: dict[int, int] = place) -> Split | None:
            node = nodes[n]
            if "left_child" not in node:
                return None
            sides = place[id(node["left_child"])], place[id(node["right_child"])]
            return int(node["split_feature"]), float(node["threshold"]), *sides

        parts.append(leaves(split, lambda n, nodes=nodes, adds=adds: adds(nodes[n]["leaf_value"])))
    return parts, np.zeros(k)


def _flattened(node: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield node
    for side in ("left_child", "right_child"):
        if side in node:
            yield from _flattened(node[side])


READERS: dict[str, Callable[[Any], Found | None]] = {
    "DecisionTreeClassifier": _forest,
    "ExtraTreeClassifier": _forest,
    "RandomForestClassifier": _forest,
    "ExtraTreesClassifier": _forest,
    "BaggingClassifier": _bagging,
    "AdaBoostClassifier": _boosted_votes,
    "GradientBoostingClassifier": _gradient_boosting,
    "HistGradientBoostingClassifier": _histogram_boosting,
    "XGBClassifier": _xgboost,
    "LGBMClassifier": _lightgbm,
}
