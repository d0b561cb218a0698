"""Stages: their order, and that a new kind needs nothing but its class."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

import sparseleaf
from sparseleaf import LdSMClassifier, ModelFileError, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.model import Role, registry, save_model
from sparseleaf.model.registry import kinds_of, register, stage_class
from sparseleaf.model.stage import Scores, Stage
from sparseleaf.rerank.fit import fit_stage
from sparseleaf.rerank.rows import TrainingRows
from sparseleaf.rerank.stage import Reranker
from sparseleaf.rerank.validation import Validation

X, Y = make_xc(300, 40, 12, labels_per_row=2, nnz_per_row=6, seed=1)


@pytest.fixture(scope="module")
def model():
    parameters = {"n_trees": 3, "projection": "random", "projection_dim": 5}
    return SparseGBDTClassifier(**parameters, rerank="cosine", calibrate=None).fit(X, Y).model_


@pytest.fixture(autouse=True)
def forget_new_kinds(monkeypatch):
    monkeypatch.setattr(registry, "_CLASSES", registry._CLASSES.copy())


def test_stages_have_an_order(model):
    assert [stage.kind for stage in model.stages] == ["projection", "trees", "cosine", "empty"]
    projection, trees, cosine, empty = model.stages
    for stages in (
        (),
        (projection, cosine, empty),
        (trees, projection),
        (cosine, trees),
        (trees, trees),
        (trees, empty, cosine),
        (projection, projection, trees),
    ):
        with pytest.raises(ValueError, match=r"stages must have exactly one scorer"):
            replace(model, stages=stages)


def test_a_stage_can_be_put_in_and_taken_out(model):
    bare = model.with_stage(Role.RERANKER, None)
    assert [stage.kind for stage in bare.stages] == ["projection", "trees", "empty"]
    assert bare.rerank is None
    assert model.rerank is not None, "models do not change"
    again = bare.with_stage(Role.RERANKER, model.rerank)
    assert again.stages == model.stages
    assert not bare.rescored
    assert again.rescored


def test_every_kind_is_registered_once_and_belongs_to_a_role():
    assert kinds_of(Role.SCORER) == ("blend", "routed", "trees")
    assert set(kinds_of(Role.RERANKER)) == {"bayes", "boosted", "centroid", "cosine", "linear", "log"}
    assert kinds_of(Role.CALIBRATOR) == ("isotonic", "platt")
    assert kinds_of(Role.DECISION) == ("thresholds",)
    assert kinds_of(Role.URIS) == ("uris",)
    assert stage_class("projection").role is Role.PROJECTION
    with pytest.raises(ValueError, match="unknown kind of stage"):
        stage_class("probit")


def test_what_stages_make_of_rows_is_computed_when_asked_for(model, monkeypatch):
    asked = []
    plain = type(model.rerank).topk
    monkeypatch.setattr(
        type(model.rerank), "topk", lambda self, *args: asked.append(args) or plain(self, *args)
    )
    scores = model.apply(X[:5], None, 1)
    assert not asked
    scores.topk(3)
    assert len(asked) == 1
    assert asked[0][1].shape == (5, model.rerank.places), "the scorer's best, however many are wanted"


@dataclass(frozen=True)
class Calibrator(Stage):
    """Scores to probabilities by a slope."""

    slope: float
    kind = "beta"
    role = Role.CALIBRATOR
    takes_nan = True

    def apply(self, before):
        return Calibrated(before, self.slope)

    def settings(self):
        return {"unit": "probability"}

    def tensors(self, compact):
        return {"slope": np.array([self.slope], np.float32)}

    @classmethod
    def from_tensors(cls, source):
        assert source.settings["unit"] == "probability"
        slope = source.finite("slope", ("F32",), 1)
        if len(slope) != 1:
            raise ValueError("slope: wanted one number")
        return cls(float(slope[0]))

    def describe(self):
        return {"slope": self.slope}


class Calibrated(Scores):
    def __init__(self, before, slope):
        self.rows, self.before, self.slope = before.rows, before, slope

    def topk(self, k):
        labels, scores = self.before.topk(k)
        return labels, np.where(labels >= 0, expit(self.slope * scores), scores)

    def sparse(self):
        scores = self.before.sparse()
        scores.data = expit(self.slope * scores.data)
        return scores

    def explain(self, pairs):
        part = self.before.explain(pairs)
        return part.through(expit(self.slope * part.base), expit(self.slope * part.scores)).named("platt")


def test_a_calibrator_is_one_class(model, tmp_path):
    register("beta")(Calibrator)
    calibrated = model.with_stage(Role.CALIBRATOR, Calibrator(2.0))
    assert [stage.kind for stage in calibrated.stages] == ["projection", "trees", "cosine", "beta", "empty"]
    path = tmp_path / "m.safetensors"
    save_model(calibrated, path)
    loaded = sparseleaf.load(path)
    known = np.diff(X.indptr) > 0
    wanted = expit(2 * model.topk(X[known], 3, None, 1)[1])
    np.testing.assert_array_equal(loaded.predict_topk(X[known], 3)[1], model.topk(X[known], 3, None, 1)[1])
    found = loaded.predict_proba(X[known], 3)
    np.testing.assert_allclose(found.max(axis=1).toarray()[:, 0], wanted[:, 0], rtol=1e-6)
    assert loaded.predict_proba(X[known]).data.max() == pytest.approx(wanted.max())
    explanation = loaded.explain(X[known], k=3)
    sums = explanation.base + explanation.contributions.sum(axis=1).A1
    np.testing.assert_allclose(sums, loaded.predict_topk(X[known], 3)[1].ravel(), atol=1e-5)
    empty = sp.csr_matrix((1, 40), dtype=np.float32)
    prior = model.topk(empty, 3, None, 1)[1]
    assert np.sort(loaded.predict_proba(empty, 3).data).tolist() == np.sort(prior[0]).tolist()
    save_model(model.with_stage(Role.CALIBRATOR, Calibrator(np.nan)), path)
    with pytest.raises(ModelFileError, match="beta: slope has values that are not finite"):
        sparseleaf.load(path)


@dataclass(frozen=True)
class Reversed(Reranker):
    """The scorer's worst candidates first."""

    n_labels: int
    weight: float = 0.0
    kind = "reversed"
    places = 5
    cross_validated = False

    @classmethod
    def untuned(cls, kind, rows):
        return cls(rows.Y.shape[1])

    def tuned(self, validation, weight):
        return replace(self, weight=1.0 if weight is None else weight)

    def refit(self, rows):
        return self

    def topk(self, X, labels, scores, k, n_jobs):
        return labels[:, ::-1][:, :k], -scores[:, ::-1][:, :k]

    def scores(self, X, labels, scores, n_jobs):
        raise NotImplementedError

    def explain(self, before, labels, scores, pairs):
        return before.explain(pairs).scaled(-1.0)

    def tensors(self, compact):
        return {"weight": np.array([self.weight], np.float32)}

    @classmethod
    def from_tensors(cls, source):
        return cls(source.n_labels, float(source.finite("weight", ("F32",), 1)[0]))


