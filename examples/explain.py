"""
Shapley values
==============

Which features move which outputs, and by how much: exact Shapley values of a model with three outputs.
"""

import numpy as np

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
FEATURES = ["sun", "rain", "wind", "day"]
OUTPUTS = ["ice cream", "umbrellas", "kites"]
X = rng.random((2_000, 4))
sun, rain, wind, _ = X.T
Y = np.column_stack(
    (10 * sun, 8 * rain * (wind < 0.7), 5 * wind * (rain < 0.5))
)  # umbrellas mind strong wind

model = MultiGBDTRegressor(n_trees=100).fit(X, Y)
values, expected = model.shap_values(X)

print("what moves sales, on average:")
print(" " * 12 + "".join(f"{name:>8}" for name in FEATURES))
for name, moved in zip(OUTPUTS, np.abs(values).mean(axis=0).T, strict=True):
    print(f"{name:12}" + "".join(f"{value:8.2f}" for value in moved))

stormy = np.array([[0.1, 0.9, 0.9, 0.5]])
(added,), _ = model.shap_values(stormy)
print("\na wet and stormy day, from the mean to the forecast:")
for j, name in enumerate(OUTPUTS):
    steps = "".join(f" {value:+.2f} {feature}" for feature, value in zip(FEATURES, added[:, j], strict=True))
    print(f"{name:12}{expected[j]:6.2f}{steps} = {model.predict(stormy)[0, j]:.2f}")
