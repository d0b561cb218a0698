"""Parts of label names: words that are composed of others, and labels that share them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_names as naive
import sparseleaf
from sparseleaf import SketchForestClassifier, TextVectorizer
from sparseleaf.data import LabelInfo
from sparseleaf.model.attribution import Pairs
from sparseleaf.rerank.parts import NameParts


def vectorizer_of(names):
    """The text stage of a vectoriser that knows the words of names."""
    clf = SketchForestClassifier(n_trees=1, rerank=None, vectorizer=TextVectorizer())
    clf.fit(names * 2, [["a"], ["b"]] * len(names))
    return clf._vectorizer_stage()


def parts_of(names):
    """Parts of every label, as numbers."""
    flat = [name for several in names for name in several]
    parts = NameParts.fit(names, vectorizer_of(flat), 1)
    return np.split(parts.parts.indices, parts.parts.indptr[1:-1]), parts


def test_labels_share_the_parts_of_their_names():
    names = [
        ["Sicherheit"],
        ["Politik"],
        ["Sicherheitspolitik"],
        ["Energie", "Politik"],
        ["Uhr"],
        ["Uhrwerk"],
        [],
    ]
    parts, fitted = parts_of(names)
    security, politics, both, energy, clock, clockwork, nothing = (set(one.tolist()) for one in parts)
    assert both == security | politics  # with a linking s
    assert politics < energy
    assert not clock & clockwork  # too short
    assert nothing == set()
    assert fitted.parts.width == 5


def test_no_words_no_parts():
    assert NameParts.fit([["!"], []], vectorizer_of(["some words"]), 1) is None


WORD = st.lists(st.sampled_from(["aaaa", "bbbb", "ccccc", "s", "es", "ä"]), min_size=1, max_size=4).map(
    "".join
)


@given(st.lists(WORD.filter(lambda word: len(word) > 1), min_size=1, max_size=12))
def test_words_are_split_as_by_the_twin(words):
    counts = Counter(words)
    numbers, fitted = parts_of([[word] for word in words])
    wanted = [set(naive.split(word, counts)) for word in words]
    assert fitted.parts.width == len(set.union(*wanted))
    for i, one in enumerate(wanted):
        for j, other in enumerate(wanted):
            assert len(set(numbers[i].tolist()) & set(numbers[j].tolist())) == len(one & other)


# --- records in one language, names in another

TOPICS = ["energie", "umwelt", "sprache", "verkehr", "familie", "wasser"]
HEADS = ["politik", "rechte", "forschung", "planung", "statistik"]
MEANING = {word: f"meaning{place}" for place, word in enumerate(TOPICS + HEADS)}
COMPOUNDS = {f"{topic}-{head}": (topic, head) for topic in TOPICS for head in HEADS}
NAMES = (
    {topic: topic for topic in TOPICS}
    | {head: head for head in HEADS}
    | {label: topic + head for label, (topic, head) in COMPOUNDS.items()}
)
UNSEEN = sorted(COMPOUNDS)[::5]


def make_texts(n_rows, labels, seed):
    """Texts with the meanings of the words of two names, and noise."""
    rng = np.random.default_rng(seed)
    texts, tags = [], []
    for _ in range(n_rows):
        own = [labels[i] for i in rng.choice(len(labels), 2, replace=False)]
        words = [f"noise{rng.integers(200)}" for _ in range(4)]
        words += [MEANING[part] for label in own for part in COMPOUNDS.get(label, (label,))]
        rng.shuffle(words)
        texts.append(" ".join(words))
        tags.append(own)
    return texts, tags


SEEN_LABELS = sorted(set(NAMES) - set(UNSEEN))
TRAIN = make_texts(1200, SEEN_LABELS, 0)


def forest():
    return SketchForestClassifier(n_trees=3)


@pytest.fixture(scope="module")
def fitted():
    return forest().fit(*TRAIN, label_info=LabelInfo(NAMES))


def test_parts_are_learned_from_the_rows_of_other_labels(fitted):
    evidence = fitted.model_.rerank.evidence
    parts, numbers = evidence.side.parts, {label: i for i, label in enumerate(fitted.classes_.tolist())}
    rows = evidence.unit_rows(fitted.vectorizer_.transform([f"{MEANING['energie']} {MEANING['politik']}"]))
    labels = np.array(sorted(numbers[label] for label in UNSEEN), np.int32)
    table = np.empty((len(labels), 3), np.float32)
    parts.fill(rows, np.array([0, len(labels)]), labels, table, 0, 1)
    scores = dict(zip(fitted.classes_[labels].tolist(), table[:, 0].tolist(), strict=True))
    related = [label for label in UNSEEN if {"energie", "politik"} & set(COMPOUNDS[label])]
    assert related
    assert min(scores[label] for label in related) > max(
        score for label, score in scores.items() if label not in related
    )


def test_margins_are_explained(fitted):
    evidence = fitted.model_.rerank.evidence
    rows = evidence.unit_rows(fitted.vectorizer_.transform(TRAIN[0][:7]))
    labels = np.arange(len(NAMES), dtype=np.int32)
    pairs = Pairs.product(7, labels)
    attribution = evidence.side.parts.explain(rows, pairs, 1)
    table = np.empty((len(pairs), 3), np.float32)
    evidence.side.parts.fill(rows, pairs.starts(7), pairs.labels, table, 0, 1)
    sums = attribution.base + np.asarray(attribution.terms.matrix.sum(axis=1)).ravel()
    np.testing.assert_allclose(sums, table[:, 0], atol=1e-5)


def test_explanations_have_the_parts_as_a_component(fitted):
    _, scores = fitted.predict_topk(TRAIN[0][:5], 3)
    for row, own in zip(fitted.explain(TRAIN[0][:5], k=3), scores.tolist(), strict=True):
        for one, score in zip(row, own, strict=True):
            assert "name parts" in one.components
            assert sum(one.components.values()) == pytest.approx(score, abs=1e-5)


def test_models_without_parts_still_load(monkeypatch, tmp_path):
    monkeypatch.setattr(NameParts, "fit", lambda *arguments: None)  # as in earlier versions
    clf = forest().fit(*TRAIN, label_info=LabelInfo(NAMES))
    assert clf.model_.rerank.evidence.side.parts is None
    clf.save(tmp_path / "m.safetensors")
    monkeypatch.undo()
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert loaded.model_.rerank.evidence.side.parts is None
    texts = make_texts(20, SEEN_LABELS, 1)
    np.testing.assert_array_equal(loaded.predict_topk(texts[0], 3)[1], clf.predict_topk(texts[0], 3)[1])
    loaded.update(*texts)
    assert loaded.model_.rerank.evidence.side.parts is None


def test_updates_train_the_parts_further(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    clf = sparseleaf.load(tmp_path / "m.safetensors")
    before = clf.model_.rerank.evidence.side.parts
    texts, tags = make_texts(100, [label for label in SEEN_LABELS if "energie" in label], 2)
    clf.update(texts, [[*own, "new"] for own in tags])
    after = clf.model_.rerank.evidence.side.parts
    assert after.n_labels == before.n_labels + 1
    assert after.membership[-1].nnz == 0
    assert (after.models.weights.unpacked() != before.models.weights.unpacked()).nnz > 0


def test_a_hierarchy_alone_has_no_parts():
    clf = forest().fit(*TRAIN, label_info=LabelInfo(broader={"energie-politik": "politik"}))
    assert clf.model_.rerank.evidence.side.parts is None
