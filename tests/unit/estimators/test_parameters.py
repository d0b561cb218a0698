"""Parameters: one declaration each, and every place that follows from it."""

import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.estimators.parameters import (
    Parameter,
    check_parameters,
    declare,
    documented,
    former_arguments,
    parse_settings,
)
from sparseleaf.estimators.values import (
    NONE,
    Bool,
    ByFeature,
    Float,
    FractionOrCount,
    Function,
    Int,
    Names,
    Seed,
    Sequences,
)
from sparseleaf.objectives import Number

ESTIMATORS = [
    SparseGBDTClassifier,
    MultiGBDTRegressor,
    MultiGBDTClassifier,
    GBDTRanker,
    LdSMClassifier,
    SketchForestClassifier,
]
TABLE = SparseGBDTClassifier.parameter_table

WRONG = {
    "n_trees": [0, -1, 1.5, "3", None, True, 10**400],
    "learning_rate": [0, -0.1, 1.1, float("nan"), "x", None],
    "leaf_labels": [0, 2.5, "all"],
    "leaf_min_gain": [-1, None, float("nan")],
    "max_depth": [0, 1.5],
    "max_leaves": [1, 0, 2.5],
    "class_weight": ["even", 3],
    "growth": ["level", None, 1, ["depth-wise"]],
    "min_samples_leaf": [0, 0.1, None],
    "l2": [-1e-9, float("nan"), None, "5"],
    "min_gain": [-1, None],
    "max_bins": [1, 256, 64.0],
    "split": ["best", None, 3],
    "exact_step": [0, -1, 2.5, float("inf"), float("nan"), None],
    "sketch": ["pca", None],
    "sketch_dim": [0, 4097, 3.5],
    "subsample": [0, 1.5, None],
    "colsample_bytree": [0, 2],
    "colsample_bynode": [0, -1],
    "projection": ["svd", 3],
    "projection_dim": [0, None, 2.5],
    "keep_raw": ["yes", None, 2],
    "early_stopping_rounds": [0, 1.5],
    "eval_metric": ["precision@2", "accuracy", None],
    "histogram_mb": [0, None, 0.5],
    "device": ["gpu", None, 0],
    "rerank": ["nearest", True, 1],
    "calibrate": ["beta", True, 1],
    "threshold": ["f2", "precision:2", None, 0.5],
    "threshold_per_label": ["yes", 1, None],
    "decode": ["best", "top", "top:0", None, 5],
    "vectorizer": ["words", True],
    "rerank_weight": [-0.1, 1.5, "best", None],
    "rerank_scale": [-1, "auto", float("nan")],
    "n_jobs": [1.5, "all", True],
    "random_state": ["seed", 1.5],
    "verbose": [-1, None],
}
ROWS = np.arange(40.0)[:, None], np.eye(40, 3)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_name(name, value):
    clf = SparseGBDTClassifier.from_settings({name: value})
    with pytest.raises(ValueError, match=f"The '{name}' parameter of SparseGBDTClassifier must be .* Got"):
        clf.fit(np.zeros((4, 2)), np.eye(4))


def test_every_parameter_has_a_wrong_value_above():
    assert set(WRONG) == set(TABLE) - {"loss"}


@pytest.mark.parametrize("estimator", [*ESTIMATORS, BlendClassifier])
def test_constructors_have_the_declared_parameters_and_defaults(estimator):
    table = estimator.parameter_table
    signature = inspect.signature(estimator).parameters
    defaults = {name: one.default for name, one in table.items() if not one.advanced}
    others = {"estimators"} if estimator is BlendClassifier else {"advanced"}
    assert {name: one.default for name, one in signature.items() if name not in others} == defaults
    assert set(signature) == set(defaults) | others
    assert len(signature) <= 23
    assert all(one.name == name for name, one in table.items())
    assert all(one.description.endswith(".") for one in table.values())
    check_parameters("x", {name: one.default for name, one in table.items()}, table)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_docstrings_have_every_parameter_where_it_belongs(estimator):
    front, _, other = estimator.__doc__.partition("Other Parameters")
    for name, one in estimator.parameter_table.items():
        entry = rf"^{name} : .*, default={re.escape(repr(one.default))}$"
        assert bool(re.search(entry, other, re.MULTILINE)) == one.advanced
        assert bool(re.search(entry, front, re.MULTILINE)) != one.advanced


