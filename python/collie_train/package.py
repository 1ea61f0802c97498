"""Model packages as bytes. The format is in docs/format.md, section 12; servers read it with the code that reads their own."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MAGIC = b"COLLIEMP"
_VERSION = 1
_LEAF = 0xFFFF
_COMPLEXITIES = {"constant": 0, "linear": 1, "linearithmic": 2}


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC32C = _crc32c_table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def fnv64(data: bytes) -> int:
    """Return the FNV-1a hash of `data`, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def varint(value: int) -> bytes:
    """Return `value` as unsigned LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if value == 0:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def _f64s(values: list[float] | tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


@dataclass(frozen=True)
class Ridge:
    """Model A: the intercept, then two weights per feature x, of ln(1 + x) and of its square."""

    weights: tuple[float, ...]

    kind = b"A"

    def encode(self, features: int) -> bytes:
        """Return the model's bytes.

        Raises:
            ValueError: when there are not as many weights as `features` ask for.
        """
        if len(self.weights) != 2 * features + 1:
            raise ValueError(f"{len(self.weights)} weights for {features} features")
        return _f64s(self.weights)


@dataclass(frozen=True)
class Node:
    """A split (rows whose `feature` is at most `value` go left) or a leaf, which adds `value`."""

    value: float
    feature: int = _LEAF
    left: int = 0
    """Place of the left child in its tree; the right one is the next."""


@dataclass(frozen=True)
class Trees:
    """Model B: what the leaves of all trees add to `base_ln`. The first node of a tree is its root."""

    base_ln: float
    trees: tuple[tuple[Node, ...], ...]

    kind = b"B"

    def encode(self, features: int) -> bytes:
        """Return the model's bytes, nodes numbered over all trees.

        Raises:
            ValueError: for a node that no server would take.
        """
        out = bytearray(_f64s([self.base_ln]) + varint(len(self.trees)))
        start = 0
        for tree in self.trees:
            out += varint(len(tree))
            for at, node in enumerate(tree):
                is_leaf = node.feature == _LEAF and node.left == 0
                is_split = node.feature < features and at < node.left < len(tree) - 1
                if not (is_leaf or is_split):
                    raise ValueError(f"node {at} of a tree of {len(tree)}: {node}")
                out += struct.pack("<dHHI", node.value, node.feature, 0, 0 if is_leaf else start + node.left)
            start += len(tree)
        return bytes(out)


@dataclass(frozen=True)
class Package:
    """A fitted model with what a server needs to decide whether to load it. Field by field as in docs/format.md."""

    unit: int
    label: int
    schema_version: int
    schema_hash: int
    window_us: tuple[int, int]
    rows: int
    effective_rows: float
    quantile_ln: float
    fold_errors: tuple[float, ...]
    hardware: tuple[int, ...]
    target_range_ln: tuple[float, float]
    ranges: tuple[tuple[float, float], ...]
    complexity: tuple[str, int]
    model: Ridge | Trees

    @property
    def name(self) -> str:
        """Return what the file is called in a directory of models."""
        return f"ou={self.unit:02}-label={self.label}.package"

    def _body(self) -> bytes:
        kind, feature = self.complexity
        parts = [
            struct.pack("<BBB", self.unit, self.label, self.schema_version) + self.model.kind,
            struct.pack("<QQQQ", self.schema_hash, *self.window_us, self.rows),
            _f64s([self.effective_rows, self.quantile_ln]),
            varint(len(self.fold_errors)) + _f64s(self.fold_errors),
            varint(len(self.hardware)) + struct.pack(f"<{len(self.hardware)}Q", *self.hardware),
            _f64s(self.target_range_ln),
            varint(len(self.ranges)) + b"".join(_f64s(pair) for pair in self.ranges),
            struct.pack("<BH", _COMPLEXITIES[kind], 0 if kind == "constant" else feature),
            self.model.encode(len(self.ranges)),
        ]
        return b"".join(parts)

    def encode(self) -> bytes:
        """Return the file's bytes."""
        body = self._body()
        covered = struct.pack("<IQ", _VERSION, fnv64(body)) + body
        return _MAGIC + struct.pack("<I", crc32c(covered)) + covered
