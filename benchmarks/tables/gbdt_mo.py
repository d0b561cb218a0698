"""GBDT-MO: the tables of the paper, reproduced."""

from __future__ import annotations

from statistics import mean

from benchmarks.tables.common import DOCS, about, read, spread, table, with_tables

PAGE = DOCS / "papers" / "gbdt-mo.md"


# Results of the GBDT-MO paper for the tables that are reproduced.
PAPER = {
    "friedman1": {"sparseleaf": 0.1429, "sparseleaf, one tree per output": 0.1540},
    "random projection": {"sparseleaf": 0.0180, "sparseleaf, one tree per output": 0.0204},
    "mnist": {
        "sparseleaf": 98.30,
        "sparseleaf, one tree per output": 98.08,
        "XGBoost": 97.86,
        "LightGBM": 98.03,
    },
    "yeast": {
        "sparseleaf": 62.29,
        "sparseleaf, one tree per output": 61.97,
        "XGBoost": 62.94,
        "LightGBM": 61.97,
    },
    "student-por": {
        "sparseleaf": 0.24392,
        "sparseleaf, one tree per output": 0.24408,
        "XGBoost": 0.24623,
        "LightGBM": 0.24466,
    },
    "inpainting": {
        "sparseleaf": 0.26025,
        "sparseleaf, one tree per output": 0.26157,
        "XGBoost": 0.26088,
        "LightGBM": 0.26090,
    },
}


OUTPUTS = {"friedman1": 5, "random projection": 8}
STOPPING = ("stopped on the test set", "stopped on a validation set")
"""The paper's protocol and an unbiased one: "as the paper" and "held out" of the results."""


SETS = {
    "mnist": ("MNIST, accuracy in %", 2, "50,000 rows, 8 bins, leaves of at least 16 rows"),
    "yeast": ("Yeast, accuracy in %", 2, "70 % of 1,484 rows, ten seeds, 255 bins"),
    "student-por": ("Student-por, RMSE", 4, "70 % of 649 rows, ten seeds, 8 bins"),
    "inpainting": ("MNIST-inpainting, RMSE", 5, "50,000 rows, 16 bins, leaves of at least 4 rows"),
}


def summary() -> str:
    """Comparison with the paper, for the results page."""
    rows = []
    for part, name, digits in (
        ("synthetic", "friedman1 / sparseleaf", 4),
        ("synthetic", "random projection / sparseleaf", 4),
        ("mnist", "sparseleaf, sampled rows and features", 2),
        ("yeast", "sparseleaf", 2),
        ("student-por", "sparseleaf", 4),
        ("inpainting", "sparseleaf", 5),
    ):
        run = results_of(part)["runs"][name]
        what = name.split(" / ")[0] if part == "synthetic" else SETS[part][0]
        paper = PAPER[what if part == "synthetic" else part]["sparseleaf"]
        rows += [
            [
                what,
                f"{paper:.{digits}f}",
                spread(run["as the paper"], digits),
                spread(run["held out"], digits),
            ]
        ]
    rows += [
        [
            "Yeast, settings chosen on the test set as well",
            f"{PAPER['yeast']['sparseleaf']:.2f}",
            spread(results_of("yeast-searched")["runs"]["sparseleaf"]["searched"], 2),
            "",
        ]
    ]
    return f"""## GBDT-MO

RMSE unless stated otherwise. The paper stops on the test set; the last column stops on a validation set. All tables, with
XGBoost, LightGBM and CatBoost, times and memory, are on [the paper's page](papers/gbdt-mo.md).

{table(["dataset", "paper", *STOPPING], rows)}

`python -m benchmarks.gbdt_mo_paper --data DIR`, on {about(results_of("mnist")["machine"])}.
"""


def page() -> str:
    """The paper's page with its tables regenerated."""
    return with_tables(PAGE, tables())


def tables() -> str:
    parts = (table_3, table_5, speed_table, sparse_tables, hessian_table, many_outputs_table)
    return (
        "\n".join(part() for part in parts)
        + f"\n`python -m benchmarks.gbdt_mo_paper --data DIR`, on {about(results_of('mnist')['machine'])}.\n"
    )


