"""Several validation sets: each is measured, and the last one decides."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import sparseleaf
from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.training.validation import eval_sets

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4)).astype(np.float32)
NUMBERS = X[:, :2] + 0.3 * RNG.normal(size=(240, 2))
GRADES = np.digitize(NUMBERS[:, 0], [0, 1])
QID = np.arange(240) // 8
XC = make_xc(240, 40, 20, labels_per_row=3, nnz_per_row=10, seed=0)

CASES = {
    "gbdt-sparse": (SparseGBDTClassifier(n_trees=5), XC, "precision@1"),
    "gbdt-sparse, re-ranked": (SparseGBDTClassifier(n_trees=5, rerank="cosine"), XC, "precision@1"),
    "forest": (SketchForestClassifier(n_trees=5), XC, "precision@1"),
    "ldsm": (LdSMClassifier(n_trees=5, max_nodes=20), XC, "precision@1"),
    "regressor": (MultiGBDTRegressor(n_trees=5, eval_metric="rmse"), (X, NUMBERS), "rmse"),
    "a tree for each output": (
        MultiGBDTRegressor(n_trees=5, advanced={"tree_per_output": True}),
        (X, NUMBERS),
        "loss",
    ),
    "classifier": (MultiGBDTClassifier(n_trees=5, eval_metric="accuracy"), (X, GRADES), "accuracy"),
    "ranker": (GBDTRanker(n_trees=5), (X, GRADES, QID), "ndcg@5"),
}
cases = pytest.mark.parametrize("case", CASES)


def rows(data, first, end):
    return tuple(part[first:end] for part in data)


def fit(est, data, eval_set, **more):
    own = rows(data, 0, 120)
    if len(own) == 3:
        more["qid"] = own[2]
    return est.fit(*own[:2], eval_set=eval_set, **more)


@cases
def test_every_set_is_measured_as_if_it_were_alone(case):
    est, data, metric = CASES[case]
    sets = rows(data, 120, 160), rows(data, 160, 240)
    alone = [fit(est, data, one).history_[f"valid {metric}"] for one in sets]
    assert alone[0] != alone[1]
    seen = []
    both = fit(est, data, list(sets), callbacks=[lambda state: seen.append(sorted(state.history))])
    wanted = [f"valid_0 {metric}", f"valid_1 {metric}"]
    assert both.history_ == dict(zip(wanted, alone, strict=True))
    assert seen[-1] == wanted
    assert fit(est, data, [sets[0]]).history_ == {f"valid {metric}": alone[0]}  # a list of one is that one
    assert fit(est, data, []).history_ == fit(est, data, None).history_ == {}


@cases
def test_the_last_set_decides(case):
    est, data, metric = CASES[case]
    if "early_stopping_rounds" in est.get_params():
        est = type(est)(
            **{**est.get_params(), "early_stopping_rounds": 2, "n_trees": 60, "learning_rate": 0.5}
        )
    first, last = rows(data, 0, 120), rows(data, 160, 240)
    alone = clone(est)
    fit(alone, data, last)
    both = fit(est, data, [first, last])
    assert both.best_iteration_ == alone.best_iteration_
    assert getattr(both, "rerank_weight_", None) == getattr(alone, "rerank_weight_", None)
    assert both.history_[f"valid_1 {metric}"] == alone.history_[f"valid {metric}"]
    if "early_stopping_rounds" in est.get_params():  # rows of training are fitted better and better
        assert fit(est, data, [last, first]).best_iteration_ > alone.best_iteration_


@cases
def test_a_checkpoint_knows_all_sets(case, tmp_path):
    est, data, _ = CASES[case]
    sets = [rows(data, 120, 160), rows(data, 160, 240)]
    path = tmp_path / "checkpoint"

    def interrupt(state):
        return state.tree == 3

    whole = fit(est, data, sets).history_
    fit(est, data, sets, checkpoint=path, callbacks=[interrupt])
    assert fit(est, data, sets, checkpoint=path).history_ == whole
    with pytest.raises(ValueError, match=r"expected eval_set\[1\] X"):
        fit(est, data, [sets[0], rows(data, 200, 240)], checkpoint=path)


@pytest.mark.parametrize(
    ("case", "former", "scale"), [("gbdt-sparse", "P@1", 100), ("forest", "P@1", 100), ("ldsm", "P@1", 100)]
)
def test_the_history_answers_to_former_names(case, former, scale):
    est, data, metric = CASES[case]
    history = fit(clone(est), data, [rows(data, 120, 240)]).history_
    with pytest.warns(FutureWarning, match=f"The metric 'valid {former}' was renamed to 'valid {metric}'"):
        assert history[f"valid {former}"] == [scale * value for value in history[f"valid {metric}"]]
    assert pickle.loads(pickle.dumps(history)) == history
    with pytest.raises(KeyError):
        history["valid P@3"]


def test_history_of_several_sets_is_saved(tmp_path):
    est, data, _ = CASES["regressor"]
    est = fit(est, data, [rows(data, 120, 160), rows(data, 160, 240)])
    est.save(tmp_path / "model")
    assert sparseleaf.load(tmp_path / "model").history_ == est.history_


@cases
def test_what_is_wrong_with_a_set_says_which(case):
    est, data, _ = CASES[case]
    good, bad = rows(data, 120, 160), (data[0][:40, :2], *rows(data, 0, 40)[1:])
    with pytest.raises(ValueError, match=r"^eval_set\[1\]: X has 2 features"):
        fit(est, data, [good, bad])
    with pytest.raises(ValueError, match=r"^eval_set: X has 2 features"):
        fit(est, data, bad)
    with pytest.raises(
        ValueError, match=r"^The 'eval_set' parameter must be a tuple \(X, y.*Got a ndarray instead"
    ):
        fit(est, data, np.ones((3, 2)))
    with pytest.raises(
        ValueError, match=r"^The 'eval_set' parameter must be a tuple .* Got a list of 4 instead"
    ):
        fit(est, data, [good, bad[0], 3, good])


def test_forms_of_one_set_and_of_several():
    a, b = [[1.0, 2.0], [3.0, 4.0]], [0, 1]
    for one in ((a, b), [a, b], (np.array(a), b), [np.array(a), np.array(b)], (tuple(map(tuple, a)), (0, 1))):
        assert len(eval_sets(one)) == 1
        assert len(eval_sets(one)[0]) == 2
    for two in ([(a, b), (a, b)], ((a, b), (a, b)), [[np.array(a), b], (np.array(a), b)]):
        assert len(eval_sets(two)) == 2


def test_re_ranking_afterwards_takes_the_last_set():
    data = XC
    clf = fit(LdSMClassifier(n_trees=5, max_nodes=20), data, None)
    first, last = rows(data, 120, 160), rows(data, 160, 240)
    own = rows(data, 0, 120)
    weights = [clf.fit_rerank(*own, eval_set=one).rerank_weight_ for one in (last, [first, last])]
    assert weights[0] == weights[1]
    with pytest.raises(ValueError, match=r"^eval_set\[0\]: X has 2 features"):
        clf.fit_rerank(*own, eval_set=[(first[0][:, :2], first[1]), last])
