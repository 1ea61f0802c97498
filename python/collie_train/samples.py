"""Sample files: which there are, and what they hold. The format is in docs/format.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import fsspec
import numpy as np
import pyarrow.parquet as pq

WEIGHT_MAX = 100.0
"""A sample stands for at most so many calls."""

_NAME = re.compile(r"samples/v1/ou=(?P<unit>\d+)/ver=(?P<version>\d+)/day=(?P<day>\d+)/(?P<node>[^/]+)-(?P<seq>\d+)\.parquet$")


@dataclass(frozen=True, order=True)
class SampleFile:
    """A file by its name; ordered by day, then by number."""

    day: int
    seq: int
    node: str
    unit: int
    version: int
    url: str = field(compare=False)


@dataclass(frozen=True)
class Schema:
    """What the columns of a unit mean, as the footer of its files says."""

    unit: int
    version: int
    name: str
    hash: int
    features: tuple[str, ...]
    feature_units: tuple[str, ...]
    labels: tuple[str, ...]
    complexity: tuple[str, int]
    """How the elapsed time grows: `constant`, `linear` or `linearithmic`, and with which feature."""

    def complexity_of(self, label: int) -> tuple[str, int]:
        """Return by what a label is divided: only the elapsed time of a long unit is."""
        return self.complexity if label == 0 else ("constant", 0)


@dataclass
class Rows:
    """Samples of one unit, as numbers of one call.

    Shapes: `features` is `[rows, features]`, `labels` `[rows, labels]`, the others `[rows]`.
    """

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    times_us: np.ndarray
    nodes: np.ndarray
    machines: frozenset[tuple[str, int]]
    """Node and hardware tag of each file."""

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.weights)

    def of_node(self, node: str) -> Rows:
        """Return the rows of one node."""
        keep = self.nodes == node
        arrays = (self.features, self.labels, self.weights, self.times_us, self.nodes)
        machines = frozenset(pair for pair in self.machines if pair[0] == node)
        return Rows(*(array[keep] for array in arrays), machines=machines)

    @property
    def hardware(self) -> tuple[int, ...]:
        """Return the tags of the machines, sorted."""
        return tuple(sorted({tag for _, tag in self.machines}))


def list_files(roots: Iterable[str]) -> list[SampleFile]:
    """Return the sample files under data directories, oldest first.

    Args:
        roots: paths or URLs that fsspec knows, such as `/var/lib/collie` or `s3://bucket/node-1`.
    """
    found = []
    for root in roots:
        filesystem, path = fsspec.core.url_to_fs(root)
        for name in filesystem.glob(f"{path.rstrip('/')}/samples/v1/ou=*/ver=*/day=*/*.parquet"):
            match = _NAME.search(name)
            if match is None:
                continue
            numbers = {key: int(match[key]) for key in ("day", "seq", "unit", "version")}
            found.append(SampleFile(node=match["node"], url=filesystem.unstrip_protocol(name), **numbers))
    return sorted(found)


def _footer(file: pq.ParquetFile) -> dict[str, str]:
    pairs = file.metadata.metadata or {}
    return {key.decode(): value.decode() for key, value in pairs.items()}


def _schema(sample_file: SampleFile, footer: dict[str, str]) -> Schema:
    features = tuple(footer["features"].split(","))
    kind, _, feature = footer["complexity"].partition(":")
    return Schema(
        unit=sample_file.unit,
        version=sample_file.version,
        name=footer["unit"],
        hash=int(footer["schema_hash"], 16),
        features=features,
        feature_units=tuple(footer["feature_units"].split(",")),
        labels=tuple(footer["labels"].split(",")),
        complexity=(kind, features.index(feature) if feature else 0),
    )


def _columns(table: object, names: tuple[str, ...]) -> np.ndarray:
    columns = [table.column(name).to_numpy().astype(np.float64) for name in names]
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def read(files: Iterable[SampleFile], rows_max: int = 1_000_000) -> tuple[Schema, Rows]:
    """Read files of one unit and version, the newest first, until there are `rows_max` rows.

    Features that are sums over a run of calls, and labels, are divided by the calls; a label of 0 counts as 1; weights are 1 / p, at most
    `WEIGHT_MAX`. So does the server's own `collie train fit`.

    Raises:
        ValueError: without files, or when they are of several units or schemas.
    """
    files = sorted(files, reverse=True)
    if len({(file.unit, file.version) for file in files}) != 1:
        raise ValueError("expected the files of one unit and version")
    schema, parts, machines, rows = None, [], set(), 0
    for file in files:
        if rows >= rows_max:
            break
        filesystem, path = fsspec.core.url_to_fs(file.url)
        with filesystem.open(path, "rb") as handle:
            parquet = pq.ParquetFile(handle)
            footer = _footer(parquet)
            found = _schema(file, footer)
            schema = schema or found
            if found != schema:
                raise ValueError(f"{file.url} has another schema than the newest file of its unit")
            table = parquet.read()
        if (tag := int(footer["hardware_tag"], 16)) != 0:
            machines.add((file.node, tag))
        calls = np.maximum(table.column("calls").to_numpy().astype(np.float64), 1.0)
        is_sum = np.array([unit not in ("code", "flag") for unit in schema.feature_units])
        features = _columns(table, schema.features)
        features = np.where(is_sum, features / calls[:, None], features)
        labels = np.maximum(_columns(table, schema.labels), 1.0) / calls[:, None]
        weights = np.minimum(1.0 / table.column("p").to_numpy().astype(np.float64), WEIGHT_MAX)
        times = table.column("time_us").to_numpy()
        nodes = np.full(table.num_rows, file.node)
        parts.append((features, labels, weights, times, nodes))
        rows += table.num_rows
    joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return schema, Rows(*joined, machines=frozenset(machines))
