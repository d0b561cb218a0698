"""GBDT-MO: the tables of the paper, redone."""

from __future__ import annotations

from statistics import mean

from benchmarks.tables.common import DOCS, about, read, spread, table, with_tables

PAGE = DOCS / "papers" / "gbdt-mo.md"


# What the GBDT-MO paper has, for the tables that are redone.
PAPER = {
    "friedman1": {"ours": 0.1429, "ours, a tree per output": 0.1540},
    "random projection": {"ours": 0.0180, "ours, a tree per output": 0.0204},
    "mnist": {"ours": 98.30, "ours, a tree per output": 98.08, "XGBoost": 97.86, "LightGBM": 98.03},
    "yeast": {"ours": 62.29, "ours, a tree per output": 61.97, "XGBoost": 62.94, "LightGBM": 61.97},
    "student-por": {
        "ours": 0.24392,
        "ours, a tree per output": 0.24408,
        "XGBoost": 0.24623,
        "LightGBM": 0.24466,
    },
    "inpainting": {
        "ours": 0.26025,
        "ours, a tree per output": 0.26157,
        "XGBoost": 0.26088,
        "LightGBM": 0.26090,
    },
}


OUTPUTS = {"friedman1": 5, "random projection": 8}


SETS = {
    "mnist": ("MNIST, accuracy in %", 2, "50,000 rows, 8 bins, leaves of at least 16 rows"),
    "yeast": ("Yeast, accuracy in %", 2, "70 % of 1,484 rows, ten seeds, 255 bins"),
    "student-por": ("Student-por, RMSE", 4, "70 % of 649 rows, ten seeds, 8 bins"),
    "inpainting": ("MNIST-inpainting, RMSE", 5, "50,000 rows, 16 bins, leaves of at least 4 rows"),
}


def summary() -> str:
    """Ours beside the paper, for the page of all results."""
    rows = []
    for part, name, digits in (
        ("synthetic", "friedman1 / ours", 4),
        ("synthetic", "random projection / ours", 4),
        ("mnist", "ours, rows and features sampled", 2),
        ("yeast", "ours", 2),
        ("student-por", "ours", 4),
        ("inpainting", "ours", 5),
    ):
        run = results_of(part)["runs"][name]
        what = name.split(" / ")[0] if part == "synthetic" else SETS[part][0]
        paper = PAPER[what if part == "synthetic" else part]["ours"]
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
            "Yeast, settings, too, by the test rows",
            f"{PAPER['yeast']['ours']:.2f}",
            spread(results_of("yeast-searched")["runs"]["ours"]["searched"], 2),
            "",
        ]
    ]
    return f"""## GBDT-MO

RMSE where nothing else is said; "as the paper" stops on the test rows, "held out" does not look at them. The tables, with
XGBoost, LightGBM and CatBoost beside ours, times and memory, are on [the paper's page](papers/gbdt-mo.md).

{table(["set", "paper", "as the paper", "held out"], rows)}

`python -m benchmarks.gbdt_mo_paper --data DIR`, on {about(results_of("mnist")["machine"])}.
"""


def page() -> str:
    """The paper's page with its tables made anew."""
    return with_tables(PAGE, tables())


def tables() -> str:
    made = (table_3, table_5, speed_table, sparse_tables, hessian_table, many_outputs_table)
    return (
        "\n".join(part() for part in made)
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
                f"{mean(run['rounds']) * (OUTPUTS[name] if method != 'ours' else 1):.0f}",
                used(run["settings"]),
            ]
        ]
    long = results_of("synthetic-long")["runs"]
    for title, run in long.items():
        n_rounds = run["settings"]["n_trees"]
        trees = n_rounds * (OUTPUTS["random projection"] if run["settings"].get("tree_per_output") else 1)
        cells = [title, "", "", spread(run["rmse"], 5), str(n_rounds), str(trees), used(run["settings"])]
        rows += [cells]
    heads = ["set / method", "paper", "as the paper", "held out", "rounds", "trees", "settings"]
    return f"""### Table III: made-up sets, RMSE

Five seeds, 10,000 rows to train and to test, 255 bins, leaves of at least 4 rows, 2,000 rounds at most; depth chosen
with the first seed, the paper's from 4 up. "A tree per output" is the paper's GBDT-SO, which has five and eight times as
many trees in as many rounds. Random projection has no noise, and 2,000 rounds are too few for it: the last rows have as
many as the authors' scripts allow, are never stopped, and choose between the depths and rates of the others and trees of
one level at a rate of 1.

{table(heads, rows)}

So on the set with noise one tree for all is better round by round. On that without it is as good in the end, with an
eighth of the trees, and far better than as many trees for one output each.
"""


