"""The DataFrame that is trained on: its columns by name, and its partitions, one per worker, in a defined order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StringType,
)

from sparseleaf.estimators.parameters import suggestion
from sparseleaf.spark.training import FEATURES, LABEL, QUERY, VALIDATION, WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORDER = "order"


def check_frame(frame: Any) -> None:
    """Raise TypeError for anything but a DataFrame of Spark, such as one of pandas."""
    if not hasattr(frame, "sparkSession"):
        kind = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
        raise TypeError(f"The 'dataset' parameter must be a DataFrame of Spark. Got {kind} instead.")


def features_column(frame: DataFrame, name: str) -> Column:
    """A column of vectors, or of arrays of numbers, as a struct that Arrow supports."""
    kind = type_of(frame, name, "featuresCol")
    if isinstance(kind, VectorUDT):
        return F.unwrap_udt(F.col(_quoted(name)))
    if _is_array_of(kind, NumericType):
        return F.struct(F.col(_quoted(name)).alias("values"))
    raise ValueError(
        f"The column {name!r} (featuresCol) must be of vectors or of arrays of numbers. Got {kind.simpleString()}"
        " instead."
    )


def label_column(frame: DataFrame, name: str, *, regression: bool) -> Column:
    """A column of targets in a type that Arrow supports."""
    kind = type_of(frame, name, "labelCol")
    column = F.col(_quoted(name))
    if isinstance(kind, VectorUDT):
        return F.unwrap_udt(column)
    if regression:
        if _is_array_of(kind, FractionalType) and not _is_array_of(kind, DecimalType):
            return column
        if _is_array_of(kind, NumericType):
            return column.cast("array<double>")
        if isinstance(kind, NumericType):
            return column.cast("double")
        expected = "numbers, vectors or arrays of numbers"
    else:
        if _is_array_of(kind, (StringType, IntegralType)) or isinstance(
            kind, (NumericType, StringType, BooleanType)
        ):
            return column
        expected = "label lists (array<string>, array<int>), 0/1 vectors, numbers or text"
    raise ValueError(
        f"The column {name!r} (labelCol) must be of {expected}. Got {kind.simpleString()} instead."
    )


def type_of(frame: DataFrame, name: str, param: str) -> DataType:
    """The type of a column."""
    if name not in frame.columns:
        raise ValueError(
            f"The {param!r} parameter must be a column of the DataFrame. Got {name!r} instead;"
            f" {suggestion(name, frame.columns)}"
        )
    return frame.schema[name].dataType


def _is_array_of(kind: DataType, element: Any) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, element)


def _quoted(name: str) -> str:
    """A column name in backticks: it may have dots."""
    return f"`{name.replace('`', '``')}`"


def arrange(frame: DataFrame, columns: dict[str, str], n_workers: int, *, regression: bool) -> DataFrame:
    """The columns of training, in ``n_workers`` partitions of consecutive rows.

    Rows are in the order of the DataFrame: those of its first partition first. They are ordered by ``orderCol``
    instead, if it is given, and by ``qidCol`` first, if there are queries.

    Parameters
    ----------
    frame : DataFrame
    columns : dict
        Names of columns by Param name, such as ``featuresCol``.
    n_workers : int
    regression : bool
    """
    chosen = [
        features_column(frame, columns["featuresCol"]).alias(FEATURES),
        label_column(frame, columns["labelCol"], regression=regression).alias(LABEL),
    ]
    for param, name, kinds, cast in (
        ("weightCol", WEIGHT, NumericType, "double"),
        ("validationIndicatorCol", VALIDATION, BooleanType, "boolean"),
        ("qidCol", QUERY, (IntegralType, StringType, FractionalType), None),
    ):
        if param not in columns:
            continue
        kind = type_of(frame, columns[param], param)
        if not isinstance(kind, kinds):
            words = {"double": "numbers", "boolean": "booleans"}.get(cast or "", "numbers or text")
            raise ValueError(
                f"The column {columns[param]!r} ({param}) must be of {words}. Got {kind.simpleString()} instead."
            )
        column = F.col(_quoted(columns[param]))
        chosen.append((column if cast is None else column.cast(cast)).alias(name))
    order = F.monotonically_increasing_id()
    if "orderCol" in columns:
        type_of(frame, columns["orderCol"], "orderCol")
        order = F.col(_quoted(columns["orderCol"]))
    rows = frame.select(*chosen, order.alias(ORDER))
    keys = [QUERY] if "qidCol" in columns else [ORDER]
    rows = rows.repartitionByRange(n_workers, *keys)
    return rows.sortWithinPartitions(*dict.fromkeys([*keys, ORDER])).drop(ORDER)
