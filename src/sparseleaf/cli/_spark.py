"""``sparseleaf train --engine spark``: barrier tasks read the files and train; this process gets the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseleaf._files import as_path
from sparseleaf.cli._workers import on_ranks, refuse_stdin
from sparseleaf.distributed.ranks import RanksLauncher

if TYPE_CHECKING:
    from sparseleaf.cli._common import Reading
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.estimators.base import ModelEstimator


@dataclass(frozen=True)
class FileTraining:
    """See :class:`~sparseleaf.distributed.spark.Work`: training on files, which every task reads in part.

    Attributes
    ----------
    candidates : dict of str to ModelEstimator
        Estimators by task.
    paths : sequence of str
    valid : str or None
        Validation data.
    how : Reading
    layout : str
    options : dict
        Further arguments of ``fit``.
    """

    candidates: dict[str, ModelEstimator]
    paths: Sequence[str]
    valid: str | None
    how: Reading
    layout: str
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        candidates: dict[str, ModelEstimator],
        paths: Sequence[Any],
        valid: Any,
        how: Reading,
        layout: str,
        options: dict[str, Any],
    ) -> FileTraining:
        """Validate the arguments of the command line; paths are made absolute, so that executors can find them."""
        refuse_stdin(paths, "spark")
        plain = {name: _absolute(value) if name == "checkpoint" else value for name, value in options.items()}
        return cls(
            candidates,
            [_absolute(path) for path in paths],
            None if valid is None else _absolute(valid),
            how,
            layout,
            plain,
        )

    def read(self, batches: Iterator[Any]) -> None:
        """Files are read once the tasks are connected."""

    def train(
        self, comm: Communicator, rows: None, n_jobs: int, progress: list[Any]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Read this task's files and train; returns the estimator and the profile."""
        from sparseleaf.cli.train import _fit

        engine: Any = RanksLauncher(comm)
        paths: Any = [as_path(path) for path in self.paths]
        valid: Any = None if self.valid is None else as_path(self.valid)
        how = replace(self.how, n_jobs=self.how.n_jobs or n_jobs)
        workers = on_ranks(engine, self.candidates, paths, valid, how, self.layout)
        estimator = workers.estimator
        if estimator.n_jobs is None:
            estimator.n_jobs = n_jobs
        options = self.options | workers.placement | {"callbacks": progress}
        _fit(estimator, workers.rows, workers.validation, options)
        return estimator, engine.profile

    def pieces(self, trained: tuple[Any, list[dict[str, Any]]]) -> Iterator[bytes]:
        """The profile as JSON, then the model file."""
        from sparseleaf.spark.training import file_pieces

        estimator, profile = trained
        yield json.dumps({"profile": profile, "interrupted": estimator.interrupted_}).encode()
        yield from file_pieces(estimator)


def train_on_files(
    training: FileTraining, master: str | None, n_workers: int | None
) -> tuple[Any, list[Any]]:
    """Train on a Spark cluster; returns the fitted estimator and the profile.

    ``master`` is the URL of a master or of a Spark Connect server (``sc://``); by default that of the configuration.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ImportError("--engine spark requires PySpark: pip install sparseleaf[spark].") from None
    from sparseleaf.distributed.spark import run_on_spark
    from sparseleaf.distributed.spark_cluster import count_slots
    from sparseleaf.spark.training import from_pieces

    builder = SparkSession.builder.appName("sparseleaf train")
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    spark = builder.getOrCreate()
    try:
        n_workers = n_workers or count_slots(spark)
        # one row per task, which says nothing: tasks read files
        frame = spark.range(0, n_workers, 1, n_workers)
        estimator: Any = next(iter(training.candidates.values()))
        said, *pieces = run_on_spark(
            frame, training, n_workers, n_trees=estimator.n_trees, verbose=estimator.verbose
        )
    finally:
        spark.stop()
    fitted, about = from_pieces(pieces), json.loads(said)
    fitted.interrupted_ = about["interrupted"]
    return fitted, about["profile"]


def _absolute(path: Any) -> str:
    return str(path.absolute() if isinstance(path, Path) else path)
