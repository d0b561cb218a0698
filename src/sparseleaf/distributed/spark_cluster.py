"""Checks of a Spark cluster before training, so that a barrier stage fails at once instead of waiting for minutes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

from sparseleaf.progress import say

Result = TypeVar("Result")

PATIENCE = 60.0
"""Seconds to wait for executors that are starting."""

SETTLED = 3.0
"""Seconds without a new executor after which all of them have started."""

POLL = 0.5
REST_TIMEOUT = 5.0

NO_SLOTS = "SPARK-24819"
"""In Spark's error for a barrier stage of more tasks than there are slots."""


def check_cluster(spark: Any, n_workers: int) -> None:
    """Raise ValueError if the cluster cannot run ``n_workers`` tasks at once.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    n_workers : int
    """
    if _conf(spark, "spark.dynamicAllocation.enabled") == "true" and not _is_local(spark):
        raise ValueError(
            "spark.dynamicAllocation.enabled must be false: Spark does not run barrier stages with dynamic allocation."
            " Start the application with --conf spark.dynamicAllocation.enabled=false and --num-executors."
        )
    if _conf(spark, "spark.speculation") == "true":
        say(
            "spark.speculation is on; Spark does not apply it to barrier stages, so training is not affected",
            0,
        )
    most = configured_slots(spark)
    if most is not None and most < n_workers:
        raise _too_few(n_workers, most)
    deadline = _deadline(spark)
    while (present := registered_slots(spark)) is not None and present < n_workers:
        if time.monotonic() > deadline:
            raise _too_few(n_workers, present)
        time.sleep(POLL)


def run_barrier(spark: Any, n_workers: int, job: Callable[[], Result]) -> Result:
    """Run a job with a barrier stage, which Spark refuses at once while executors are still starting.

    The job must create its DataFrame: a DataFrame keeps the stages that failed.
    :func:`check_cluster` waits for them where it can count them: not with Spark Connect, nor without the web UI.
    """
    deadline = _deadline(spark)
    while True:
        try:
            return job()
        except Exception as error:
            if NO_SLOTS not in str(error):
                raise
            if time.monotonic() > deadline:
                raise _too_few(n_workers, "fewer") from None
        time.sleep(POLL)


def _deadline(spark: Any) -> float:
    """Until when to wait for executors: longer if the configuration has enough of them."""
    return time.monotonic() + (PATIENCE if configured_slots(spark) is not None else PATIENCE / 6)


def count_slots(spark: Any) -> int:
    """Number of tasks that the cluster runs at once; ValueError if it is not known."""
    slots = configured_slots(spark) or _settled_slots(spark)
    if slots is None:
        raise ValueError(
            "The number of task slots of the cluster is not known; set the number of workers (numWorkers, --workers)."
        )
    return max(1, slots)


def _settled_slots(spark: Any) -> int | None:
    """Registered slots, once no more executors have registered for a while: they start one after the other."""
    slots, changed = registered_slots(spark), time.monotonic()
    while slots is not None and not _is_local(spark) and time.monotonic() - changed < SETTLED:
        time.sleep(POLL)
        if (present := registered_slots(spark)) != slots:
            slots, changed = present, time.monotonic()
    return slots


def configured_slots(spark: Any) -> int | None:
    """Number of task slots by the configuration; None if the configuration does not determine it."""
    cpus = int(_conf(spark, "spark.task.cpus") or 1)
    master = _conf(spark, "spark.master")
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master)
    if cluster:
        return int(cluster[1]) * (int(cluster[2]) // cpus)
    threads = re.fullmatch(r"local(?:\[(\d+)(?:,.*)?\])?", master)
    if threads:
        return int(threads[1] or 1) // cpus
    instances, cores = _conf(spark, "spark.executor.instances"), _conf(spark, "spark.executor.cores")
    if instances and (cores or not master.startswith("spark://")):
        return int(instances) * (int(cores or 1) // cpus)
    total = _conf(spark, "spark.cores.max")
    return int(total) // cpus if total else None


def registered_slots(spark: Any) -> int | None:
    """Number of task slots of the executors that are running; None if it cannot be read.

    By Spark's REST API or, without its web UI, by the default parallelism: the number of cores, and at least 2.
    """
    if is_connect(spark):
        return None
    context = spark.sparkContext
    try:
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/executors"
        with urlopen(url, timeout=REST_TIMEOUT) as reply:
            executors = json.load(reply)
        return sum(int(one["maxTasks"]) for one in executors if one["isActive"])
    except (URLError, OSError, ValueError, KeyError, TypeError):
        if _conf(spark, "spark.default.parallelism"):
            return None
        return int(context.defaultParallelism) // int(_conf(spark, "spark.task.cpus") or 1)


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _is_local(spark: Any) -> bool:
    """Whether the driver runs the tasks itself."""
    return re.match(r"local(?!-cluster)", _conf(spark, "spark.master")) is not None


def _conf(spark: Any, name: str) -> str:
    """A setting of the application; empty if it is not set."""
    return str(spark.conf.get(name, "") or "")


def _too_few(n_workers: int, slots: int | str) -> ValueError:
    return ValueError(
        f"Training on {n_workers} workers requires {n_workers} task slots at once. Got {slots} instead; use fewer"
        " workers, or more executors (spark.executor.instances × spark.executor.cores / spark.task.cpus)."
    )