def table_5() -> str:
    parts = []
    for part, (title, digits, about_set) in SETS.items():
        rows = []
        for name, run in results_of(part)["runs"].items():
            own = name.startswith("ours") and "tree per output" not in name
            paper = PAPER[part].get("ours" if own else name.removesuffix(", the paper's settings"))
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
                settings_heads = ["settings, as the paper", "settings, held out"]
            else:
                cells += [used(run["settings"])]
                settings_heads = ["settings"]
            rows += [cells]
        heads = ["method", "paper", "as the paper", "held out", "rounds", *settings_heads]
        parts += [f"**{title}** ({about_set})\n\n{table(heads, rows)}\n"]
        if part == "yeast":
            parts += [searched_table()]
    trials = results_of("yeast")["runs"]["ours"]["trials"]
    return f"""### Table V: real sets

The paper stops on the test rows, 25 rounds after the best one, and reports the best; "as the paper" does so too. "Held
out" takes the rounds from training rows that were held out and sees the test rows once. Settings are always chosen on a
held-out part of the training rows, by the same rule of stopping. Yeast and Student-por: the same {trials} settings,
drawn at random, for every method. Their splits are those of the scripts that the paper's authors published: rows shuffled
by `numpy.random.RandomState(seed)` for seeds 0 to 9, the first 70 % to train (for Student-por, of which they published no
script, the same). MNIST-inpainting: four settings, depth 6 or 8 with or without sampling 70 % of the rows and half of the
features of a node; CatBoost, a round of which takes seconds, had 250 rounds at most. ± is the standard error over seeds. For Yeast two
other ways to choose had been tried before, and their test results seen: by held-out accuracy from rates of 0.03 to 0.2
(ours 61.50 as the paper) and by held-out loss from rates of 0.05 to 0.2 (ours 61.05, LightGBM 61.82). Chosen
so, no method comes to its figure in the paper on these splits, and the methods differ by less than the splits do.

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
    return f"""The paper names no rows that its settings were chosen on. With settings, too, chosen by the test rows, of
{runs["ours"]["trials"]}, the same for every method: those above, and 36 around what the paper found for its methods
(depth 4 or 5, rates of 0.05 to 0.25, 32 bins, leaves of at least 4 or 16 rows, and, which it did not have, a fifth, a half or all
of the features a node). These figures are too good by what such a search finds by chance, ours a little more: some hundred
other settings of ours had been tried on the test rows before these were settled on. They compare with the paper's.

{table(["method", "paper", "accuracy in %, all by the test rows", "settings"], rows)}
"""


def speed_table() -> str:
    results = results_of("mnist-speed")
    speed, prediction = results["runs"]["speed"], results["runs"].get("prediction")
    rows = [
        [name, f"{seconds:.3f}", f"{speed['over'][name]:.2f}"]
        for name, seconds in speed["seconds_a_round"].items()
    ]
    predicted = (
        ""
        if prediction is None
        else f"""
Prediction of 10,000 rows through {prediction["rounds"]} rounds: ours {1e3 * prediction["seconds"]["ours"]:.0f} ms, LightGBM
{1e3 * prediction["seconds"]["LightGBM"]:.0f} ms ({prediction["over"]:.2f} of it).
"""
    )
    return f"""### Figure 5 and Table VI: time on MNIST

50,000 rows, {used(speed["settings"])}, 8 bins, two threads; the best of three turns, since the machine is shared.
LightGBM grows ten trees a round.

{table(["method", "seconds a round", "ours ÷ it"], rows)}
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
                    " / ".join(f"{run['seconds_a_round']:.3f}" for run in both),
                ]
            ]
    any_run = next(iter(runs.values()))
    return f"""### Tables VIII and IX: k outputs a leaf

Restricted / unrestricted. Accuracy in % on MNIST (depth 8), RMSE on MNIST-inpainting (depth 7); learning rate
{any_run["settings"]["learning_rate"]:g} and at most 120 rounds, fewer and larger steps than the paper's.

{table(["set, k", "held out", "as the paper", "seconds a round"], rows)}
"""


def hessian_table() -> str:
    rows = [
        [title, spread(run["held out"], 2), spread(run["as the paper"], 2), f"{run['seconds_a_round']:.4f}"]
        for title, run in results_of("hessian")["runs"].items()
    ]
    return f"""### Table X: the exact Hessian

Accuracy in %; Yeast at depth 5, learning rate 0.1 and ten seeds, MNIST at depth 8, learning rate 0.3 and at most 120
rounds. The paper has, diagonal and exact: MNIST 98.30 and 98.17, Yeast 62.29 and 62.89, at 5.0 and 8.5 times the time.

{table(["set / Hessian", "held out", "as the paper", "seconds a round"], rows)}
"""


def many_outputs_table() -> str:
    runs = results_of("many-outputs")["runs"]
    alone = runs["the set alone"]["peak_bytes"]
    rows = [
        [name, f"{run['train_seconds']:.1f}", f"{run['peak_bytes'] / 1e9:.2f}", f"{run['rmse']:.3f}"]
        for name, run in runs.items()
        if "rmse" in run
    ]
    ours, peer = (
        next(run for name, run in runs.items() if name.startswith(who)) for who in ("ours", "XGBoost")
    )
    return f"""### 1,000 outputs

20,000 made-up rows of 50 features and 1,000 outputs; {used(ours["settings"])}, 64 bins, two threads, a process for each.
The set itself, and what is imported, take {alone / 1e9:.2f} GB of the peak. With as many rounds ours takes
1/{peer["train_seconds"] / ours["train_seconds"]:.0f} of the time and 1/{peer["peak_bytes"] / ours["peak_bytes"]:.1f} of the memory.

{table(["method", "train, s", "peak, GB", "test RMSE"], rows)}
"""


def results_of(part: str) -> dict:
    return read(f"gbdt_mo_{part.replace('-', '_')}")


def used(settings: dict) -> str:
    """Settings in a few words."""
    words = [f"depth {settings['max_depth']}", f"rate {settings['learning_rate']:g}"]
    words += [f"{settings['max_leaves']} leaves"]
    if "subsample" in settings:
        words += [f"rows {settings['subsample']:g}, features {settings['colsample_bynode']:g}"]
    return ", ".join(words)


def drawn(settings: dict) -> str:
    """The same for settings of which all were drawn."""
    return f"{used(settings)}, {settings['min_samples_leaf']} rows a leaf, l2 {settings['l2']:g}"
