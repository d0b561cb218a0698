"""
Tuning
======

Choose parameters on validation rows with ``sparseleaf.tune``, and plot the trials. Requires Optuna
(``pip install "sparseleaf[tune]"``).
"""

import numpy as np

import sparseleaf

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 6))
Y = np.c_[X[:, 0] ** 2 + X[:, 1], np.sin(2 * X[:, 2]), X[:, 3] * X[:, 4]] + 0.1 * rng.normal(size=(600, 3))

# %%
# The first trials have the default parameters of every candidate, the others are sampled. Unpromising ones are stopped
# after few trees.
result = sparseleaf.tune(X[:400], Y[:400], n_trials=12, cv=3, metric="rmse", params={"n_trees": 150})
for trial in result.trials:
    print(f"trial {trial['number']}: {trial['method']}, {trial['state']}, rmse {trial['value']:.3f}")

# %%
# The estimator is already fitted to all rows, with the parameters of the best trial.
error = np.sqrt(np.mean((Y[400:] - result.best_estimator_.predict(X[400:])) ** 2))
print(f"validation rmse {result.best_score:.3f}, defaults {result.default_score:.3f}; test rmse {error:.3f}")
print(result.best_params)

# %%
# The optimisation history, and how much each parameter matters.
figure = result.plot()
