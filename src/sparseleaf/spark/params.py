"""Params of Spark estimators: the declared parameters of the trees, and those of the DataFrame."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

import numpy as np
from pyspark.ml.param import Param, Params, TypeConverters

from sparseleaf.checkpoint import EVERY
from sparseleaf.distributed.launch import LAYOUTS
from sparseleaf.estimators.base import ModelEstimator, saved
from sparseleaf.estimators.parameters import Parameter, entries, suggestion

WITHOUT = ("vectorizer", "warm_start")
"""Parameters that Spark estimators do not have: pipelines have stages for text, and an estimator no previous fit."""

COLUMNS = {
    "featuresCol": ("features", "Column of vectors (sparse or dense) or of arrays of numbers."),
    "labelCol": ("label", "Column of targets: {targets}."),
    "predictionCol": ("prediction", "Column that ``transform`` adds: {predictions}."),
    "weightCol": (None, "Column of row weights, optional."),
    "validationIndicatorCol": (
        None,
        "Column of booleans, optional; true for rows of the validation set, which is evaluated after every tree.",
    ),
    "qidCol": ("qid", "Column of query ids."),
    "orderCol": (
        None,
        "Column that defines the order of the rows, optional; by default they are in the order of the DataFrame.",
    ),
}
"""Column Params: default and description."""

EXECUTION = {
    "numWorkers": (
        None,
        "Number of workers, each of which is a task; None for all task slots of the cluster.",
    ),
    "layout": ("rows", 'How the rows are partitioned across workers while training: "rows" or "features".'),
    "checkpoint": (
        None,
        "Checkpoint file: a URL that all executors can write (``hdfs://``, ``s3://``) or a path on shared storage. If"
        " it exists, training resumes from it.",
    ),
    "checkpointEvery": (EVERY, "Number of trees between two checkpoints."),
    "topK": (5, "Maximum number of labels in a prediction."),
}
"""Params of training and prediction on Spark: default and description."""


class _Declared:
    """Type converter of a Param: the declared values are valid."""

    def __init__(self, parameter: Parameter, owner: str) -> None:
        self._parameter = parameter
        self._owner = owner

    def __call__(self, value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        self._parameter.require(self._owner, value)
        plain = saved(self._parameter.current(value))  # JSON, for saving
        if callable(value):
            raise ValueError(
                f"The {self._parameter.name!r} parameter of {self._owner} must be a name on Spark. Got a callable"
                " instead."
            )
        return plain


class _Positive:
    """Type converter of a Param: integers from 1 on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, value: Any) -> int:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1:
            return int(value)
        raise ValueError(f"The {self._name!r} parameter must be an int >= 1. Got {value!r} instead.")


def _layout(value: Any) -> str:
    if value not in LAYOUTS:
        raise ValueError(
            f"The 'layout' parameter must be one of {{'rows', 'features'}}. Got {value!r} instead."
        )
    return str(value)


CONVERTERS = {
    **{name: _Positive(name) for name in ("numWorkers", "checkpointEvery", "topK")},
    "layout": _layout,
}


class DeclaredParams(Params):  # type: ignore[misc]
    """Params of an estimator and of its model.

    Subclasses name the scikit-learn estimator and the Params of columns and execution that apply to it.
    """

    local: ClassVar[type[ModelEstimator]]
    """The scikit-learn estimator."""
    also: ClassVar[tuple[str, ...]]
    """Params of ``COLUMNS`` and ``EXECUTION``."""
    targets: ClassVar[str]
    predictions: ClassVar[str]
    regression: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the Params, and setters and getters of the Params of Spark."""
        super().__init_subclass__(**kwargs)
        if "local" not in vars(cls):
            return
        for name, (_, text) in cls._on_spark().items():
            param = Param(Params._dummy(), name, text, CONVERTERS.get(name, TypeConverters.toString))
            setattr(cls, name, param)
            capital = name[0].upper() + name[1:]
            setattr(cls, f"set{capital}", _setter(name))
            setattr(cls, f"get{capital}", _getter(name))
        for name, parameter in cls._of_trees().items():
            converter = _Declared(parameter, cls.local.__name__)
            setattr(cls, name, Param(Params._dummy(), name, parameter.description, converter))

    def __init__(self) -> None:
        super().__init__()
        defaults = {name: default for name, (default, _) in self._on_spark().items() if default is not None}
        declared = {name: one.default for name, one in self._of_trees().items()}
        self._setDefault(**defaults, **declared)

    @classmethod
    def _on_spark(cls) -> dict[str, tuple[Any, str]]:
        words = {"targets": cls.targets, "predictions": cls.predictions}
        return {
            name: (default, text.format(**words))
            for name, (default, text) in {**COLUMNS, **EXECUTION}.items()
            if name in cls.also
        }

    @classmethod
    def _of_trees(cls) -> dict[str, Parameter]:
        return {name: one for name, one in cls.local.parameter_table.items() if name not in WITHOUT}

    @classmethod
    def described(cls) -> tuple[inspect.Signature, str]:
        """Signature of the constructor, and the descriptions of its arguments."""
        arguments = {name: default for name, (default, _) in cls._on_spark().items()}
        arguments |= {name: one.default for name, one in cls._of_trees().items()}
        lines = [
            f"{name} : {'str' if name in COLUMNS else type(default).__name__ if default is not None else 'optional'},"
            f" default={default!r}\n    {text}"
            for name, (default, text) in cls._on_spark().items()
        ]
        signature = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in arguments.items()
            ]
        )
        return signature, "\n".join([*lines, *entries(cls._of_trees().values())])

    def setParams(self, **params: Any) -> Self:
        """Set Params by name.

        Parameters
        ----------
        **params
            Values by name.
        """
        for name in params:
            if not self.hasParam(name):
                known = [param.name for param in self.params]
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; {suggestion(name, known)}"
                )
        self._set(**params)
        return self

    def to_local(self) -> ModelEstimator:
        """The unfitted scikit-learn estimator with these Params; ValueError if one of them is not valid."""
        values = {name: self.getOrDefault(name) for name in self._of_trees()}
        estimator: Any = self.local.from_settings(values)
        estimator._check()
        return estimator  # type: ignore[no-any-return]

    def columns(self) -> dict[str, str]:
        """Names of the columns by Param name, of those that are set."""
        return {name: self.getOrDefault(name) for name in COLUMNS if self._has_value(name)}

    def _has_value(self, name: str) -> bool:
        return self.hasParam(name) and self.isDefined(name) and self.getOrDefault(name) is not None

    def value_of(self, name: str) -> Any:
        """The value of a Param; None if it is not set."""
        return self.getOrDefault(name) if self._has_value(name) else None


def _setter(name: str) -> Any:
    def set_value(self: DeclaredParams, value: Any) -> DeclaredParams:
        self._set(**{name: value})
        return self

    set_value.__doc__ = f"Set the Param ``{name}``."
    return set_value


def _getter(name: str) -> Any:
    def get_value(self: DeclaredParams) -> Any:
        return self.value_of(name)

    get_value.__doc__ = f"The value of the Param ``{name}``; None if it is not set."
    return get_value


def documented(cls: type[Any]) -> type[Any]:
    """Give a class its signature and its docstring the descriptions of the arguments."""
    signature, text = cls.described()
    cls.__signature__ = signature
    if cls.__doc__ is not None:  # python -OO
        cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{parameters}", text)
    return cls
