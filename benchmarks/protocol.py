"""The evaluation protocol of the GBDT-MO paper, and an unbiased one.

The paper stops training on the test set, 25 rounds after the best one, and reports the best round: "as the paper".
"held out" takes the number of rounds from a validation split of the training set and evaluates the test set once.
"""

from __future__ import annotations

import numpy as np

from benchmarks._common import measured
from benchmarks._peers import best_round, stops, train_curves

PATIENCE = 25
"""Patience of the paper's early stopping on the test set."""

HELD_OUT_PATIENCE = 50
"""Patience on the validation split, which is smaller and therefore noisier."""

MAX_ROUNDS = 2000


def held_out_done(curves):
    """Early stopping by the loss on the validation split, the first part."""
    return stops(curves.loss[0], HELD_OUT_PATIENCE)


def paper_done(curves):
    """Early stopping by the error on the test set, the last part."""
    return stops(curves.error[-1], PATIENCE)


def held_out_rounds(groups):
    return [best_round(curves.loss[0], HELD_OUT_PATIENCE) for curves in groups]


def paper_rounds(groups):
    return [best_round(curves.error[-1], PATIENCE) for curves in groups]


def figure(groups, part, rounds, n_classes):
    """Accuracy in percent, or RMSE, at the given rounds of each group of outputs."""
    errors = [curves.error[part][stop - 1] for curves, stop in zip(groups, rounds, strict=True)]
    error = float(np.mean(errors))
    return 100 * (1 - error) if n_classes else error**0.5


class Trial:
    """Settings and their curves on the validation split of each random split."""

    def __init__(self, method, n_classes, settings):
        self.method, self.n_classes, self.settings, self.runs = method, n_classes, settings, []

    def on(self, draws):
        """Run on the splits that have not been run yet."""
        for X, y, held_out in draws[len(self.runs) :]:
            self.runs.append(
                train_curves(
                    self.method,
                    self.n_classes,
                    self.settings,
                    X,
                    y,
                    [held_out],
                    MAX_ROUNDS,
                    lambda curves: held_out_done(curves) and paper_done(curves),
                )
            )
        return self

    @property
    def rounds(self):
        return [held_out_rounds(groups) for groups in self.runs]

    @property
    def loss(self):
        """Mean minimum of the validation loss."""
        return self._loss_at(self.rounds)

    @property
    def loss_as_paper(self):
        """Mean validation loss where the paper's rule stops; less noisy than the error on few rows."""
        return self._loss_at([paper_rounds(groups) for groups in self.runs])

    def _loss_at(self, rounds):
        return float(
            np.mean(
                [
                    curves.loss[0][stop - 1]
                    for groups, stops in zip(self.runs, rounds, strict=True)
                    for curves, stop in zip(groups, stops, strict=True)
                ]
            )
        )


FIRST_DRAWS, KEPT = 3, 4


def search(method, n_classes, grid, draws):
    """The trials of lowest validation loss, with early stopping on it and with the paper's stopping rule.

    The whole grid is tried on the first splits, the best trials by either rule on all splits.
    """
    trials = [Trial(method, n_classes, settings).on(draws[:FIRST_DRAWS]) for settings in grid]
    by_loss = sorted(trials, key=lambda trial: trial.loss)[:KEPT]
    by_rule = sorted(trials, key=lambda trial: trial.loss_as_paper)[:KEPT]
    for trial in by_loss + by_rule:
        trial.on(draws)
    return (
        min(by_loss, key=lambda trial: trial.loss),
        min(by_rule, key=lambda trial: trial.loss_as_paper),
    )


def evaluate(trial, paper_trial, splits):
    """Train on the whole training set of every split and evaluate the test set by both protocols."""
    as_paper, held_out = [], []
    method, n_classes = trial.method, trial.n_classes
    for (X, y, X_test, y_test), rounds in zip(splits, trial.rounds, strict=True):

        def curves_of(settings, min_rounds, X=X, y=y, X_test=X_test, y_test=y_test):
            def done(curves):
                return len(curves) >= min_rounds and paper_done(curves)

            return train_curves(method, n_classes, settings, X, y, [(X_test, y_test)], MAX_ROUNDS, done)

        groups = curves_of(trial.settings, max(rounds))  # the validation rows are trained on as well
        held_out.append(figure(groups, 0, rounds, n_classes))
        if paper_trial.settings != trial.settings:
            groups = curves_of(paper_trial.settings, 0)
        as_paper.append(figure(groups, 0, paper_rounds(groups), n_classes))
    return {
        "as the paper": as_paper,
        "held out": held_out,
        "rounds": [float(np.mean(rounds)) for rounds in trial.rounds],
        "settings": trial.settings,
        "settings as the paper": paper_trial.settings,
    }


def seventy_thirty(X, y, seed):
    """The split of the scripts published by the paper's authors: rows shuffled by numpy's legacy generator."""
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = np.split(order, [int(0.7 * len(X))])
    return X[train], y[train], X[test], y[test]


def fifth_held_out(X, y):
    n_train = int(0.8 * len(X))
    return X[:n_train], y[:n_train], (X[n_train:], y[n_train:])


def run_small(data, method, load, n_classes, grid):
    X, y = load(data)
    splits = [seventy_thirty(X, y, seed) for seed in range(10)]
    draws = [fifth_held_out(*split[:2]) for split in splits]
    (trial, paper_trial), seconds = measured(lambda: search(method, n_classes, grid, draws))
    return evaluate(trial, paper_trial, splits) | {
        "held-out loss": trial.loss,
        "held-out loss as the paper": paper_trial.loss_as_paper,
        "trials": len(grid),
        "search_seconds": seconds,
    }


def run_searched(data, method, load, n_classes, grid):
    """Rounds and settings both chosen on the test set."""
    splits = [seventy_thirty(*load(data), seed) for seed in range(10)]

    def figures(settings):
        values = []
        for X, y, X_test, y_test in splits:
            groups = train_curves(
                method, n_classes, settings, X, y, [(X_test, y_test)], MAX_ROUNDS, paper_done
            )
            values.append(figure(groups, 0, paper_rounds(groups), n_classes))
        return values

    trials = [(figures(settings), settings) for settings in grid]
    best, settings = (max if n_classes else min)(trials, key=lambda trial: np.mean(trial[0]))
    return {"searched": best, "settings": settings, "trials": len(grid)}


def run_once(method, n_classes, settings, X, y, X_test, y_test, max_rounds):
    """Train on the first 50,000 rows and evaluate on the other 10,000 and on the test set."""
    parts = [(X[50_000:], y[50_000:]), (X_test, y_test)]

    def done(curves):
        return held_out_done(curves) and paper_done(curves)

    groups, seconds = measured(
        lambda: train_curves(method, n_classes, settings, X[:50_000], y[:50_000], parts, max_rounds, done)
    )
    rounds = held_out_rounds(groups)
    return {
        "as the paper": figure(groups, 1, paper_rounds(groups), n_classes),
        "held out": figure(groups, 1, rounds, n_classes),
        "validation": figure(groups, 0, rounds, n_classes),
        "held-out loss": float(np.mean([c.loss[0][r - 1] for c, r in zip(groups, rounds, strict=True)])),
        "rounds": float(np.mean(rounds)),
        "rounds as the paper": float(np.mean(paper_rounds(groups))),
        "seconds": seconds,
        "settings": settings,
    }
