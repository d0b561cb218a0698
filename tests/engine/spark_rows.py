"""Rows of a training as a Spark DataFrame, and Spark estimators with the parameters of scikit-learn ones."""

import numpy as np
import scipy.sparse as sp
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from sparseleaf import spark as on_spark
from sparseleaf.spark.params import WITHOUT

SLICES = 5
COLUMNS = {"X": "featuresCol", "y": "labelCol", "sample_weight": "weightCol", "qid": "qidCol"}


def vectors(X):
    if not sp.issparse(X):
        return [Vectors.dense(row.tolist()) for row in X]
    return [Vectors.sparse(X.shape[1], row.indices.tolist(), row.data.astype(float).tolist()) for row in X]


def column(name, values):
    """Type and values of a column."""
    if sp.issparse(values) or getattr(values, "ndim", 1) == 2:
        return VectorUDT(), vectors(values)
    if isinstance(values, list):
        return ArrayType(LongType() if isinstance(values[0][0], int) else StringType()), values
    kinds = {"f": DoubleType(), "i": LongType(), "U": StringType(), "b": BooleanType()}
    return kinds[values.dtype.kind], values.tolist()


def make_frame(spark, **rows):
    """A DataFrame of five partitions, with a column of row numbers."""
    made = {name: column(name, values) for name, values in rows.items()}
    n_rows = len(next(iter(made.values()))[1])
    made["number"] = LongType(), list(range(n_rows))
    schema = StructType([StructField(name, kind) for name, (kind, _) in made.items()])
    listed = list(zip(*(values for _, values in made.values()), strict=True))
    return spark.createDataFrame(spark.sparkContext.parallelize(listed, SLICES), schema)


def on_spark_like(estimator, rows, **params):
    """The Spark estimator with the parameters of a scikit-learn estimator."""
    kind = getattr(on_spark, type(estimator).__name__)
    values = {name: value for name, value in vars(estimator._settings()).items() if name in kind._of_trees()}
    columns = {COLUMNS[name]: name for name in rows}
    assert not set(WITHOUT) & set(values)
    return kind(**columns, **values, **params)


def by_query(rows):
    """Rows sorted by query, in the order in which Spark trains on them."""
    if "qid" not in rows:
        return rows
    order = np.argsort(rows["qid"], kind="stable")
    return {name: values[order] for name, values in rows.items()}
