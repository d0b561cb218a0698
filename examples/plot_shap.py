"""
Which feature moves which output
================================

Mean absolute Shapley values of a model with three outputs: one call of ``shap_values`` explains all outputs.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import MultiGBDTRegressor

features = ["sun", "rain", "wind", "day"]
outputs = ["ice cream", "umbrellas", "kites"]
X = np.random.default_rng(0).random((2_000, 4))
sun, rain, wind, _ = X.T
Y = np.column_stack((10 * sun, 8 * rain * (wind < 0.7), 5 * wind * (rain < 0.5)))

model = MultiGBDTRegressor(n_trees=100).fit(X, Y)
values, expected = model.shap_values(X)  # (rows, features, outputs) and (outputs,)
strength = np.abs(values).mean(axis=0)
print(strength.round(2))

# %%
# The day has no influence, and the trees know.
fig, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
image = axes.imshow(strength, cmap="Blues")
axes.set_xticks(range(3), outputs)
axes.set_yticks(range(4), features)
fig.colorbar(image, label="mean |Shapley value|")
