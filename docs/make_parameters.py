"""Write docs/parameters.md from the one definition of the parameters: ``python docs/make_parameters.py``."""

from __future__ import annotations

from pathlib import Path

from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.estimators.parameters import former_arguments, moved_to

PAGE = Path(__file__).with_name("parameters.md")

HEAD = """# Parameters

<!-- Made by docs/make_parameters.py; do not edit. -->

Give them by name in Python, `SparseGBDTClassifier(n_trees=200)`, or on the command line, `--set n_trees=200`
(`none` is None). The last column is the symbol of the paper, where it has one.

**Advanced parameters**, which are rarely changed, are entries of one mapping:
`SparseGBDTClassifier(advanced={"growth": "best-first"})`; on the command line they are set like all others,
`--set growth=best-first`. `set_params(advanced__growth="best-first")` changes one entry, and so does `advanced__growth` in a
grid of scikit-learn's searches. `SparseGBDTClassifier.from_settings({"n_trees": 200, "growth": "best-first"})` takes both
kinds from one mapping, such as a configuration file.
"""

TABLE = """
## {names}

{about}

| parameter | default | may be | meaning | paper |
|---|---|---|---|---|
"""

ADVANCED = """
Advanced:

| parameter | default | may be | meaning | paper |
|---|---|---|---|---|
"""

SPARSE_TAIL = """
### Parameters to tune first

1. **`n_trees` and `learning_rate`.** More and smaller steps are better, fewer and larger ones faster: halve the one when
   you double the other. `eval_set` in `fit`, or `--valid` on the command line, shows when more trees stop helping, and
   `early_stopping_rounds` acts on it.
2. **`leaf_labels` and `leaf_min_gain`.** A model's size, its training memory and a row's prediction time grow with the
   first; the second drops entries that hardly help, and is the gentler way to a small model.
3. **`min_samples_leaf`.** Small leaves (5 to 20) are more accurate where rows are few; large ones (100, the paper's) give
   models a tenth of the size.

Then `colsample_bynode` (0.1 to 0.5), and `projection_dim` where features are many.
"""

LDSM_TAIL = """
### Parameters to tune first

1. **`rerank="log"`** where labels have few rows each.
2. **`max_nodes` and `n_trees`.** Larger trees and more of them are better, at their cost; gains fade behind 20 to 50
   trees.
3. **`lambda_2`.** 2 was better than the authors' 1 in our trials. It should not be far below `lambda_1 * (arity - 1)`:
   every row then goes everywhere, and no split is accepted.
4. **`epochs`.** 3 to 5 are a good deal faster than 20, and hardly worse in an ensemble. **`prune`** makes routers small
   where features are many.
"""

MULTI_TAIL = """
### Parameters to tune first

1. **`n_trees` and `learning_rate`**, with `eval_set` and `early_stopping_rounds`.
2. **`max_leaves` and `min_samples_leaf`.** Few rows want few leaves of many rows.
3. **`l2`, `subsample` and `colsample_bytree`** where training rows are fitted much better than others.

`leaf_labels`, `split` and `sketch_dim` matter where outputs are many: [several outputs](many-outputs.md).
"""

RANKER_TAIL = """
### Parameters to tune first

1. **`n_trees` and `learning_rate`**, with `eval_set` and `early_stopping_rounds`. GBRank averages its trees: it wants
   `subsample` below 1, more leaves, and rates of 0.3 to 1.
2. **`loss`.** LambdaMART with `metric="ndcg"` where grades matter, with `"map"` where documents are relevant or not.
3. **`max_leaves`, `min_samples_leaf`, `subsample`.** The slides have 2,500 trees of 20 leaves.
"""

