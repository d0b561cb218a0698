"""
One tree for all outputs
========================

Multi-output regression with one tree per round for all outputs, compared with one tree per output and round. Related
outputs share splits: fewer trees, and less overfitting to the noise of a single output.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(3_000, 10)).astype(np.float32)
signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
y = signal[:, None] + rng.normal(size=(3_000, 5))  # five noisy measurements of the same signal
train, test = slice(0, 2_000), slice(2_000, None)

# %%
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, tree_per_output in {"one tree for all outputs": False, "one tree per output": True}.items():
    model = MultiGBDTRegressor(n_trees=100, max_leaves=16, eval_metric="rmse")
    model.set_params(advanced__tree_per_output=tree_per_output)
    model.fit(X[train], y[train], eval_set=(X[test], y[test]))
    error = model.predict(X[test]) - signal[test, None]
    print(f"{name}: {model.model_.n_trees} trees, RMSE to the signal {np.sqrt((error**2).mean()):.3f}")
    ax.plot(range(1, 101), model.history_["valid rmse"], label=name)
ax.set(xlabel="rounds", ylabel="RMSE on the test set", ylim=(1, 3))
ax.legend()
