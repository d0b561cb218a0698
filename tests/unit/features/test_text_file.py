"""The text stage in model files: round trip, prediction from texts or features, and invalid files."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from sparseleaf import ModelFileError, SparseGBDTClassifier, TextVectorizer, _kernels
from sparseleaf.cli.inspect import describe
from sparseleaf.model import Role, load_model, save_model

RECORDS = [
    {
        "title": f"Wort{i % 7} Öl",
        "abstract": f"text {'日本語' * (i % 3)} b{i % 5}",
        "year": 1990 + i,
        "lang": "de",
    }
    for i in range(60)
]
LABELS = [[f"label{i % 4}"] for i in range(60)]
OPTIONS = {
    "words": {"min_df": 1, "fields": ["title", "abstract"]},
    "everything": {
        "min_df": 1,
        "fields": {"title": 2.0, "abstract": 1.0},
        "shared_vocabulary": False,
        "char_ngram_range": (2, 3),
        "numeric": "year",
        "categorical": "lang",
        "stop_words": ["text"],
    },
    "hashed": {"fields": ["title", "abstract"], "n_hash_features": 50},
}


@pytest.fixture(scope="module", params=OPTIONS)
def saved(request, tmp_path_factory):
    vectorizer = TextVectorizer(**OPTIONS[request.param])
    X = vectorizer.fit_transform(RECORDS)
    model = SparseGBDTClassifier(n_trees=3, min_samples_leaf=2).fit(X, LABELS).model_
    model = model.with_stage(Role.VECTORIZER, vectorizer.stage())
    path = tmp_path_factory.mktemp("text") / "model.safetensors"
    save_model(model, path)
    return path, model, X


def test_models_predict_from_records_and_features(saved):
    path, model, X = saved
    loaded = load_model(path)
    assert loaded.stages[0].kind == "text"
    for one in (model, loaded):
        for n_jobs in (1, 2):
            labels, scores = one.topk(RECORDS, 3, None, n_jobs)
            expected = one.topk(X, 3, None, n_jobs)
            np.testing.assert_array_equal(labels, expected[0])
            np.testing.assert_array_equal(scores, expected[1])
        assert (one.scores(RECORDS[:1], None, 1) != one.scores(X[:1], None, 1)).nnz == 0
    assert loaded.vectorizer.feature_names() == model.vectorizer.feature_names()
    assert loaded.names_of([0, 5]) == model.vectorizer.feature_names()[0:6:5]
    assert loaded.vectorizer.settings() == model.vectorizer.settings()


def test_saving_again_writes_the_same_bytes(saved, tmp_path):
    path, _, _ = saved
    save_model(load_model(path), tmp_path / "again.safetensors")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_description(saved):
    path, model, _ = saved
    text = describe(path)["text"]
    assert sum(text["columns"].values()) <= model.n_features
    assert text["parameters"]["fields"][0][0] == "title"


def changed(saved, tmp_path, name=None, change=None, header=None):
    """A copy of the file with one tensor or the stage's entry in the header changed."""
    path, _, _ = saved
    tensors = load_file(path)
    with safe_open(path, "np") as file:
        metadata = json.loads(file.metadata()["sparseleaf"])
    if name is not None:
        tensors[name] = change(tensors[name])
    if header is not None:
        header(metadata["stages"][0])
    save_file(tensors, tmp_path / "m.safetensors", {"sparseleaf": json.dumps(metadata)})
    return tmp_path / "m.safetensors"


def with_value(place, value):
    def change(tensor):
        tensor = tensor.copy()
        tensor[place] = value
        return tensor

    return change


@pytest.mark.parametrize("saved", ["everything"], indirect=True)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("text.0.terms", with_value(0, 0xFF), "terms: must be UTF-8"),
        ("text.0.terms", with_value(slice(0, 4), [0xF4, 0x90, 0x80, 0x80]), "terms: must be UTF-8"),
        ("text.0.terms", with_value(0, ord("z")), "terms: must be sorted and distinct"),
        ("text.0.terms", lambda t: t[:-1], "lengths: must add up"),
        ("text.0.lengths", with_value(0, 0), "terms: must not be empty"),
        ("text.0.lengths", with_value(0, 200), "lengths: must add up"),
        ("text.0.lengths", lambda t: t[:-1], "document_counts must have"),
        ("text.0.document_counts", with_value(0, 0), "document_counts must be between 1 and 60"),
        ("text.0.document_counts", with_value(0, 61), "document_counts must be between 1 and 60"),
        ("text.0.document_counts", lambda t: t.astype(np.float32), "must be U8 or U16 or U32"),
        ("text.numeric.mean", with_value(0, np.nan), "mean has values that are not finite"),
        ("text.numeric.scale", with_value(0, 0.0), "scale > 0 must have one entry"),
        ("text.category0.bytes", with_value(0, 0xFF), "text: "),
        ("text.category0.lengths", with_value(0, 5), "lengths must have the sum of the bytes"),
    ],
)
def test_invalid_tensors(saved, tmp_path, name, change, message):
    with pytest.raises(ModelFileError, match=message):
        load_model(changed(saved, tmp_path, name, change))


