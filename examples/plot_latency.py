"""
Single-row latency
==================

The time of one ``predict_topk`` call with a single row, as a server makes it, for several models. Times depend on
the machine.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sparseleaf
from sparseleaf import SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc

X, Y = make_xc(3_000, 1_000, 500, labels_per_row=3, nnz_per_row=30, seed=1)
models = {
    "boosted trees": SparseGBDTClassifier(n_trees=50),
    "SketchForest, rerank=None": SketchForestClassifier(n_trees=20, rerank=None),
    "SketchForest, rerank='cosine'": SketchForestClassifier(n_trees=20, rerank="cosine"),
    "SketchForest, rerank='linear'": SketchForestClassifier(n_trees=20, rerank="linear"),
}


# %%
# A server loads the saved model with one thread per call. float32 CSR rows need no conversion.
def latencies(clf):
    """Milliseconds of 500 calls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        clf.save(path)
        served = sparseleaf.load(path, n_jobs=1)
    rows = [X[i].astype(np.float32) for i in range(500)]
    seconds = []
    for row in rows:
        start = time.perf_counter()
        served.predict_topk(row, k=5)
        seconds.append(time.perf_counter() - start)
    return 1_000 * np.array(seconds)


# %%
# Median and 90th percentile. A batch of rows in one call takes far less time per row.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for place, (name, clf) in enumerate(models.items()):
    times = latencies(clf.fit(X, Y))
    median, tail = np.percentile(times, [50, 90])
    print(f"{name:31} median {median:.3f} ms, 90 % below {tail:.3f} ms")
    ax.plot([median, tail], [place, place], "o-", color="#0072B2")
    ax.annotate(f"{median:.2f} ms", (median, place), xytext=(0, 8), textcoords="offset points", ha="center")
ax.set_yticks(range(len(models)), models)
ax.set_ylim(len(models) - 0.5, -0.7)
ax.set(xlabel="milliseconds per call: median to 90th percentile", xlim=(0, None))
