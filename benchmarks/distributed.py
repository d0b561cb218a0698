"""Distributed training on one machine: speed-up of two workers, traffic, Yahoo's table, and a model of 100 machines.

``python -m benchmarks.distributed [--scale 0.05] [--only speed spark traffic yahoo plan] [--out FILE]``

Workers have one thread each. Times are medians over the trees after the first; bytes are the mean per tree of the
worker that receives most. ``--scale`` makes everything smaller, to test the script.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse as sp

from benchmarks._common import machine, spark_home, write_results

BLOCK = 10_000
OUT = Path("docs/results/distributed.json")


# --- rows that every worker generates for itself


def make_rows(first, end, n_features, n_outputs, labels=False):
    """Rows ``first`` up to ``end`` of a synthetic dataset; the random seed of a block is its number."""
    parts = []
    for block in range(first // BLOCK, -(-end // BLOCK)):
        rng = np.random.default_rng([7, block])
        X = rng.normal(size=(BLOCK, n_features)).astype(np.float32)
        if labels:  # three labels per row, determined by two features
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
        rows = slice(max(first - block * BLOCK, 0), min(end - block * BLOCK, BLOCK))
        parts.append((X[rows], Y[rows]))
    stack = sp.vstack if labels else np.concatenate
    return np.concatenate([X for X, _ in parts]), stack([Y for _, Y in parts])


def make_estimator(job):
    from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier

    kind = SparseGBDTClassifier if job["labels"] else MultiGBDTRegressor
    return kind.from_settings({**job["parameters"], "n_jobs": 1})


def borders(n_rows, n):
    return [n_rows * i // n for i in range(n + 1)]


# --- one training, by MPI or Dask


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
    """The program of every rank; the first prints the result."""
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
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    command = [
        mpiexec,
        "-n",
        str(n),
        sys.executable,
        "-m",
        "benchmarks.distributed",
        "--rank",
        json.dumps(job),
    ]
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


@lru_cache
def linked_home():
    """SPARK_HOME of all sessions: they share one JVM."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(spark_home(Path(folder)))