FOREST_TAIL = """
### Parameters to tune first

1. **`n_trees`.** More trees never hurt; cost and size grow with them.
2. **`rerank`** where labels are many and rare.
3. **`min_samples_leaf`, `label_weight`, `arity`.** Small leaves and label weights of 0 to 0.5 for most data; wider nodes
   make smaller models of shallow trees.
4. **`router_weights`.** Fewer make a smaller model, and cost little until they are below 100.
"""

PARTS = (
    (
        (SparseGBDTClassifier,),
        "`--method gbdt-sparse`. The paper is [GBDT-SPARSE](papers/gbdt-sparse.md).",
        SPARSE_TAIL,
    ),
    (
        (MultiGBDTRegressor, MultiGBDTClassifier),
        "`--method gbdt-mo`. The paper is GBDT-MO; see [several outputs](many-outputs.md).",
        MULTI_TAIL,
    ),
    (
        (GBDTRanker,),
        "`--method rank`. The losses and their symbols are on the page of "
        "[GBDT on Hadoop](papers/gbdt-on-hadoop.md).",
        RANKER_TAIL,
    ),
    (
        (SketchForestClassifier,),
        "`--method forest`. The idea and what it gives: [the sketch forest](forest.md).",
        FOREST_TAIL,
    ),
    ((LdSMClassifier,), "`--method ldsm`. The paper is [LdSM](papers/ldsm.md).", LDSM_TAIL),
)


FORMER = """
## Names of version 0.1

They work, with a `FutureWarning`, until the release after next.

| estimator | name | now |
|---|---|---|
"""

FORMER_VALUES = """
| parameter | value | now |
|---|---|---|
"""


def page() -> str:
    """The whole text."""
    return HEAD + "".join(part(*arguments) for arguments in PARTS) + former()


def former() -> str:
    """Where the arguments and values of the last release are now."""
    names, values = [], {}
    for estimators, _, _ in PARTS:
        table = estimators[0].parameter_table
        shown = ", ".join(f"`{estimator.__name__}`" for estimator in estimators)
        moved = former_arguments(table)
        same = [f"`{name}`" for name, one in moved.items() if one.advanced and name == one.name]
        names.append(f"| {shown} | {', '.join(same)} | `advanced={{name: value}}` |\n")
        names += [
            f"| {shown} | `{name}` | `{now}` |\n"
            for name, one in moved.items()
            for now in [moved_to(one).strip("'").replace("…", "value")]
            if name != one.name
        ]
        for estimator in estimators:
            for one in estimator.parameter_table.values():
                values |= {(one.name, old): new for old, new in one.former_values.items()}
    rows = [f"| `{name}` | `{old!r}` | `{new!r}` |\n" for (name, old), new in values.items()]
    return FORMER + "".join(names) + FORMER_VALUES + "".join(rows)


def part(estimators: tuple[type, ...], about: str, tail: str) -> str:
    names = " and ".join(f"`{estimator.__name__}`" for estimator in estimators)
    table = estimators[0].parameter_table
    front, others = (
        "".join(
            "| " + " | ".join(cells) + " |\n"
            for parameter in table.values()
            if parameter.advanced == advanced
            for cells in variants(estimators, parameter.name)
        )
        for advanced in (False, True)
    )
    return TABLE.format(names=names, about=about) + front + (ADVANCED + others) + tail


def variants(estimators: tuple[type, ...], name: str) -> list[tuple[str, ...]]:
    """The row of a parameter: one that estimators share, or else a row for each of them."""
    rows = {}
    for estimator in estimators:
        parameter = estimator.parameter_table[name]
        cells = (
            f"`{parameter.default!r}`",
            parameter.values.text,
            parameter.description.replace("|", "\\|"),
            parameter.symbol,
        )
        rows.setdefault(cells, []).append(f"`{estimator.__name__}`")
    if len(rows) == 1:
        return [(f"`{name}`", *cells) for cells in rows]
    return [(f"`{name}` of {', '.join(owners)}", *cells) for cells, owners in rows.items()]


if __name__ == "__main__":
    PAGE.write_text(page())
