"""Phases: what is logged, what is shown, and what an interrupt of the last of them leaves."""

import io
import logging
import sys

import numpy as np
import pytest

from sparseleaf import BlendClassifier, LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier, load
from sparseleaf.data import make_xc
from sparseleaf.progress import logger, phase, reporting
from sparseleaf.rerank.linear import LinearReranker
from sparseleaf.rerank.models import LinearModels


@pytest.fixture(scope="module")
def data():
    return make_xc(300, 200, 30)


def phases(caplog):
    return [
        record.getMessage().rpartition(":")[0]
        for record in caplog.records
        if record.levelno == logging.INFO and record.getMessage().endswith(" s")
    ]


def test_the_library_shows_nothing_by_itself(data, capsys):
    SketchForestClassifier(n_trees=2).fit(*data)
    assert capsys.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)


def test_phases_of_a_forest_with_reranking_are_logged(data, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "sparseleaf"):
        forest = SketchForestClassifier(n_trees=3, rerank="linear", random_state=0).fit(*data)
        forest.save(tmp_path / "model")
    found = phases(caplog)
    assert found[0] == "trees"
    assert found[-1] == "saving"
    for name in ("candidates", "linear models"):
        assert f"re-ranking/{name}" in found
    assert "re-ranking/tuning" in found
    assert "re-ranking on all rows" in found
    assert "300 rows, 200 features, 30 labels" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        (SparseGBDTClassifier(n_trees=2, projection="leml"), ["projection leml", "binning", "trees"]),
        (
            SparseGBDTClassifier(n_trees=2, projection=None, rerank="auto"),
            ["binning", "trees", "re-ranking/selection", "re-ranking"],
        ),
        (LdSMClassifier(n_trees=2, rerank=None), ["trees"]),
    ],
)
def test_phases_of_other_estimators_are_logged(estimator, wanted, data, caplog):
    with caplog.at_level(logging.INFO, "sparseleaf"):
        estimator.fit(*data)
    found = phases(caplog)
    assert [name for name in found if name in wanted] == wanted


def test_trees_and_beginnings_are_details(data, caplog):
    with caplog.at_level(logging.DEBUG, "sparseleaf"):
        LdSMClassifier(n_trees=2, rerank=None).fit(*data)
    details = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert "trees: started" in details
    assert any(text.startswith("tree 2/2 ") for text in details)


def test_verbose_2_prints_a_line_per_phase(data, capsys):
    SketchForestClassifier(n_trees=2, rerank="linear", verbose=2).fit(*data)
    err = capsys.readouterr().err
    assert "tree 2/2" in err
    assert "re-ranking/linear models  " in err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_phases_within_phases(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with reporting(1), phase("outer [x]"), phase("inner", 7) as advance:
        advance(7, "P@1 3")
    shown = terminal.getvalue()
    for text in ("outer [x]", "inner", "0/7"):  # what follows depends on time
        assert text in shown


def test_no_terminal_shows_nothing(capsys):
    with reporting(1), phase("outer", 7) as advance:
        advance(7, "")
    assert capsys.readouterr().err == ""


def test_a_phase_that_fails_says_so(caplog):
    with caplog.at_level(logging.INFO, "sparseleaf"), pytest.raises(ZeroDivisionError), phase("work"):
        raise ZeroDivisionError
    assert caplog.records[-1].getMessage().startswith("work: stopped after ")


def interrupt_at(monkeypatch, number):
    """Ctrl-C while the linear models are fitted for the ``number``-th time."""
    calls, plain = [], LinearModels.fit

    def fit(*args):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(LinearModels, "fit", fit)


@pytest.mark.parametrize("kind", [SketchForestClassifier, SparseGBDTClassifier])
def test_an_interrupt_of_the_reranking_keeps_the_trees(kind, data, monkeypatch, tmp_path):
    interrupt_at(monkeypatch, 1)
    X, Y = data
    with pytest.warns(UserWarning, match="interrupted; the model has all trees but no re-ranker") as caught:
        clf = kind(n_trees=3, rerank="linear", random_state=0).fit(X, Y)
    assert caught[0].filename == __file__
    assert clf.model_.n_trees == 3
    assert clf.model_.rerank is None
    assert clf.interrupted_ is True
    clf.save(tmp_path / "model", compact=False)
    np.testing.assert_array_equal(load(tmp_path / "model").predict_topk(X)[0], clf.predict_topk(X)[0])


def test_an_interrupt_of_the_refit_keeps_the_stage(data, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearReranker, "refit", interrupt)
    with pytest.warns(UserWarning, match="interrupted; the re-ranker is fitted without"):
        clf = SketchForestClassifier(n_trees=3, rerank="linear", random_state=0).fit(*data)
    assert clf.model_.rerank is not None
    assert clf.interrupted_ is True


def test_an_interrupt_of_the_out_of_bag_score_keeps_the_model(data, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SketchForestClassifier, "_score_out_of_bag", interrupt)
    with pytest.warns(UserWarning, match="the out-of-bag score was not computed") as caught:
        clf = SketchForestClassifier(n_trees=2, bootstrap=True, rerank=None).fit(*data)
    assert caught[0].filename == __file__
    assert clf.model_.n_trees == 2
    assert np.isnan(clf.oob_score_)
    assert clf.interrupted_ is True


def test_phases_of_a_blend_are_logged(data, caplog):
    members = [LdSMClassifier(n_trees=2, rerank=None), SketchForestClassifier(n_trees=2, rerank=None)]
    with caplog.at_level(logging.INFO, "sparseleaf"):
        BlendClassifier(members).fit(*data)
    assert phases(caplog) == ["trees", "trees", "weights of the classifiers", "calibration", "trees", "trees"]
