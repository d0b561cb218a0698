import inspect

import numpy as np
import pytest

from sparseleaf import SparseGBDTClassifier
from sparseleaf.estimators.parameters import Parameter, check_parameters, documented, parse_settings

TABLE = SparseGBDTClassifier.parameter_table

WRONG = {
    "n_trees": [0, -1, 1.5, "3", None, True, 10**400],
    "learning_rate": [0, -0.1, 1.1, float("nan"), "x", None],
    "leaf_labels": [0, 2.5, "all"],
    "leaf_min_gain": [-1, None, float("nan")],
    "max_depth": [0, 1.5],
    "max_leaves": [1, 0, 2.5],
    "growth": ["level", None, 1, ["depth-wise"]],
    "min_samples_leaf": [0, 0.1, None],
    "l2": [-1e-9, float("nan"), None, "5"],
    "min_gain": [-1, None],
    "max_bins": [1, 256, 64.0],
    "split": ["best", None, 3],
    "exact_step": [0, -1, 2.5, float("inf"), float("nan"), None],
    "reducer": ["pca", None],
    "sketch_dim": [0, 4097, 3.5],
    "subsample": [0, 1.5, None],
    "colsample_bytree": [0, 2],
    "colsample_bynode": [0, -1],
    "projection": ["svd", 3],
    "projection_dim": [0, None, 2.5],
    "keep_raw": ["yes", None, 2],
    "early_stopping_rounds": [0, 1.5],
    "eval_metric": ["P@2", "accuracy", None],
    "histogram_mb": [0, None, 0.5],
    "rerank": ["nearest", True, 1],
    "rerank_weight": [-0.1, 1.5, "best", None],
    "rerank_scale": [-1, "auto", float("nan")],
    "n_jobs": [1.5, "all", True],
    "random_state": ["seed", 1.5],
    "verbose": [-1, None],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_name(name, value):
    clf = SparseGBDTClassifier(**{name: value})
    with pytest.raises(ValueError, match=name) as error:
        clf.fit(np.zeros((4, 2)), np.eye(4))
    assert "Got" in str(error.value) or "wanted" in str(error.value)


def test_the_table_covers_every_parameter_and_accepts_every_default():
    signature = inspect.signature(SparseGBDTClassifier.__init__).parameters
    assert set(TABLE) == set(signature) - {"self"}
    assert set(WRONG) == set(TABLE) - {"loss"}
    check_parameters("x", SparseGBDTClassifier().get_params(), TABLE)
    for name, parameter in TABLE.items():
        assert parameter.doc.endswith((".", "λ")), name


@pytest.mark.parametrize("parameters", [
    {"n_trees": np.int64(2)}, {"learning_rate": 1}, {"learning_rate": np.float32(0.5)}, {"exact_step": 3},
    {"exact_step": 0.5}, {"exact_step": 2.0}, {"random_state": None}, {"random_state": -5},
    {"random_state": np.random.RandomState(1)}, {"random_state": 2**40}, {"n_jobs": -1},
    {"max_depth": None, "max_leaves": None}, {"l2": float("inf")},
])  # fmt: skip
def test_allowed_values_train(parameters, tmp_path):
    split = {"split": "exact"} if "exact_step" in parameters else {}
    clf = SparseGBDTClassifier(**{"n_trees": 2, **split, **parameters}).fit(
        np.arange(40.0)[:, None], np.eye(40, 3)
    )
    assert clf.best_iteration_ == 2
    clf.save(tmp_path / "m.safetensors")


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_dense_losses_say_which_estimator_to_use(name):
    with pytest.raises(ValueError, match=rf"loss='{name}'.*use MultiGBDTClassifier"):
        SparseGBDTClassifier(loss=name).fit(np.zeros((4, 2)), np.eye(4))


def test_settings_are_parsed():
    values = parse_settings(
        [
            "n_trees=7",
            "learning_rate=.5",
            "max_depth=none",
            "growth=best-first",
            "projection=None",
            "l2=1e-3",
        ],
        TABLE,
    )
    assert values == {
        "n_trees": 7, "learning_rate": 0.5, "max_depth": None, "growth": "best-first", "projection": None,
        "l2": 1e-3,
    }  # fmt: skip


@pytest.mark.parametrize(("setting", "message"), [
    ("n_tres=3", "did you mean 'n_trees'"),
    ("zzzzqq=3", "known: n_trees"),
    ("n_trees", "wanted name=value"),
    ("n_trees=0", "the 'n_trees' parameter must be an int >= 1. Got '0' instead"),
    ("n_trees=x", "Got 'x' instead"),
    ("n_trees=none", "Got 'none' instead"),
    ("growth=deep", "must be one of {'depth-wise', 'best-first'}. Got 'deep'"),
    ("leaf_labels=0", "must be an int >= 1 or None"),
    ("subsample=0", "must be a number > 0 and <= 1"),
])  # fmt: skip
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        parse_settings([setting], TABLE)


def test_a_docstring_says_what_the_table_says():
    @documented
    class Estimator:
        """First line.

        Parameters
        ----------
        {parameters}

        Attributes
        ----------
        model_ : Model
        """

        parameter_table = {  # noqa: RUF012
            "depth": Parameter("int", "Levels. " + "Words " * 20 + "end.", low=1, none=True),
            "rate": Parameter("float", "Step.", low=0, low_open=True),
        }

        def __init__(self, depth=None, rate=0.1):
            pass

    words = " ".join(["Levels.", *["Words"] * 16])
    assert Estimator.__doc__ == (
        "First line.\n\nParameters\n----------\n"
        f"depth : an int >= 1 or None, default=None\n    {words}\n    Words Words Words Words end.\n"
        "rate : a number > 0, default=0.1\n    Step.\n\n"
        "Attributes\n----------\nmodel_ : Model"
    )


def test_without_docstrings_there_is_nothing_to_write():
    class Estimator:
        parameter_table = {}  # noqa: RUF012

    assert documented(Estimator).__doc__ is None
