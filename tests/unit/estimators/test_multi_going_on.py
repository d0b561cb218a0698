"""The same bytes of MultiGBDT for any threads, and for trainings that go on."""

import numpy as np
import pytest
from sklearn.base import clone

import naive_dense
import sparseleaf
from multi_models import MODELS, classes_of, make, reg, same_trees
from smalldata import saved_bytes
from sparseleaf import MultiGBDTClassifier, SparseGBDTClassifier
from sparseleaf.model import Rows, load_model

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("case", MODELS)
def test_threads_do_not_change_a_byte(case, tmp_path):
    X, Y = make(3000, 4, 3, seed=7, missing=0.1, categories=2)
    if isinstance(MODELS[case], MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    files = []
    for n_jobs in (1, 2, 3):
        est = clone(MODELS[case]).set_params(n_jobs=n_jobs, n_trees=3)
        est.fit(X, Y, eval_set=(X[:500], Y[:500]), sample_weight=np.arange(3000) % 3 + 1.0)
        files.append(saved_bytes(est, tmp_path))
        if n_jobs == 1:
            predicted = est.predict(X)
        np.testing.assert_array_equal(est.predict(X), predicted)
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("case", [*MODELS, "missing"])
@pytest.mark.parametrize("how", ["warm_start", "init_model"])
def test_going_on_is_one_run(case, how):
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    whole = clone(MODELS.get(case, MODELS["mse"]))
    if isinstance(whole, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    whole.fit(X, Y, eval_set=(X[:90], Y[:90]))
    part = (
        clone(whole)
        .set_params(n_trees=2, warm_start=how == "warm_start")
        .fit(X, Y, eval_set=(X[:90], Y[:90]))
    )
    if how == "warm_start":
        part.set_params(n_trees=6).fit(X, Y, eval_set=(X[:90], Y[:90]))
    else:
        part = clone(whole).set_params(n_trees=4).fit(X, Y, init_model=part, eval_set=(X[:90], Y[:90]))
    same_trees(whole, part)
    assert part.history_ == whole.history_
    np.testing.assert_array_equal(part.predict(X), whole.predict(X))
    assert part.best_iteration_ == whole.best_iteration_ == 6


def test_going_on_from_a_file(tmp_path):
    X, Y = make(categories=1)
    whole = reg(categorical_features=[0]).fit(X, Y)
    first = reg(categorical_features=[0], n_trees=2).fit(X, Y)
    first.save(tmp_path / "exact.safetensors", compact=False)
    first.save(tmp_path / "compact.safetensors")
    for loaded in (
        sparseleaf.load(tmp_path / "exact.safetensors"),
        sparseleaf.load(tmp_path / "compact.safetensors"),
        load_model(tmp_path / "exact.safetensors"),
    ):
        same_trees(whole, reg(categorical_features=[0], n_trees=4).fit(X, Y, init_model=loaded))


def test_going_on_with_sparse_leaves_from_dense_ones():
    X, Y = make()
    first = reg(n_trees=3).fit(X, Y)
    both = reg(n_trees=2, leaf_labels=1).fit(X, Y, init_model=first)
    trees = both.model_.trees
    assert len(trees.leaf_labels) == len(trees.leaf_values)
    scores, leaves = naive_dense.predict(X, trees, 3, both.model_.base_score)
    np.testing.assert_array_equal(both.predict(X), scores)
    np.testing.assert_array_equal(both.model_.scorer.leaves(Rows(X, None, 1)), leaves)
    again = reg(n_trees=2).fit(X, Y, init_model=both)
    scores, _ = naive_dense.predict(X, again.model_.trees, 3, again.model_.base_score)
    np.testing.assert_array_equal(again.predict(X), scores)


@pytest.mark.parametrize(("change", "match"), [
    (lambda X, Y: reg(n_trees=1).fit(X[:, :3], Y), "must have 3 features and 3 outputs.*Got 4 features and 3 outputs"),
    (lambda X, Y: reg(n_trees=1).fit(X, Y[:, :2]), "must have 4 features and 2 outputs"),
    (lambda X, Y: reg(n_trees=1).fit(X, pd.DataFrame(Y, columns=list("abc"))), "classes and the kind of targets"),
    (lambda X, Y: SparseGBDTClassifier(n_trees=1).fit(X, (Y > 0).astype(int)), "must be a model with dense scores"),
])  # fmt: skip
def test_models_that_cannot_be_gone_on_from(change, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        reg().fit(X, Y, init_model=change(X, Y))


def test_warm_start_with_fewer_trees_is_refused_and_with_as_many_is_nothing():
    X, Y = make()
    est = reg(warm_start=True).fit(X, Y)
    before = est.predict(X)
    np.testing.assert_array_equal(est.fit(X, Y).predict(X), before)
    with pytest.raises(ValueError, match=r"at least the 6 rounds .* Got 2 instead"):
        est.set_params(n_trees=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"requires tree_per_output=False, as in the model. Got True"):
        est.set_params(n_trees=9, advanced__tree_per_output=True).fit(X, Y)
