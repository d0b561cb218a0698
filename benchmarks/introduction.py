"""The introduction of the benchmark page: which systems and datasets, how they are measured, what "tuned" means."""

from __future__ import annotations

from benchmarks.results import Records
from benchmarks.suites import SUITES
from benchmarks.systems import SYSTEMS

KINDS = {
    "multilabel": "multi-label",
    "multiclass": "multi-class",
    "regression": "multi-output regression",
    "ranking": "ranking",
}


def introduction(records: Records) -> str:
    peers = [key for key in measured_systems(records) if not SYSTEMS[key].ours]
    n_datasets = sum(len(suite.cases) for suite in SUITES.values() if not suite.axis)
    baselines = [SYSTEMS[key].name for key in peers if SYSTEMS[key].baseline]
    others = [SYSTEMS[key].name for key in peers if not SYSTEMS[key].baseline]
    return f"""sparseleaf against {len(peers)} other systems on {n_datasets} datasets. {commit_sentence(records)}
[Versions, settings](#systems-and-settings) and [machine](#machine-and-commit) are at the end of the page;
[how to run it yourself](reproduce.md).

- **Systems**: {", ".join(others)}{f"; as baselines {' and '.join(baselines)}" if baselines else ""}.
- **Datasets**: {datasets()}; and synthetic ones of growing size.
- **Not measured**: PECOS, since its package `libpecos` 1.2.8 requires numpy below 2 and scipy below 1.14, older than
  those with which all systems here run; transformers and other deep networks (XR-Transformer, AttentionXML), which need
  a GPU.
- Every system on every dataset runs in its own process with a time limit, a memory limit and a number of threads.
- **Training time** includes binning and projection, not reading the dataset. **Prediction time** is for all test rows
  in one call (fastest of up to five). **Model size** is that of the saved file. **Peak memory** is of the whole
  process, dataset included.
- **Tuned**: the parameters of "SparseGBDT (tuned)", "SketchForest (tuned)" and, on multi-label datasets, LdSM were
  chosen on rows held out of the training set.
  SparseGBDT: number of trees and learning rate, leaf size, depth, labels per leaf, feature and row sampling, bins,
  sketch, loss, l2. LdSM: number of nodes and trees, epochs, λ2, pruning, re-ranking. SketchForest: number of trees,
  sketch, arity, leaf size, router size, sampling, label weights, re-ranking. The values are
  [below](#systems-and-settings); the [results page](results.md) lists test results that had been seen before. No other
  system is tuned, neither a peer nor another system of sparseleaf.
- Systems of sparseleaf are in **bold**.
"""


def measured_systems(records: Records) -> list[str]:
    """Keys of the systems with records, in the order of the tables."""
    keys = {name.split("/")[2] for name in records}
    return [key for key in SYSTEMS if key in keys]


def datasets() -> str:
    """The datasets by kind of task."""
    parts = []
    for kind, title in KINDS.items():
        suites = [suite for suite in SUITES.values() if suite.kind == kind and not suite.axis]
        names = [
            suite.title if len(suite.cases) == 1 else f"{suite.title} ({', '.join(suite.cases)})"
            for suite in suites
        ]
        parts.append(f"{title}: {', '.join(names)}")
    return "; ".join(parts)


def commit_sentence(records: Records) -> str:
    """The commits of sparseleaf, and how many results are from runs that did not record theirs."""
    ours = [record for name, record in records.items() if is_ours(name) and record["status"] == "ok"]
    commits = sorted({record["commit"][:7] for record in ours if known_commit(record)})
    earlier = sum(not known_commit(record) for record in ours)
    text = f"{earlier} of {len(ours)} results of sparseleaf are from earlier runs, whose commit was not recorded."
    if commits:
        names = " and ".join(f"`{commit}`" for commit in commits)
        text = f"sparseleaf is measured at commit{'s' * (len(commits) > 1)} {names}." + f" {text}" * (
            earlier > 0
        )
    peers = [record for name, record in records.items() if not is_ours(name)]
    measured = [record for record in peers if record["status"] == "ok"]
    earlier_peers = sum(not known_commit(record) for record in measured)
    if earlier or not earlier_peers:
        return text
    return (
        f"{text} {earlier_peers} of {len(measured)} results of other systems, and what exceeded a limit, are from an"
        " earlier run on the same machine."
    )


def is_ours(name: str) -> bool:
    return SYSTEMS[name.split("/")[2]].ours


def known_commit(record: dict) -> bool:
    return record.get("commit", "unknown") != "unknown"
