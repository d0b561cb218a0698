"""What the tasks of a Spark job do in ``benchmarks.distributed``; a module of its own, which executors import."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.distributed import borders, make_estimator, make_rows, result
from sparseleaf.distributed.ranks import RanksLauncher


@dataclass(frozen=True)
class Blocks:
    """See :class:`sparseleaf.distributed.spark.Work`: every task generates its rows."""

    job: dict[str, Any]

    def read(self, batches):
        pass

    def train(self, comm, rows, n_jobs, progress):
        job = self.job
        ends = borders(job["rows"], comm.size)
        X, Y = make_rows(ends[comm.rank], ends[comm.rank + 1], job["features"], job["outputs"], job["labels"])
        engine, seconds = RanksLauncher(comm), []
        estimator = make_estimator(job)
        estimator.fit(
            X, Y, engine=engine, layout=job["layout"],
            callbacks=[lambda state: seconds.append(time.perf_counter())],
        )  # fmt: skip
        return result(estimator, engine.profile, seconds)

    def pieces(self, trained):
        yield json.dumps(trained).encode()
