"""Whether the samples of other nodes help a node, and the model that it gets.

A node's samples are joined with the others', each bucket of each node capped and halved per week. A model of all nodes is brought to one of
them by a line in log space, fitted to the node's older rows and shrunk toward none; the line is worked into the package. Which is better, that
or the node's own model, is decided per unit and label by leaving out one node at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .models import ROWS_MIN, Data, Model, TooFewRowsError, choose, data_of, package_of, percentage_error
from .package import Package
from .samples import Rows, Schema

BUCKET_ROWS_MAX = 1000
"""Most samples of one bucket of one node; the newest count."""

CALIBRATION_MIN = 50
"""With fewer rows a node has no correction."""

_HALF_LIFE_US = 7 * 86_400 * 1e6
_PRIOR_ROWS = 10.0


@dataclass(frozen=True)
class NodeError:
    """How two models do on the newest rows of a node that neither saw, 0.1 for 10 %."""

    node: str
    pooled: float
    own: float


@dataclass(frozen=True)
class Outcome:
    """What became of one unit's label: a package for each node, and why."""

    unit: str
    label: str
    packages: dict[str, Package]
    errors: tuple[NodeError, ...]
    is_pooled: bool
    problem: str | None = None


def _capped(data: Data) -> np.ndarray:
    """Return the newest rows of each bucket (log2 of the first three features), in their order."""
    magnitudes = np.floor(np.log2(np.maximum(data.features[:, :3], 0.5))).astype(np.int64) + 1
    _, buckets = np.unique(magnitudes, axis=0, return_inverse=True)
    buckets = buckets.reshape(-1)
    newest_first = np.lexsort((-data.times_us.astype(np.int64), buckets))
    sorted_buckets = buckets[newest_first]
    starts = np.flatnonzero(np.r_[True, sorted_buckets[1:] != sorted_buckets[:-1]])
    within = np.arange(len(buckets)) - np.repeat(starts, np.diff(np.r_[starts, len(buckets)]))
    return np.sort(newest_first[within < BUCKET_ROWS_MAX])


def merge(parts: list[Data]) -> Data:
    """Join the rows of several nodes: buckets capped per node, weights halved for each week before the newest row."""
    parts = [part.select(_capped(part)) for part in parts]
    newest = max(int(part.times_us.max()) for part in parts)
    ages = [np.exp2(-(newest - part.times_us.astype(np.float64)) / _HALF_LIFE_US) for part in parts]
    weights = [np.maximum(part.weights * age, 1e-9) for part, age in zip(parts, ages, strict=True)]
    return Data(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.targets_ln for part in parts]),
        np.concatenate(weights),
        np.concatenate([part.times_us for part in parts]),
    )


def corrected(model: Model, calibration: Data) -> Model:
    """Bring a model to a node by its rows: a line in log space, shrunk toward none; none below 50 rows."""
    if len(calibration) < CALIBRATION_MIN:
        return model
    predicted = model.predict_ln(calibration.features)
    centre = predicted.mean()
    missed = calibration.targets_ln - predicted
    offset = missed.sum() / (len(missed) + _PRIOR_ROWS)
    slope = (missed @ (predicted - centre)) / (((predicted - centre) ** 2).sum() + _PRIOR_ROWS)
    scale = 1.0 + float(slope)
    return replace(
        model,
        scale=model.scale * scale,
        offset_ln=scale * model.offset_ln + float(offset) - float(slope) * float(centre),
    )


def leave_one_node_out(nodes: dict[str, Data]) -> tuple[NodeError, ...]:
    """Judge, for each node, the others' model with the node's correction and the node's own, on its newest rows."""
    errors = []
    for node, data in nodes.items():
        older, newest = data.split_by_time()
        others = merge([other for name, other in nodes.items() if name != node])
        models = {"pooled": corrected(choose(*others.split_by_time()), older), "own": choose(*older.split_by_time())}
        judged = {name: percentage_error(newest.targets_ln, model.predict_ln(newest.features), newest.weights) for name, model in models.items()}
        errors.append(NodeError(node, **judged))
    return tuple(errors)


def fit_nodes(schema: Schema, rows: Rows, label: int) -> Outcome:
    """Fit one label of one unit for every node that has enough samples.

    Nodes with fewer than 50 rows get no package; where none has them the outcome says so.
    """
    found = {str(node): data_of(schema, rows.of_node(str(node)), label) for node in np.unique(rows.nodes)}
    nodes = {node: data for node, data in found.items() if len(data) >= ROWS_MIN}
    names = {"unit": schema.name, "label": schema.labels[label]}
    if not nodes:
        problem = f"{len(rows)} samples on {len(found)} nodes, at least {ROWS_MIN} of a node are needed"
        return Outcome(**names, packages={}, errors=(), is_pooled=False, problem=problem)
    errors = leave_one_node_out(nodes) if len(nodes) > 1 else ()
    is_pooled = bool(errors) and sum(error.pooled for error in errors) <= sum(error.own for error in errors)
    splits = {node: data.split_by_time() for node, data in nodes.items()}
    packages = {}
    if is_pooled:
        joined = merge([older for older, _ in splits.values()])
        model_of_all = choose(*joined.split_by_time())
    for node, (older, newest) in splits.items():
        own = nodes[node]
        try:
            if is_pooled:
                model = corrected(model_of_all, older)
                seen = Data(*(np.concatenate(pair) for pair in zip(_fields(own), _fields(joined), strict=True)))
            else:
                model, seen = choose(older, newest), own
            hardware = rows.hardware if is_pooled else rows.of_node(node).hardware
            packages[node] = package_of(schema, label, model, seen, newest, hardware)
        except TooFewRowsError:
            continue
    return Outcome(**names, packages=packages, errors=errors, is_pooled=is_pooled)


def _fields(data: Data) -> tuple[np.ndarray, ...]:
    return data.features, data.targets_ln, data.weights, data.times_us
