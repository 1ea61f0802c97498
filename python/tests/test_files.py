"""Sample files as other programs read them."""

from __future__ import annotations

import unittest

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq

from collie_train.samples import list_files, read

from . import support

COMMON = ["time_us", "source", "flags", "thread", "calls", "p", "ctx", "start", "lsn"]
WIDE = ("time_us", "start", "lsn")


class SampleFilesTest(unittest.TestCase):
    """Files of a node with four units."""

    @classmethod
    def setUpClass(cls) -> None:
        """Have the files written, and told by the program that wrote them."""
        cls.root = support.data() / "n1"
        cls.told: dict[tuple[int, int], list[list[str]]] = {}
        for line in support.fleet("expected", str(cls.root)).splitlines():
            unit, seq, *numbers = line.split()
            cls.told.setdefault((int(unit), int(seq)), []).append(numbers)

    def _check(self, columns: list[str], rows: list[tuple], told: list[list[str]]) -> None:
        self.assertEqual(columns[: len(COMMON)], COMMON)
        self.assertEqual(len(rows), len(told))
        single = columns.index("p")
        for row, expected in zip(rows, told, strict=True):
            for at, (found, text) in enumerate(zip(row, expected, strict=True)):
                if at == single:
                    self.assertAlmostEqual(found, float(text), places=6)
                else:
                    self.assertEqual(int(found), int(text), columns[at])

    def test_every_reader_sees_the_numbers_that_were_written(self) -> None:
        """Goal: anybody can read a file. Method: pyarrow, pandas, polars and duckdb against the writer's own words, all rows of all units."""
        files = list_files([str(self.root)])
        self.assertEqual({(file.unit, file.seq) for file in files}, set(self.told))
        for file in files:
            path, told = file.url.removeprefix("file://"), self.told[file.unit, file.seq]
            with self.subTest(file=path):
                table = pq.ParquetFile(path).read()
                rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
                self._check(table.column_names, rows, told)
                for name in table.column_names:
                    expected = {
                        "p": "float",
                        "source": "uint8",
                        "flags": "uint8",
                        "thread": "uint16",
                        "calls": "uint16",
                    }
                    wide = "uint64" if name in WIDE or name.endswith(("_ns", "disk_bytes")) else "uint32"
                    self.assertEqual(str(table.schema.field(name).type), expected.get(name, wide), name)
                    self.assertFalse(table.schema.field(name).nullable, name)
                frame = pd.read_parquet(path, partitioning=None)
                self._check(list(frame.columns), list(frame.itertuples(index=False, name=None)), told)
                polars = pl.read_parquet(path, hive_partitioning=False)
                self._check(polars.columns, polars.rows(), told)
                relation = duckdb.sql(f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)")
                self._check(relation.columns, relation.fetchall(), told)

    def test_directories_are_partitions(self) -> None:
        """Goal: a whole directory is one table of a unit. Method: duckdb counts rows by the parts of the path."""
        pattern = f"{self.root}/samples/v1/*/*/*/*.parquet"
        query = f"""
            SELECT ou, ver, count(*) FROM read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)
            GROUP BY ALL ORDER BY ALL"""
        counted = {int(unit): (int(version), rows) for unit, version, rows in duckdb.sql(query).fetchall()}
        expected: dict[int, int] = {}
        for (unit, _), rows in self.told.items():
            expected[unit] = expected.get(unit, 0) + len(rows)
        self.assertEqual(counted, {unit: (1, rows) for unit, rows in expected.items()})

    def test_footers_name_their_source(self) -> None:
        """Goal: a file says where it comes from. Method: the keys of one, and what `read` makes of them."""
        files = [file for file in list_files([str(self.root)]) if file.unit == 13]
        pairs = pq.ParquetFile(files[0].url.removeprefix("file://")).metadata.metadata
        footer = {key.decode(): value.decode() for key, value in pairs.items()}
        self.assertEqual((footer["cluster"], footer["node"], footer["unit"]), ("test", "n1", "SCAN"))
        self.assertIn("cpu=test 1; cores=1", footer["hardware_facts"])
        self.assertIn("integer_ns=1.000", footer["hardware_constants"])
        schema, rows = read(files)
        self.assertEqual((schema.complexity, schema.features[0]), (("linear", 0), "rows_examined"))
        self.assertEqual((len(rows), rows.hardware), (1500, (int(footer["hardware_tag"], 16),)))
        self.assertEqual(schema.hash, int(footer["schema_hash"], 16))
        self.assertEqual(sorted(set(rows.weights)), [1.0, 2.0, 100.0])
