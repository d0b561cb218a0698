"""Fuzz the model file reader.

Small valid files are corrupted with fixed seeds: bits and bytes flipped in header and body, truncated, spliced with
another file, numbers of the headers replaced by edge cases, and single indices, offsets and values of tensors replaced
by extreme ones. Each file must load or be rejected with ModelFileError, and a model that loads must predict without an
error: anything else stops the run, and a crash leaves a traceback. The address space is limited, so that a huge
allocation is an error too.

    python -m benchmarks.fuzz_model --count 20000
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import re
import resource
import struct
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    ModelFileError,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)

OLD = Path(__file__).parents[1] / "tests" / "compat"
ROWS, FEATURES, LABELS = 80, 6, 9
NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
EDGE_CASES = (
    b"0 -0 1 -1 2 7 255 256 1.5 1e400 -1e400 1e-400 NaN Infinity 2147483647 2147483648 -2147483648 "
    b"4294967295 4294967296 9223372036854775807 9223372036854775808 -9223372036854775808 "
    b"18446744073709551615 18446744073709551616 340282366920938463463374607431768211456 "
    b'true null "1" [] {} 00 1e'
).split(b" ")
EDGES = {
    "I32": [0, 1, -1, -2, 5, 6, 8, 9, 2**31 - 1, -(2**31), 2**31 - 2, 1 << 16],
    "I64": [0, 1, -1, -2, 8, 9, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**62), 2**31 - 1],
    "F32": [0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf"), 3.4028234e38, -3.4028234e38, 1e-45],
    "F64": [0.0, -1.0, float("nan"), float("inf"), 1.7e308, -1.7e308, 5e-324],
    "U8": [0, 1, 2, 3, 5, 8, 9, 127, 128, 255],
    "U16": [0, 1, 8, 9, 65535],
    "U32": [0, 1, 9, 2**31 - 1, 2**31, 2**32 - 1],
    "U64": [0, 2**63, 2**64 - 1],
    "I8": [0, 1, -1, 127, -128],
    "I16": [0, 1, -1, 32767, -32768],
    "F16": [0.0, 1.0, float("nan"), float("inf"), 65504.0, 6e-8],
}
FORMATS = {
    "I32": "<i",
    "I64": "<q",
    "F32": "<f",
    "F64": "<d",
    "U8": "<B",
    "U16": "<H",
    "U32": "<I",
    "U64": "<Q",
    "I8": "<b",
    "I16": "<h",
    "F16": "<e",
}


def valid_files(folder):
    """Bytes of valid files: with and without names and projection, of each kind of target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    Y = (X @ rng.normal(size=(FEATURES, LABELS)) > 2).astype(int)
    names = [[f"name {q}" for q in np.flatnonzero(row)] for row in Y]
    numbers = [[int(q) - 3 for q in np.flatnonzero(row)] for row in Y]
    classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    files = []
    for targets, parameters in (
        (sp.csr_matrix(Y), {}),
        (Y, {"projection": "random", "projection_dim": 3}),
        (names, {"projection": "pca", "projection_dim": 2}),
        (numbers, {"split": "exact", "max_leaves": 4}),
        (classes, {"leaf_labels": None}),
        (X[:, 0] > 0, {"loss": "squared_hinge"}),
    ):
        clf = SparseGBDTClassifier.from_settings(
            {"n_trees": 3, "max_depth": 3, "min_samples_leaf": 4, **parameters}
        )
        files += saved(folder, clf.fit(X, targets, eval_set=(X, targets)))
    for targets, parameters in (
        (sp.csr_matrix(Y), {}),
        (names, {"arity": 3}),
        (Y, {"rerank": "centroid"}),
        (classes, {"rerank": "log", "rerank_weight": 0.5}),
        (names, {"rerank": "linear", "rerank_weight": 0.5}),
        (sp.csr_matrix(Y), {"rerank": "boosted"}),
    ):
        clf = LdSMClassifier.from_settings({"n_trees": 3, "max_nodes": 12, **parameters})
        files += saved(folder, clf.fit(X, targets, eval_set=(X, targets)))
    clf = SparseGBDTClassifier(n_trees=2, max_depth=2, min_samples_leaf=4, rerank="cosine")
    files += saved(folder, clf.fit(X, Y))
    sparse = sp.csr_matrix(np.maximum(X - 1, 0))  # rows without a feature get the prior
    files += saved(folder, SketchForestClassifier(n_trees=2, rerank="bayes").fit(sparse, names))
    files += saved(folder, MultiGBDTClassifier(n_trees=2, max_depth=2).fit(sparse, Y))
    blend = BlendClassifier([clf, LdSMClassifier(n_trees=2, max_nodes=8)], weights=None)
    files += text_files(folder, names)
    return X, files + saved(folder, blend.fit(X, names)) + old_files()


