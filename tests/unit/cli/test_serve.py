"""``sparseleaf serve`` as a process: workers, signals, replaced model files, a port in use."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("fastapi")

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc

pytestmark = pytest.mark.slow

ROW = {"indices": [1], "values": [1]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    X, Y = make_xc(200, 30, 8, labels_per_row=2, nnz_per_row=5, seed=1)
    SparseGBDTClassifier(n_trees=5).fit(X, Y).save(path)
    return path


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copy(saved, tmp_path / "m.safetensors")


@contextlib.contextmanager
def serving(model, *options, environment=None):
    """A running server: its process, port and log file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = model.parent / "log"
    command = [sys.executable, "-m", "sparseleaf", "serve", str(model), "--port", str(port), *options]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stderr=file, env=os.environ | (environment or {})) as process,
    ):
        try:
            n_workers = options[options.index("--workers") + 1] if "--workers" in options else 1
            until(lambda: log.read_text().count('"message": "ready"') == int(n_workers) and accepts(port))
            yield process, port, log
        finally:
            process.terminate()


def until(condition):
    for _ in range(3_000):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def answer(port, method, path, body=None, headers=None, timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def accepts(port):
    """Whether a new request is answered; with several workers, the port stays open until the last of them ends."""
    try:
        return answer(port, "GET", "/health", timeout=1)[0] == 200
    except OSError:
        return False


def predict(port, n_rows=1):
    """Status and predictions."""
    code, body = answer(port, "POST", "/v1/predict", json.dumps({"rows": [ROW] * n_rows}))
    return code, json.loads(body).get("predictions")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_bad_file_is_ignored_and_a_good_one_loaded(model, workers):
    with serving(model, "--workers", workers, "--reload", "0.05") as (_, port, log):
        good, before = model.read_bytes(), predict(port)

        def replace(content):
            model.with_suffix(".new").write_bytes(content)
            model.with_suffix(".new").replace(model)

        def reasons():
            return [line for line in log.read_text().splitlines() if "model was not reloaded" in line]

        for number, content in enumerate((b"\x80\x04garbage", good[: len(good) // 2], b""), 1):
            replace(content)
            until(lambda n=number: len(reasons()) == n * int(workers))
            assert predict(port) == before
        model.unlink()
        assert predict(port) == before
        replace(good)
        until(lambda: log.read_text().count("model reloaded") == int(workers))
        assert predict(port) == before
        assert before[0] == 200
        assert "raceback" not in log.read_text()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_lets_a_running_request_finish(model, workers):
    with serving(model, "--workers", workers) as (process, port, log):
        body = json.dumps({"rows": [ROW]}).encode()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(60)
            head = (
                "POST /v1/predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
            )
            client.sendall((head % len(body)).encode())
            assert client.recv(1_000).startswith(b"HTTP/1.1 100")  # the request is being read
            process.send_signal(signal.SIGTERM)
            until(lambda: not accepts(port))
            client.sendall(body)
            assert client.recv(10_000).startswith(b"HTTP/1.1 200")
        process.wait(60)
    assert "raceback" not in log.read_text()


def test_metrics_are_those_of_all_workers(model):
    with serving(model, "--workers", "2") as (_, port, _log):
        for _ in range(20):
            predict(port, 3)
        lines = answer(port, "GET", "/metrics")[1].decode().splitlines()
        assert [float(line.split()[1]) for line in lines if line.startswith("sparseleaf_rows_total")] == [60]


def test_a_token_with_characters_outside_of_ascii(model):
    with serving(model, environment={"SPARSELEAF_TOKEN": "schlüssel"}) as (_, port, _log):
        for header, expected in (("Bearer schlüssel", 200), ("Bearer schlussel", 401), ("", 401)):
            headers = {"Authorization": header.encode()}
            assert answer(port, "GET", "/v1/model", headers=headers)[0] == expected


def test_a_client_that_stops_sending_gets_an_error_and_others_are_served(model):
    with (
        serving(model, "--timeout", "0.5") as (_, port, _log),
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
        assert predict(port)[0] == 200
        slow.settimeout(60)
        assert slow.recv(1_000).startswith(b"HTTP/1.1 504")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_is_an_error(model, workers):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        command = ["serve", str(model), "--port", str(used.getsockname()[1]), "--workers", workers]
        done = subprocess.run(
            [sys.executable, "-m", "sparseleaf", *command], capture_output=True, text=True, timeout=120
        )
    assert done.returncode != 0
    assert "address already in use" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_an_invalid_model_is_refused_before_the_server_starts(model):
    model.write_bytes(b"garbage")
    done = subprocess.run(
        [sys.executable, "-m", "sparseleaf", "serve", str(model), "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert "is not a valid model file" in done.stderr
    assert "Serving" not in done.stderr
