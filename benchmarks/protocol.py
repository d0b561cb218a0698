"""How the GBDT-MO paper measures, and how it should be done.

The paper stops its training on the test rows, 25 rounds after the best one, and reports the best: "as the paper" here.
"held out" takes the number of rounds from a part of the training rows and looks at the test rows once.
"""

from __future__ import annotations

import numpy as np

from benchmarks._common import measured
from benchmarks._peers import (
    best_round,
    exhausted,
    watch,
)

PATIENCE = 25
"""The paper's: training ends so many rounds after the best one on the test rows."""

HELD_OUT_PATIENCE = 50
"""Fewer rows are watched, so the best round is harder to see."""

MOST_ROUNDS = 2000


def held_out_done(curves):
    """The loss on the held-out rows, the first part, gets no better."""
    return exhausted(curves.loss[0], HELD_OUT_PATIENCE)


def paper_done(curves):
    """The error on the test rows, the last part, gets no better."""
    return exhausted(curves.error[-1], PATIENCE)


def held_out_rounds(groups):
    return [best_round(curves.loss[0], HELD_OUT_PATIENCE) for curves in groups]


def paper_rounds(groups):
    return [best_round(curves.error[-1], PATIENCE) for curves in groups]


def figure(groups, part, rounds, n_classes):
    """Accuracy in per cent, or RMSE, with the given rounds of each group of outputs."""
    errors = [curves.error[part][stop - 1] for curves, stop in zip(groups, rounds, strict=True)]
    error = float(np.mean(errors))
    return 100 * (1 - error) if n_classes else error**0.5


class Trial:
    """Settings, and the curves they gave on the held-out part of each draw."""

    def __init__(self, method, n_classes, settings):
        self.method, self.n_classes, self.settings, self.runs = method, n_classes, settings, []

    def on(self, draws):
        """Run on the draws that are new to it."""
        for X, y, held_out in draws[len(self.runs) :]:
            self.runs.append(
                watch(
                    self.method,
                    self.n_classes,
                    self.settings,
                    X,
                    y,
                    [held_out],
                    MOST_ROUNDS,
                    lambda curves: held_out_done(curves) and paper_done(curves),
                )
            )
        return self

    @property
    def rounds(self):
        return [held_out_rounds(groups) for groups in self.runs]

    @property
    def loss(self):
        """Mean held-out loss, after the rounds where it is least."""
        return self._loss_at(self.rounds)

    @property
    def loss_as_paper(self):
        """Mean held-out loss where the paper's rule stops; the error itself tells less, of so few rows."""
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
    """The trials of least held-out loss, stopped where it is least and stopped as the paper does.

    A long grid is tried on the first draws, and the best of it, by either rule, on all.
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


def judged(trial, paper_trial, splits):
    """Train on all training rows of every split; the test figure both ways."""
    as_paper, held_out = [], []
    method, n_classes = trial.method, trial.n_classes
    for (X, y, X_test, y_test), rounds in zip(splits, trial.rounds, strict=True):

        def watched(settings, least, X=X, y=y, X_test=X_test, y_test=y_test):
            def done(curves):
                return len(curves) >= least and paper_done(curves)

            return watch(method, n_classes, settings, X, y, [(X_test, y_test)], MOST_ROUNDS, done)

        groups = watched(trial.settings, max(rounds))  # rows held out are back: the number of rounds stays
        held_out.append(figure(groups, 0, rounds, n_classes))
        if paper_trial.settings != trial.settings:
            groups = watched(paper_trial.settings, 0)
        as_paper.append(figure(groups, 0, paper_rounds(groups), n_classes))
    return {
        "as the paper": as_paper,
        "held out": held_out,
        "rounds": [float(np.mean(rounds)) for rounds in trial.rounds],
        "settings": trial.settings,
        "settings as the paper": paper_trial.settings,
    }


def seventy_thirty(X, y, seed):
    """As the scripts that the paper's authors published: numpy's old generator, seeds from 0, shuffles the rows."""
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = np.split(order, [int(0.7 * len(X))])
    return X[train], y[train], X[test], y[test]


def fifth_held_out(X, y):
    cut = int(0.8 * len(X))
    return X[:cut], y[:cut], (X[cut:], y[cut:])


def run_small(data, method, load, n_classes, grid):
    X, y = load(data)
    splits = [seventy_thirty(X, y, seed) for seed in range(10)]
    draws = [fifth_held_out(*split[:2]) for split in splits]
    (trial, paper_trial), seconds = measured(lambda: search(method, n_classes, grid, draws))
    return judged(trial, paper_trial, splits) | {
        "held-out loss": trial.loss,
        "held-out loss as the paper": paper_trial.loss_as_paper,
        "trials": len(grid),
        "search_seconds": seconds,
    }


def run_searched(data, method, load, n_classes, grid):
    """Rounds and settings by the test rows, as a search has them whose author watches these alone."""
    splits = [seventy_thirty(*load(data), seed) for seed in range(10)]

    def figures(settings):
        found = []
        for X, y, X_test, y_test in splits:
            groups = watch(method, n_classes, settings, X, y, [(X_test, y_test)], MOST_ROUNDS, paper_done)
            found.append(figure(groups, 0, paper_rounds(groups), n_classes))
        return found

    tried = [(figures(settings), settings) for settings in grid]
    best, settings = (max if n_classes else min)(tried, key=lambda trial: np.mean(trial[0]))
    return {"searched": best, "settings": settings, "trials": len(grid)}


def watched_once(method, n_classes, settings, X, y, X_test, y_test, most_rounds):
    """Train on the first 50,000 rows, watch the other 10,000 and the test rows."""
    parts = [(X[50_000:], y[50_000:]), (X_test, y_test)]

    def done(curves):
        return held_out_done(curves) and paper_done(curves)

    groups, seconds = measured(
        lambda: watch(method, n_classes, settings, X[:50_000], y[:50_000], parts, most_rounds, done)
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
