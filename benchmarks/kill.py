"""Fault tolerance: ``kill -9`` of a rank or a worker at random moments; nothing hangs and the model is byte-identical.

``python -m benchmarks.kill [--times 20] [--only mpi dask spark] [--out FILE]``

MPI: the job must end within a minute, and the same command must then produce the model of an undisturbed training.
Dask, Spark: training must recover by itself and produce the same model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks._common import machine, spark_home, write_results
from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc, save_xc

ENGINES = ("mpi", "dask", "spark")
RANKS = 3
HANG = 600
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "1g",
    "spark.deploy.maxExecutorRetries": "-1",
}
PATIENCE = 60
SETTINGS = {"n_trees": 60, "max_depth": 6, "min_samples_leaf": 5, "projection": None, "n_jobs": 1}


def make_parts(folder):
    """Rows in six files, and the hash of the model that a single process trains on them."""
    X, Y = make_xc(n_rows=6000, n_features=60, n_labels=200, seed=0)[:2]
    paths = [folder / f"part-{i}.txt.gz" for i in range(6)]
    for i, path in enumerate(paths):
        save_xc(path, X[i * 1000 : (i + 1) * 1000], Y[i * 1000 : (i + 1) * 1000])
    model = folder / "alone"
    words = [sys.executable, "-m", "sparseleaf", "train", *map(str, paths), "-m", str(model), "-q"]
    subprocess.run([*words, *settings()], check=True)
    return paths, digest(model)


def settings():
    return [
        word
        for name, value in SETTINGS.items()
        for word in (("-j", str(value)) if name == "n_jobs" else ("-s", f"{name}={value}"))
    ]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kill_ranks(folder, paths, expected, times):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    runs = []
    for i in range(times):
        layout, checkpoint, model = (
            ("rows", "features")[i % 2],
            folder / f"checkpoint-{i}",
            folder / f"mpi-{i}",
        )
        command = [
            mpiexec, "-n", str(RANKS), sys.executable, "-m", "sparseleaf", "train", *map(str, paths), "-m", str(model),
            "-q", *settings(), "--engine", "mpi", "--layout", layout, "--checkpoint", str(checkpoint),
            "--checkpoint-every", "5",
        ]  # fmt: skip
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not checkpoint.exists() and job.poll() is None:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 4))
        ranks = [
            one
            for one in psutil.Process(job.pid).children(recursive=True)
            if "sparseleaf" in " ".join(one.cmdline()) and "mpiexec" not in one.name()
        ] if job.poll() is None else []  # fmt: skip
        if ranks:
            random.choice(ranks).kill()
        started = time.monotonic()
        try:
            code = job.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            job.kill()
            code = "hang"
        elapsed = time.monotonic() - started
        again = subprocess.run(command, check=False, timeout=600).returncode
        same = again == 0 and digest(model) == expected
        runs.append(
            {
                "layout": layout,
                "killed": bool(ranks),
                "code": code,
                "seconds_to_end": elapsed,
                "same": same,
            }
        )
        print("mpi", i, runs[-1], flush=True)
    return runs


def kill_workers(paths, expected, times):
    """Kill a worker at a random moment: in a quarter of the runs before the first tree, otherwise after some tree."""
    from distributed import Client, LocalCluster

    runs = []
    for i in range(times):
        layout = ("rows", "features")[i % 2]
        tree = -1 if i % 8 > 5 else random.randrange(SETTINGS["n_trees"] - 5)
        later = random.uniform(0, 1.0 if tree < 0 else 0.3)
        estimator, killed = SparseGBDTClassifier.from_settings({**SETTINGS, "random_state": 0}), []
        with (
            LocalCluster(n_workers=RANKS, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
            tempfile.TemporaryDirectory() as folder,
        ):
            pids = list(client.run(os.getpid).values())

            def kill(pids=pids, killed=killed):
                killed.append(random.choice(pids))
                os.kill(killed[0], signal.SIGKILL)

            def start(state, tree=tree, later=later, kill=kill):
                if state is None or state.tree == tree:
                    threading.Timer(later, kill).start()

            if tree < 0:
                start(None)
            started = time.monotonic()
            estimator.fit(
                [str(path) for path in paths], None, engine=client, layout=layout, callbacks=[start]
            )
            seconds = time.monotonic() - started
            estimator.save(Path(folder) / "model")
            same = digest(Path(folder) / "model") == expected
        runs.append(
            {"layout": layout, "tree": tree, "killed": bool(killed), "seconds": seconds, "same": same}
        )
        print("dask", i, runs[-1], flush=True)
    return runs


def kill_executors(folder, paths, expected, times):
    """Kill an executor at a random moment: in a quarter of the runs before the first checkpoint, otherwise after it."""
    from pyspark.sql import SparkSession

    from sparseleaf.cli._common import Reading
    from sparseleaf.cli._spark import FileTraining
    from sparseleaf.distributed.spark import run_on_spark
    from sparseleaf.spark.training import from_pieces

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_HOME"] = str(spark_home(folder))
    spark = SparkSession.builder.master(f"local-cluster[{RANKS},1,1024]").config(map=SPARK).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    runs = []
    for i in range(times):
        layout, checkpoint = ("rows", "features")[i % 2], folder / f"spark-{i}.ckpt"
        estimator = SparseGBDTClassifier.from_settings({**SETTINGS, "random_state": 0})
        options = {"checkpoint": checkpoint, "checkpoint_every": 5}
        how = Reading.of("auto", None, 1, None, None)
        work = FileTraining.of({"classification": estimator}, paths, None, how, layout, options)
        early, later, killed, ended = i % 8 > 5, random.uniform(0, 4), [], threading.Event()

        def kill(checkpoint=checkpoint, early=early, later=later, killed=killed, ended=ended):
            while not early and not checkpoint.exists() and not ended.is_set():
                time.sleep(0.02)
            if not ended.wait(later):
                killed.append(random.choice(executors()))
                killed[0].kill()

        thread = threading.Thread(target=kill)
        watch = threading.Timer(HANG, spark.sparkContext.cancelAllJobs)
        thread.start()
        watch.start()
        started = time.monotonic()
        model = folder / f"spark-{i}"
        try:
            frame = spark.range(0, RANKS, 1, RANKS)
            _, *pieces = run_on_spark(frame, work, RANKS, n_trees=SETTINGS["n_trees"], verbose=0)
            from_pieces(pieces).save(model)
        except Exception as error:  # counted: no model
            print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr)
        seconds = time.monotonic() - started
        ended.set()
        watch.cancel()
        thread.join()
        same = model.exists() and digest(model) == expected
        runs.append(
            {
                "layout": layout, "before_checkpoint": early, "killed": bool(killed), "seconds": seconds,
                "hung": seconds > HANG, "same": same,
            }
        )  # fmt: skip
        print("spark", i, runs[-1], flush=True)
    spark.stop()
    return runs


def executors():
    """Processes of the executors of this driver."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--out", type=Path, default=Path("docs/results/kill.json"))
    args = parser.parse_args()
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, expected = make_parts(folder)
        for engine in args.only:
            random.seed(0)
            if engine == "mpi":
                runs = kill_ranks(folder, paths, expected, args.times)
            elif engine == "dask":
                runs = kill_workers(paths, expected, args.times)
            else:
                runs = kill_executors(folder, paths, expected, args.times)
            print(
                f"{engine}: {sum(run['killed'] for run in runs)} of {len(runs)} were killed,"
                f" {sum(run['same'] for run in runs)} gave the same model"
            )
            results |= {engine: runs, "machine": machine()}
            write_results(args.out, results)


if __name__ == "__main__":
    main()
