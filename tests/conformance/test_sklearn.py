"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseleaf import LdSMClassifier, SparseGBDTClassifier

SPARSE_SCORES = (
    "decision_function of multi-label targets is a CSR matrix: nothing takes rows × labels of memory"
)

EXPECTED_FAILURES = {
    "check_classifier_multioutput": SPARSE_SCORES,
    "check_classifiers_multilabel_output_format_decision_function": SPARSE_SCORES,
    "check_classifiers_multilabel_representation_invariance": (
        "a list of lists is read as lists of label names; a 0/1 table written so is refused as ambiguous"
    ),
}
"""Checks that fail by design, with the reason."""


@parametrize_with_checks(
    [
        SparseGBDTClassifier(n_trees=20, learning_rate=0.3, min_samples_leaf=1),
        SparseGBDTClassifier(n_trees=20, learning_rate=0.3, min_samples_leaf=1, split="exact"),
        LdSMClassifier(n_trees=5, max_nodes=100),
        LdSMClassifier(n_trees=5, max_nodes=100, arity=3, rerank="cosine", rerank_weight=0.5),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
