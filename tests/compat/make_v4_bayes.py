"""Makes the file of version 4 with re-ranking by naive Bayes, as make_v3_rerank.py made those of version 3.

python tests/compat/make_v4_bayes.py
"""

import numpy as np
from make_v3_rerank import NAMES, make

from sparseleaf import SketchForestClassifier


def main():
    rng = np.random.default_rng(41)
    X = (np.round(rng.normal(size=(150, 6)), 2) * (rng.random((150, 6)) < 0.4)).astype(np.float32)
    Y = (X != 0) @ rng.normal(size=(6, len(NAMES))) > 0.7
    other = (np.round(rng.normal(size=(12, 6)), 2) * (rng.random((12, 6)) < 0.4)).astype(np.float32)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    make(
        "bayes-v4-forest",
        SketchForestClassifier(n_trees=2, rerank="bayes", random_state=0).fit(X, names),
        other,
    )


if __name__ == "__main__":
    main()
