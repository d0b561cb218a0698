"""Any model that was trained can be saved and is the same when it comes back."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseleaf
from sparseleaf import SparseGBDTClassifier

names = st.lists(st.text(max_size=8).filter(lambda s: s.isprintable()), min_size=1, max_size=6, unique=True)
integers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6, unique=True)


@settings(max_examples=40, deadline=None)
@given(st.one_of(names, integers), st.integers(0, 2**32 - 1), st.data())
def test_round_trip_of_any_names(labels, seed, data):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    X = rng.normal(size=(n, int(rng.integers(1, 4)))).astype(np.float32)
    Y = [[label for label in labels if rng.random() < 0.5] for _ in range(n)]
    if all(isinstance(label, int) for label in labels) and set(labels) <= {0, 1}:
        Y.append([2])
        X = np.vstack([X, X[:1]])
    parameters = data.draw(
        st.fixed_dictionaries(
            {
                "n_trees": st.integers(1, 4),
                "learning_rate": st.floats(1e-3, 1),
                "leaf_labels": st.none() | st.integers(1, 4),
                "loss": st.sampled_from(["squared", "squared_hinge"]),
                "projection": st.sampled_from([None, "random"]),
                "max_bins": st.integers(2, 255),
                "min_samples_leaf": st.integers(1, 5),
            }
        )
    )
    clf = SparseGBDTClassifier.from_settings({**parameters, "n_jobs": 1}).fit(X, Y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        clf.save(path, compact=False)
        loaded = sparseleaf.load(path)
        assert loaded.classes_.tolist() == clf.classes_.tolist()
        assert loaded.predict(X) == clf.predict(X)
        for found, wanted in zip(loaded.predict_topk(X, 3), clf.predict_topk(X, 3), strict=True):
            np.testing.assert_array_equal(found, wanted)
        again = Path(folder) / "again.safetensors"
        loaded.save(again, compact=False)
        assert again.read_bytes() == path.read_bytes()
        clf.save(path)
        compact = sparseleaf.load(path)
        found, wanted = (c.model_.scores(X, None, 1).toarray() for c in (compact, clf))
        np.testing.assert_array_equal(found, wanted)
