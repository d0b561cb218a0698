"""Distributed training: speed-up, traffic, fault tolerance."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "distributed.md"


def summary() -> str:
    results = read("distributed")
    return f"""## Distributed training

Speed-up, traffic, Yahoo!'s table and fault tolerance are on [the page on distributed training](distributed.md#measured).

`python -m benchmarks.distributed`, `python -m benchmarks.kill`, on {about(results["machine"])}.
"""


def page() -> str:
    """The page on distributed training with its tables regenerated."""
    return with_tables(PAGE, tables())


def tables() -> str:
    results = read("distributed")
    runs = {
        part: {name: run for name, run in measured.items() if name != "scale"}
        for part, measured in results.items()
        if part != "machine"
    }
    parts = []
    if "speed" in runs:
        heads = [
            "50 features, 32 outputs, 32 bins, depth 7",
            "rows",
            "one worker, s/tree",
            "two workers, s/tree",
            "speed-up",
        ]
        rows = [
            [name, f"{run['rows']:,}", f"{run['one']:.3f}", f"{run['two']:.3f}", f"{run['times']:.2f}"]
            for name, run in runs["speed"].items()
        ]
        parts.append(table(heads, rows))
    if "spark" in runs:
        heads = [
            "50 features, 32 outputs, 32 bins, depth 7", "rows", "one worker, s/tree", "two workers, s/tree", "speed-up",
            "two MPI ranks, s/tree", "`fit` of 8 trees on a DataFrame, s",
        ]  # fmt: skip
        rows = [
            [
                name, f"{run['rows']:,}", f"{run['one']:.3f}", f"{run['two']:.3f}", f"{run['times']:.2f}",
                f"{run['mpi']:.3f}", f"{run['frame']['fit']:.1f}",
            ]
            for name, run in runs["spark"].items()
        ]  # fmt: skip
        parts.append(table(heads, rows))
    if "traffic" in runs:
        rows = [
            [name, f"{run['received']:,.0f}", f"{run['formula']:,.0f}", f"{run['share']:.2f}"]
            for name, run in runs["traffic"].items()
        ]
        parts.append(table(["bytes received per worker and tree", "measured", "formula", "ratio"], rows))
    if "yahoo" in runs:
        theirs = [
            ["Yahoo!, MapReduce by rows", "1,200,000", "12,660"],
            ["Yahoo!, MapReduce by features, 20 machines", "1,200,000", "28"],
            ["Yahoo!, MPI, 10 machines", "1,200,000", "5"],
        ]
        ours = [
            [f"sparseleaf, {name}, 2 workers", f"{run['rows']:,}", f"{run['seconds']:.2f}"]
            for name, run in runs["yahoo"].items()
        ]
        parts.append(table(["500 features, 63 nodes", "rows", "s/tree"], [*theirs, *ours]))
    if "plan" in runs:
        heads = ["10⁹ rows × 10⁶ labels, 100 machines (modelled)", "compute, s", "network, s", "s/tree"]
        rows = [
            [name, *(f"{runs['plan'][name][part]:,.1f}" for part in ("compute", "network", "seconds"))]
            for name in ("by rows", "by features")
        ]
        parts.append(table(heads, rows))
    heads = ["`kill -9` at a random moment", "runs", "killed", "hung", "identical models"]
    parts.append(table(heads, kills()))
    source = (
        f"`python -m benchmarks.distributed`, `python -m benchmarks.kill`, on {about(results['machine'])}.\n"
    )
    how = "Workers of one thread each, all on one machine; runs with one and two workers alternate, the best of three counts."
    return "\n\n".join([how, *parts, source])


def kills() -> list[list[str]]:
    results = read("kill")
    return [
        [
            name,
            str(len(results[engine])),
            str(sum(run["killed"] for run in results[engine])),
            str(sum(run.get("code") == "hang" or run.get("hung", False) for run in results[engine])),
            str(sum(run["same"] for run in results[engine])),
        ]
        for engine, name in (
            ("mpi", "one of three MPI ranks; the command is repeated"),
            ("dask", "one of three Dask workers"),
            ("spark", "one of three Spark executors"),
        )
        if engine in results
    ]