def table_3() -> str:
    results = results_of("synthetic")
    rows = []
    for title, run in results["runs"].items():
        name, method = title.split(" / ")
        paper = PAPER[name][method]
        rows += [
            [
                title,
                f"{paper:.4f}",
                spread(run["as the paper"], 4),
                spread(run["held out"], 4),
                f"{mean(run['rounds']):.0f}",
                f"{mean(run['rounds']) * (OUTPUTS[name] if method != 'sparseleaf' else 1):.0f}",
                used(run["settings"]),
            ]
        ]
    long = results_of("synthetic-long")["runs"]
    for title, run in long.items():
        n_rounds = run["settings"]["n_trees"]
        trees = n_rounds * (OUTPUTS["random projection"] if run["settings"].get("tree_per_output") else 1)
        cells = [title, "", "", spread(run["rmse"], 5), str(n_rounds), str(trees), used(run["settings"])]
        rows += [cells]
    heads = ["dataset / method", "paper", *STOPPING, "rounds", "trees", "settings"]
    return f"""### Table III: synthetic datasets, RMSE

Five seeds, 10,000 training and 10,000 test rows, 255 bins, leaves of at least 4 rows, at most 2,000 rounds; depth chosen
with the first seed (the paper searches from depth 4). "One tree per output" is the paper's GBDT-SO, which has five and
eight times as many trees per round. "Random projection" is a dataset without noise, for which 2,000 rounds are too few:
the last rows use as many rounds as the authors' scripts allow, without early stopping, and choose among the settings of
the other rows and trees of depth 1 at learning rate 1.

{table(heads, rows)}

With noise, one tree for all outputs is better at the same number of rounds. Without noise it is as good in the end with
an eighth of the trees, and far better than one tree per output with as many trees.
"""


def table_5() -> str:
    parts = []
    for part, (title, digits, about_set) in SETS.items():
        rows = []
        for name, run in results_of(part)["runs"].items():
            joint = name.startswith("sparseleaf") and "tree per output" not in name
            paper = PAPER[part].get("sparseleaf" if joint else name.removesuffix(", the paper's settings"))
            n_rounds = run["rounds"]
            cells = [
                name,
                f"{paper:.{digits}f}" if paper else "",
                spread(run["as the paper"], digits),
                spread(run["held out"], digits),
                f"{mean(n_rounds) if isinstance(n_rounds, list) else n_rounds:.0f}",
            ]
            if "trials" in run:
                cells += [drawn(run["settings as the paper"]), drawn(run["settings"])]
                settings_heads = [f"settings, {stopping}" for stopping in STOPPING]
            else:
                cells += [used(run["settings"])]
                settings_heads = ["settings"]
            rows += [cells]
        heads = ["method", "paper", *STOPPING, "rounds", *settings_heads]
        parts += [f"**{title}** ({about_set})\n\n{table(heads, rows)}\n"]
        if part == "yeast":
            parts += [searched_table()]
    trials = results_of("yeast")["runs"]["sparseleaf"]["trials"]
    return f"""### Table V: real datasets

The paper stops on the test set, 25 rounds after the best one, and reports the best round; so does "stopped on the test
set". "Stopped on a validation set" takes the number of rounds from a validation split of the training set and evaluates
the test set once. Settings are always chosen on the validation split, with the same stopping rule. Yeast and Student-por:
the same {trials} random settings for every method, on the splits of the scripts that the paper's authors published: rows
shuffled by `numpy.random.RandomState(seed)` for seeds 0 to 9, the first 70 % for training (Student-por, for which there is
no script, likewise). MNIST-inpainting: four settings, depth 6 or 8 with or without sampling 70 % of the rows per tree and
half of the features per node; CatBoost, which takes seconds per round, at most 250 rounds. ± is the standard error over
seeds. For Yeast, two other selection rules had been tried before and their test results seen: validation accuracy with
learning rates of 0.03 to 0.2 (sparseleaf 61.50, stopped on the test set) and validation loss with learning rates of 0.05
to 0.2 (sparseleaf 61.05, LightGBM 61.82). Chosen this way, no method reaches its result in the paper on these splits, and
the methods differ by less than the splits do.

{chr(10).join(parts)}"""


def searched_table() -> str:
    runs = results_of("yeast-searched")["runs"]
    rows = []
    for name, run in runs.items():
        paper = PAPER["yeast"].get(name)
        rows += [
            [
                name,
                f"{paper:.2f}" if paper else "",
                spread(run["searched"], 2),
                f"{drawn(run['settings'])}, {run['settings']['max_bins']} bins",
            ]
        ]
    return f"""The paper does not say on which rows its settings were chosen. The next table chooses them on the test set, too, out
of {runs["sparseleaf"]["trials"]} settings, the same for every method: those above and 36 around the paper's (depth 4 or 5, learning rates of
0.05 to 0.25, 32 bins, leaves of at least 4 or 16 rows, and, unlike the paper, a fifth, a half or all of the features per
node). Such results are optimistic, for sparseleaf a little more than for the others: some hundred other settings of
sparseleaf had been tried on the test set before. They are comparable with the paper's.

{table(["method", "paper", "accuracy, %, chosen on the test set", "settings"], rows)}
"""


