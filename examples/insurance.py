"""
Insurance claims: Poisson, gamma and Tweedie losses
===================================================

Choose the loss by the distribution of the target: the total claims of a policy are mostly zero (Tweedie), the size of
a single claim is always positive (gamma).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_tweedie_deviance

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(10_000, 6)).astype(np.float32)  # policies
n_claims = rng.poisson(np.exp(1.5 * X[:, 0] + 1.5 * X[:, 1] - 2.5))
mean_size = np.exp(1 + 4 * X[:, 2] * X[:, 3])
total = np.where(n_claims > 0, rng.gamma(np.maximum(2 * n_claims, 1e-9), mean_size / 2), 0)
size = rng.gamma(2, mean_size / 2)
train, test = slice(0, 5_000), slice(5_000, None)


def deviance(y, loss, power):
    """Mean Tweedie deviance on the test set of a model trained with this loss."""
    model = MultiGBDTRegressor(n_trees=50, max_leaves=8, min_samples_leaf=50, loss=loss).fit(
        X[train], y[train]
    )
    predicted = np.maximum(model.predict(X[test]), 1e-2)  # squared error may predict negative amounts
    return mean_tweedie_deviance(y[test], predicted, power=power)


# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for ax, title, y, losses, power in (
    (left, "total claims", total, ("mse", "poisson", "tweedie:1.5"), 1.5),
    (right, "size of a claim", size, ("mse", "gamma"), 2),
):
    values = [deviance(y, loss, power) for loss in losses]
    print(f"{title}:", ", ".join(f"{loss} {value:.3f}" for loss, value in zip(losses, values, strict=True)))
    ax.bar_label(ax.bar(losses, values), fmt="%.3f")
    ax.set(title=title, ylabel="deviance on the test set", ylim=(0, 1.15 * max(values)))