@pytest.mark.parametrize("parameters", [
    {"n_trees": np.int64(2)}, {"learning_rate": 1}, {"learning_rate": np.float32(0.5)}, {"exact_step": 3},
    {"exact_step": 0.5}, {"exact_step": 2.0}, {"random_state": None}, {"random_state": -5},
    {"random_state": np.random.RandomState(1)}, {"random_state": 2**40}, {"n_jobs": -1},
    {"max_depth": None, "max_leaves": None}, {"l2": float("inf")},
])  # fmt: skip
def test_allowed_values_train(parameters, tmp_path):
    split = {"split": "exact"} if "exact_step" in parameters else {}
    clf = SparseGBDTClassifier.from_settings({"n_trees": 2, **split, **parameters}).fit(*ROWS)
    assert clf.best_iteration_ == 2
    clf.save(tmp_path / "m.safetensors")


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_dense_losses_say_which_estimator_to_use(name):
    with pytest.raises(ValueError, match=rf"loss='{name}'.*use MultiGBDTClassifier"):
        SparseGBDTClassifier(loss=name).fit(np.zeros((4, 2)), np.eye(4))


# --- values


@pytest.mark.parametrize(("values", "text"), [
    (Int(1) | NONE, "an int >= 1 or None"),
    (Float(0, 1, low_open=True), "a number > 0 and <= 1"),
    (FractionOrCount(0, low_open=True), "a fraction below 1 or an integer > 0"),
    (Names(("a", "b")), "one of {'a', 'b'}"),
    (Names(("auto",)) | Float(0), "'auto' or a number >= 0"),
    (Names(("a", "huber"), {"huber": Number(1)}), "one of {'a', 'huber'} ('huber:x' with x > 0)"),
    (Names(("auto",)) | Sequences() | ByFeature() | NONE, "'auto', a sequence, a dict keyed by feature or None"),
    (Bool() | Function(), "a bool or a callable"),
    (Seed() | NONE, "an int, a numpy RandomState or None"),
])  # fmt: skip
def test_values_in_words(values, text):
    assert values.text == text


@pytest.mark.parametrize(("values", "inside", "outside"), [
    (Names(("a", "q"), {"q": Number(0.5, 0, 1)}), ["a", "q:0.5"], ["b", "q:", "q:1", "q:0", "q:nan", "a:1", None]),
    (Sequences(), [[1], (), np.zeros(2)], ["ab", None, 1, {}]),
    (ByFeature(), [{}, {"a": 1}], ["a", [1], None]),
    (Function(), [len], ["len", None]),
    (Seed(), [1, np.int64(2), np.random.RandomState(0)], [None, 1.5, "1"]),
    (Bool(), [True, np.bool_(False)], [0, 1, None, "True"]),
])  # fmt: skip
def test_what_is_among_the_values(values, inside, outside):
    assert all(value in values for value in inside)
    assert not any(value in values for value in outside)


# --- the command line


def test_settings_are_parsed():
    values = parse_settings(
        [
            "n_trees=7",
            "learning_rate=.5",
            "max_depth=none",
            "growth=best-first",
            "projection=None",
            "l2=1e-3",
            "keep_raw=true",
            "rerank_weight=auto",
        ],
        TABLE,
    )
    assert values == {
        "n_trees": 7, "learning_rate": 0.5, "max_depth": None, "growth": "best-first", "projection": None,
        "l2": 1e-3, "keep_raw": True, "rerank_weight": "auto",
    }  # fmt: skip


def test_settings_under_former_names_warn():
    with pytest.warns(FutureWarning, match="'reducer' parameter was renamed to 'sketch'"):
        assert parse_settings(["reducer=sampling"], TABLE) == {"sketch": "sampling"}


@pytest.mark.parametrize(("setting", "message"), [
    ("n_tres=3", "did you mean 'n_trees'"),
    ("min_gian=3", "did you mean 'min_gain'"),
    ("zzzzqq=3", "valid names: n_trees"),
    ("n_trees", "--set must be name=value. Got 'n_trees' instead"),
    ("n_trees=0", "the 'n_trees' parameter must be an int >= 1. Got '0' instead"),
    ("n_trees=x", "Got 'x' instead"),
    ("n_trees=none", "Got 'none' instead"),
    ("n_trees=1.5", "Got '1.5' instead"),
    ("growth=deep", "must be one of {'depth-wise', 'best-first'}. Got 'deep'"),
    ("leaf_labels=0", "must be an int >= 1 or None"),
    ("subsample=0", "must be a number > 0 and <= 1"),
])  # fmt: skip
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        parse_settings([setting], TABLE)


