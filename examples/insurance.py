"""
Insurance claims: Poisson, gamma and Tweedie
============================================

Choose a loss for what the targets are: claims of policies, most of which have none, and the size of one claim.
"""

import numpy as np
from sklearn.metrics import mean_tweedie_deviance

from sparseleaf import MultiGBDTRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(10_000, 6)).astype(np.float32)  # policies
claims = rng.poisson(np.exp(1.5 * X[:, 0] + 1.5 * X[:, 1] - 2.5))  # their number
size = np.exp(1 + 2 * X[:, 2] * X[:, 3])  # of a claim, on average
total = rng.gamma(np.maximum(2 * claims, 1e-9), size / 2)
one = rng.gamma(2, size / 2)
train, test = slice(0, 5_000), slice(5_000, None)


def deviance(y, loss, power):
    """What a model with this loss leaves unexplained of other rows."""
    model = MultiGBDTRegressor(n_trees=40, max_leaves=6, min_samples_leaf=200, loss=loss).fit(
        X[train], y[train]
    )
    predicted = np.maximum(model.predict(X[test]), 1e-2)  # squared error may predict less than 0
    return mean_tweedie_deviance(y[test], predicted, power=power)


print(f"total claims, {np.mean(claims == 0):.0%} of them zero: mean Tweedie deviance")
for loss in ("mse", "poisson", "tweedie:1.5"):
    print(f"  {loss:12}{deviance(np.where(claims > 0, total, 0), loss, 1.5):.3f}")
print("size of one claim, always positive: mean gamma deviance")
for loss in ("mse", "gamma"):
    print(f"  {loss:12}{deviance(one, loss, 2):.3f}")
