"""The estimators for Spark DataFrames, and their models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from sparseleaf import estimators as local
from sparseleaf.distributed.spark import run_on_spark
from sparseleaf.distributed.spark_cluster import count_slots
from sparseleaf.spark.frames import arrange, check_frame
from sparseleaf.spark.model import SparkModel
from sparseleaf.spark.params import DeclaredParams, documented
from sparseleaf.spark.training import FrameTraining, from_pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABELS = (
    "label lists (array<string> or array<int>), 0/1 vectors with an entry per label, or one class per row (number or"
    " text)"
)
TOP_K = "the ``topK`` best labels with their scores (array<struct<label, score>>); for one class per row, the class"
COMMON = (
    "featuresCol",
    "labelCol",
    "weightCol",
    "predictionCol",
    "validationIndicatorCol",
    "orderCol",
    "numWorkers",
    "layout",
)
KEEPING = ("checkpoint", "checkpointEvery")


class SparkEstimator(DeclaredParams, Estimator, DefaultParamsWritable, DefaultParamsReadable):  # type: ignore[misc]
    """Base of the estimators."""

    model_class: ClassVar[type[SparkModel]]

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> SparkModel:
        check_frame(dataset)
        estimator: Any = self.to_local()
        n_workers = self.value_of("numWorkers") or count_slots(dataset.sparkSession)
        options = {
            "layout": self.value_of("layout"),
            "checkpoint": self.value_of("checkpoint"),
            "checkpoint_every": self.value_of("checkpointEvery"),
        }
        frame = arrange(dataset, self.columns(), n_workers, regression=self.regression)
        profile, *pieces = run_on_spark(
            frame,
            FrameTraining(estimator, options),
            n_workers,
            n_trees=estimator.n_trees,
            verbose=estimator.verbose,
        )
        model = self.model_class(from_pieces(pieces))
        model.profile = json.loads(profile)
        model._resetUid(self.uid)
        fitted: SparkModel = self._copyValues(model)
        return fitted


class _Sparse(DeclaredParams):
    local = local.SparseGBDTClassifier
    also = (*COMMON, *KEEPING, "topK")
    targets = LABELS
    predictions = TOP_K


class SparseGBDTClassifierModel(_Sparse, SparkModel):
    """Fitted :class:`SparseGBDTClassifier`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : SparseGBDTClassifier
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import SparseGBDTClassifierModel
    >>> model = SparseGBDTClassifierModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class SparseGBDTClassifier(_Sparse, SparkEstimator):
    """Gradient boosted trees with sparse vector leaves for Spark DataFrames (GBDT-SPARSE).

    Parameters of the trees are those of :class:`sparseleaf.SparseGBDTClassifier`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import SparseGBDTClassifier
    >>> estimator = SparseGBDTClassifier(labelCol="tags", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = SparseGBDTClassifierModel


class _LdSM(DeclaredParams):
    local = local.LdSMClassifier
    also = (*COMMON, *KEEPING, "topK")
    targets = LABELS
    predictions = TOP_K


class LdSMClassifierModel(_LdSM, SparkModel):
    """Fitted :class:`LdSMClassifier`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : LdSMClassifier
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import LdSMClassifierModel
    >>> model = LdSMClassifierModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class LdSMClassifier(_LdSM, SparkEstimator):
    """LdSM: label-driven trees of linear routers, for Spark DataFrames.

    Parameters of the trees are those of :class:`sparseleaf.LdSMClassifier`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import LdSMClassifier
    >>> estimator = LdSMClassifier(labelCol="tags", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = LdSMClassifierModel


class _SketchForest(DeclaredParams):
    local = local.SketchForestClassifier
    also = (*COMMON, *KEEPING, "topK")
    targets = LABELS
    predictions = TOP_K


class SketchForestClassifierModel(_SketchForest, SparkModel):
    """Fitted :class:`SketchForestClassifier`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : SketchForestClassifier
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import SketchForestClassifierModel
    >>> model = SketchForestClassifierModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class SketchForestClassifier(_SketchForest, SparkEstimator):
    """SketchForest: trees of linear routers on label sketches, for Spark DataFrames.

    Parameters of the trees are those of :class:`sparseleaf.SketchForestClassifier`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import SketchForestClassifier
    >>> estimator = SketchForestClassifier(labelCol="tags", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = SketchForestClassifierModel


class _MultiClassifier(DeclaredParams):
    local = local.MultiGBDTClassifier
    also = (*COMMON, *KEEPING, "topK")
    targets = LABELS
    predictions = TOP_K


class MultiGBDTClassifierModel(_MultiClassifier, SparkModel):
    """Fitted :class:`MultiGBDTClassifier`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : MultiGBDTClassifier
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import MultiGBDTClassifierModel
    >>> model = MultiGBDTClassifierModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class MultiGBDTClassifier(_MultiClassifier, SparkEstimator):
    """Gradient boosted trees with vector-valued leaves for classification of Spark DataFrames (GBDT-MO).

    Parameters of the trees are those of :class:`sparseleaf.MultiGBDTClassifier`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import MultiGBDTClassifier
    >>> estimator = MultiGBDTClassifier(labelCol="tags", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = MultiGBDTClassifierModel


class _MultiRegressor(DeclaredParams):
    local = local.MultiGBDTRegressor
    also = (*COMMON, *KEEPING)
    targets = "numbers, or vectors or arrays of numbers, one per output; null or NaN if unknown"
    predictions = "a number, or an array of numbers, as the targets"
    regression = True


class MultiGBDTRegressorModel(_MultiRegressor, SparkModel):
    """Fitted :class:`MultiGBDTRegressor`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : MultiGBDTRegressor
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import MultiGBDTRegressorModel
    >>> model = MultiGBDTRegressorModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class MultiGBDTRegressor(_MultiRegressor, SparkEstimator):
    """Gradient boosted trees with vector-valued leaves for regression on Spark DataFrames (GBDT-MO).

    Parameters of the trees are those of :class:`sparseleaf.MultiGBDTRegressor`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import MultiGBDTRegressor
    >>> estimator = MultiGBDTRegressor(labelCol="targets", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = MultiGBDTRegressorModel


class _Ranker(DeclaredParams):
    local = local.GBDTRanker
    also = (*COMMON, *KEEPING, "qidCol")
    targets = "relevance grades >= 0"
    predictions = "the score; higher is a better rank within a query"
    regression = True


class GBDTRankerModel(_Ranker, SparkModel):
    """Fitted :class:`GBDTRanker`, for prediction on Spark DataFrames.

    Parameters
    ----------
    estimator : GBDTRanker
        A fitted scikit-learn estimator, such as one of :func:`sparseleaf.load`.

    Examples
    --------
    >>> from sparseleaf.spark import GBDTRankerModel
    >>> model = GBDTRankerModel.load("hdfs://…/model")  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """


@documented
class GBDTRanker(_Ranker, SparkEstimator):
    """Gradient boosted trees for learning to rank on Spark DataFrames.

    Parameters of the trees are those of :class:`sparseleaf.GBDTRanker`; so are the bytes of the model.

    Parameters
    ----------
    {parameters}

    Examples
    --------
    >>> from sparseleaf.spark import GBDTRanker
    >>> estimator = GBDTRanker(labelCol="grade", qidCol="query", n_trees=10, numWorkers=4)
    >>> estimator.getOrDefault("n_trees")
    10
    >>> model = estimator.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame)  # doctest: +SKIP
    """

    model_class = GBDTRankerModel