# --- docstrings


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

        parameter_table = declare(
            Parameter("depth", Int(1) | NONE, None, "Levels. " + "Words " * 20 + "end."),
            Parameter("rate", Float(0, low_open=True), 0.1, "Step.", advanced=True),
        )

    words = " ".join(["Levels.", *["Words"] * 16])
    assert Estimator.__doc__ == (
        "First line.\n\nParameters\n----------\n"
        f"depth : int >= 1 or None, default=None\n    {words}\n    Words Words Words Words end.\n"
        "advanced : dict or None, default=None\n"
        "    Values of the advanced parameters below, by name.\n"
        "\nOther Parameters\n----------------\n"
        "rate : number > 0, default=0.1\n    Step.\n\n"
        "Attributes\n----------\nmodel_ : Model"
    )


def test_without_docstrings_there_is_nothing_to_write():
    class Estimator:
        parameter_table = {}  # noqa: RUF012

    assert documented(Estimator).__doc__ is None


# --- advanced parameters


@pytest.mark.parametrize(("advanced", "message"), [
    ({"min_gian": 1}, "Got 'min_gian' instead; did you mean 'min_gain'?"),
    ({"n_trees": 1}, "Got 'n_trees' instead; pass it as n_trees=…."),
    ({"reducer": "sampling"}, "Got 'reducer' instead; did you mean 'sketch'?"),
    ({3: 1}, "Got 3 instead; valid names: leaf_min_gain"),
    ([("min_gain", 1)], "The 'advanced' parameter of SparseGBDTClassifier must be a dict or None."),
    ("min_gain", "must be a dict or None. Got 'min_gain' instead"),
    ({"min_gain": -1}, "The 'min_gain' parameter of SparseGBDTClassifier must be a number >= 0. Got -1 instead"),
])  # fmt: skip
def test_bad_advanced_parameters_are_refused(advanced, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SparseGBDTClassifier(advanced=advanced).fit(*ROWS)


def test_settings_have_every_parameter_and_cannot_be_changed():
    clf = SparseGBDTClassifier(n_trees=3, advanced={"min_gain": 2.0})
    settings = clf._settings()
    assert vars(settings) == {name: one.default for name, one in TABLE.items()} | {
        "n_trees": 3,
        "min_gain": 2.0,
    }
    with pytest.raises(AttributeError, match="read-only: n_trees"):
        settings.n_trees = 4
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_advanced_parameters_are_copied_set_and_searched():
    clf = SparseGBDTClassifier(n_trees=2, min_samples_leaf=2, advanced={"min_gain": 1.0})
    copy = clone(clf)
    assert copy.get_params() == clf.get_params()
    copy.set_params(advanced__growth="best-first", advanced__min_gain=3.0, n_trees=4)
    assert copy.advanced == {"min_gain": 3.0, "growth": "best-first"}
    assert copy.n_trees == 4
    assert clf.advanced == {"min_gain": 1.0}
    assert repr(clf) == "SparseGBDTClassifier(advanced={'min_gain': 1.0}, min_samples_leaf=2, n_trees=2)"
    assert pickle.loads(pickle.dumps(clf)).get_params() == clf.get_params()
    for grid in ({"advanced": [None, {"min_gain": 1e9}]}, {"advanced__min_gain": [0.0, 1e9]}):
        search = GridSearchCV(clf, grid, cv=2, error_score="raise").fit(ROWS[0], np.arange(40) > 19)
        assert search.best_index_ == 0  # with the other nothing is ever split


def test_settings_of_both_kinds_come_from_one_mapping():
    clf = SparseGBDTClassifier.from_settings(
        {"n_trees": 7, "min_gain": 2.0, "reducer": "sampling", "split": "reduced"}
    )
    assert (clf.n_trees, clf.advanced) == (
        7,
        {"min_gain": 2.0, "sketch": "sampling"},
    )  # the split is the default
    again = SparseGBDTClassifier.from_settings(clf.get_params())
    assert again.get_params() == clf.get_params()
    with pytest.raises(
        ValueError, match="SparseGBDTClassifier has no parameter 'min_gian'; did you mean 'min_gain'"
    ):
        SparseGBDTClassifier.from_settings({"min_gian": 1})


def test_advanced_parameters_are_in_the_model_file(tmp_path):
    clf = SparseGBDTClassifier(n_trees=2, advanced={"min_gain": 2.0, "growth": "depth-wise"}).fit(*ROWS)
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert loaded.advanced == {"min_gain": 2.0}  # the other is the default
    assert loaded._settings() == clf._settings()
    assert loaded.model_.parameters["growth"] == "depth-wise"


# --- names of the last release


def test_every_argument_of_the_last_release_is_still_there():
    former = {
        SparseGBDTClassifier: "n_trees learning_rate leaf_labels leaf_min_gain max_depth max_leaves growth"
        " min_samples_leaf l2 min_gain max_bins loss split exact_step reducer sketch_dim subsample colsample_bytree"
        " colsample_bynode projection projection_dim keep_raw early_stopping_rounds eval_metric histogram_mb rerank"
        " rerank_weight rerank_scale n_jobs random_state verbose",
        MultiGBDTRegressor: "n_trees learning_rate loss leaf_outputs leaf_min_gain max_depth max_leaves growth"
        " min_samples_leaf min_curvature_leaf l2 min_gain max_bins hessian split reducer sketch_dim tree_per_output"
        " categorical_features monotone_constraints subsample colsample_bytree colsample_bynode early_stopping_rounds"
        " eval_metric warm_start histogram_mb n_jobs random_state verbose",
        GBDTRanker: "n_trees learning_rate loss metric places normalise margin averaged sigma start_rounds max_depth"
        " max_leaves growth min_samples_leaf min_curvature_leaf l2 min_gain max_bins categorical_features"
        " monotone_constraints subsample subsample_by colsample_bytree colsample_bynode early_stopping_rounds"
        " eval_metric warm_start histogram_mb n_jobs random_state verbose",
        LdSMClassifier: "n_trees arity max_nodes epochs tol learning_rate lambda_1 lambda_2 min_samples_leaf prune"
        " leaf_labels rerank rerank_weight rerank_scale n_jobs random_state verbose",
        SketchForestClassifier: "n_trees arity min_samples_leaf max_depth sketch_dim label_weight router_weights"
        " max_features bootstrap leaf_labels rerank rerank_weight rerank_scale n_jobs random_state verbose",
    }
    former[MultiGBDTClassifier] = former[MultiGBDTRegressor]
    for estimator in ESTIMATORS:
        table = estimator.parameter_table
        moved = former_arguments(table)
        visible = {name for name, one in table.items() if not one.advanced}
        assert set(former[estimator].split()) <= visible | set(moved)
        for name, one in moved.items():
            default = one.default
            with pytest.warns(FutureWarning, match=f"The '{name}' parameter is now passed as"):
                made = estimator(**{name: default})
            assert getattr(made._settings(), one.name) == default


def test_former_arguments_do_what_they_did():
    with pytest.warns(
        FutureWarning, match=r"is now passed as advanced=\{'min_gain': …\}; the former argument will be"
    ):
        clf = SparseGBDTClassifier(min_gain=2.0, advanced={"growth": "best-first"})
    assert clf.advanced == {"growth": "best-first", "min_gain": 2.0}
    with pytest.warns(FutureWarning, match="'leaf_outputs' parameter is now passed as 'leaf_labels'"):
        reg = MultiGBDTRegressor(leaf_outputs=2)
    assert reg.leaf_labels == 2
    with pytest.warns(FutureWarning, match="is now passed as advanced={'sketch': …}"):
        reg.set_params(reducer="sampling", n_trees=3)
    assert (reg.advanced, reg.n_trees) == ({"sketch": "sampling"}, 3)
    with pytest.warns(FutureWarning):
        reg.leaf_outputs = 1
    assert reg.leaf_labels == 1
    with pytest.warns(FutureWarning):
        assert reg.reducer == "sampling"
    assert clone(reg).get_params() == reg.get_params()


def test_other_arguments_are_refused_in_the_words_of_python():
    with pytest.raises(
        TypeError,
        match=r"SketchForestClassifier.__init__\(\) got an unexpected keyword argument 'n_tree'; did you mean 'n_trees",
    ):
        SketchForestClassifier(n_tree=3)
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'sketch'; pass advanced=\{'sketch': …\}"
    ):
        MultiGBDTRegressor(sketch="sampling")
    with pytest.raises(TypeError, match="got both 'leaf_labels' and its former name 'leaf_outputs'"):
        MultiGBDTRegressor(leaf_outputs=3, leaf_labels=2)
    with pytest.raises(ValueError, match="Invalid parameter 'n_tree' for estimator SketchForestClassifier"):
        SketchForestClassifier().set_params(n_tree=3)


def test_former_values_are_understood(tmp_path):
    clf = SparseGBDTClassifier(n_trees=1, eval_metric="nDCG@3", advanced={"split": "reduced"})
    with pytest.warns(FutureWarning) as told:
        clf.fit(*ROWS, eval_set=ROWS)
    assert [str(one.message).split(";")[0] for one in told] == [
        "The value 'nDCG@3' of the 'eval_metric' parameter was renamed to 'ndcg@3'",
        "The value 'reduced' of the 'split' parameter was renamed to 'sketch'",
    ]
    assert list(clf.history_) == ["valid ndcg@3"]
    assert (clf.model_.parameters["eval_metric"], clf.model_.parameters["split"]) == ("ndcg@3", "sketch")