def setting(name, value):
    return lambda entry: entry["parameters"].update({name: value})


@pytest.mark.parametrize("saved", ["everything"], indirect=True)
@pytest.mark.parametrize(
    ("header", "message"),
    [
        (lambda entry: entry.pop("parameters"), "the parameters must be"),
        (lambda entry: entry["parameters"].pop("norm"), "the parameters must be"),
        (lambda entry: entry["parameters"].update(extra=1), "the parameters must be"),
        (lambda entry: entry.update(n_rows=0), "n_rows must be from 1"),
        (lambda entry: entry.update(n_rows=True), "n_rows must be from 1"),
        (lambda entry: entry.update(n_rows=2**40), "n_rows must be from 1"),
        (setting("ngram_range", [1, 10**9]), "'ngram_range' parameter"),
        (setting("fields", {"title": 1}), "fields must be pairs"),
        (setting("fields", [["title", 1.0], ["title", 1.0]]), "fields must be distinct"),
        (setting("fields", [["title", -1.0], ["abstract", 1.0]]), "fields must be pairs"),
        (setting("fields", [["title", None], ["abstract", 1.0]]), "fields must be pairs"),
        (setting("shared_vocabulary", True), "unknown tensor|must have"),
        (setting("stop_words", [1]), "'stop_words' parameter"),
        (setting("char_weight", float("nan")), "'char_weight' parameter"),
        (setting("n_hash_features", 10), "must have|unknown tensor"),
    ],
)
def test_invalid_settings(saved, tmp_path, header, message):
    with pytest.raises(ModelFileError, match=message):
        load_model(changed(saved, tmp_path, header=header))


@pytest.mark.parametrize("saved", ["hashed"], indirect=True)
def test_hashed_columns_must_be_the_features(saved, tmp_path):
    with pytest.raises(ModelFileError, match="document_counts must have 49 entries, has 50"):
        load_model(changed(saved, tmp_path, header=setting("n_hash_features", 49)))


@pytest.mark.parametrize(
    "text", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xe4\xb8", b"\x80", b"a\xff"]
)
def test_terms_that_are_not_utf8(text):
    with pytest.raises(ValueError, match="UTF-8"):
        _kernels.TermIndex(np.frombuffer(text, np.uint8), np.array([len(text)], np.uint32))


def test_kernels_check_their_arguments():
    nothing = np.empty(0, np.uint8), np.empty(0, np.uint32)
    with pytest.raises(ValueError, match="one entry per 256 characters"):
        _kernels.TextTables(
            np.zeros(1, np.uint16),
            np.zeros(256, np.int32),
            np.zeros(256, np.uint8),
            np.zeros(1, np.int64),
            np.empty(0, np.int32),
        )
    tables = _kernels.TextTables(
        np.zeros(0x1100, np.uint16),
        np.zeros(256, np.int32),
        np.ones(256, np.uint8),
        np.zeros(1, np.int64),
        np.empty(0, np.int32),
    )
    analyzer = _kernels.TextAnalyzer(tables, 0, 1, 1, *nothing, np.ones(2, np.float32), False)
    counter = _kernels.TermCounter(analyzer, True)
    with pytest.raises(ValueError, match="one list of texts per weight"):
        counter.add([["a"]], 1)
    with pytest.raises(ValueError, match="same number of texts"):
        counter.add([["a"], []], 1)
    with pytest.raises(TypeError, match="must be str"):
        counter.add([["a"], [1]], 1)
    with pytest.raises(ValueError, match="must follow finish"):
        counter.rows(1)
    counter.finish(1, 2, 0, 1)
    with pytest.raises(ValueError, match="the vocabulary is finished"):
        counter.add([["a"], ["b"]], 1)
    one = np.array([0, 1], np.int64), np.array([3], np.int32), np.ones(1, np.float32)
    with pytest.raises(ValueError, match="must have an idf"):
        _kernels.weigh_terms(*one, np.ones(3), False, 0, 1.0, 1)
    with pytest.raises(ValueError, match="one entry per part"):
        _kernels.join_columns([one], np.zeros(2, np.int64), 1)
