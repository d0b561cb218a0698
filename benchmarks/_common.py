"""What the benchmark scripts share: reading a dataset, timing, memory of a fresh process, results as JSON.

Run scripts as modules from the repository's root (``python -m benchmarks.delicious --data <folder>``):
`in_child` imports the calling script by its module name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path


def load_set(data_dir, name):
    """``X_train, Y_train, X_test, Y_test`` of a dataset in XC text; exits with a message if it is missing."""
    from sparseleaf.data import load_xc

    folder = Path(data_dir) / name
    files = [folder / f"{part}.txt.gz" for part in ("train", "test")]
    for file in files:
        if not file.is_file():
            sys.exit(f"The dataset {name!r} was not found in --data {data_dir}: {file} does not exist.")
    (X_train, Y_train), (X_test, Y_test) = map(load_xc, files)
    return X_train, Y_train, X_test, Y_test


def percentages(Y_test, labels, propensity=None):
    """The metrics as papers print them: P@k, nDCG@k, PSP@k and PSnDCG@k in percent."""
    from sparseleaf.metrics import evaluate

    printed = {"precision": "P", "ndcg": "nDCG", "psp": "PSP", "psndcg": "PSnDCG"}
    values = {}
    for name, value in evaluate(Y_test, labels, propensity).items():
        metric, _, k = name.partition("@")
        values[f"{printed[metric]}@{k}"] = 100.0 * value
    return values


def measured(fn):
    """``(fn(), seconds)``."""
    start = time.perf_counter()
    result = fn()
    return result, time.perf_counter() - start


def in_child(fn_name, *args):
    """Run a function of the calling script in a fresh process, so that its peak memory can be measured.

    Arguments and result travel as JSON. Returns ``{"result", "seconds", "peak_bytes"}``: the wall time of the
    call alone, and the peak resident memory of the whole process, imports included.
    """
    spec = sys._getframe(1).f_globals.get("__spec__")
    if spec is None:
        raise RuntimeError(
            "in_child needs the calling script to be run as a module: python -m benchmarks.<name>"
        )
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"  # not stdout: the function may print
        command = [
            sys.executable,
            "-m",
            "benchmarks._common",
            spec.name,
            fn_name,
            json.dumps(args),
            str(output),
        ]
        code = subprocess.run(command, check=False).returncode
        if code or not output.exists():
            raise RuntimeError(f"{fn_name}{args} failed in its process with exit code {code}")
        return json.loads(output.read_text())


def peak_bytes():
    """Peak resident memory of this process."""
    try:
        # Linux's ru_maxrss starts at the size of the process that started this one; VmHWM does not.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine():
    """CPU, cores and versions of the environment."""
    about = {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for package in (
        "numpy",
        "scipy",
        "scikit-learn",
        "sparseleaf",
        "xgboost",
        "xgboost-cpu",
        "lightgbm",
        "catboost",
        "omikuji",
        "napkinxc",
    ):
        try:
            about[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return about


def commit():
    """The commit of the checkout that this script belongs to; "unknown" outside a git repository."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def spark_home(folder):
    """A folder of links to PySpark's files, for SPARK_HOME: executors of a ``local-cluster`` work in a folder of it."""
    import pyspark

    home = folder / "spark-home"
    home.mkdir(exist_ok=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        link = home / entry.name
        if entry.name != "work" and not link.is_symlink():
            link.symlink_to(entry)
    return home


def write_results(path, results):
    """Write a dict as JSON, atomically; numpy numbers and arrays are converted."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        draft.write_text(json.dumps(results, indent=2, default=_plain) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _plain(value):
    if hasattr(value, "tolist"):  # numpy
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _run(module, fn_name, args, output):
    fn = getattr(importlib.import_module(module), fn_name)
    result, seconds = measured(lambda: fn(*json.loads(args)))
    write_results(output, {"result": result, "seconds": seconds, "peak_bytes": peak_bytes()})


if __name__ == "__main__":
    _run(*sys.argv[1:])