def speed_table() -> str:
    results = results_of("mnist-speed")
    speed, prediction = results["runs"]["speed"], results["runs"].get("prediction")
    rows = [
        [name, f"{seconds:.3f}", f"{speed['over'][name]:.2f}"]
        for name, seconds in speed["seconds_per_round"].items()
    ]
    predicted = (
        ""
        if prediction is None
        else f"""
Prediction of 10,000 rows with {prediction["rounds"]} rounds: sparseleaf {1e3 * prediction["seconds"]["sparseleaf"]:.0f} ms, LightGBM
{1e3 * prediction["seconds"]["LightGBM"]:.0f} ms (ratio {prediction["over"]:.2f}).
"""
    )
    return f"""### Figure 5 and Table VI: time on MNIST

50,000 rows, {used(speed["settings"])}, 8 bins, two threads; the best of three runs. LightGBM grows ten
trees per round.

{table(["method", "s/round", "sparseleaf ÷ method"], rows)}
{predicted}"""


def sparse_tables() -> str:
    runs = results_of("sparse")["runs"]
    rows = []
    for name, digits in (("MNIST", 2), ("MNIST-inpainting", 5)):
        for title in dict.fromkeys(t.split(" / ")[1] for t in runs if t.startswith(f"{name} / ")):
            both = [runs.get(f"{name} / {title} / {form}") for form in ("restricted", "unrestricted")]
            both = [run for run in both if run] or [runs[f"{name} / {title}"]]
            rows += [
                [
                    f"{name}, {title}",
                    " / ".join(f"{run['held out']:.{digits}f}" for run in both),
                    " / ".join(f"{run['as the paper']:.{digits}f}" for run in both),
                    " / ".join(f"{run['seconds_per_round']:.3f}" for run in both),
                ]
            ]
    any_run = next(iter(runs.values()))
    return f"""### Tables VIII and IX: k outputs per leaf

Restricted / unrestricted. Accuracy in % on MNIST (depth 8), RMSE on MNIST-inpainting (depth 7); learning rate
{any_run["settings"]["learning_rate"]:g} and at most 120 rounds, fewer and larger steps than the paper's.

{table(["dataset, k", *reversed(STOPPING), "s/round"], rows)}
"""


def hessian_table() -> str:
    rows = [
        [title, spread(run["held out"], 2), spread(run["as the paper"], 2), f"{run['seconds_per_round']:.4f}"]
        for title, run in results_of("hessian")["runs"].items()
    ]
    return f"""### Table X: the exact Hessian

Accuracy in %; Yeast at depth 5, learning rate 0.1 and ten seeds, MNIST at depth 8, learning rate 0.3 and at most 120
rounds. The paper reports for diagonal and exact: MNIST 98.30 and 98.17, Yeast 62.29 and 62.89, at 5.0 and 8.5 times the
time.

{table(["dataset / hessian", *reversed(STOPPING), "s/round"], rows)}
"""


def many_outputs_table() -> str:
    runs = results_of("many-outputs")["runs"]
    alone = runs["dataset only"]["peak_bytes"]
    rows = [
        [name, f"{run['train_seconds']:.1f}", f"{run['peak_bytes'] / 1e9:.2f}", f"{run['rmse']:.3f}"]
        for name, run in runs.items()
        if "rmse" in run
    ]
    ours, peer = (
        next(run for name, run in runs.items() if name.startswith(system))
        for system in ("sparseleaf", "XGBoost")
    )
    return f"""### 1,000 outputs

20,000 synthetic rows of 50 features and 1,000 outputs; {used(ours["settings"])}, 64 bins, two threads, one process per method.
Dataset and imports take {alone / 1e9:.2f} GB of the peak memory. At the same number of rounds sparseleaf is
{peer["train_seconds"] / ours["train_seconds"]:.0f} times faster and needs {peer["peak_bytes"] / ours["peak_bytes"]:.1f} times less memory.

{table(["method", "training, s", "peak memory, GB", "test RMSE"], rows)}
"""


def results_of(part: str) -> dict:
    return read(f"gbdt_mo_{part.replace('-', '_')}")


def used(settings: dict) -> str:
    """The main settings in words."""
    words = [f"depth {settings['max_depth']}", f"learning rate {settings['learning_rate']:g}"]
    words += [f"{settings['max_leaves']} leaves"]
    if "subsample" in settings:
        words += [f"subsample {settings['subsample']:g}, colsample {settings['colsample_bynode']:g}"]
    return ", ".join(words)


def drawn(settings: dict) -> str:
    """Settings of a random search in words."""
    return f"{used(settings)}, min rows per leaf {settings['min_samples_leaf']}, l2 {settings['l2']:g}"
