"""Models of one label: a ridge by scikit-learn and trees by LightGBM, chosen as the server's own fit chooses.

The target is the logarithm of the label, divided by the unit's complexity. The older four fifths by time teach, the newest fifth chooses
and gives the interval (split conformal) and the errors that the package tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import lightgbm
import numpy as np
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.preprocessing import StandardScaler

from .package import Node, Package, Ridge, Trees
from .samples import Rows, Schema

ROWS_MIN = 50
"""With fewer rows there is no model."""

RIDGE_ROWS = 1000
"""With fewer rows only a ridge is fitted."""

NEWEST_SHARE = 0.2
COVERAGE = 0.9
_FOLDS = 4
_PENALTY = 1e-3
_TREES = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 64,
    "max_depth": 6,
    "max_bin": 255,
    "min_data_in_leaf": 5,
    "lambda_l2": 1.0,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    # A package has no missing values: what is 0 is 0.
    "use_missing": False,
    "zero_as_missing": False,
    "feature_pre_filter": False,
    "verbosity": -1,
}
_TREE_COUNT = 64


class TooFewRowsError(ValueError):
    """There are too few samples to fit, to validate or to bound."""


@dataclass(frozen=True)
class Data:
    """What one model is fitted to. Shapes: `features` `[rows, features]`, the others `[rows]`."""

    features: np.ndarray
    targets_ln: np.ndarray
    weights: np.ndarray
    times_us: np.ndarray

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.weights)

    def select(self, rows: np.ndarray) -> Data:
        """Return the rows with these numbers, in that order."""
        return Data(self.features[rows], self.targets_ln[rows], self.weights[rows], self.times_us[rows])

    def split_by_time(self, newest_share: float = NEWEST_SHARE) -> tuple[Data, Data]:
        """Return the older rows and the newest, each in the order of time."""
        order = np.argsort(self.times_us, kind="stable")
        newest = int(len(self) * newest_share)
        return self.select(order[: len(self) - newest]), self.select(order[len(self) - newest :])


def complexity_factor(complexity: tuple[str, int], features: np.ndarray) -> np.ndarray:
    """Return how many times the smallest piece of work each row is, at least 1."""
    kind, feature = complexity
    if kind == "constant":
        return np.ones(len(features))
    n = np.clip(features[:, feature], 1.0, 1e15)
    return n if kind == "linear" else n * np.maximum(np.log2(n), 1.0)


def data_of(schema: Schema, rows: Rows, label: int) -> Data:
    """Return the rows as what a model of `label` is fitted to."""
    factor = complexity_factor(schema.complexity_of(label), rows.features)
    return Data(rows.features, np.log(rows.labels[:, label] / factor), rows.weights, rows.times_us)


@dataclass(frozen=True)
class Model:
    """A model that predicts ln of a label, divided by the complexity; with a correction it is `scale * p + offset_ln`."""

    fitted: Ridge | lightgbm.Booster
    scale: float = 1.0
    offset_ln: float = 0.0

    @property
    def kind(self) -> str:
        """Return `ridge` or `trees`."""
        return "ridge" if isinstance(self.fitted, Ridge) else "trees"

    def predict_ln(self, features: np.ndarray) -> np.ndarray:
        """Predict each row."""
        if isinstance(self.fitted, Ridge):
            weights = np.array(self.fitted.weights)
            predicted = weights[0] + _logarithms(features) @ weights[1:]
        else:
            predicted = self.fitted.predict(features)
        return self.scale * predicted + self.offset_ln

    def exported(self) -> Ridge | Trees:
        """Return what a package holds, the correction worked into it."""
        if isinstance(self.fitted, Ridge):
            first, *rest = (self.scale * weight for weight in self.fitted.weights)
            return Ridge((first + self.offset_ln, *rest))
        trees = [_flat(tree["tree_structure"], self.scale) for tree in self.fitted.dump_model()["tree_info"]]
        return Trees(self.offset_ln, tuple(trees))


def _flat(root: dict, scale: float) -> tuple[Node, ...]:
    """Return a tree of LightGBM's dump as nodes, children behind their parent and side by side."""
    nodes: list[Node] = [Node(0.0)]
    open_nodes = [(0, root)]
    while open_nodes:
        at, node = open_nodes.pop()
        if "split_feature" not in node:
            nodes[at] = Node(scale * node["leaf_value"])
            continue
        if node["decision_type"] != "<=":
            raise ValueError(f"a split by {node['decision_type']}: no unit has categories")
        left = len(nodes)
        nodes[at] = Node(node["threshold"], node["split_feature"], left)
        nodes += [Node(0.0), Node(0.0)]
        open_nodes += [(left, node["left_child"]), (left + 1, node["right_child"])]
    return tuple(nodes)


