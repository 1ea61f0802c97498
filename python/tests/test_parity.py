"""The same package predicts the same number in Python and in the server's code."""

from __future__ import annotations

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np

from collie_train.models import Model, complexity_factor, data_of, fit_ridge, fit_trees, package_of
from collie_train.package import Package, Trees
from collie_train.samples import Schema, list_files, read

from . import support

ROWS = 10_000


def rows_near(package: Package, model: Model, chance: np.random.Generator) -> np.ndarray:
    """Return rows over all that the package has seen and a little beyond, with every threshold and its two neighbours among them."""
    low, high = (np.array(bound) for bound in zip(*package.ranges, strict=True))
    rows = chance.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low), size=(ROWS, len(low)))
    half = np.arange(ROWS) % 2 == 0
    rows[half] = np.rint(rows[half])
    exported = model.exported()
    if not isinstance(exported, Trees):
        return rows
    splits = {(node.feature, node.value) for tree in exported.trees for node in tree if node.left}
    near = [(f, v) for f, x in sorted(splits) for v in (np.nextafter(x, -np.inf), x, np.nextafter(x, np.inf))]
    chosen = near if len(near) <= ROWS // 2 else [near[at] for at in chance.choice(len(near), ROWS // 2, replace=False)]
    for row, (feature, value) in enumerate(chosen):
        rows[row] = np.clip(rows[row], low, high)
        rows[row, feature] = value
    return rows


def expected_values(package: Package, model: Model, rows: np.ndarray) -> np.ndarray:
    """Return what the Python side predicts: features and result brought to what was seen in training."""
    low, high = (np.array(bound) for bound in zip(*package.ranges, strict=True))
    predicted = np.clip(model.predict_ln(np.clip(rows, low, high)), *package.target_range_ln)
    return complexity_factor(package.complexity, rows) * np.exp(predicted)


class ParityTest(unittest.TestCase):
    """Models of each kind, of units that are short, long and n log n."""

    def _schema_and_package(self, unit: int, kind: str, scale: float) -> tuple[Schema, Package, Model]:
        files = [file for file in list_files([str(support.data() / "n1")]) if file.unit == unit]
        schema, rows = read(files)
        data = data_of(schema, rows, 0)
        older, newest = data.split_by_time()
        model = {"ridge": fit_ridge, "trees": fit_trees}[kind](older)
        model = replace(model, scale=scale, offset_ln=scale - 1.0)
        return schema, package_of(schema, 0, model, data, newest, rows.hardware), model

    def test_predictions_agree(self) -> None:
        """Goal: 1e-6 relative. Method: 10,000 rows for each kind of model and unit, thresholds and their neighbours, with and without a
        correction; the Rust side also says that the bytes are those that it would write.
        """
        for unit in (2, 9, 13, 22):
            for kind in ("ridge", "trees"):
                for scale in (1.0, 1.07):
                    with self.subTest(unit=unit, kind=kind, scale=scale), tempfile.TemporaryDirectory() as directory:
                        _, package, model = self._schema_and_package(unit, kind, scale)
                        path = Path(directory, package.name)
                        path.write_bytes(package.encode())
                        rows = rows_near(package, model, np.random.default_rng(unit))
                        rust = support.rust_predictions(path, rows)
                        value = expected_values(package, model, rows)
                        self.assertEqual(len(rust), ROWS)
                        np.testing.assert_allclose(rust[:, 0], value, rtol=1e-6, atol=0.0)
                        factor = np.exp(package.quantile_ln)
                        np.testing.assert_allclose(rust[:, 1], value / factor, rtol=1e-6, atol=0.0)
                        np.testing.assert_allclose(rust[:, 2], value * factor, rtol=1e-6, atol=0.0)
                        low, high = (np.array(bound) for bound in zip(*package.ranges, strict=True))
                        outside = ((rows < low) | (rows > high)).any(axis=1)
                        self.assertTrue((rust[outside, 3] == 1.0).all())
                        self.assertTrue(outside.any() and (~outside).any())

    def test_a_moved_threshold_is_noticed(self) -> None:
        """Goal: the test above can fail. Method: every threshold of a package moved to its upper neighbour."""
        _, package, model = self._schema_and_package(13, "trees", 1.0)
        moved = tuple(
            tuple(replace(node, value=float(np.nextafter(node.value, np.inf))) if node.left else node for node in tree)
            for tree in package.model.trees
        )
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, package.name)
            path.write_bytes(replace(package, model=Trees(package.model.base_ln, moved)).encode())
            rows = rows_near(package, model, np.random.default_rng(1))
            rust = support.rust_predictions(path, rows)[:, 0]
        self.assertGreater(np.abs(rust / expected_values(package, model, rows) - 1.0).max(), 1e-6)
