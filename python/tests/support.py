"""What several tests use: the Rust side's example program, and files that it wrote."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent.parent
NODES = ("n1", "n2", "n3")


def fleet(*arguments: str) -> str:
    """Run the example program `fleet` of crates/samples and return what it prints."""
    program = os.environ.get("COLLIE_FLEET", str(HERE.parent / "target/debug/examples/fleet"))
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@functools.cache
def data() -> Path:
    """Return a directory with a data directory of each of three nodes, written once per process."""
    directory = Path(tempfile.mkdtemp(prefix="collie-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    fleet("write", str(directory))
    return directory


def rust_predictions(package: Path, features: np.ndarray) -> np.ndarray:
    """Return value, low, high and clamped of each row, as the code of the server predicts them. Shape `[rows, 4]`."""
    with tempfile.TemporaryDirectory(prefix="collie-python-") as directory:
        rows, out = Path(directory, "rows"), Path(directory, "out")
        rows.write_bytes(np.ascontiguousarray(features, dtype="<f8").tobytes())
        fleet("predict", str(package), str(rows), str(out))
        return np.frombuffer(out.read_bytes(), dtype="<f8").reshape(-1, 4)
