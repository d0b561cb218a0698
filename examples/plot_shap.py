"""
Which feature drives which output
=================================

Mean absolute Shapley values of a model with three outputs. One call of ``shap_values`` explains all outputs.
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
importance = np.abs(values).mean(axis=0)
print(importance.round(2))

# %%
# The day has no influence on any output, and its Shapley values are close to zero.
fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
image = ax.imshow(importance, cmap="Blues")
ax.set_xticks(range(3), outputs)
ax.set_yticks(range(4), features)
fig.colorbar(image, label="mean |Shapley value|")
