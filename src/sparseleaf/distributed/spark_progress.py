"""Progress of the first Spark task, shown on the driver.

The task sends lines of JSON over a connection to the driver, each with an HMAC by a key of the job. Progress never
delays training: a thread sends it, and nothing is sent if the driver cannot be reached.
"""

from __future__ import annotations

import hmac
import json
import logging
import queue
import secrets
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparseleaf._printable import printable
from sparseleaf.distributed.spark_cluster import is_connect
from sparseleaf.progress import logger, phase, reporting

if TYPE_CHECKING:
    from sparseleaf.progress import Advance

LONGEST_TEXT = 4096
LONGEST_LINE = 16 * LONGEST_TEXT
CONNECT_TIMEOUT = 10.0
TIMEOUT_AT_END = 5.0


@dataclass(frozen=True)
class Destination:
    """Where the first task sends its progress."""

    host: str
    port: int
    key: bytes


# --- on the driver


class ProgressServer(socketserver.ThreadingTCPServer):
    """Receives progress and shows it."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, advance: Advance, verbose: int) -> None:
        super().__init__((host, 0), _Handler)
        self.key = secrets.token_bytes(32)
        self._advance = advance
        self._verbose = verbose

    @classmethod
    @contextmanager
    def open(
        cls, spark: Any, n_workers: int, n_trees: int | None, verbose: int
    ) -> Iterator[Destination | None]:
        """Show progress while the job runs; yields where to send it, or None if there is nowhere to."""
        host = "" if is_connect(spark) else str(spark.conf.get("spark.driver.host", "") or "")
        with reporting(verbose), phase(f"{n_workers} Spark workers", n_trees) as advance:
            server = None
            if host:
                with suppress(OSError):  # no port for it
                    server = cls(str(spark.conf.get("spark.driver.bindAddress", host)), advance, verbose)
            if server is None:
                yield None
                return
            with server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                try:
                    yield Destination(host, server.server_address[1], server.key)
                finally:
                    server.shutdown()

    def show(self, message: dict[str, Any]) -> None:
        """Log a message of the first task, and print it depending on ``verbose``."""
        logger.log(int(message["level"]), "%s", message["text"])
        if "tree" in message:
            self._advance(int(message["tree"]), message["text"])
        if self._verbose >= 2:
            print(printable(message["text"]), file=sys.stderr, flush=True)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        while line := self.rfile.readline(LONGEST_LINE):
            digest, _, text = line.rstrip(b"\n").partition(b" ")
            if not hmac.compare_digest(digest, _digest(server.key, text)):
                return
            server.show(json.loads(text))


# --- in the first task


class ProgressClient(logging.Handler):
    """Sends log records and finished trees."""

    def __init__(self, destination: Destination) -> None:
        super().__init__(logging.INFO)
        self._destination = destination
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    @classmethod
    @contextmanager
    def open(cls, destination: Destination | None) -> Iterator[list[Any]]:
        """Send progress; yields the callbacks of ``fit`` that do."""
        if destination is None:
            yield []
            return
        client, level = cls(destination), logger.level
        logger.addHandler(client)
        logger.setLevel(logging.INFO)
        try:
            yield [client.after_tree]
        finally:
            logger.removeHandler(client)
            logger.setLevel(level)
            client.finish()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a log record."""
        self._lines.put({"level": record.levelno, "text": record.getMessage()[:LONGEST_TEXT]})

    def after_tree(self, state: Any) -> None:
        """Send the number of trees."""
        metrics = "  ".join(f"{name} {values[-1]:.4g}" for name, values in state.history.items())
        text = f"tree {state.tree}/{state.n_trees}  {state.seconds:.1f} s  {state.n_leaves} leaves  {metrics}"
        self._lines.put({"level": logging.DEBUG, "text": text.rstrip()[:LONGEST_TEXT], "tree": state.tree})

    def finish(self) -> None:
        """Wait until everything is sent, but not for long."""
        self._lines.put(None)
        self._thread.join(TIMEOUT_AT_END)

    def _send(self) -> None:
        to = self._destination
        try:
            with socket.create_connection((to.host, to.port), CONNECT_TIMEOUT) as connection:
                while (message := self._lines.get()) is not None:
                    text = json.dumps(message).encode()
                    connection.sendall(_digest(to.key, text) + b" " + text + b"\n")
        except OSError as error:
            print(f"sparseleaf: no progress on the driver: {error}", file=sys.stderr, flush=True)


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256").hex().encode()
