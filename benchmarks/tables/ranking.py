"""Ranking, beside LightGBM."""

from __future__ import annotations

from benchmarks.tables.common import about, read, table


def ranking() -> str:
    results = read("ranking")
    rows = [
        [
            name,
            f"{run['mean']:.4f} ± {run['standard_error']:.4f}",
            f"{run['mean_of_first_five']:.4f} ± {run['standard_error_of_first_five']:.4f}",
            "(busy)" if run.get("under_load") else f"{1e3 * run['median_seconds_per_tree']:.2f}",
        ]
        for name, run in results["lambdarank"].items()
    ]
    n_seeds = len(next(iter(results["lambdarank"].values()))["ndcg@5"])
    heads = ["method", f"NDCG@5, {n_seeds} seeds", "first five seeds", "ms a tree"]
    apart, agree = results["gradient_differences"], results["trees_agree"]
    equal = max(value for name, value in apart.items() if name.startswith("equal"))
    turns = results["in_turns"]
    theirs, ours = (f"{1e3 * seconds:.2f}" for seconds in turns["medians"].values())
    large = ""
    if "large" in results:
        runs = results["large"]
        some = next(iter(runs.values()))
        large_rows = [
            [
                name,
                f"{run['seconds_to_first_tree']:.1f}",
                f"{run['seconds_per_tree']:.3f}",
                f"{run['peak_bytes'] / 1e9:.2f}",
                f"{run['ndcg@5 of some training queries']:.4f}",
            ]
            for name, run in runs.items()
        ]
        large_heads = ["library", "to the first tree, s", "a tree, s", "peak memory, GB", "NDCG@5, training"]
        large = f"""
{some["rows"]:,} made-up rows × {some["features"]} features ({some["data_bytes"] / 1e9:.1f} GB), queries of 20
documents, 20 leaves, {some["trees"]} trees: {results["large_seconds_over_lightgbm"]:.2f} of LightGBM's time a tree. Peaks
include the rows themselves.

{table(large_heads, large_rows)}
"""
    return f"""## Ranking

The set "lambdarank" (201 training and 50 test queries), all with the same settings: 100 trees, learning rate 0.1 where
the name does not say otherwise, 31 leaves of at least 20 rows, no l2, 80 % of the rows and of the features for each
tree, two threads. Means over seeds with their standard errors; "(busy)": trained on a busy machine, so not timed.

{table(heads, rows)}

These times are minutes apart, in which the machine may change. Trained in turns in one process, LightGBM takes {theirs} ms a
tree and LambdaMART {ours} ({turns["over"]:.2f} of it; medians of {n_seeds} turns).

LambdaMART's gradients are LightGBM's: the steps of single rows differ by at most {equal:.1e} where all scores are equal,
and by {max(apart.values()):.1e} elsewhere, where LightGBM reads its logistic function from a table. So are its trees,
where the limits of a leaf mean the same: LightGBM takes the rows of a leaf to be in proportion to its curvature, so that
its leaves "of at least 20 rows" may have fewer, and others of more are refused; ours are counted. "Leaves by curvature"
asks both for a curvature of at least 1 instead. Then, with all rows and features, {agree["10"]:.1%} of the training rows have
LightGBM's score after 10 trees and {agree["20"]:.1%} after 20, to 1e-4.
{large}
`python -m benchmarks.ranking --data DIR`, on {about(results["machine"])}.
"""
