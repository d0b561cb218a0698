"""Ranking, against LightGBM."""

from __future__ import annotations

from benchmarks.tables.common import about, read, table


def ranking() -> str:
    results = read("ranking")
    rows = [
        [
            name,
            f"{run['mean']:.4f} ± {run['standard_error']:.4f}",
            f"{run['mean_of_first_five']:.4f} ± {run['standard_error_of_first_five']:.4f}",
            "not timed" if run.get("under_load") else f"{1e3 * run['median_seconds_per_tree']:.2f}",
        ]
        for name, run in results["lambdarank"].items()
    ]
    n_seeds = len(next(iter(results["lambdarank"].values()))["ndcg@5"])
    heads = ["method", f"NDCG@5, {n_seeds} seeds", "first five seeds", "ms/tree"]
    differences, agree = results["gradient_differences"], results["trees_agree"]
    equal = max(value for name, value in differences.items() if name.startswith("equal"))
    alternating = results["alternating"]
    theirs, ours = (f"{1e3 * seconds:.2f}" for seconds in alternating["medians"].values())
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
                f"{run['ndcg@5 of training queries']:.4f}",
            ]
            for name, run in runs.items()
        ]
        large_heads = ["library", "until the first tree, s", "s/tree", "peak memory, GB", "NDCG@5, training"]
        large = f"""
{some["rows"]:,} synthetic rows × {some["features"]} features ({some["data_bytes"] / 1e9:.1f} GB), queries of 20
documents, 20 leaves, {some["trees"]} trees: a tree takes {results["large_seconds_over_lightgbm"]:.2f} times as long as LightGBM's. Peak
memory includes the dataset.

{table(large_heads, large_rows)}
"""
    return f"""## Ranking

LightGBM's "lambdarank" example (201 training and 50 test queries), all methods with the same settings: 100 trees,
learning rate 0.1 unless stated otherwise, 31 leaves of at least 20 rows, no l2, 80 % of the rows and features per tree,
two threads. Means over seeds with their standard errors.

{table(heads, rows)}

These runs are minutes apart. Alternating in one process, LightGBM takes {theirs} ms per tree and LambdaMART {ours} ms
(ratio {alternating["over"]:.2f}; medians of {n_seeds} runs each).

LambdaMART's gradients agree with LightGBM's: the Newton steps of single rows differ by at most {equal:.1e} where all scores
are equal, and by {max(differences.values()):.1e} elsewhere, where LightGBM reads the logistic function from a table. So do its trees
under the same leaf constraint: LightGBM estimates the rows of a leaf from its hessian, sparseleaf counts them, so
`min_samples_leaf=20` differs. The rows "min hessian 1" use a minimum hessian sum of 1 instead. Then, without sampling,
{agree["10"]:.1%} of the training rows have LightGBM's score after 10 trees and {agree["20"]:.1%} after 20, within 1e-4.
{large}
`python -m benchmarks.ranking --data DIR`, on {about(results["machine"])}.
"""
