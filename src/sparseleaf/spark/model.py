"""Models with the API of ``pyspark.ml``: prediction in the executors, saving and loading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import functions as F

from sparseleaf.distributed.spark_cluster import is_connect
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.spark.frames import check_frame, features_column
from sparseleaf.spark.params import DeclaredParams
from sparseleaf.spark.prediction import form_of, make_udf, share_model, store_model
from sparseleaf.spark.training import file_pieces, from_pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREDICTED = "__sparseleaf_prediction"


class SparkModel(DeclaredParams, Model, MLWritable, MLReadable):  # type: ignore[misc]
    """Base of the fitted models.

    Attributes
    ----------
    profile : list of dict
        Bytes received and seconds of computing and waiting per tree and worker; empty for a loaded model.
    """

    def __init__(self, estimator: ModelEstimator) -> None:
        if not isinstance(estimator, self.local):
            raise ValueError(
                f"The 'estimator' parameter of {type(self).__name__} must be a fitted {self.local.__name__}. Got"
                f" {type(estimator).__name__} instead."
            )
        super().__init__()
        self._estimator = estimator
        self.profile: list[dict[str, Any]] = []
        self._path: Path | None = None
        estimator._model()  # raises an error if it is not fitted

    @property
    def estimator(self) -> Any:
        """The fitted scikit-learn estimator, to predict in this process or to save a model file."""
        return self._estimator

    def _model_file(self) -> Path:
        if self._path is None:
            self._path = store_model(self._estimator)
        return self._path

    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_frame(dataset)
        columns = self.columns()
        form = form_of(self._estimator, self.value_of("topK"))
        name = share_model(dataset.sparkSession, self._model_file())
        predict = make_udf(name, form)
        features = features_column(dataset, columns["featuresCol"])
        predicted = dataset.withColumn(PREDICTED, predict(features))
        return predicted.withColumn(columns["predictionCol"], form.column(F.col(PREDICTED))).drop(PREDICTED)

    # --- files

    def write(self) -> MLWriter:
        """A writer of this model; see :class:`pyspark.ml.util.MLWritable`."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        """A reader of models; see :class:`pyspark.ml.util.MLReadable`."""
        return _Reader(cls)


class _Writer(MLWriter):  # type: ignore[misc]
    """The Params as MLlib's metadata, and the model file in pieces, as a Parquet file."""

    def __init__(self, model: SparkModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(self._model, path, spark if is_connect(spark) else self.sc)
        pieces = [
            (number, bytearray(piece)) for number, piece in enumerate(file_pieces(self._model.estimator))
        ]
        frame = spark.createDataFrame(pieces, "number int, content binary")
        frame.repartition(1).write.parquet(f"{path}/model")


class _Reader(MLReader[Any]):  # type: ignore[misc]
    def __init__(self, cls: type[SparkModel]) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> SparkModel:
        spark = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, spark if is_connect(spark) else self.sc)
        rows = spark.read.parquet(f"{path}/model").orderBy("number").collect()
        model = self._cls(from_pieces([bytes(row["content"]) for row in rows]))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
