"""The re-ranking stage, which every classifier may end with: its parameters, and a way to add it to a fitted one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.data.rows import refuse_nan
from sparseleaf.data.targets import encode_known
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.declarations import RERANK, RERANK_SCALE, RERANK_WEIGHT
from sparseleaf.estimators.parameters import Parameter
from sparseleaf.model.stage import Role
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase, reporting
from sparseleaf.rerank.fit import fit_stage, refuse_fixed_weight
from sparseleaf.rerank.rows import TrainingRows
from sparseleaf.rerank.validation import Validation
from sparseleaf.training.validation import EvalSet, check_each, eval_sets

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Features


class RerankMixin(ModelEstimator):
    """A classifier whose ``predict_topk`` may end with re-ranking."""

    def fit_rerank(
        self,
        X: Any,
        y: Any,
        *,
        rerank: str = "cosine",
        weight: float | None = None,
        scale: float | None = None,
        eval_set: EvalSet = None,
    ) -> Self:
        """Add re-ranking to the fitted classifier, or put it in place of what it has; the trees stay.

        Parameters
        ----------
        X, y
            Rows whose labels' means are taken, usually those of training.
        rerank : {"centroid", "cosine", "log", "linear", "boosted", "bayes", "auto"}, default="cosine"
            What candidates are scored by: see :mod:`sparseleaf.rerank`. "auto" takes what is best on ``eval_set``,
            which may be nothing.
        weight : float, optional
            Share of the trees. None chooses it on ``eval_set``, which must be rows that training has not seen;
            "boosted" and "auto" need these.
        scale : float, optional
            How sharply closeness falls.
        eval_set : (X, y) or list of such tuples, optional
            Of several sets, the last is used.

        Returns
        -------
        self
        """
        model = self._model()
        if rerank is None or rerank not in RERANK.values:
            raise ValueError(
                f"rerank: found {rerank!r}; wanted {RERANK.values.text.removesuffix(' or None')}."
            )
        given: dict[str, tuple[Any, Parameter]] = {
            "weight": (weight, RERANK_WEIGHT),
            "scale": (scale, RERANK_SCALE),
        }
        for name, (value, parameter) in given.items():
            if value is not None and (isinstance(value, str) or value not in parameter.values):
                raise ValueError(f"{name}: found {value!r}; wanted {parameter.values.text}.")
        refuse_fixed_weight(rerank, weight, "weight")
        sets = eval_sets(eval_set)
        if (weight is None) == (not sets):
            raise ValueError(
                "weight, eval_set: wanted one of them: the trees' share, or rows to choose it on."
            )
        features = self._features(X)
        refuse_nan(features)
        truth = encode_known(y, features.shape[0], model.known_labels)[:, : model.n_labels]
        other, known = features[:0], truth[:0]
        if sets:
            other, known = check_each(sets, self._validation_rows)[-1]
        trees, seed, n_jobs = (
            model.with_stage(Role.RERANKER, None),
            self._seed(),
            effective_n_jobs(self.n_jobs),
        )
        rows = TrainingRows(features, truth, trees, scale, seed, n_jobs)
        validation = Validation(other, known, trees, seed, n_jobs)
        with reporting(getattr(self, "verbose", 0)), phase("re-ranking"):
            stage = fit_stage(rerank, rows, validation, None if weight is None else float(weight))
        ranked = model.with_stage(Role.RERANKER, stage)
        threshold = None
        if sets:
            threshold = best_threshold(ranked.scores(other, None, n_jobs), known)
        self._adopt(replace(ranked, threshold=threshold))
        return self

    def _validation_rows(self, X: Any, y: Any) -> tuple[Features, sp.csr_matrix]:
        """Rows to choose a weight on."""
        features = self._features(X)
        refuse_nan(features)
        return features, encode_known(y, features.shape[0], self.model_.known_labels)
