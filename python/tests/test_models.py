"""Models, intervals, corrections and checksums by themselves."""

from __future__ import annotations

import io
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from collie_train import package
from collie_train.models import Data, TooFewRowsError, conformal_quantile, fit, fit_ridge, percentage_error
from collie_train.pooling import BUCKET_ROWS_MAX, corrected, fit_nodes, leave_one_node_out, merge
from collie_train.samples import Rows, Schema, list_files, read
from fit import main

from . import support


def power_law(rows: int, speed: float, power: float, seed: int) -> Data:
    """Return rows whose label is a power of their feature times the node's speed, with noise."""
    chance = np.random.default_rng(seed)
    features = 1.0 + 1000.0 * chance.random((rows, 1))
    targets = np.log(speed * features[:, 0] ** power) + 0.6 * (chance.random(rows) - 0.5)
    return Data(features, targets, np.ones(rows), np.arange(rows))


class ModelsTest(unittest.TestCase):
    """What can be right or wrong without files."""

    def test_checksums_equal_their_published_check_values(self) -> None:
        """Goal: the package's sums are the standard ones. Method: CRC-32C of the digits, FNV-1a of `a`, a number of two bytes."""
        self.assertEqual(package.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(package.fnv64(b"a"), 0xAF63DC4C8601EC8C)
        self.assertEqual((package.varint(127), package.varint(300)), (b"\x7f", b"\xac\x02"))

    def test_quantile_is_of_the_documented_rank(self) -> None:
        """Goal: the rank is that of the method. Method: residuals whose size is their number; too few of them."""
        self.assertEqual(conformal_quantile(np.arange(1.0, 100.0)), 90.0)
        self.assertEqual(conformal_quantile(-np.arange(1.0, 10.0)), 9.0)
        with self.assertRaises(TooFewRowsError):
            conformal_quantile(np.arange(1.0, 9.0))

    def test_ridge_learns_a_power_law(self) -> None:
        """Goal: weights mean the columns as a package has them. Method: label = 3 x^0.7 without noise."""
        features = np.logspace(1, 5, 400).reshape(-1, 1)
        data = Data(features, np.log(3.0 * features[:, 0] ** 0.7), np.ones(400), np.arange(400))
        predicted = fit_ridge(data).predict_ln(features)
        np.testing.assert_allclose(predicted, data.targets_ln, atol=0.08)

    def test_a_correction_finds_a_slower_node(self) -> None:
        """Goal: a node that is twice as slow is met, with few rows as well. Method: a model of one node brought to another."""
        model = fit_ridge(power_law(2000, 1.0, 0.5, 1))
        other = power_law(400, 2.0, 0.5, 2)
        before = percentage_error(other.targets_ln, model.predict_ln(other.features), other.weights)
        after = corrected(model, other)
        self.assertLess(percentage_error(other.targets_ln, after.predict_ln(other.features), other.weights), before / 2)
        few = power_law(49, 2.0, 0.5, 3)
        self.assertEqual(corrected(model, few), model)

    def test_pooling_is_chosen_where_nodes_are_alike(self) -> None:
        """Goal: other nodes help where they are alike and know little, and not where they differ. Method: four nodes of each."""
        alike = {f"n{speed}": power_law(80, speed, 0.5, speed) for speed in (1, 2, 3, 4)}
        errors = leave_one_node_out(alike)
        self.assertTrue(all(error.pooled < 0.3 for error in errors), errors)
        powers = {1: 1.5, 2: 0.2, 3: 1.5, 4: 0.2}
        different = {f"n{at}": power_law(600, at, power, at) for at, power in powers.items()}
        errors = leave_one_node_out(different)
        self.assertGreater(sum(error.pooled for error in errors), sum(error.own for error in errors))

    def test_a_pooled_package_is_written_for_each_node(self) -> None:
        """Goal: where pooling helps, each node's package meets the node. Method: nodes of one law with few rows each; the Rust side
        predicts new rows of the slowest.
        """
        parts = {f"n{speed}": power_law(80, speed, 0.5, 10 + speed) for speed in (1, 2, 3, 4)}
        schema = Schema(9, 1, "TEST", 5, ("x",), ("count",), ("elapsed_ns",), ("constant", 0))
        labels = np.exp(np.concatenate([part.targets_ln for part in parts.values()])).reshape(-1, 1)
        features = np.concatenate([part.features for part in parts.values()])
        nodes = np.repeat(list(parts), 80)
        times = np.concatenate([part.times_us for part in parts.values()])
        rows = Rows(features, labels, np.ones(320), times, nodes, frozenset({("n1", 3), ("n4", 7)}))
        outcome = fit_nodes(schema, rows, 0)
        self.assertEqual(set(outcome.packages), set(parts))
        if outcome.is_pooled:
            self.assertEqual(outcome.packages["n1"].hardware, (3, 7))
        new = power_law(500, 4, 0.5, 99)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "x.package")
            path.write_bytes(outcome.packages["n4"].encode())
            value = support.rust_predictions(path, new.features)[:, 0]
        self.assertLess(percentage_error(new.targets_ln, np.log(value), new.weights), 0.3)

    def test_merged_rows_are_capped_and_age(self) -> None:
        """Goal: no bucket of a node outweighs all others, and a week halves a weight. Method: counts and weights of two nodes."""
        week_us = 7 * 86_400 * 1_000_000
        one = Data(np.ones((1500, 1)), np.zeros(1500), np.ones(1500), np.arange(1500) + week_us)
        old = Data(np.full((8, 1), 64.0), np.zeros(8), np.ones(8), np.zeros(8, dtype=np.int64))
        merged = merge([one, old])
        self.assertEqual(len(merged), BUCKET_ROWS_MAX + 8)
        self.assertEqual(int(merged.times_us[0]), week_us + 500, "the newest are kept")
        self.assertAlmostEqual(merged.weights[-1], 0.5, places=6)


class FitTest(unittest.TestCase):
    """From files to packages on one machine."""

    def test_models_reach_the_noise(self) -> None:
        """Goal: a model of each unit is about as good as the noise in its samples allows. Method: the known rule with 5 % of noise (which is
        2.7 % on average) per call; labels of every unit.
        """
        for unit in (2, 9, 13, 22):
            schema, rows = read([file for file in list_files([str(support.data() / "n1")]) if file.unit == unit])
            for label in range(len(schema.labels)):
                fitted, model = fit(schema, rows, label)
                with self.subTest(unit=schema.name, label=label, kind=model.kind):
                    self.assertLess(sum(fitted.fold_errors) / 4, 0.12)
                    self.assertEqual((fitted.rows, len(fitted.ranges)), (1500, len(schema.features)))

    def test_the_program_writes_packages_and_refuses_several_nodes(self) -> None:
        """Goal: `fit.py` does what its help says, on a memory file system too. Method: its exit codes, and what lies there."""
        with tempfile.TemporaryDirectory() as directory, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            self.assertEqual(main(["--data", str(support.data() / "n1"), "--out", directory]), 0)
            names = sorted(path.name for path in Path(directory).iterdir())
            self.assertEqual(names[0], "ou=02-label=0.package")
            self.assertEqual(len(names), 4 + 1 + 1 + 2)
            self.assertEqual(main(["--data", f"{directory}/none", "--out", directory]), 1)
            self.assertEqual(main(["--data", str(support.data() / "n2"), "--out", "memory://models"]), 0)