@contextmanager
def spark_session(n):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "2g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH")))
        ),
    }
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": linked_home()}
    session = SparkSession.builder.master(f"local-cluster[{n},1,2048]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def spark(job, n):
    from benchmarks.spark_work import Blocks
    from sparseleaf.distributed.spark import run_on_spark

    with spark_session(n) as session:
        (piece,) = run_on_spark(session.range(0, n, 1, n), Blocks(job), n, n_trees=8, verbose=0)
    return json.loads(piece)


def from_frame(job, n):
    """Seconds of ``fit`` on a DataFrame of Parquet files, and of its trees; the rest is reading and shuffling."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sparseleaf.spark import MultiGBDTRegressor

    with tempfile.TemporaryDirectory() as folder, spark_session(n) as session:
        ends = borders(job["rows"], 8)
        for i, (first, end) in enumerate(pairwise(ends)):
            X, Y = make_rows(first, end, job["features"], job["outputs"])
            columns = {"features": pa.array(list(X)), "label": pa.array(list(Y))}
            pq.write_table(pa.table(columns), Path(folder) / f"part-{i}.parquet")
        frame = session.read.parquet(folder)
        estimator = MultiGBDTRegressor(**job["parameters"], n_jobs=1, numWorkers=n, layout=job["layout"])
        estimator.copy({estimator.n_trees: 1}).fit(frame.limit(1000))  # executors have started
        began = time.perf_counter()
        model = estimator.fit(frame)
        seconds = time.perf_counter() - began
    trees = [max(one["working"] + one["waiting"] for one in tree["workers"]) for tree in model.profile]
    return {"fit": seconds, "trees": sum(trees), "seconds": median(trees[1:])}


# --- the claims


DEPTH = 6


def dense_job(rows, features, outputs, layout, **parameters):
    settings = {
        "n_trees": 8, "max_depth": DEPTH, "max_leaves": None, "growth": "depth-wise", "min_samples_leaf": 20,
        "max_bins": 64, **parameters,
    }  # fmt: skip
    return {
        "rows": rows, "features": features, "outputs": outputs, "layout": layout, "labels": False,
        "parameters": settings,
    }  # fmt: skip


REPEATS = 3


def speed(scale):
    """One worker and two workers, alternating; the fastest run of each counts."""
    results = {}
    for name, run, rows, layout in (
        ("MPI, by rows", mpi, 200_000, "rows"),
        ("MPI, by features", mpi, 200_000, "features"),
        ("Dask, by rows", dask, 1_000_000, "rows"),
        ("Dask, by features", dask, 1_000_000, "features"),
    ):
        job = dense_job(int(rows * scale), 50, 32, layout, split="full", max_depth=7, max_bins=32)
        seconds = [[run(job, n)["seconds"] for n in (1, 2)] for _ in range(REPEATS)]
        one, two = (float(min(times)) for times in zip(*seconds, strict=True))
        results[name] = {"rows": job["rows"], "one": one, "two": two, "times": one / two, "all": seconds}
        print(name, results[name], flush=True)
    return results


def on_spark(scale, layouts=("rows", "features")):
    """One and two Spark workers, and two MPI ranks on the same rows, alternating; the fastest run of each counts."""
    results = {}
    for layout in layouts:
        job = dense_job(int(1_000_000 * scale), 50, 32, layout, split="full", max_depth=7, max_bins=32)
        runs = [
            {"one": spark(job, 1)["seconds"], "two": spark(job, 2)["seconds"], "mpi": mpi(job, 2)["seconds"]}
            for _ in range(REPEATS)
        ]
        best = {name: float(min(run[name] for run in runs)) for name in runs[0]}
        results[f"Spark, by {layout}"] = {
            "rows": job["rows"], **best, "times": best["one"] / best["two"],
            "overhead": best["two"] / best["mpi"] - 1, "all": runs, "frame": from_frame(job, 2),
        }  # fmt: skip
        print(layout, results[f"Spark, by {layout}"], flush=True)
    return results


def traffic(scale):
    """What travels, against the formulas."""
    results = {}
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
            results[f"by features, {outputs:,} outputs, {n} ranks"] = {
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
            results[f"by rows, {outputs:,} outputs, {n} ranks"] = {
                "received": run["received"], "formula": formula, "share": run["received"] / formula,
            }  # fmt: skip
    for name, one in results.items():
        print(name, one, flush=True)
    return results


def yahoo(scale):
    """1.2 million rows of 500 features, trees of 63 nodes, one output."""
    rows = int(1_200_000 * scale)
    results = {}
    for name, run, layout in (
        ("Dask, by rows", dask, "rows"),
        ("Dask, by features", dask, "features"),
        ("MPI, by rows", mpi, "rows"),
        ("MPI, by features", mpi, "features"),
    ):
        job = dense_job(rows, 500, 1, layout, n_trees=4, max_depth=5, max_bins=255)
        results[name] = run(job, 2) | {"rows": rows}
        print(name, results[name], flush=True)
    return results


def plan(scale):
    """Modelled time per tree for 10⁹ rows × 10⁶ labels on 100 machines, from a measured rate and an assumed network."""
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
    per_row = alone["seconds"] / rows  # whole tree, one thread
    network = {"bytes_per_second": 1.25e9, "latency": 50e-6}  # 10 Gbit/s Ethernet
    n, nodes = 10**9, 2**depth
    speed_of = cores * 0.5  # half of linear: threads share the memory bandwidth
    by_rows = {
        "compute": n / machines * per_row / speed_of,
        "bytes": nodes / 2 * features * bins * (columns + 1) * 4 + 2 * nodes * 1000 * 12,
        "messages": depth * 4 * machines,
    }
    # by features, every worker does everything but histograms and split search for all rows
    split_share = 0.5
    by_features = {
        "compute": n * per_row / speed_of * (split_share / machines + (1 - split_share)),
        "bytes": n * depth / 8 + 64 * machines * nodes,
        "messages": depth * 2 * machines,
    }
    results = {
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
        results[name] = one
        print(name, one, flush=True)
    return results


CLAIMS = {"speed": speed, "spark": on_spark, "traffic": traffic, "yahoo": yahoo, "plan": plan}


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
