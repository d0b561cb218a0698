"""Names and hierarchies of labels as evidence: unseen labels, explanations, files, updates."""

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import sparseleaf
from sparseleaf import (
    LdSMClassifier,
    ModelFileError,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.data import LabelInfo
from sparseleaf.model.stage import Role

SYLLABLES = ["ba", "do", "fi", "gu", "ke", "lo", "mi", "nu", "pa", "ro", "si", "tu"]
N_LABELS, N_SEEN = 60, 50


def word(number, stem):
    return stem + "".join(SYLLABLES[(number // 12**place) % 12] for place in range(3))


NAMES = {
    f"s{label:02}": [f"{word(label, 'x')} {word(label, 'y')}", word(label, "z")] for label in range(N_LABELS)
}
BROADER = {f"s{label:02}": f"s{label // 10 * 10:02}" for label in range(N_LABELS) if label % 10}
INFO = LabelInfo(NAMES, BROADER)


def make_texts(n_rows, labels, seed):
    """Texts that have a name of each of their two labels, inflected or not, other words of these, and noise."""
    rng = np.random.default_rng(seed)
    texts, tags = [], []
    for _ in range(n_rows):
        own = sorted(rng.choice(labels, 2, replace=False).tolist())
        words = [f"noise{rng.integers(200)}" for _ in range(6)]
        for label in own:
            name = NAMES[f"s{label:02}"][int(rng.random() < 0.3)]
            words += [part + ("en" if rng.random() < 0.3 else "") for part in name.split()]
            words += [f"topic{label}"] if rng.random() < 0.5 else []
        rng.shuffle(words)
        texts.append(" ".join(words))
        tags.append([f"s{label:02}" for label in own])
    return texts, tags


SEEN = make_texts(400, range(N_SEEN), 0)
UNSEEN = make_texts(40, range(N_SEEN, N_LABELS), 1)


def forest(**parameters):
    return SketchForestClassifier(**({"n_trees": 3} | parameters))


@pytest.fixture(scope="module")
def fitted():
    return forest().fit(*SEEN, label_info=INFO)


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    fitted.save(path)
    return path


def precision(clf, texts, tags):
    labels, _ = clf.predict_topk(texts, 2)
    return np.mean([label in own for row, own in zip(labels.tolist(), tags, strict=True) for label in row])


def test_labels_without_rows_are_suggested_by_name(fitted):
    assert fitted.classes_.tolist() == sorted(NAMES)
    assert fitted.model_.label_counts[N_SEEN:].sum() == 0
    assert precision(fitted, *UNSEEN) > 0.6


def test_a_text_of_a_name_alone_is_not_empty(fitted):
    name = NAMES["s55"][1]
    assert name not in " ".join(SEEN[0])
    assert fitted.predict_topk([name], 1)[0].tolist() == [["s55"]]
    _, scores = fitted.predict_topk(["unknown words"], 1)
    assert scores[0, 0] < 0.5


def test_names_improve_the_precision_of_rare_labels(fitted):
    test = make_texts(200, range(N_SEEN), 2)
    without = forest(rerank="boosted").fit(*SEEN)
    assert precision(fitted, *test) > precision(without, *test) + 0.02


def test_without_information_nothing_changes(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    forest().fit(*SEEN).save(a)
    forest().fit(*SEEN, label_info=None).save(b)
    assert a.read_bytes() == b.read_bytes()
    assert not any("side." in name for name in load_file(a))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_models_do_not_depend_on_the_number_of_threads(saved, tmp_path, n_jobs):
    path = tmp_path / "m.safetensors"
    clf = forest(n_jobs=n_jobs).fit(*SEEN, label_info=INFO)
    clf.n_jobs = None
    clf.save(path)
    assert path.read_bytes() == saved.read_bytes()


def test_explanations_add_up_and_name_the_words_that_matched(fitted):
    texts = UNSEEN[0][:10] + SEEN[0][:10] + ["", "words never seen"]
    _, scores = fitted.predict_topk(texts, 4)
    explanation = fitted.explain(texts, k=4)
    listed = scores > -np.inf
    sums = explanation.base + np.asarray(explanation.contributions.sum(axis=1)).ravel()
    np.testing.assert_allclose(sums, scores[listed], atol=1e-5)
    for row in explanation[:10]:
        for one in row:
            assert sum(one.components.values()) == pytest.approx(one.score, abs=1e-5)
            assert "names" in one.components
    best = explanation[0][0]
    words = {part for name in NAMES[best.label] for part in name.split()}
    names = fitted.vectorizer_.get_feature_names_out()[best.features[:2]]
    assert {name.removesuffix("en") for name in names} & words


def test_loaded_models_predict_the_same(fitted, saved):
    loaded = sparseleaf.load(saved)
    for texts in (SEEN[0][:50], UNSEEN[0], UNSEEN[0][:1]):
        for one, other in zip(fitted.predict_topk(texts, 5), loaded.predict_topk(texts, 5), strict=True):
            np.testing.assert_array_equal(one, other)
    assert (fitted.decision_function(UNSEEN[0]) != loaded.decision_function(UNSEEN[0])).nnz == 0
    assert fitted.predict_proba(UNSEEN[0]).shape == (40, N_LABELS)
    assert len(fitted.predict(UNSEEN[0])) == 40


DAMAGES = {
    "side.names.weights": [
        lambda t: t[:-1],
        lambda t: t * np.float32(np.nan),
        lambda t: -t,
        lambda t: t.astype("f8"),
    ],
    "side.names.label_sizes": [lambda t: t[:-1], lambda t: t + t.dtype.type(1)],
    "side.names.name_sizes": [lambda t: t[:-1], lambda t: t + t.dtype.type(1)],
    "side.names.name_steps": [lambda t: t[:-1], lambda t: np.full_like(t, 255)],
    "side.names.places": [lambda t: t * np.uint32(0), lambda t: t + np.uint32(5000)],
    "side.names.similar.sizes": [lambda t: t[:-1], lambda t: t + t.dtype.type(1)],
    "side.names.similar.values": [lambda t: t[:-1]],
    "side.parts.sizes": [lambda t: t[:-1], lambda t: t + t.dtype.type(1)],
    "side.parts.steps": [lambda t: t[:-1], lambda t: np.full_like(t, 255)],
    "side.parts.count": [lambda t: t + np.uint32(1), lambda t: t - np.uint32(1), lambda t: t * np.uint32(0)],
    "side.parts.models.bias": [lambda t: t[:-1], lambda t: t * np.float32(np.nan)],
    "side.parts.models.sizes": [lambda t: t[:-1]],
    "side.parts.models.values": [lambda t: t[:-1]],
    "side.broader.sizes": [lambda t: t[:-1], lambda t: t + t.dtype.type(1)],
    "side.broader.steps": [lambda t: t[:-1], lambda t: t.astype(np.uint32) + np.uint32(2**31)],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused(saved, tmp_path, name):
    tensors = load_file(saved)
    with safe_open(saved, "numpy") as file:
        metadata = file.metadata()
    (full,) = (one for one in tensors if one.endswith(name))
    broken = tmp_path / "m.safetensors"
    removed = [] if name.endswith("places") else [None]  # a default
    for damage in DAMAGES[name] + removed:
        changed = dict(tensors)
        if damage is None:
            del changed[full]
        else:
            changed[full] = damage(tensors[full])
        save_file(changed, broken, metadata)
        with pytest.raises(ModelFileError):
            sparseleaf.load(broken)


def test_updates_keep_the_information(saved):
    clf = sparseleaf.load(saved)
    texts, tags = make_texts(60, range(N_SEEN, N_SEEN + 3), 3)
    tags[0] = [*tags[0], "new"]
    clf.update(texts, tags)
    assert clf.classes_.tolist() == [*sorted(NAMES), "new"]
    assert precision(clf, *UNSEEN) > 0.6
    assert clf.model_.rerank.evidence.side.names.n_labels == N_LABELS + 1
    assert clf.model_.rerank.evidence.side.hierarchy.n_labels == N_LABELS + 1
    assert clf.model_.rerank.evidence.side.parts.n_labels == N_LABELS + 1


@pytest.mark.parametrize(
    ("clf", "options"),
    [
        (SparseGBDTClassifier(n_trees=3, min_samples_leaf=2, rerank="boosted"), {}),
        (LdSMClassifier(n_trees=2, max_nodes=30, epochs=2, rerank="auto"), {"eval_set": SEEN}),
        (forest(vectorizer=TextVectorizer(ngram_range=(1, 2), char_ngram_range=(3, 3))), {}),
    ],
)
def test_other_estimators_and_features(clf, options):
    assert precision(clf.fit(*SEEN, label_info=INFO, **options), *UNSEEN) > 0.6


def test_fields_with_vocabularies_of_their_own():
    def records(texts):
        return [{"title": text[:30], "body": text[30:]} for text in texts]

    vectorizer = TextVectorizer(fields=["title", "body"], shared_vocabulary=False)
    clf = forest(vectorizer=vectorizer).fit(records(SEEN[0]), SEEN[1], label_info=INFO)
    assert precision(clf, records(UNSEEN[0]), UNSEEN[1]) > 0.5


def test_names_alone_and_a_hierarchy_alone():
    names = forest().fit(*SEEN, label_info=LabelInfo(NAMES)).model_.rerank.evidence
    assert names.side.hierarchy is None
    assert len(names.columns) == 21
    broader = forest().fit(*SEEN, label_info=LabelInfo(broader=BROADER)).model_.rerank.evidence
    assert broader.side.names is None
    assert broader.columns[-3:] == ("broader score", "narrower score", "sibling score")


def test_broader_terms_may_be_no_labels():
    groups = LabelInfo(broader={label: f"group {label[1]}" for label in NAMES})
    clf = forest().fit(*SEEN, label_info=groups)
    assert clf.classes_.tolist() == sorted(NAMES)
    evidence = clf.model_.rerank.evidence
    X = clf.vectorizer_.transform(SEEN[0][:20])
    table = evidence.candidates(
        X, *clf.model_.with_stage(Role.RERANKER, None).candidates(X, 30, None, 1), 1
    ).table
    assert (table[:, -3:-1] == 0).all()
    assert (table[:, -1] > 0).any()


def test_matrices_have_labels_by_number():
    numbers = [[int(label[1:]) for label in tags] for tags in SEEN[1]]
    Y = sp.lil_matrix((len(numbers), N_LABELS))
    for row, labels in enumerate(numbers):
        Y[row, labels] = 1
    info = LabelInfo({int(label[1:]): names for label, names in NAMES.items()})
    clf = forest().fit(SEEN[0], Y, label_info=info)
    labels, _ = clf.predict_topk(UNSEEN[0], 1)
    assert labels.dtype == np.int32
    assert (labels >= N_SEEN).mean() > 0.8


def test_a_re_ranker_with_names_is_added_to_a_fitted_model():
    clf = MultiGBDTClassifier(n_trees=2, min_samples_leaf=2).fit(*SEEN)
    clf.fit_rerank(*SEEN, rerank="boosted", eval_set=make_texts(100, range(N_SEEN), 4), label_info=INFO)
    assert clf.model_.rerank.evidence.side.columns
    assert clf.classes_.tolist() == sorted(NAMES)[:N_SEEN]
    assert precision(clf, *make_texts(50, range(N_SEEN), 5)) > 0.5


def test_too_few_rows_to_learn_from():
    with pytest.warns(UserWarning, match="label_info is not used"):
        clf = forest(rerank="boosted").fit(SEEN[0][:40], SEEN[1][:40], label_info=INFO)
    assert clf.model_.rerank.evidence.side is None
    assert clf.predict_topk(UNSEEN[0], 2)[0].shape == (40, 2)


def test_bad_information_is_refused_before_training():
    X, tags = SEEN
    with pytest.raises(ValueError, match=r"The 'label_info' parameter must be a LabelInfo or None\. Got \{"):
        forest().fit(X, tags, label_info={"s01": "x"})
    with pytest.raises(
        ValueError, match=r"The 'rerank' parameter must be 'boosted' or 'auto' with label_info"
    ):
        forest(rerank="linear").fit(X, tags, label_info=INFO)
    with pytest.raises(ValueError, match="Got None instead"):
        forest(rerank=None).fit(X, tags, label_info=INFO)
    with pytest.raises(ValueError, match="unless engine='local'"):
        forest().fit(X, tags, label_info=INFO, engine="dask")
    with pytest.raises(ValueError, match="must have labels of y"):
        forest().fit(X, tags, label_info=LabelInfo({"t": "x"}))
    for vectorizer in (TextVectorizer(analyzer="char"), TextVectorizer(n_hash_features=1000)):
        with pytest.raises(ValueError, match="requires features that are words"):
            forest(vectorizer=vectorizer).fit(X, tags, label_info=INFO)
    with pytest.raises(ValueError, match="requires features that are words"):
        forest().fit(sp.random(400, 20, 0.2, "csr"), tags, label_info=INFO)
