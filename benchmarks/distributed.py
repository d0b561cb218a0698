"""Many machines, on one: speed of two workers against one, what travels, Yahoo's table, and a plan past both.

``python -m benchmarks.distributed [--scale 0.05] [--only speed traffic yahoo plan] [--out FILE]``

Workers have one thread each. Times are the median of the trees after the first; bytes are the mean of what the worker
that receives most gets for a tree. ``--scale`` makes everything smaller, to try the script out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse as sp

from benchmarks._common import machine, write_results

BLOCK = 10_000
OUT = Path("docs/results/distributed.json")


# --- rows that any worker can make for itself


def make_rows(first, end, n_features, n_outputs, labels=False):
    """Rows ``first`` up to ``end`` of a set: blocks are drawn by their number."""
    parts = []
    for block in range(first // BLOCK, -(-end // BLOCK)):
        rng = np.random.default_rng([7, block])
        X = rng.normal(size=(BLOCK, n_features)).astype(np.float32)
        if labels:  # three of many, which two features tell
            group = (np.digitize(X[:, 0], [-1, 0, 1]) * 4 + np.digitize(X[:, 1], [-1, 0, 1])) * 3
            columns = (group[:, None] + np.arange(3)) * (n_outputs // 50 or 1) % n_outputs
            indptr = np.arange(0, 3 * BLOCK + 1, 3)
            Y = sp.csr_matrix((np.ones(3 * BLOCK, np.float32), columns.ravel(), indptr), (BLOCK, n_outputs))
            Y.sum_duplicates()
            Y.data[:] = 1
        else:
            weights = np.random.default_rng(5).normal(size=(min(n_features, 20), n_outputs))
            Y = (np.sin(X[:, : len(weights)]) @ weights + rng.normal(size=(BLOCK, n_outputs))).astype(
                np.float32
            )
        own = slice(max(first - block * BLOCK, 0), min(end - block * BLOCK, BLOCK))
        parts.append((X[own], Y[own]))
    stack = sp.vstack if labels else np.concatenate
    return np.concatenate([X for X, _ in parts]), stack([Y for _, Y in parts])


def make_estimator(job):
    from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier

    kind = SparseGBDTClassifier if job["labels"] else MultiGBDTRegressor
    return kind.from_settings({**job["parameters"], "n_jobs": 1})


def borders(n_rows, n):
    return [n_rows * i // n for i in range(n + 1)]


# --- one training, by either engine


def result(estimator, profile, seconds):
    trees = estimator.model_.trees
    offsets = trees.tree_offsets
    received = [max(worker["received"] for worker in tree["workers"]) for tree in profile[1:]]
    waiting = [max(worker["waiting"] for worker in tree["workers"]) for tree in profile[1:]]
    return {
        "seconds": median(np.diff(seconds)),
        "received": float(np.mean(received)),
        "waiting": median(waiting),
        "nodes": float(np.diff(offsets).mean()),
        "inner": float((trees.feature >= 0).sum() / trees.n_trees),
    }


def in_rank(job):
    """What every rank does; the first prints the result."""
    from mpi4py import MPI

    from sparseleaf.distributed.mpi import MPILauncher

    comm = MPI.COMM_WORLD
    ends = borders(job["rows"], comm.size)
    X, Y = make_rows(ends[comm.rank], ends[comm.rank + 1], job["features"], job["outputs"], job["labels"])
    engine, seconds = MPILauncher(), []
    estimator = make_estimator(job)
    estimator.fit(
        X,
        Y,
        engine=engine,
        layout=job["layout"],
        callbacks=[lambda state: seconds.append(time.perf_counter())],
    )
    if comm.rank == 0:
        print("RESULT " + json.dumps(result(estimator, engine.profile, seconds)), flush=True)


def mpi(job, n):
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    command = [found, "-n", str(n), sys.executable, "-m", "benchmarks.distributed", "--rank", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(lines[0][7:])


def read_block(job, part):
    X, Y = make_rows(*part, job["features"], job["outputs"], job["labels"])
    return {"X": X, "y": Y}


def dask(job, n):
    from functools import partial

    from distributed import Client

    from sparseleaf.distributed.dask import DaskLauncher, local_cluster
    from sparseleaf.distributed.sources import PartFiles

    ends, seconds = borders(job["rows"], n), []
    parts = PartFiles(list(pairwise(ends)), partial(read_block, job))
    with local_cluster(n) as cluster, Client(cluster) as client:
        engine, estimator = DaskLauncher(client), make_estimator(job)
        estimator.fit(
            parts, None, engine=engine, layout=job["layout"],
            callbacks=[lambda state: seconds.append(time.perf_counter())],
        )  # fmt: skip
    return result(estimator, engine.profile, seconds)


# --- the claims


DEPTH = 6


def dense_job(rows, features, outputs, layout, **parameters):
    wanted = {
        "n_trees": 8, "max_depth": DEPTH, "max_leaves": None, "growth": "depth-wise", "min_samples_leaf": 20,
        "max_bins": 64, **parameters,
    }  # fmt: skip
    return {
        "rows": rows, "features": features, "outputs": outputs, "layout": layout, "labels": False,
        "parameters": wanted,
    }  # fmt: skip


TURNS = 3


def speed(scale):
    """Two workers against one, in turns; the best of each, since others may use the machine too."""
    found = {}
    for name, run, rows, layout in (
        ("MPI, by rows", mpi, 200_000, "rows"),
        ("MPI, by features", mpi, 200_000, "features"),
        ("Dask, by rows", dask, 1_000_000, "rows"),
        ("Dask, by features", dask, 1_000_000, "features"),
    ):
        job = dense_job(int(rows * scale), 50, 32, layout, split="full", max_depth=7, max_bins=32)
        seconds = [[run(job, n)["seconds"] for n in (1, 2)] for _ in range(TURNS)]
        one, two = (float(min(times)) for times in zip(*seconds, strict=True))
        found[name] = {"rows": job["rows"], "one": one, "two": two, "times": one / two, "all": seconds}
        print(name, found[name], flush=True)
    return found


def traffic(scale):
    """What travels, against the formulas."""
    found = {}
    rows = int(50_000 * scale) // BLOCK * BLOCK or BLOCK
    for n in (2, 3):
        for outputs in (10, 100_000):
            job = {
                "rows": rows, "features": 20, "outputs": outputs, "layout": "features", "labels": True,
                "parameters": {
                    "n_trees": 5, "max_depth": DEPTH, "min_samples_leaf": 20, "colsample_bynode": 1.0,
                    "projection": None,
                },
            }  # fmt: skip
            run = mpi(job, n)
            formula = rows * DEPTH / 8 + 64 * n * run["nodes"]
            found[f"by features, {outputs:,} outputs, {n} ranks"] = {
                "received": run["received"], "formula": formula, "share": run["received"] / formula,
            }  # fmt: skip
        for outputs in (8, 32):
            job = dense_job(rows, 20, outputs, "rows")
            run = mpi(job, n)
            # a histogram for the root and for one child of every split above the last level
            built = 1 + (run["inner"] - 1) / 2
            width = outputs if outputs % 8 == 0 else -(-outputs // 8) * 8
            bins = 20 * job["parameters"]["max_bins"]
            others = (n - 1) / n
            formula = (
                built * bins * (width + 1) * 4 * others
                + (run["nodes"] - run["inner"]) * (outputs + 1) * 8 * 2 * others
                + 64 * n * run["nodes"]
            )
            found[f"by rows, {outputs:,} outputs, {n} ranks"] = {
                "received": run["received"], "formula": formula, "share": run["received"] / formula,
            }  # fmt: skip
    for name, one in found.items():
        print(name, one, flush=True)
    return found


def yahoo(scale):
    """1.2 million rows of 500 features, trees of 63 nodes, one output."""
    rows = int(1_200_000 * scale)
    found = {}
    for name, run, layout in (
        ("map-reduce, by rows", dask, "rows"),
        ("map-reduce, by features", dask, "features"),
        ("MPI, by rows", mpi, "rows"),
        ("MPI, by features", mpi, "features"),
    ):
        job = dense_job(rows, 500, 1, layout, n_trees=4, max_depth=5, max_bins=255)
        found[name] = run(job, 2) | {"rows": rows}
        print(name, found[name], flush=True)
    return found


def plan(scale):
    """Seconds a tree for 10⁹ rows × 10⁶ labels on 100 machines, from rates measured here and a stated network."""
    rows = int(200_000 * scale) // BLOCK * BLOCK or BLOCK
    features, columns, bins, depth, cores, machines = 100, 32, 64, 10, 32, 100
    job = {
        "rows": rows, "features": features, "outputs": 100_000, "layout": "rows", "labels": True,
        "parameters": {
            "n_trees": 4, "max_depth": depth, "max_bins": bins, "min_samples_leaf": 100, "projection": None,
            "colsample_bynode": 1.0,
        },
    }  # fmt: skip
    alone = mpi(job, 1)
    per_row = alone["seconds"] / rows  # of one thread, all of a tree
    network = {"bytes_per_second": 1.25e9, "latency": 50e-6}  # 10 Gbit/s Ethernet
    n, nodes = 10**9, 2**depth
    speed_of = cores * 0.5  # threads of a machine share its memory: half of each is counted
    by_rows = {
        "compute": n / machines * per_row / speed_of,
        "bytes": nodes / 2 * features * bins * (columns + 1) * 4 + 2 * nodes * 1000 * 12,
        "messages": depth * 4 * machines,
    }
    # by features everything but histograms and search is done for all rows everywhere
    split_share = 0.5
    by_features = {
        "compute": n * per_row / speed_of * (split_share / machines + (1 - split_share)),
        "bytes": n * depth / 8 + 64 * machines * nodes,
        "messages": depth * 2 * machines,
    }
    found = {
        "measured": {"rows": rows, "seconds": alone["seconds"], "seconds_per_row": per_row},
        "assumed": {
            "machines": machines, "cores": cores, "share_of_a_core": 0.5, "network": network,
            "share_of_histograms": split_share, "features": features, "columns": columns, "bins": bins,
            "depth": depth, "labels_of_a_leaf": 1000,
        },
    }  # fmt: skip
    for name, one in (("by rows", by_rows), ("by features", by_features)):
        one["network"] = one["bytes"] / network["bytes_per_second"] + one["messages"] * network["latency"]
        one["seconds"] = one["compute"] + one["network"]
        found[name] = one
        print(name, one, flush=True)
    return found


CLAIMS = {"speed": speed, "traffic": traffic, "yahoo": yahoo, "plan": plan}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", choices=CLAIMS, default=list(CLAIMS))
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.rank:
        in_rank(json.loads(args.rank))
        return
    known = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in args.only:
        known[name] = CLAIMS[name](args.scale) | {"scale": args.scale}
        known["machine"] = machine()
        write_results(args.out, known)


if __name__ == "__main__":
    main()
