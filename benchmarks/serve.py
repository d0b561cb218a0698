"""Throughput and latency of ``sparseleaf serve`` on loopback, with single rows, and while the model is replaced.

    python -m benchmarks.serve --data <folder> [--model NAME] [--seconds 60] [--out docs/results/serve.json]

A model of Delicious, requests with one test row each, driven by ``wrk``, which shares the machine with the server. The
second run replaces the model file every second. No run may have a failed request. Other models in --out are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._common import load_set, machine, write_results
from sparseleaf import SketchForestClassifier, SparseGBDTClassifier

MODELS = {
    "SparseGBDTClassifier": lambda: SparseGBDTClassifier(n_trees=100),
    "SketchForestClassifier": SketchForestClassifier,
}
N_BODIES = 1_000

SCRIPT = """
local bodies = {}
for line in io.lines("BODIES") do bodies[#bodies + 1] = line end
local number = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  number = number % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[number])
end
done = function(summary, latency, requests)
  local e = summary.errors
  local file = io.open("RESULT", "w")
  file:write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, "errors": %d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, e.connect + e.read + e.write + e.status + e.timeout))
  file:close()
end
"""


@contextlib.contextmanager
def server(model: Path, workers: int) -> Iterator[str]:
    """The address of a running server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    port = address.rpartition(":")[2]
    command = [
        "-m",
        "sparseleaf",
        "serve",
        str(model),
        "--port",
        port,
        "--workers",
        str(workers),
        "--no-access-log",
    ]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://{address}/ready").close()
                    break
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()


@contextlib.contextmanager
def replacing(model: Path, seconds: float) -> Iterator[list[int]]:
    """Replace the file by a copy at this interval; the list has the number of replacements."""
    stop, count = threading.Event(), [0]

    def replace() -> None:
        while not stop.wait(seconds):
            shutil.copy(model, f"{model}.new")
            os.replace(f"{model}.new", model)  # noqa: PTH105
            count[0] += 1

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join()


def drive(address: str, folder: Path, seconds: int, connections: int) -> dict[str, Any]:
    """Run wrk."""
    script = SCRIPT.replace("BODIES", str(folder / "bodies")).replace("RESULT", str(folder / "result"))
    (folder / "wrk.lua").write_text(script)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s"]
    command += ["-s", str(folder / "wrk.lua"), f"http://{address}/v1/predict"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads((folder / "result").read_text())
    return result | {"requests_per_second": result["requests"] / result["seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", choices=MODELS, default="SparseGBDTClassifier")
    parser.add_argument("--file", type=Path, help="model file to use, and to write if it does not exist")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/serve.json"))
    parser.add_argument("--only", choices=("steady", "replaced"))
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk was not found: install the package wrk of the system.")
    X, Y, X_test, _ = load_set(arguments.data, "delicious")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "delicious.safetensors"
        if arguments.file is not None and arguments.file.exists():
            shutil.copy(arguments.file, model)
        else:
            MODELS[arguments.model]().fit(X, Y).save(model)
            if arguments.file is not None:
                shutil.copy(model, arguments.file)
        rows = ({"indices": row.indices.tolist(), "values": row.data.tolist()} for row in X_test[:N_BODIES])
        (folder / "bodies").write_text("".join(json.dumps({"rows": [row], "k": 5}) + "\n" for row in rows))
        runs: dict[str, Any] = {}
        for run in ("steady", "replaced") if arguments.only is None else (arguments.only,):
            with server(model, arguments.workers) as address:
                drive(address, folder, 2, arguments.connections)  # warm
                with replacing(model, 1.0 if run == "replaced" else 1e9) as count:
                    runs[run] = drive(address, folder, arguments.seconds, arguments.connections)
                runs[run]["replacements"] = count[0]
            print(run, {key: round(value, 3) for key, value in runs[run].items()}, flush=True)
    about = {name: getattr(arguments, name) for name in ("seconds", "connections", "workers")}
    models = json.loads(arguments.out.read_text())["models"] if arguments.out.exists() else {}
    models[arguments.model] = runs
    write_results(arguments.out, {"machine": machine(), **about, "models": models})
    if any(run["errors"] for run in runs.values()):
        sys.exit("requests failed")


if __name__ == "__main__":
    main()
