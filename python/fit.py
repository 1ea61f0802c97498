"""Fit cost models to the samples of one node on this machine, as packages that servers load.

python python/fit.py --data ./collie-data --out ./models
collie train evaluate --data ./collie-data --models ./models
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby

from collie_train.models import TooFewRowsError, fit
from collie_train.publish import publish
from collie_train.samples import SampleFile, list_files, read


def by_unit(files: list[SampleFile]) -> dict[int, list[SampleFile]]:
    """Group files by unit, each of its newest version only; context rows (unit 0) are left out."""
    groups = {}
    for unit, found in groupby(sorted(files, key=lambda file: file.unit), key=lambda file: file.unit):
        of_unit = list(found)
        newest = max(file.version for file in of_unit)
        groups[unit] = [file for file in of_unit if file.version == newest]
    groups.pop(0, None)
    return groups


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0 if a package was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="data directory, or a URL that fsspec knows")
    parser.add_argument("--out", required=True, help="directory or URL for packages")
    parser.add_argument("--node", help="samples of this node only; needed where there are several")
    parser.add_argument("--rows", type=int, default=1_000_000, help="most samples of a unit, the newest")
    options = parser.parse_args(arguments)
    files = [file for file in list_files([options.data]) if options.node in (None, file.node)]
    nodes = sorted({file.node for file in files})
    if not files:
        print(f"error: no samples under {options.data}: is it a data directory whose server collects?", file=sys.stderr)
        return 1
    if len(nodes) > 1:
        names = ", ".join(nodes)
        print(f"error: samples of {names}: name one with --node, or fit them with fleet.py", file=sys.stderr)
        return 1
    written = 0
    for of_unit in by_unit(files).values():
        schema, rows = read(of_unit, options.rows)
        for label, name in enumerate(schema.labels):
            try:
                package, model = fit(schema, rows, label)
            except TooFewRowsError as problem:
                print(f"{schema.name} {name}: {problem}")
                continue
            url = publish(options.out, package)
            error = sum(package.fold_errors) / len(package.fold_errors)
            print(f"{schema.name} {name}: {model.kind} of {len(rows)} samples, error {100 * error:.1f} %; {url}")
            written += 1
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
