"""``report`` of all estimators, and the summary of a fitted one in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.report import Report


class ReportMixin:
    """``report`` on labelled rows."""

    def report(
        self,
        X: Any,
        y: Any,
        *,
        title: str | None = None,
        decode: str | None = None,
        feature_names: Sequence[str] | Array | None = None,
        label_names: Mapping[Any, str] | None = None,
        titles: Sequence[str] | Array | None = None,
        n_examples: int = 20,
        n_importances: int = 1_000,
        n_trees: int = 10,
        latency: bool = True,
    ) -> Report:
        """Evaluate the model on labelled rows and make a report: one self-contained HTML file.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : targets
            True labels or values, in any form that ``fit`` accepts.
        title : str, optional
            Title of the report.
        decode : str, optional
            Which labels count as predicted in the table of labels, for multi-label targets: see ``predict``.
        feature_names : sequence of str, optional
            Names of the features. By default those seen in ``fit``, if there were any.
        label_names : mapping of str, optional
            Readable names of labels, by label.
        titles : sequence of str, optional
            Titles of the training rows, in their order in ``fit``: see ``explain``.
        n_examples : int, default=20
            Number of example rows: one half evenly spaced, the other half the most confident errors.
        n_importances : int, default=1000
            Number of labels or outputs with discriminative features, those with the most rows in the data. Importances
            take a few milliseconds per label: see ``label_importances``.
        n_trees : int, default=10
            Maximum number of trees in the tree browser; fewer if they are large.
        latency : bool, default=True
            Whether to measure the time of predictions.

        Returns
        -------
        report : Report
            Notebooks show it, ``report.save("report.html")`` writes it.
        """
        from sparseleaf.report.build import build_report
        from sparseleaf.report.options import Options

        options = Options(
            title=title,
            decode=decode,
            feature_names=feature_names,
            label_names=label_names,
            titles=titles,
            n_examples=n_examples,
            n_importances=n_importances,
            n_trees=n_trees,
            latency=latency,
        )
        return build_report(self, X, y, options)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """scikit-learn's diagram of the parameters and, once fitted, a summary of the model."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        model = vars(self).get("model_")
        if model is not None and "text/html" in bundle:
            from sparseleaf.report.summary import summary

            bundle["text/html"] += summary(model)
        return bundle
