"""Fit cost models to the samples of many nodes, one Ray task per unit and label.

    python python/fleet.py --data s3://samples/n1 s3://samples/n2 --out s3://models        # a cluster of Ray: --address auto
    python python/fleet.py --data ./n1-data ./n2-data --out ./models                       # workers on this machine

Each node gets a directory of packages under --out: its own model, or that of all nodes with the node's correction, whichever does better on
nodes that were left out.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import ray

from collie_train.pooling import Outcome, fit_nodes
from collie_train.publish import publish
from collie_train.samples import SampleFile, list_files, read
from fit import by_unit

START_TRIES = 5
"""Ray gives the processes of a node half a minute to come up; on a loaded machine that may not be enough."""


@ray.remote(num_cpus=1, max_retries=3)
def fit_label(files: list[SampleFile], label: int, rows_max: int, out: str) -> tuple[Outcome, list[str]]:
    """Fit one label of one unit and write its packages. Done again it writes the same files, so a task that is lost is run again."""
    schema, rows = read(files, rows_max)
    outcome = fit_nodes(schema, rows, label)
    urls = [publish(f"{out.rstrip('/')}/{node}", package) for node, package in outcome.packages.items()]
    return outcome, urls


def fit_fleet(data: list[str], out: str, rows_max: int = 1_000_000) -> list[tuple[Outcome, list[str]]]:
    """Fit every label of every unit that has samples. Ray is initialised.

    Returns:
        For each label of each unit what became of it, and the URLs of its packages.
    """
    tasks = []
    for of_unit in by_unit(list_files(data)).values():
        schema, _ = read(of_unit, rows_max=1)
        tasks += [fit_label.remote(of_unit, label, rows_max, out) for label in range(len(schema.labels))]
    return ray.get(tasks)


def start(address: str | None, workers: int | None) -> None:
    """Join a cluster, or start workers on this machine. They find the modules that lie beside this file."""
    here = str(Path(__file__).resolve().parent)
    if address is not None:
        ray.init(address=address, runtime_env={"working_dir": here})
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH")) if part)
    os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")
    for tries_left in reversed(range(START_TRIES)):
        try:
            # Tasks hand over names and packages, not samples: the store of objects stays small.
            ray.init(num_cpus=workers, object_store_memory=128 << 20, include_dashboard=False, log_to_driver=False, configure_logging=False)
            return
        except Exception:
            # Ray has no type of its own for a node that did not come up.
            ray.shutdown()
            if tries_left == 0:
                raise


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0 if a package was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, nargs="+", help="data directories or URLs, one or more nodes in each")
    parser.add_argument("--out", required=True, help="directory or URL for packages, one directory per node")
    parser.add_argument("--address", help="a cluster of Ray, as in auto or ray://HOST:10001")
    parser.add_argument("--workers", type=int, help="without --address: processes on this machine [default: its cores]")
    parser.add_argument("--rows", type=int, default=1_000_000, help="most samples of a unit, the newest")
    options = parser.parse_args(arguments)
    start(options.address, options.workers)
    try:
        done = fit_fleet(options.data, options.out, options.rows)
    finally:
        ray.shutdown()
    written = 0
    for outcome, urls in done:
        judged = "; ".join(f"{e.node}: {100 * e.pooled:.1f} % pooled, {100 * e.own:.1f} % own" for e in outcome.errors)
        what = outcome.problem or ("one model of all nodes, corrected" if outcome.is_pooled else "a model of each node")
        print(f"{outcome.unit} {outcome.label}: {what}; {len(urls)} packages. {judged}".rstrip(". "))
        written += len(urls)
    if not done:
        print("error: no samples there: are these data directories whose servers collect?", file=sys.stderr)
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
