"""
Prediction intervals of two outputs
===================================

Quantile loss at levels 0.1, 0.5 and 0.9 predicts the median and an interval that contains 80 % of the targets. Each
model predicts both outputs with the same trees.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 3_000))
noise = rng.normal(size=(3_000, 2))
y = np.column_stack((np.sin(x) + 0.1 * x * noise[:, 0], np.cos(x) + 0.3 * noise[:, 1]))
X = x[:, None]

# %%
# One model per level.
levels = (0.1, 0.5, 0.9)
low, middle, high = (
    MultiGBDTRegressor(n_trees=60, max_leaves=16, loss=f"quantile:{level}").fit(X, y).predict(X)
    for level in levels
)
print("coverage of the interval:", ((low <= y) & (y <= high)).mean(axis=0).round(2))

# %%
# The noise of the first output grows with x, that of the second does not.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharex=True)
for j, ax in enumerate(axes):
    ax.plot(x, y[:, j], ".", markersize=1, color="0.6")
    ax.fill_between(x, low[:, j], high[:, j], alpha=0.3)
    ax.plot(x, middle[:, j])
    ax.set(title=f"output {j}", xlabel="x")
