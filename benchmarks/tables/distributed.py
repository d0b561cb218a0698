"""Many machines: speed, traffic, what breaks."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "distributed.md"


def summary() -> str:
    results = read("distributed")
    return f"""## Many machines

Speed, traffic, Yahoo!'s table and what breaks are on [the page of many machines](distributed.md#measured).

`python -m benchmarks.distributed`, `python -m benchmarks.kill`, on {about(results["machine"])}.
"""


def page() -> str:
    """The page of many machines with its tables made anew."""
    return with_tables(PAGE, tables())


def tables() -> str:
    results = read("distributed")
    runs = {
        part: {name: run for name, run in found.items() if name != "scale"}
        for part, found in results.items()
        if part != "machine"
    }
    made = []
    if "speed" in runs:
        heads = [
            "50 features, 32 outputs, 32 bins, depth 7",
            "rows",
            "one, s a tree",
            "two, s a tree",
            "times as fast",
        ]
        rows = [
            [name, f"{run['rows']:,}", f"{run['one']:.3f}", f"{run['two']:.3f}", f"{run['times']:.2f}"]
            for name, run in runs["speed"].items()
        ]
        made.append(table(heads, rows))
    if "traffic" in runs:
        rows = [
            [name, f"{run['received']:,.0f}", f"{run['formula']:,.0f}", f"{run['share']:.2f}"]
            for name, run in runs["traffic"].items()
        ]
        made.append(table(["bytes a worker receives for a tree", "measured", "formula", "ratio"], rows))
    if "yahoo" in runs:
        theirs = [
            ["Yahoo!, MapReduce by rows", "1,200,000", "12,660"],
            ["Yahoo!, MapReduce by features, 20 machines", "1,200,000", "28"],
            ["Yahoo!, MPI, 10 machines", "1,200,000", "5"],
        ]
        ours = [
            [f"{name}, 2 workers", f"{run['rows']:,}", f"{run['seconds']:.2f}"]
            for name, run in runs["yahoo"].items()
        ]
        made.append(table(["500 features, 63 nodes", "rows", "s a tree"], [*theirs, *ours]))
    if "plan" in runs:
        heads = ["10⁹ rows × 10⁶ labels, 100 machines (modelled)", "computing, s", "network, s", "s a tree"]
        rows = [
            [name, *(f"{runs['plan'][name][part]:,.1f}" for part in ("compute", "network", "seconds"))]
            for name in ("by rows", "by features")
        ]
        made.append(table(heads, rows))
    heads = ["`kill -9` at a random moment", "times", "killed", "hung", "the same bytes in the end"]
    made.append(table(heads, kills()))
    told = (
        f"`python -m benchmarks.distributed`, `python -m benchmarks.kill`, on {about(results['machine'])}.\n"
    )
    how = "Workers of one thread each, all on one machine; one and two of them in turns, the best of three turns."
    return "\n\n".join([how, *made, told])


def kills() -> list[list[str]]:
    results = read("kill")
    return [
        [
            name,
            str(len(results[engine])),
            str(sum(run["killed"] for run in results[engine])),
            str(sum(run.get("code") == "hang" for run in results[engine])),
            str(sum(run["same"] for run in results[engine])),
        ]
        for engine, name in (("mpi", "a rank of three, then the same command"), ("dask", "a worker of three"))
        if engine in results
    ]
