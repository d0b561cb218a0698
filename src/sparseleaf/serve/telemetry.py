"""Metrics in Prometheus' format, and logs as JSON lines."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory in which worker processes share their metrics."""


class Telemetry:
    """Metrics of one server process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "sparseleaf_requests", "Requests.", ["path", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "sparseleaf_request_seconds",
            "Duration of requests.",
            ["path"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.rows = Counter("sparseleaf_rows", "Predicted rows.", registry=self._registry)
        self.loaded = Gauge(
            "sparseleaf_model_loaded_timestamp_seconds",
            "When the model was loaded.",
            multiprocess_mode="max",
            registry=self._registry,
        )

    def page(self) -> bytes:
        """All metrics as text, summed over the worker processes."""
        registry = self._registry
        if SHARED in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text: bytes = generate_latest(registry)
        return text


class JsonLines(logging.Formatter):
    """Log records as JSON objects, one per line."""

    STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
        "message",
        "asctime",
        "color_message",
        "taskName",
    }

    def format(self, record: logging.LogRecord) -> str:
        """One line; attributes passed as ``extra`` become fields."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in self.STANDARD}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "sparseleaf.serve.telemetry.JsonLines"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    },
    "loggers": {
        "sparseleaf": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
"""Configuration of the standard logging module: JSON lines on stderr. It is pickled for worker processes."""