def test_a_reranker_is_one_class(tmp_path):
    register("reversed")(Reversed)
    assert "reversed" in kinds_of(Role.RERANKER)
    clf = LdSMClassifier(n_trees=2).fit(X.toarray(), Y)
    trees = clf.model_
    rows = TrainingRows(X[:200], Y[:200], lambda: trees, None, 0, 1)
    validation = Validation(X[200:], Y[200:], trees, 0, 1)
    stage = fit_stage("reversed", rows, validation, 0.25)
    assert stage.weight == 0.25
    hits = validation.are_true(trees.topk(X[200:], 5, None, 1)[0][:, ::-1])
    assert np.array_equal(stage.hits(validation), hits)
    save_model(trees.with_stage(Role.RERANKER, stage), tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert loaded.rerank_weight_ == 0.25
    explanation = loaded.explain(X.toarray(), k=2)
    sums = explanation.base + explanation.contributions.sum(axis=1).A1
    np.testing.assert_allclose(sums, loaded.predict_topk(X.toarray(), 2)[1].ravel(), atol=1e-5)
    assert np.array_equal(
        loaded.predict_topk(X.toarray(), 2)[0], clf.predict_topk(X.toarray(), 5)[0][:, :2:-1]
    )


def test_a_file_with_a_stage_that_is_not_known_is_refused(model, tmp_path):
    save_model(model.with_stage(Role.CALIBRATOR, Calibrator(2.0)), tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match="beta: unknown kind of stage; update sparseleaf"):
        sparseleaf.load(tmp_path / "m.safetensors")
