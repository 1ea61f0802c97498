"""Packages as files, wherever fsspec reaches."""

from __future__ import annotations

import fsspec

from .package import Package


def publish(directory: str, package: Package) -> str:
    """Write a package into a directory or a bucket, whole or not at all, and return its URL."""
    filesystem, path = fsspec.core.url_to_fs(directory)
    filesystem.makedirs(path, exist_ok=True)
    target = f"{path.rstrip('/')}/{package.name}"
    with filesystem.transaction, filesystem.open(target, "wb") as handle:
        handle.write(package.encode())
    return filesystem.unstrip_protocol(target)
