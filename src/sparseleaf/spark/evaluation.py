"""Evaluator of predicted labels, for ``CrossValidator`` and ``TrainValidationSplit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import functions as F

from sparseleaf.spark.frames import type_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRICS = ("precision", "ndcg")


def _metric(value: Any) -> str:
    name, _, k = TypeConverters.toString(value).partition("@")
    if name not in METRICS or not k.isdecimal() or int(k) < 1:
        raise ValueError(
            f"The 'metricName' parameter must be 'precision@k' or 'ndcg@k'. Got {value!r} instead."
        )
    return str(value)


class TopKEvaluator(Evaluator, DefaultParamsWritable, DefaultParamsReadable):  # type: ignore[misc]
    """Precision or nDCG of the best labels, as in :mod:`sparseleaf.metrics`.

    Parameters
    ----------
    predictionCol : str, default="prediction"
        Column of predictions, array<struct<label, score>>.
    labelCol : str, default="label"
        Column of label lists.
    metricName : str, default="precision@1"
        ``precision@k`` or ``ndcg@k``; ``topK`` of the model must be at least k.

    Examples
    --------
    >>> from sparseleaf.spark import TopKEvaluator
    >>> evaluator = TopKEvaluator(labelCol="tags", metricName="ndcg@5")
    >>> evaluator.isLargerBetter()
    True
    >>> evaluator.evaluate(model.transform(frame))  # doctest: +SKIP
    """

    predictionCol = Param(Params._dummy(), "predictionCol", "Column of predictions.", TypeConverters.toString)
    labelCol = Param(Params._dummy(), "labelCol", "Column of label lists.", TypeConverters.toString)
    metricName = Param(Params._dummy(), "metricName", "precision@k or ndcg@k.", _metric)

    def __init__(
        self, *, predictionCol: str = "prediction", labelCol: str = "label", metricName: str = "precision@1"
    ) -> None:
        super().__init__()
        self._setDefault(predictionCol="prediction", labelCol="label", metricName="precision@1")
        self._set(predictionCol=predictionCol, labelCol=labelCol, metricName=metricName)

    def isLargerBetter(self) -> bool:
        """Whether a larger value is better: always."""
        return True

    def _evaluate(self, dataset: DataFrame) -> float:
        prediction, label = self.getOrDefault("predictionCol"), self.getOrDefault("labelCol")
        type_of(dataset, prediction, "predictionCol")
        type_of(dataset, label, "labelCol")
        name, _, k = self.getOrDefault("metricName").partition("@")
        hits = F.transform(
            F.slice(F.col(prediction)["label"], 1, int(k)),
            lambda one: F.array_contains(F.col(label), one).cast("double"),
        )
        value = _precision(hits, int(k)) if name == "precision" else _ndcg(hits, F.col(label), int(k))
        return float(dataset.agg(F.mean(value)).first()[0])


def _total(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, one: total + one)


def _precision(hits: Column, k: int) -> Column:
    return _total(hits) / k


def _ndcg(hits: Column, labels: Column, k: int) -> Column:
    def gain(hit: Column, place: Column) -> Column:
        return hit / F.log2(place + 2)

    ones = F.transform(F.slice(F.array_distinct(labels), 1, k), lambda one: F.lit(1.0))
    ideal = _total(F.transform(ones, gain))
    return F.when(ideal > 0, _total(F.transform(hits, gain)) / ideal).otherwise(0.0)
