"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier

SPARSE_SCORES = (
    "decision_function of multi-label targets is a CSR matrix: nothing takes rows × labels of memory"
)
ROWS_COUNT = "min_samples_leaf and bins count rows, whatever they weigh, so a weight of 2 is not a row twice"
LISTS = "a list of lists is read as lists of label names; a 0/1 table written so is refused as ambiguous"

FLOAT32 = "predictions are float32, as the model's leaves and scores are"
PAIRS = "a weight for every (row, class) pair is allowed, and two classes make the check's table such a one"
ONE_EACH = (
    "with a logistic loss for each class, probabilities are brought to a sum of 1, which keeps the order of classes "
    "in a row but not that of differences of scores across rows"
)

SPARSE = {
    "check_classifier_multioutput": SPARSE_SCORES,
    "check_classifiers_multilabel_output_format_decision_function": SPARSE_SCORES,
    "check_classifiers_multilabel_representation_invariance": LISTS,
}
MULTI = {
    "check_sample_weight_equivalence_on_dense_data": ROWS_COUNT,
    "check_sample_weight_equivalence_on_sparse_data": ROWS_COUNT,
}
EXPECTED_FAILURES = {
    SparseGBDTClassifier: SPARSE,
    MultiGBDTRegressor: MULTI | {"check_regressor_multioutput": FLOAT32},
    MultiGBDTClassifier: MULTI
    | {
        "check_classifiers_multilabel_representation_invariance": LISTS,
        "check_sample_weights_shape": PAIRS,
    },
}
"""Checks that fail by design, with the reason."""


def expected_failures(estimator):
    expected = EXPECTED_FAILURES[type(estimator)]
    return expected | ({"check_decision_proba_consistency": ONE_EACH} if estimator.loss == "logistic" else {})


SMALL = {"n_trees": 20, "learning_rate": 0.3, "min_samples_leaf": 1}


@parametrize_with_checks(
    [
        SparseGBDTClassifier(**SMALL),
        SparseGBDTClassifier(**SMALL, split="exact"),
        MultiGBDTRegressor(**SMALL),
        MultiGBDTRegressor(**SMALL, tree_per_output=True, loss="absolute"),
        MultiGBDTClassifier(**SMALL),
        MultiGBDTClassifier(**SMALL, loss="logistic", leaf_outputs=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