def text_files(folder, names):
    """Bytes of models with a vectorizer: of plain texts, of records, and hashed."""
    texts = [f"{' '.join(labels)} Öl 日本語 x{number % 5}" for number, labels in enumerate(names)]
    records = [
        {"title": text, "note": text[::-1], "year": number, "lang": f"l{number % 3}"}
        for number, text in enumerate(texts)
    ]
    everything = TextVectorizer(
        fields=["title", "note"],
        shared_vocabulary=False,
        char_ngram_range=(2, 2),
        numeric="year",
        categorical="lang",
    )
    files = []
    for rows, vectorizer in (
        (texts, TextVectorizer()),
        (records, everything),
        (texts, TextVectorizer(n_hash_features=20)),
    ):
        clf = SparseGBDTClassifier(n_trees=2, max_depth=2, min_samples_leaf=4, vectorizer=vectorizer)
        files += saved(folder, clf.fit(rows, names))
    return files


def old_files():
    """Bytes of the classifiers of all format versions in tests/compat."""
    paths = sorted(OLD.glob("*.safetensors"))
    return [path.read_bytes() for path in paths if hasattr(sparseleaf.load(path), "predict_topk")]


def saved(folder, clf):
    """Bytes of the compact and of the exact file."""
    files = []
    for compact in (True, False):
        clf.save(folder / "valid.safetensors", compact=compact)
        files.append((folder / "valid.safetensors").read_bytes())
    return files


def split_file(data):
    """(layout, header of the model, body)."""
    length = struct.unpack("<Q", data[:8])[0]
    layout = json.loads(data[8 : 8 + length])
    return layout, layout["__metadata__"]["sparseleaf"], data[8 + length :]


def join_file(layout, body):
    text = layout if isinstance(layout, bytes) else json.dumps(layout).encode()
    return struct.pack("<Q", len(text)) + text + body


def flip(rng, data, files):
    data = bytearray(data)
    header = 8 + struct.unpack("<Q", data[:8])[0]
    low, high = (0, header) if rng.random() < 0.5 else (header, len(data))
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(low, max(low + 1, high)))
        data[at] = data[at] ^ (1 << int(rng.integers(8))) if rng.random() < 0.7 else int(rng.integers(256))
    return bytes(data)


def truncate(rng, data, files):
    return data[: int(rng.integers(len(data)))]


def splice(rng, data, files):
    other = files[rng.integers(len(files))]
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 400))
    begin = int(rng.integers(len(other)))
    piece = other[begin : begin + size]
    return data[:at] + piece + data[at + (len(piece) if rng.random() < 0.7 else 0) :]


def edit_number(rng, text):
    numbers = list(NUMBER.finditer(text))
    number = numbers[rng.integers(len(numbers))]
    return text[: number.start()] + EDGE_CASES[rng.integers(len(EDGE_CASES))] + text[number.end() :]


def edit_layout(rng, data, files):
    """A number of the outer header: shapes and offsets."""
    layout, _, body = split_file(data)
    names = [name for name in layout if name != "__metadata__"]
    name = names[rng.integers(len(names))]
    if rng.random() < 0.2:  # the entry of another tensor
        layout[name] = layout[names[rng.integers(len(names))]]
        return join_file(layout, body)
    entry = edit_number(rng, json.dumps({name: layout[name]}).encode())
    whole = json.dumps({key: value for key, value in layout.items() if key != name}).encode()
    return join_file(whole[:-1] + b"," + entry[1:], body)


def edit_header(rng, data, files):
    """A number, or a whole value, of the model's own header."""
    layout, header, body = split_file(data)
    if rng.random() < 0.6:
        header = edit_number(rng, header.encode()).decode()
    else:
        parsed = json.loads(header)
        where = parsed if rng.random() < 0.5 else parsed["parameters"]
        values = [None, True, -1, 0, 10**30, 1e308, "", "none", "x" * 1000, [], [[1]], {}, {"a": 1}]
        where[list(where)[rng.integers(len(where))]] = values[rng.integers(len(values))]
        header = json.dumps(parsed)
    layout["__metadata__"]["sparseleaf"] = header
    return join_file(layout, body)


WIDER = {"U8": "U32", "U16": "U32", "I16": "F32", "I8": "F32", "F16": "F32"}


