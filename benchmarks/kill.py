"""``kill -9`` of a rank or a worker at a random moment, again and again: nothing hangs, and the model is the same.

``python -m benchmarks.kill [--times 20] [--only mpi dask] [--out FILE]``

MPI: the job must end within a minute, and the same command, run again, must give the bytes of an undisturbed training.
Dask: training must go on by itself to the same bytes.
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

from benchmarks._common import machine, write_results
from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc, save_xc

RANKS = 3
PATIENCE = 60
SETTINGS = {"n_trees": 60, "max_depth": 6, "min_samples_leaf": 5, "projection": None, "n_jobs": 1}


def make_parts(folder):
    """Rows in six files, and the bytes of the model that one process trains on them."""
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


def kill_ranks(folder, paths, wanted, times):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    found = []
    for turn in range(times):
        layout, kept, model = ("rows", "features")[turn % 2], folder / f"kept-{turn}", folder / f"mpi-{turn}"
        command = [
            mpiexec, "-n", str(RANKS), sys.executable, "-m", "sparseleaf", "train", *map(str, paths), "-m", str(model),
            "-q", *settings(), "--engine", "mpi", "--layout", layout, "--checkpoint", str(kept),
            "--checkpoint-every", "5",
        ]  # fmt: skip
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not kept.exists() and job.poll() is None:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 4))
        ranks = [
            one
            for one in psutil.Process(job.pid).children(recursive=True)
            if "sparseleaf" in " ".join(one.cmdline()) and "mpiexec" not in one.name()
        ] if job.poll() is None else []  # fmt: skip
        if ranks:
            random.choice(ranks).kill()
        began = time.monotonic()
        try:
            code = job.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            job.kill()
            code = "hang"
        ended = time.monotonic() - began
        again = subprocess.run(command, check=False, timeout=600).returncode
        same = again == 0 and digest(model) == wanted
        found.append(
            {
                "layout": layout,
                "killed": bool(ranks),
                "code": code,
                "seconds_to_end": ended,
                "same": same,
            }
        )
        print("mpi", turn, found[-1], flush=True)
    return found


def kill_workers(paths, wanted, times):
    """A worker is killed at a random moment: every fourth time before the first tree, else a little after some tree."""
    from distributed import Client, LocalCluster

    found = []
    for turn in range(times):
        layout = ("rows", "features")[turn % 2]
        tree = -1 if turn % 8 > 5 else random.randrange(SETTINGS["n_trees"] - 5)
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
            began = time.monotonic()
            estimator.fit(
                [str(path) for path in paths], None, engine=client, layout=layout, callbacks=[start]
            )
            seconds = time.monotonic() - began
            estimator.save(Path(folder) / "model")
            same = digest(Path(folder) / "model") == wanted
        found.append(
            {"layout": layout, "tree": tree, "killed": bool(killed), "seconds": seconds, "same": same}
        )
        print("dask", turn, found[-1], flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=("mpi", "dask"), default=["mpi", "dask"])
    parser.add_argument("--out", type=Path, default=Path("docs/results/kill.json"))
    args = parser.parse_args()
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, wanted = make_parts(folder)
        for engine in args.only:
            random.seed(0)
            if engine == "mpi":
                runs = kill_ranks(folder, paths, wanted, args.times)
            else:
                runs = kill_workers(paths, wanted, args.times)
            print(
                f"{engine}: {sum(run['killed'] for run in runs)} of {len(runs)} were killed,"
                f" {sum(run['same'] for run in runs)} gave the same model"
            )
            results |= {engine: runs, "machine": machine()}
            write_results(args.out, results)


if __name__ == "__main__":
    main()
