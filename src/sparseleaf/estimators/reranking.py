"""Re-ranking of a fitted classifier: ``fit_rerank``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.data.label_info import LabelInfo, with_labels_of
from sparseleaf.data.rows import refuse_nan
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, encode_known, encode_targets
from sparseleaf.data.weights import TrainingWeights, check_sample_weight, label_weights
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.declarations import RERANK, RERANK_SCALE, RERANK_WEIGHT
from sparseleaf.estimators.parameters import Parameter
from sparseleaf.features import TextVectorizer
from sparseleaf.model.stage import Role
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase, reporting
from sparseleaf.rerank.crossfit import CrossFit
from sparseleaf.rerank.fit import SIDE_KIND, check_side_kind, fit_stage, refuse_fixed_weight
from sparseleaf.rerank.names import word_blocks
from sparseleaf.rerank.rows import TrainingRows
from sparseleaf.rerank.side import SideEvidence
from sparseleaf.rerank.stage import with_known_features
from sparseleaf.rerank.validation import Validation
from sparseleaf.training.validation import EvalSet, check_each, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Features


class RerankMixin(ModelEstimator):
    """A classifier whose predictions can be re-ranked."""

    def _with_labels(
        self, X: Any, y: Any, label_info: LabelInfo | None, *, texts: bool
    ) -> tuple[Any, Any, LabelInfo | None]:
        """Training rows with all labels of side information, and what is known of these.

        The vectorizer of texts gets the words of the names: texts to come may have them.
        """
        if label_info is None:
            return X, y, None
        stage = self._vectorizer_stage()
        word_blocks(stage)  # raises before training
        targets, label_info = with_labels_of(label_info, encode_targets(y))
        if texts and stage is not None:
            names = [name for several in label_info.names.values() for name in several]
            wider, place = stage.with_words(names, effective_n_jobs(self.n_jobs))
            X = sp.csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], wider.width))
            self.vectorizer_ = TextVectorizer.from_stage(wider)
        return X, targets, label_info

    def fit_rerank(
        self,
        X: Any,
        y: Any,
        *,
        rerank: str = "cosine",
        weight: float | None = None,
        scale: float | None = None,
        sample_weight: Any = None,
        eval_set: EvalSet = None,
        label_info: LabelInfo | None = None,
    ) -> Self:
        """Fit a re-ranker for the fitted classifier, replacing any previous one. The trees do not change.

        The calibrator and thresholds of the model are dropped: call :meth:`fit_calibration` for probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features the re-ranker is fitted on, usually the training set.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets of these rows.
        rerank : {"centroid", "cosine", "log", "linear", "boosted", "bayes", "auto"}, default="cosine"
            Re-ranker; see the ``rerank`` parameter. "auto" selects the best one on ``eval_set``, or none.
        weight : float, optional
            Weight of the tree score in the re-ranked score. None selects it on ``eval_set``; required for "boosted" and
            "auto".
        scale : float, optional
            Decay of the similarity with the distance to a label centroid.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows. Rows of weight 0 are left out.
        eval_set : tuple (X, y) or list of such tuples, optional
            Validation set, with rows not used in training. Of several sets, the last is used.
        label_info : LabelInfo, optional
            Names and hierarchy of the model's labels, as in ``fit``; requires ``rerank="boosted"`` or "auto", which
            then means "boosted". Other labels are ignored.

        Returns
        -------
        self : object
            The classifier with the re-ranker.
        """
        model = self._model()
        if rerank is None or rerank not in RERANK.values:
            raise ValueError(
                f"The 'rerank' parameter must be {RERANK.values.text.removesuffix(' or None')}. Got {rerank!r} instead."
            )
        arguments: dict[str, tuple[Any, Parameter]] = {
            "weight": (weight, RERANK_WEIGHT),
            "scale": (scale, RERANK_SCALE),
        }
        for name, (value, parameter) in arguments.items():
            if value is not None and (isinstance(value, str) or value not in parameter.values):
                raise ValueError(
                    f"The {name!r} parameter must be {parameter.values.text}. Got {value!r} instead."
                )
        refuse_fixed_weight(rerank, weight, "weight")
        check_label_info(label_info, rerank)
        sets = eval_sets(eval_set)
        if (weight is None) == (not sets):
            raise ValueError(
                "Either 'weight' or 'eval_set' must be given: the weight of the tree score, or a validation set to"
                " select"
                " it on."
            )
        features = self._features(X)
        refuse_nan(features)
        truth = encode_known(y, features.shape[0], model.known_labels)[:, : model.n_labels]
        features, truth, weights = self._weighted_rows(features, truth, sample_weight)
        other, known = features[:0], truth[:0]
        if sets:
            other, known = check_each(sets, self._validation_rows)[-1]
        trees, seed, n_jobs = (
            model.with_stage(Role.RERANKER, None),
            self._seed(),
            effective_n_jobs(self.n_jobs),
        )
        side = None
        if label_info is not None:
            _, label_info = with_labels_of(label_info, model.known_labels)
            side = SideEvidence.fit(label_info, model.known_labels, model.vectorizer, features, n_jobs)
            rerank = SIDE_KIND
        rows = TrainingRows(features, truth, lambda: trees, scale, seed, n_jobs, weights, side)
        of_rows = TrainingWeights(labels=weights.labels).of_rows(known)
        validation = Validation(other, known, trees, seed, n_jobs, of_rows)
        with reporting(getattr(self, "verbose", 0)), phase("re-ranking"):
            stage = fit_stage(rerank, rows, validation, None if weight is None else float(weight))
        # the calibrator and thresholds were for other scores
        ranked = trees.with_stage(Role.CALIBRATOR, None).with_stage(Role.DECISION, None)
        ranked = ranked.with_stage(Role.RERANKER, stage)
        threshold = None
        if sets:
            crossed = CrossFit.of(stage, validation) if CrossFit.is_needed(stage, len(validation)) else None
            scores = ranked.scores(other, None, n_jobs) if crossed is None else crossed.scores()
            threshold = best_threshold(scores, known, of_rows)
        self._adopt(with_known_features(replace(ranked, threshold=threshold)))
        return self

    def _weighted_rows(
        self, X: Features, Y: sp.csr_matrix, sample_weight: Any
    ) -> tuple[Features, sp.csr_matrix, TrainingWeights]:
        """Rows of positive weight, with their weights and those of the labels."""
        weights = TrainingWeights(check_sample_weight(sample_weight, X.shape[0]))
        if weights.rows is not None and not weights.rows.all():
            kept = np.flatnonzero(weights.rows)
            X, Y, weights = X[kept], Y[kept], weights.take(kept)
        class_weight = self._settings().class_weight
        labels = label_weights(class_weight, self.model_.label_names, weights.counts(Y))
        if labels is None or self.model_.target_kind not in ONE_CLASS_PER_ROW:
            return X, Y, TrainingWeights(weights.rows, labels)
        of_rows = np.asarray(Y @ labels, np.float32)  # a row has one class
        of_rows = np.where(of_rows > 0, of_rows, np.float32(1))
        return X, Y, TrainingWeights(of_rows if weights.rows is None else of_rows * weights.rows)

    def _validation_rows(self, X: Any, y: Any) -> tuple[Features, sp.csr_matrix]:
        """Validate the rows of a validation set."""
        features = self._features(X)
        refuse_nan(features)
        return features, encode_known(y, features.shape[0], self.model_.known_labels)


def check_label_info(label_info: object, rerank: str | None, engine: Any = "local") -> None:
    """Raise ValueError if side information of labels is invalid, or cannot be used."""
    if label_info is None:
        return
    if not isinstance(label_info, LabelInfo):
        raise ValueError(
            f"The 'label_info' parameter must be a LabelInfo or None. Got {label_info!r:.60} instead."
        )
    check_side_kind(rerank)
    if engine != "local":
        raise ValueError(
            f"The 'label_info' parameter must be None unless engine='local'. Got engine={engine!r:.60}."
        )