def widen(layout, body, name):
    """Store one tensor in a wider type, which can hold more extreme values."""
    entry = layout[name]
    begin, end = entry["data_offsets"]
    if entry["dtype"] not in WIDER:
        return layout, body
    numbers = [value for (value,) in struct.iter_unpack(FORMATS[entry["dtype"]], body[begin:end])]
    wide = b"".join(struct.pack(FORMATS[WIDER[entry["dtype"]]], value) for value in numbers)
    moved = {}
    for key, other in layout.items():
        if key != "__metadata__":
            shift = len(wide) - (end - begin)
            first, last = other["data_offsets"]
            other = {**other, "data_offsets": [first + shift * (first >= end), last + shift * (last >= end)]}
        moved[key] = other
    moved[name] = {**entry, "dtype": WIDER[entry["dtype"]], "data_offsets": [begin, begin + len(wide)]}
    return moved, body[:begin] + wide + body[end:]


def edit_tensor(rng, data, files):
    """Replace numbers of a tensor by extreme values; sometimes in a wider type."""
    layout, _, body = split_file(data)
    names = [name for name in layout if name != "__metadata__"]
    if rng.random() < 0.4:
        layout, body = widen(layout, body, names[rng.integers(len(names))])
    body = bytearray(body)
    for _ in range(rng.integers(1, 4)):
        entry = layout[names[rng.integers(len(names))]]
        begin, end = entry["data_offsets"]
        size = struct.calcsize(FORMATS[entry["dtype"]])
        if end > begin:
            edges = EDGES[entry["dtype"]]
            at = begin + size * int(rng.integers((end - begin) // size))
            struct.pack_into(FORMATS[entry["dtype"]], body, at, edges[rng.integers(len(edges))])
    return join_file(layout, bytes(body))


KINDS = (flip, truncate, splice, edit_layout, edit_header, edit_tensor, edit_tensor)


def texts_for(parameters):
    """Texts or records with the columns that a vectorizer reads."""
    texts = ["name 3 Öl", "", "日本語 x1"]
    if parameters.fields is None:
        return texts
    columns = [*(parameters.numeric or ()), *(parameters.categorical or ())]
    return [dict.fromkeys(parameters.fields, text) | dict.fromkeys(columns, 3) for text in texts]


def check(path, X):
    """Whether the file is accepted; a model that loads must predict."""
    try:
        clf = sparseleaf.load(path)
    except ModelFileError as error:
        if len(str(error)) > 3000:
            raise AssertionError("the message is too long") from error
        return False
    n_features = clf.n_features_in_
    if not 1 <= n_features <= 10_000:
        return True  # too many features to build rows for
    rows = np.resize(X, (70, n_features))
    clf.predict_topk(rows, 3)
    clf.predict_topk(sp.csr_matrix(rows[:5]), 3)
    clf.decision_function(rows)
    clf.predict(rows)
    if clf.model_.vectorizer is not None:
        clf.predict_topk(texts_for(clf.model_.vectorizer.parameters), 3)
        clf.model_.vectorizer.feature_names()
    if clf.model_.takes_nan:
        clf.predict_topk(np.full((2, n_features), np.nan, np.float32))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="number of corrupted files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="only the file of this number")
    arguments = parser.parse_args()
    faulthandler.enable()
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, files = valid_files(folder)
        path = folder / "corrupted.safetensors"
        for data in files:
            path.write_bytes(data)
            assert check(path, X)
        try:
            limit = 2 << 30
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + limit, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            print("could not limit the address space")
        accepted, tried = collections.Counter(), collections.Counter()
        begin = time.perf_counter()
        for number in range(arguments.count) if arguments.only is None else [arguments.only]:
            # seeded by number, so that a failure can be reproduced alone
            rng = np.random.default_rng([arguments.seed, number])
            kind = KINDS[rng.integers(len(KINDS))]
            corrupted = kind(rng, files[rng.integers(len(files))], files)
            path.write_bytes(corrupted)
            tried[kind.__name__] += 1
            try:
                accepted[kind.__name__] += check(path, X)
            except BaseException:
                print(f"failed at --seed {arguments.seed} --only {number} ({kind.__name__})", flush=True)
                raise
            path.unlink()  # the old file may still be memory-mapped
        seconds = time.perf_counter() - begin
    for kind, n in sorted(tried.items()):
        print(f"{kind:12} {n:6} tried, {accepted[kind]:6} accepted, {n - accepted[kind]:6} rejected")
    n, total = sum(tried.values()), sum(accepted.values())
    print(f"{'all':12} {n:6} tried, {total:6} accepted, {n - total:6} rejected")
    print(f"{seconds:.1f} s, no crash")


if __name__ == "__main__":
    main()
