"""scikit-learn pipelines with the methods of sparseleaf's classifiers.

scikit-learn's ``Pipeline`` passes on ``predict`` and ``decision_function``, but no methods that it does not know. This
one passes on ``predict_topk`` and the like as well: X goes through the transformers first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sklearn import pipeline
from sklearn.utils.metaestimators import available_if

__all__ = ["Pipeline", "make_pipeline"]


def _last_has(method: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        getattr(self.steps[-1][1], method)  # its AttributeError explains more
        return True

    return check


class Pipeline(pipeline.Pipeline):  # type: ignore[misc]
    """scikit-learn's ``Pipeline`` with the additional methods of a classifier of sparseleaf as the last step.

    Fitting, parameters, ``predict``, ``decision_function``, ``score``, ``clone``, ``GridSearchCV`` and ``set_output``
    are those of scikit-learn.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and transformers, and the classifier at the end.
    transform_input : list of str or None, default=None
        Fit arguments that go through the transformers as X does.
    memory : str, joblib.Memory or None, default=None
        Cache of the fitted transformers.
    verbose : bool, default=False
        Whether to print the time of each step.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.pipeline import Pipeline
    >>> texts = ["a cat", "the dog", "cat and dog", "a bird"] * 20
    >>> names = [["cat"], ["dog"], ["cat", "dog"], ["bird"]] * 20
    >>> clf = SketchForestClassifier(n_trees=5, rerank=None)
    >>> pipe = Pipeline([("tfidf", TfidfVectorizer()), ("clf", clf)]).fit(texts, names)
    >>> labels, scores = pipe.predict_topk(["a bird"], k=1)
    >>> labels.tolist()
    [['bird']]
    """

    @available_if(_last_has("predict_topk"))  # type: ignore[untyped-decorator]
    def predict_topk(self, X: Any, k: int = 5, **params: Any) -> Any:
        """Transform X and predict the k labels with the highest scores for each row.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        k : int, default=5
            Number of labels per row.
        **params
            Further arguments of ``predict_topk`` of the classifier.

        Returns
        -------
        labels, scores : ndarrays of shape (n_rows, k)
            As returned by the classifier.
        """
        return self._last.predict_topk(self._transformed(X), k, **params)

    @available_if(_last_has("staged_predict_topk"))  # type: ignore[untyped-decorator]
    def staged_predict_topk(self, X: Any, k: int = 5, **params: Any) -> Iterator[Any]:
        """Transform X and return :meth:`predict_topk` after increasing numbers of trees.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        k : int, default=5
            Number of labels per row.
        **params
            Further arguments of ``staged_predict_topk`` of the classifier.

        Yields
        ------
        labels, scores : ndarrays of shape (n_rows, k)
        """
        yield from self._last.staged_predict_topk(self._transformed(X), k, **params)

    @available_if(_last_has("explain"))  # type: ignore[untyped-decorator]
    def explain(self, X: Any, **params: Any) -> Any:
        """Transform X and explain the predictions by the transformed features.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        **params
            Arguments of ``explain`` of the classifier.

        Returns
        -------
        explanations : object
            As returned by the classifier.
        """
        return self._last.explain(self._transformed(X), **params)

    @available_if(_last_has("shap_values"))  # type: ignore[untyped-decorator]
    def shap_values(self, X: Any, **params: Any) -> Any:
        """Transform X and explain scores by Shapley values of the transformed features.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        **params
            Arguments of ``shap_values`` of the classifier.

        Returns
        -------
        values, expected : ndarrays
            As returned by the classifier.
        """
        return self._last.shap_values(self._transformed(X), **params)

    @available_if(_last_has("report"))  # type: ignore[untyped-decorator]
    def report(self, X: Any, y: Any, **params: Any) -> Any:
        """Transform X and make a report of the estimator at the end.

        Parameters
        ----------
        X : array-like
            Input of the first step.
        y : targets
            True labels or values.
        **params
            Further arguments of ``report`` of the estimator.

        Returns
        -------
        report : Report
            As returned by the estimator.
        """
        return self._last.report(self._transformed(X), y, **params)

    @property
    def _last(self) -> Any:
        return self.steps[-1][1]

    def _transformed(self, X: Any) -> Any:
        return self[:-1].transform(X) if len(self) > 1 else X


def make_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> Pipeline:
    """Make a :class:`Pipeline` whose steps are named by their classes, as scikit-learn's ``make_pipeline``.

    Parameters
    ----------
    *steps : estimators
        Transformers, and the classifier at the end.
    memory : str, joblib.Memory or None, default=None
        Cache of the fitted transformers.
    verbose : bool, default=False
        Whether to print the time of each step.

    Returns
    -------
    pipeline : Pipeline
        Unfitted pipeline.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.pipeline import make_pipeline
    >>> pipe = make_pipeline(TfidfVectorizer(), SketchForestClassifier(n_trees=5))
    >>> [name for name, _ in pipe.steps]
    ['tfidfvectorizer', 'sketchforestclassifier']
    """
    named = pipeline.make_pipeline(*steps, memory=memory, verbose=verbose)
    return Pipeline(named.steps, memory=memory, verbose=verbose)