def _logarithms(features: np.ndarray) -> np.ndarray:
    """Return ln(1 + x) and its square for each feature, side by side."""
    logs = np.log1p(np.maximum(features, 0.0))
    return np.stack([logs, logs * logs], axis=2).reshape(len(features), -1)


def fit_ridge(data: Data) -> Model:
    """Fit model A. The penalty is per row, on columns of mean 0 and deviation 1."""
    scaler = StandardScaler()
    columns = scaler.fit_transform(_logarithms(data.features), sample_weight=data.weights)
    ridge = RidgeRegression(alpha=_PENALTY * data.weights.sum())
    ridge.fit(columns, data.targets_ln, sample_weight=data.weights)
    weights = ridge.coef_ / scaler.scale_
    intercept = ridge.intercept_ - float(weights @ scaler.mean_)
    return Model(Ridge((float(intercept), *(float(weight) for weight in weights))))


def fit_trees(data: Data) -> Model:
    """Fit model B: what fits a package, 64 trees of at most 64 leaves."""
    weights = data.weights / data.weights.mean()
    train = lightgbm.Dataset(data.features, data.targets_ln, weight=weights, params=_TREES)
    return Model(lightgbm.train(_TREES, train, num_boost_round=_TREE_COUNT))


def percentage_error(targets_ln: np.ndarray, predicted_ln: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean absolute percentage error, 0.1 for 10 %; one row counts for at most e^10."""
    ratio = np.exp(np.minimum(predicted_ln - targets_ln, 10.0))
    return float(np.average(np.abs(ratio - 1.0), weights=weights))


def choose(older: Data, newest: Data) -> Model:
    """Fit both kinds to the older rows and return the one with the smaller error on the newest."""

    def error(model: Model) -> float:
        return percentage_error(newest.targets_ln, model.predict_ln(newest.features), newest.weights)

    ridge = fit_ridge(older)
    if len(older) + len(newest) < RIDGE_ROWS:
        return ridge
    trees = fit_trees(older)
    return trees if error(trees) < error(ridge) else ridge


def conformal_quantile(residuals: np.ndarray) -> float:
    """Return the ceil((n + 1) 0.9)-th smallest residual, in absolute value.

    Raises:
        TooFewRowsError: when there is no such residual.
    """
    rank = int(np.ceil((len(residuals) + 1) * COVERAGE))
    if not 1 <= rank <= len(residuals):
        raise TooFewRowsError(f"{len(residuals)} residuals bound nothing")
    return float(np.sort(np.abs(residuals))[rank - 1])


def package_of(schema: Schema, label: int, model: Model, seen: Data, newest: Data, hardware: tuple[int, ...]) -> Package:
    """Return a model as a package.

    Args:
        schema: of the unit.
        label: which of its labels.
        model: what was fitted.
        seen: every row that it was fitted to or is judged by: its ranges are those of the package.
        newest: rows that it was not fitted to, in the order of time: its errors and interval are theirs.
        hardware: tags of the machines.
    """
    low, high = float(seen.targets_ln.min()), float(seen.targets_ln.max())
    predicted = np.clip(model.predict_ln(newest.features), low, high)
    cuts = [fold * len(newest) // _FOLDS for fold in range(_FOLDS + 1)]
    folds = [slice(start, end) for start, end in pairwise(cuts)]
    errors = [percentage_error(newest.targets_ln[fold], predicted[fold], newest.weights[fold]) for fold in folds]
    return Package(
        unit=schema.unit,
        label=label,
        schema_version=schema.version,
        schema_hash=schema.hash,
        window_us=(int(seen.times_us.min()), int(seen.times_us.max())),
        rows=len(seen),
        effective_rows=float(seen.weights.sum() ** 2 / (seen.weights**2).sum()),
        quantile_ln=conformal_quantile(newest.targets_ln - predicted),
        fold_errors=tuple(errors),
        hardware=hardware,
        target_range_ln=(low, high),
        ranges=tuple(zip(seen.features.min(axis=0).tolist(), seen.features.max(axis=0).tolist(), strict=True)),
        complexity=schema.complexity_of(label),
        model=model.exported(),
    )


def fit(schema: Schema, rows: Rows, label: int) -> tuple[Package, Model]:
    """Fit one label of one unit to the samples of one node, or of nodes that are alike.

    Raises:
        TooFewRowsError: below 50 rows.
    """
    data = data_of(schema, rows, label)
    if len(data) < ROWS_MIN:
        raise TooFewRowsError(f"{len(data)} samples, at least {ROWS_MIN} are needed")
    older, newest = data.split_by_time()
    model = choose(older, newest)
    return package_of(schema, label, model, data, newest, rows.hardware), model
