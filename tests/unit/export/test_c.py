"""The exported C predictor must return what ``predict_topk`` does, to the bit."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sparseleaf
from cpredictor import COMPILER, assert_same, check, predictions, row_lines, run, write_model
from randommodels import random_model, random_rows
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.data import make_xc
from sparseleaf.export import to_c

COMPAT = sorted(Path(__file__).parents[2].joinpath("compat").glob("*.safetensors"))

X, Y = make_xc(300, 60, 25, labels_per_row=2, nnz_per_row=8, seed=1)


def hostile_rows(n_features, *, missing=False):
    """Random rows, with empty ones, stored zeros, negative and huge values."""
    rng = np.random.default_rng(0)
    rows = sp.random(
        40, n_features, density=min(1.0, 8 / n_features), random_state=0, format="csr", dtype=np.float32
    )
    rows.data[:] = rng.choice([1.0, 0.25, -0.7, 3e-5, 1e18, 0.0], len(rows.data))
    if missing:
        rows.data[rng.random(len(rows.data)) < 0.1] = np.nan
    empty = sp.csr_matrix((2, n_features), dtype=np.float32)
    return sp.csr_matrix(sp.vstack([rows, empty], "csr"))


@pytest.mark.parametrize("path", COMPAT, ids=lambda path: path.stem)
def test_models_of_all_versions(program, path, tmp_path):
    clf = sparseleaf.load(path)
    rows = hostile_rows(clf.model_.n_features, missing=clf.model_.takes_nan)
    if hasattr(clf, "predict_topk"):
        check(program, clf, rows, tmp_path / "model.bin")
    if clf.model_.base_score is not None and clf.model_.rerank is None:
        check_outputs(program, clf.model_, rows, tmp_path / "model.bin")


def check_outputs(program, model, rows, path):
    done = run(program, write_model(model, path), row_lines(rows), "-o", "-r")
    assert done.returncode == 0, done.stderr.decode()
    found = np.array([line.split("\t") for line in done.stdout.decode().splitlines()], np.float32)
    np.testing.assert_array_equal(found, model.outputs(rows, None, 1))


@pytest.mark.parametrize("rerank", [None, "centroid", "cosine", "log", "linear", "boosted", "bayes"])
def test_rerankers(program, rerank, tmp_path):
    clf = SketchForestClassifier(n_trees=4, rerank=rerank, random_state=0).fit(X, Y)
    for rows in (X[:50], hostile_rows(60)):
        check(program, clf, rows, tmp_path / "model.bin")


@pytest.mark.parametrize(
    "clf",
    [
        LdSMClassifier(n_trees=3, rerank=None),
        LdSMClassifier(n_trees=3, arity=4, rerank="linear"),
        SparseGBDTClassifier(n_trees=5, projection="leml", projection_dim=4),
        SparseGBDTClassifier(
            n_trees=5, projection="random", projection_dim=4, advanced={"keep_raw": True}, rerank="boosted"
        ),
        SparseGBDTClassifier(n_trees=5, projection=None, loss="squared_hinge"),
        BlendClassifier(
            [SketchForestClassifier(n_trees=3), SparseGBDTClassifier(n_trees=4), LdSMClassifier(n_trees=2)]
        ),
    ],
    ids=["ldsm", "ldsm-linear", "leml", "keep_raw", "sparse", "blend"],
)
def test_estimators(program, clf, tmp_path):
    clf.fit(X, Y)
    for rows in (X[:50], hostile_rows(60)):
        check(program, clf, rows, tmp_path / "model.bin", k=40)  # more than there are labels


def test_blend_with_dense_scores(program, tmp_path):
    members = [MultiGBDTClassifier(n_trees=4), SparseGBDTClassifier(n_trees=4, rerank="cosine")]
    clf = BlendClassifier(members).fit(X, Y.toarray().astype(int))
    check(program, clf, X[:30], tmp_path / "model.bin")


def test_dense_rows_with_missing_values_and_categories(program, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)).astype(np.float32), columns=list("abc"))
    table["d"] = pd.Categorical(rng.choice(["red", "green", "blue"], 200))
    table.loc[rng.random(200) < 0.2, "b"] = np.nan
    y = np.where(table["d"] == "red", "warm", np.where(table["a"] > 0, "mild", "cold"))
    clf = MultiGBDTClassifier(n_trees=8).fit(table, y)
    numbers = {name: code for code, name in enumerate(clf.model_.categories[3])}
    rows = np.column_stack((table[["a", "b", "c"]], table["d"].map(numbers).astype(float))).astype(np.float32)
    done = run(program, write_model(clf.model_, tmp_path / "m"), row_lines(rows), "-k", "3")
    assert_same(predictions(done), *clf.predict_topk(table, 3))
    probabilities = run(program, tmp_path / "m", row_lines(rows), "-o").stdout.decode().splitlines()
    found = np.array([line.split("\t") for line in probabilities], np.float32)
    np.testing.assert_allclose(found, clf.predict_proba(table), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "estimator",
    [MultiGBDTRegressor(n_trees=5), MultiGBDTRegressor(n_trees=5, loss="poisson"), GBDTRanker(n_trees=5)],
)
def test_regressors_and_rankers(program, estimator, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 4)).astype(np.float32)
    if isinstance(estimator, GBDTRanker):
        estimator.fit(rows, (rows[:, 0] > 0).astype(int), group=[60, 60])
    else:
        estimator.fit(rows, np.abs(rows[:, :2]))
    check_outputs(program, estimator.model_, rows, tmp_path / "m")
    done = run(program, tmp_path / "m", row_lines(rows), "-o")
    found = np.array([line.split("\t") for line in done.stdout.decode().splitlines()], np.float32)
    np.testing.assert_allclose(found.squeeze(), estimator.predict(rows), rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(program, seed, tmp_path):
    model = random_model(
        seed,
        n_trees=9,
        n_features=6,
        n_labels=5,
        dense=seed % 2 == 0,
        categories=seed % 3 > 0,
        small=seed % 4 > 1,
    )
    rows = random_rows(seed, 50, model)
    done = run(program, write_model(model, tmp_path / "m"), row_lines(rows), "-k", "6")
    assert_same(predictions(done), *model.topk(rows, 6, None, 1))


def test_many_features_and_labels(program, tmp_path):
    """Gaps of more than 2^16 between features, and labels of 32 bits."""
    small_X, small_Y = make_xc(250, 60, 40, labels_per_row=2, nnz_per_row=8, seed=2)
    wide = spread_columns(small_X, 400_000, 300_000)
    Y_wide = spread_columns(small_Y, 90_000, 80_000)
    for rerank in ("linear", "boosted", "cosine"):
        clf = SketchForestClassifier(n_trees=3, rerank=rerank, random_state=0).fit(wide, Y_wide)
        assert any(len(part.leaps) for part in vectors_of(clf.model_.rerank))
        check(program, clf, wide[:40], tmp_path / "model.bin")
    check(
        program, LdSMClassifier(n_trees=2, rerank=None).fit(wide, Y_wide), wide[:40], tmp_path / "model.bin"
    )


def spread_columns(matrix, width, gap):
    """The matrix with a gap in the middle of its columns."""
    entries = matrix.tocoo()
    columns = entries.col + np.where(entries.col < matrix.shape[1] // 2, 0, gap)
    return sp.csr_matrix((entries.data, (entries.row, columns)), (matrix.shape[0], width), dtype=np.float32)


def vectors_of(stage):
    if hasattr(stage, "evidence"):
        return [stage.evidence.models.weights, stage.evidence.centroids.centroids]
    return [stage.centroids]


def test_uncompressed_models(program, tmp_path):
    """Files that were saved with compact=False have float32 vectors."""
    for clf in (SketchForestClassifier(n_trees=3, rerank="linear"), LdSMClassifier(n_trees=2, rerank=None)):
        clf.fit(X, Y).save(tmp_path / "m.safetensors", compact=False)
        check(program, sparseleaf.load(tmp_path / "m.safetensors"), X[:30], tmp_path / "model.bin")


# --- texts

WORDS = [
    "Straße",
    "café",
    "naïve",
    "ΟΔΟΣ",
    "σοφός",
    "İstanbul",
    "東京都",
    "한국어",
    "तेज़",
    "résumé",
    "co-op",
    "don't",
]
WORDS += ["Ａｂｃ", "ﬁne", "x²", "I/O", "½", "ǅ", "Åse"]
HOSTILE = [
    "",
    " \t ",
    "ΟΔΥΣΣΕΥΣ. Σ ΣΑΣ a\u0345Σ Σ\u0301 ΑΣ\u00ad",
    "cafe\u0301 A\u030a e\u0323\u0302 \u1100\u1161\u11a8 \ud55c\u11a8 \u0301x",
    "q\u0307\u0323 \u1e0b\u0323 \u0958 \u212b \u2126 \u0344",
    "東京 京都\u3099か\u3099 コ\u3099",
    "\u200d\u0915\u094d\u200d\u0937 soft\u00adhyphen \U0001d400\U0001f600 \ufb01",
    "a" * 3000,
    "\u0000 nul \u2028 line",
]


def make_texts(n, seed):
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        chosen = rng.choice(len(WORDS), 3)
        texts.append(" ".join(WORDS[i] for i in chosen))
        labels.append(sorted({f"label {i % 7}" for i in chosen.tolist()}))
    return texts, labels


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "tokenizer": "sklearn",
            "strip_accents": "unicode",
            "ngram_range": (1, 3),
            "stop_words": ["ab", "café", "don"],
        },
        {"analyzer": "char", "ngram_range": (1, 4), "sublinear_tf": True, "strip_accents": "ascii"},
        {"analyzer": "char_wb", "ngram_range": (2, 5), "lowercase": False, "norm": "l1"},
        {"char_ngram_range": (2, 3), "char_weight": 0.3, "binary": True, "use_idf": False},
        {"n_hash_features": 37, "alternate_sign": True, "sublinear_tf": False, "norm": None},
        {"n_hash_features": 50, "binary": True, "char_ngram_range": (3, 4)},
    ],
    ids=["default", "sklearn", "char", "char_wb", "words and characters", "hashed", "hashed binary"],
)
def test_texts(program, options, tmp_path):
    texts, labels = make_texts(120, 0)
    clf = SketchForestClassifier(n_trees=2, rerank="linear", vectorizer=TextVectorizer(**options)).fit(
        texts, labels
    )
    new = [text.replace("\n", " ") for text in make_texts(30, 1)[0] + HOSTILE]
    check(program, clf, new, tmp_path / "model.bin")


def test_random_characters(program, tmp_path):
    """Every character, in random order and with marks, is folded, composed and classified as Python does."""
    rng = np.random.default_rng(0)
    texts, labels = make_texts(60, 0)
    vectorizer = TextVectorizer(n_hash_features=500, char_ngram_range=(1, 1), norm=None, use_idf=False)
    clf = SketchForestClassifier(n_trees=2, rerank="cosine", vectorizer=vectorizer).fit(texts, labels)
    marks = [
        chr(code) for code in (0x300, 0x301, 0x323, 0x345, 0x5B0, 0x93C, 0x3099, 0x11A8, 0x1161, 0x3A3, 0xAD)
    ]
    codes = [
        code for code in range(1, 0x30000) if not 0xD800 <= code < 0xE000 and code not in (0x0A, 0x0D, 0x09)
    ]
    pieces = [
        chr(code) + (marks[rng.integers(len(marks))] if rng.random() < 0.3 else "")
        for code in rng.permutation(codes)
    ]
    new = ["".join(pieces[begin : begin + 600]) for begin in range(0, len(pieces), 600)]
    check(program, clf, new, tmp_path / "model.bin", k=3)


def test_fields(program, tmp_path):
    titles, labels = make_texts(80, 0)
    bodies, _ = make_texts(80, 1)
    records = [{"title": a, "body": b} for a, b in zip(titles, bodies, strict=True)]
    for shared in (True, False):
        vectorizer = TextVectorizer(fields={"title": 2.0, "body": 1.0}, shared_vocabulary=shared)
        clf = SketchForestClassifier(n_trees=2, rerank="linear", vectorizer=vectorizer).fit(records, labels)
        write_model(clf.model_, tmp_path / "m")
        done = run(program, tmp_path / "m", [f"{a}\t{b}" for a, b in zip(titles, bodies, strict=True)], "-t")
        assert_same(predictions(done), *clf.predict_topk(records, 5))


def test_names_and_hierarchy(program, tmp_path):
    from sparseleaf.data import LabelInfo

    texts, labels = make_texts(200, 0)
    names = {f"label {i}": [WORDS[i], f"{WORDS[i + 7]} {WORDS[1]}"] for i in range(7)} | {
        "unseen": "resume fine"
    }
    groups = {f"label {i}": "label 0" if i % 2 else "others" for i in range(1, 7)}
    for info in (LabelInfo(names), LabelInfo(broader=groups), LabelInfo(names, broader=groups)):
        clf = SketchForestClassifier(n_trees=3, rerank="boosted").fit(texts, labels, label_info=info)
        assert clf.model_.rerank.evidence.side is not None
        check(program, clf, make_texts(40, 2)[0] + ["a fine resume"], tmp_path / "model.bin")


# --- the folder, and mistakes


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_folder_can_be_built(tmp_path):
    clf = SketchForestClassifier(n_trees=2).fit(X, Y)
    folder = to_c(clf, tmp_path / "exported")
    assert to_c(clf, folder) == folder  # again
    assert {"predictor.h", "predictor.c", "main.c", "Makefile", "README.md", "model.bin"} <= {
        p.name for p in folder.iterdir()
    }
    assert "SketchForestClassifier" in (folder / "README.md").read_text()
    subprocess.run(["make", "-s", "CFLAGS=-O0"], cwd=folder, check=True)
    done = run(folder / "predict", folder / "model.bin", row_lines(X[:3]))
    assert len(predictions(done)) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("60:1", "features must increase"),
        ("3:1 3:1", "features must increase"),
        ("3:inf", "finite"),
        ("3:nan", "finite"),
        ("3:x", "FEATURE:VALUE"),
        ("-3:1", "FEATURE:VALUE"),
        ("99999999999999999999:1", "FEATURE:VALUE"),
    ],
)
def test_invalid_rows_are_reported(program, line, message, tmp_path):
    clf = SketchForestClassifier(n_trees=2, rerank=None).fit(X, Y)
    done = run(program, write_model(clf.model_, tmp_path / "m"), ["1:1", line])
    assert done.returncode == 1
    assert f"line 2: {done.stderr.decode().partition('line 2: ')[2]}".startswith("line 2")
    assert message in done.stderr.decode()


@pytest.mark.parametrize("bad", ["60:1", "3:x"])
def test_blocks_of_rows(program, bad, tmp_path):
    """Rows go through the trees in blocks; an invalid one stops the program after the rows before it."""
    clf = LdSMClassifier(n_trees=3, rerank="log").fit(X, Y)
    rows = sp.csr_matrix(sp.vstack([X] * 8)[:2100])
    lines, path = row_lines(rows), write_model(clf.model_, tmp_path / "m")
    labels, scores = clf.predict_topk(rows, 3)
    assert_same(predictions(run(program, path, lines, "-k", "3")), labels, scores)
    assert_same(predictions(run(program, path, lines[:10], "-k", "2000")), *clf.predict_topk(rows[:10], 25))
    for n in (0, 1023, 1024, 1500):
        done = run(program, path, ["2100 60 25", *lines[:n], bad, *lines[n:]], "-k", "3")
        assert f"line {n + 2}: " in done.stderr.decode()
        assert done.returncode == 1
        assert len(done.stdout.splitlines()) == n


def test_a_conversation_through_pipes(program, tmp_path):
    clf = LdSMClassifier(n_trees=2).fit(X, Y)
    lines, path = row_lines(X[:4]), write_model(clf.model_, tmp_path / "m")
    whole = run(program, path, lines).stdout.splitlines(keepends=True)
    with subprocess.Popen([program, "-u", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line, answer in zip(lines, whole, strict=True):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == answer


def test_header_and_labels_of_xc_files_are_skipped(program, tmp_path):
    clf = SketchForestClassifier(n_trees=2, rerank=None).fit(X, Y)
    plain = run(program, write_model(clf.model_, tmp_path / "m"), ["3:1 7:0.5"])
    assert run(program, tmp_path / "m", ["1 60 25", "4,5 7:0.5 3:1"]).stdout == plain.stdout
    assert run(program, tmp_path / "m", ["4 4:1 8:0.5"], "-1").stdout == plain.stdout


def test_texts_must_be_utf8_and_models_must_take_them(program, tmp_path):
    texts, labels = make_texts(60, 0)
    clf = SketchForestClassifier(n_trees=2).fit(texts, labels)
    write_model(clf.model_, tmp_path / "m")
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe4\xb8"):
        done = subprocess.run(
            [program, "-t", tmp_path / "m"], input=bad + b"\n", capture_output=True, check=False
        )
        assert (done.returncode, b"UTF-8" in done.stderr) == (1, True)
    write_model(SketchForestClassifier(n_trees=2).fit(X, Y).model_, tmp_path / "m")
    assert run(program, tmp_path / "m", ["x"], "-t").returncode == 1
    assert run(program, tmp_path / "m", ["3:1"], "-o").returncode == 1


def test_records_with_numbers_and_categories(program, tmp_path):
    texts, labels = make_texts(80, 0)
    rng = np.random.default_rng(0)
    years, kinds = rng.normal(1990, 20, 80), rng.choice(["book", "é", "z"], 80).tolist()
    records = [
        {"title": t, "year": y, "kind": k} for t, y, k in zip(texts, years.tolist(), kinds, strict=True)
    ]
    vectorizer = TextVectorizer(fields=["title"], numeric={"year": 0.3}, categorical=["kind"])
    clf = SketchForestClassifier(n_trees=3, rerank="linear", vectorizer=vectorizer).fit(records, labels)
    records += [
        {"title": "café", "year": 1e9, "kind": "new"},
        {"title": "x"},
        {"title": "", "year": -1e300, "kind": "z"},
    ]
    lines = [
        "\t".join([r["title"], repr(r["year"]) if "year" in r else "", r.get("kind", "")]) for r in records
    ]
    done = run(program, write_model(clf.model_, tmp_path / "m"), lines, "-t")
    assert_same(predictions(done), *clf.predict_topk(records, 5))
    for number in ("x", "1e999", "1" * 70):
        assert run(program, tmp_path / "m", [f"a\t{number}\tbook"], "-t").returncode == 1


def test_what_cannot_be_written_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    fitted = SketchForestClassifier(n_trees=2).fit(X, Y)
    with pytest.raises(ValueError, match="must be a folder"):
        to_c(fitted, file)
    with pytest.raises(ValueError, match="local folder"):
        to_c(fitted, "memory://folder")
    with pytest.raises(TypeError, match="must be a fitted estimator"):
        to_c(object(), tmp_path / "exported")
    no_labels = replace(fitted.model_, n_labels=0)
    fitted.model_ = no_labels
    with pytest.raises(ValueError, match="at least one label"):
        to_c(fitted, tmp_path / "exported")
