"""
One tree for all outputs
========================

Predict several numbers at once: one tree for all outputs, against a tree for each.
"""

import numpy as np

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(3_000, 10)).astype(np.float32)
signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
y = signal[:, None] + rng.normal(size=(3_000, 5))  # five noisy observations of the same thing
X_train, y_train, X_test = X[:2_000], y[:2_000], X[2_000:]

for together in (True, False):
    model = MultiGBDTRegressor(n_trees=100, max_leaves=16, advanced={"tree_per_output": not together})
    model.fit(X_train, y_train)
    error = model.predict(X_test) - signal[2_000:, None]
    trees = model.model_.n_trees
    print(
        f"{'one tree for all' if together else 'a tree for each'}: {trees} trees, RMSE {np.sqrt((error**2).mean()):.3f}"
    )
