"""Prediction in the executors: a pandas UDF on the features, with the model file once per executor, memory-mapped."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.distributed.spark_cluster import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column

KEPT = 2
"""Models that a Python worker keeps open."""


class Form(ABC):
    """Form of the predictions.

    Attributes
    ----------
    schema : str
        Type of what the UDF returns, a struct.
    """

    schema: str

    @abstractmethod
    def predict(self, estimator: Any, X: Any) -> dict[str, Any]:
        """Predictions of some rows: the columns of the struct."""

    @abstractmethod
    def column(self, predicted: Column) -> Column:
        """The prediction, from the struct."""


@dataclass(frozen=True)
class TopK(Form):
    """The k best labels and their scores: array<struct<label, score>>.

    Attributes
    ----------
    label_type : str
        Spark type of the labels.
    k : int
    """

    label_type: str
    k: int

    @property
    def schema(self) -> str:  # type: ignore[override]
        """See :class:`Form`."""
        return f"label array<{self.label_type}>, score array<float>"

    def predict(self, estimator: Any, X: Any) -> dict[str, Any]:
        """See :class:`Form`."""
        labels, scores = estimator.predict_topk(X, self.k)
        present = np.isfinite(scores)  # others fill rows with fewer labels
        return {
            "label": [row[there].tolist() for row, there in zip(labels, present, strict=True)],
            "score": [row[there] for row, there in zip(scores, present, strict=True)],
        }

    def column(self, predicted: Column) -> Column:
        """See :class:`Form`."""
        from pyspark.sql import functions as F

        return F.arrays_zip(predicted["label"].alias("label"), predicted["score"].alias("score"))


@dataclass(frozen=True)
class Value(Form):
    """What ``predict`` returns: one class or number per row, or an array of numbers.

    Attributes
    ----------
    kind : str
        Its Spark type.
    """

    kind: str

    @property
    def schema(self) -> str:  # type: ignore[override]
        """See :class:`Form`."""
        return f"value {self.kind}"

    def predict(self, estimator: Any, X: Any) -> dict[str, Any]:
        """See :class:`Form`."""
        values = np.asarray(estimator.predict(X))
        values = values if self.kind == "string" else values.astype(np.float64)
        return {"value": list(values) if values.ndim == 2 else values}

    def column(self, predicted: Column) -> Column:
        """See :class:`Form`."""
        return predicted["value"]


def form_of(estimator: Any, k: int | None) -> Form:
    """The form of a model's predictions."""
    model = estimator.model_
    if model.target_kind == "regression":
        return Value("array<double>")
    if model.target_kind == "regression-column":
        return Value("double")
    names = model.label_names
    text = names is not None and isinstance(names.tolist()[0] if len(names) else "", str)
    if model.target_kind in ONE_CLASS_PER_ROW:
        return Value("string" if text else "double")
    return TopK("string" if text else "int" if names is None else "bigint", k or 1)


# --- the model file


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Folder of the shared files: executors that start later fetch them, so they stay until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="sparseleaf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_SHARED: set[tuple[str, str]] = set()
"""Session or application, and name, of the files that were added."""


def store_model(estimator: Any) -> Path:
    """Write the model file under a name that its content determines."""
    draft = _folder() / f"{id(estimator)}.draft"
    estimator.save(draft)
    with draft.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return draft.replace(_folder() / f"sparseleaf-{digest[:32]}.safetensors")


def share_model(spark: Any, path: Path) -> str:
    """Add a model file to the application, once; returns its name. Every executor fetches it once."""
    name = path.name
    application = spark.session_id if is_connect(spark) else spark.sparkContext.applicationId
    if (application, name) not in _SHARED:
        if is_connect(spark):
            spark.addArtifacts(str(path), file=True)
        else:
            spark.sparkContext.addFile(str(path))
        _SHARED.add((application, name))
    return name


# --- in the executors


@lru_cache(maxsize=KEPT)
def _open_model(path: str) -> Any:
    from sparseleaf import load

    return load(path)


def make_udf(name: str, form: Form) -> Callable[[Any], Any]:
    """A pandas UDF from the features to the predictions."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def predict(batches: Any) -> Any:
        from sparseleaf.spark.prediction import predict_batches

        yield from predict_batches(name, form, batches)

    frames = Iterator[pd.DataFrame]
    predict.__annotations__ = {"batches": frames, "return": frames}
    made: Callable[[Any], Any] = pandas_udf(predict, form.schema)
    return made


def predict_batches(name: str, form: Form, batches: Iterator[Any]) -> Iterator[Any]:
    """Predict batches of features, which are DataFrames with the fields of the struct as columns."""
    import pandas as pd
    import pyarrow as pa
    from pyspark import SparkFiles, TaskContext

    from sparseleaf.spark.columns import features_of

    estimator = _open_model(SparkFiles.get(name))
    context = TaskContext.get()
    estimator.n_jobs = 1 if context is None else int(context.cpus())
    for batch in batches:
        # NaN in a vector is a missing value, not a null
        fields = [pa.array(batch[field].to_numpy(), from_pandas=False) for field in batch.columns]
        X = features_of(pa.StructArray.from_arrays(fields, names=list(batch.columns)))
        predicted = form.predict(estimator, X) if X.shape[0] else {}
        yield pd.DataFrame(predicted) if predicted else _empty(form)


def _empty(form: Form) -> Any:
    import pandas as pd

    return pd.DataFrame({field.split()[0]: [] for field in form.schema.split(", ")})
