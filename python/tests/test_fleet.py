"""The same functions as tasks of a Ray cluster with several workers."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy as np
import ray

import fleet
from collie_train.pooling import fit_nodes
from collie_train.samples import list_files, read
from fit import by_unit

from . import support


class FleetTest(unittest.TestCase):
    """Three nodes, four units, two workers."""

    @classmethod
    def setUpClass(cls) -> None:
        """Start two workers on this machine and fit everything once."""
        directory = tempfile.TemporaryDirectory(prefix="collie-python-")
        cls.addClassCleanup(directory.cleanup)
        cls.out = Path(directory.name)
        cls.roots = [str(support.data() / node) for node in support.NODES]
        fleet.start(None, 2)
        cls.addClassCleanup(ray.shutdown)
        cls.done = fleet.fit_fleet(cls.roots, str(cls.out))

    def test_every_label_of_every_unit_is_a_task(self) -> None:
        """Goal: nothing is left out. Method: units and labels that came back, and packages per node."""
        names = sorted((outcome.unit, outcome.label) for outcome, _ in self.done)
        units = [("COMPACT", "disk_bytes"), ("COMPACT", "elapsed_ns"), ("LOG_FLUSH", "disk_bytes")]
        units += [("LOG_FLUSH", "elapsed_ns"), ("LOG_FLUSH", "sync_ns"), ("LOG_FLUSH", "write_ns")]
        units += [("ROW_READ", "elapsed_ns"), ("SCAN", "elapsed_ns")]
        self.assertEqual(names, units)
        for node in support.NODES:
            self.assertEqual(len(list((self.out / node).glob("*.package"))), len(units))
        for outcome, urls in self.done:
            self.assertEqual((len(urls), outcome.problem, len(outcome.errors)), (3, None, 3))

    def test_workers_write_what_one_process_writes(self) -> None:
        """Goal: where a task ran does not matter. Method: one unit's packages made here, compared byte by byte."""
        files = by_unit(list_files(self.roots))[13]
        schema, rows = read(files)
        for node, package in fit_nodes(schema, rows, 0).packages.items():
            self.assertEqual((self.out / node / package.name).read_bytes(), package.encode())

    def test_servers_load_what_the_fleet_wrote(self) -> None:
        """Goal: a node's package predicts that node, three times as slow as the first. Method: the Rust side predicts a scan of 1,000 rows."""
        row = np.array([[1000.0, 150.0, 4.0, 1.0, 500.0]])
        for speed, node in enumerate(support.NODES, start=1):
            value = support.rust_predictions(self.out / node / "ou=13-label=0.package", row)[0, 0]
            self.assertLess(abs(value / (speed * (40 * 1000 + 10 * 4)) - 1.0), 0.1, node)
