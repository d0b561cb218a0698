"""Requests and responses of the server."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

INPUTS = ("rows", "dense", "texts", "records")
"""Fields of a request with rows, of which a request has one."""

ONE_INPUT: dict[str, Any] = {
    "oneOf": [{"required": [name]} for name in INPUTS],
    "allOf": [{"properties": {name: {"type": "array", "minItems": 1} for name in INPUTS}}],
}
"""That a request has one of them, with rows, as a JSON schema."""


class SparseRow(BaseModel):
    """Nonzero features of a row."""

    model_config = ConfigDict(extra="forbid")

    indices: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(
        description="Numbers of the features, from 0."
    )
    values: list[FiniteFloat] = Field(description="Their values.")

    @model_validator(mode="after")
    def _same_length(self) -> SparseRow:
        if len(self.indices) != len(self.values):
            raise ValueError(
                f"indices and values must have the same length. Got {len(self.indices)} and {len(self.values)} instead."
            )
        return self


class PredictRequest(BaseModel):
    """Rows to predict, in one of four forms, and what to return."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=ONE_INPUT)

    rows: list[SparseRow] | None = Field(None, description="Sparse rows.")
    dense: list[list[float | None]] | None = Field(
        None, description="Dense rows: one number per feature, null for missing values."
    )
    texts: list[str] | None = Field(None, description="Texts, for models trained on text.")
    records: list[dict[str, Any]] | None = Field(
        None, description="Records by field name, for models trained on several fields or named columns."
    )
    k: Annotated[int, Field(ge=1)] = Field(5, description="Number of labels per row.")
    probabilities: bool = Field(False, description="Return calibrated probabilities instead of scores.")
    threshold: FiniteFloat | None = Field(None, description="Return only labels with at least this score.")
    explain: bool = Field(False, description="Return the contributions of the features to every score.")

    @model_validator(mode="after")
    def _one_input(self) -> PredictRequest:
        used = [name for name in INPUTS if getattr(self, name) is not None]
        if len(used) != 1:
            raise ValueError(
                f"A request must have exactly one of {', '.join(INPUTS)}. Got {', '.join(used) or 'none'} instead."
            )
        return self

    @property
    def input(self) -> str:
        """Name of the field with the rows."""
        return next(name for name in INPUTS if getattr(self, name) is not None)


class Suggestion(BaseModel):
    """A label of a row."""

    label: str | int | float | bool = Field(
        description="Name of the label, or its number if labels have no names."
    )
    score: float = Field(description="Score, or probability if requested.")
    uri: str | None = Field(None, description="URI of the label, if the model has one.")
    explanation: dict[str, Any] | None = Field(None, description="Contributions of features, if requested.")


class RowPrediction(BaseModel):
    """Prediction of a row: labels of a classifier, best first, or outputs of a regressor or ranker."""

    labels: list[Suggestion] | None = None
    outputs: dict[str, float] | None = None


class PredictResponse(BaseModel):
    """Predictions in the order of the rows."""

    predictions: list[RowPrediction]
    model: str = Field(description="Name of the model.")
    loaded_at: str = Field(description="When this version of the model was loaded.")


class ErrorBody(BaseModel):
    """What is wrong with a request."""

    message: str
    field: str | None = Field(
        None, description="The field of the request that is invalid, such as rows.0.indices."
    )


class ErrorResponse(BaseModel):
    """An error."""

    error: ErrorBody
