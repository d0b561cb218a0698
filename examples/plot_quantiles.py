"""
Prediction intervals of two outputs
===================================

Quantile loss at three levels gives a median and an interval that should hold 80 % of the targets. Each model
predicts both outputs with the same trees.
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
print("inside the interval:", ((low <= y) & (y <= high)).mean(axis=0).round(2))

# %%
# The first output's noise grows with x, the second's does not.
fig, both = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharex=True)
for j, axes in enumerate(both):
    axes.plot(x, y[:, j], ".", markersize=1, color="0.6")
    axes.fill_between(x, low[:, j], high[:, j], alpha=0.3)
    axes.plot(x, middle[:, j])
    axes.set(title=f"output {j}", xlabel="x")
