"""Annif with the backend ``sparseleaf`` and with omikuji (Parabel and Bonsai), on the same corpus.

    python -m benchmarks.annif --data <folder> [--rows N] [--only NAME ...] [--out docs/results/annif.json]

German records of tibkat-gnd with title and abstract: training records, and development records to evaluate. Everything
runs through Annif's commands ``load-vocab``, ``train`` and ``eval``. Requires ``pip install 'annif[omikuji]'``. If NLTK
has no data for sentences ("punkt_tab"), it is trained on the corpus. Projects that are in --out are not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import dense_sets
from benchmarks._common import machine, measured, write_results

URI = "https://d-nb.info/gnd/"
ANALYSER = "analyzer=snowball(german)\n"
OMIKUJI = f"backend=omikuji\n{ANALYSER}min_df=2\n"
PROJECTS = {
    "omikuji Parabel": OMIKUJI,
    "omikuji Bonsai": f"{OMIKUJI}cluster_balanced=False\ncluster_k=100\nmax_depth=3\n",
    "sparseleaf": "backend=sparseleaf\n",
    "sparseleaf, snowball": f"backend=sparseleaf\n{ANALYSER}",
}
METRICS = ("F1@5", "Precision@1", "Precision@3", "Precision@5", "NDCG@5")


def records(path: Path, n: int) -> list[dict[str, Any]]:
    """German records, drawn at random."""
    with gzip.open(dense_sets.need(path), "rt") as file:
        german = [record for record in map(json.loads, file) if record["lang"] == "de"]
    return random.Random(0).sample(german, n)


def write_corpus(path: Path, some: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt") as file:
        for record in some:
            text = " ".join(f"{record['title']} . {record.get('abstract') or ''}".split())
            uris = " ".join(f"<{URI}{label.removeprefix('gnd:')}>" for label in record["labels"])
            file.write(f"{text}\t{uris}\n")


def prepare(folder: Path, data: Path, n_train: int, n_test: int) -> None:
    """Corpora, vocabulary and configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    train = records(data / "train.jsonl.gz", n_train)
    write_corpus(folder / "train.tsv.gz", train)
    write_corpus(folder / "test.tsv.gz", records(data / "dev.jsonl.gz", n_test))
    with gzip.open(data / "gnd_names.json.gz", "rt") as file:
        names = json.load(file)
    lines = (
        f"<{URI}{label.removeprefix('gnd:')}>\t{' '.join(name.split())}\n" for label, name in names.items()
    )
    (folder / "vocab.tsv").write_text("".join(lines))
    sections = (
        f"[{number(name)}]\nname={name}\nlanguage=de\nvocab=gnd\nlimit=100\n{settings}"
        for name, settings in PROJECTS.items()
    )
    (folder / "projects.cfg").write_text("\n".join(sections))
    sentences(folder, train)
    annif(folder, "load-vocab", "-L", "de", "gnd", "vocab.tsv")


def sentences(folder: Path, train: list[dict[str, Any]]) -> None:
    """Train NLTK's sentence tokeniser if its data is not installed."""
    import nltk
    from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

    try:
        nltk.sent_tokenize("One. Two.")
    except LookupError:
        place = folder / "tokenizers" / "punkt_tab"
        place.mkdir(parents=True, exist_ok=True)
        text = "\n".join(record.get("abstract") or "" for record in train[:3_000])
        save_punkt_params(
            PunktTrainer(text).get_params(), str(place / "english")
        )  # the language that Annif asks for


def number(name: str) -> str:
    """Annif's id of a project."""
    return f"p{list(PROJECTS).index(name)}"


def annif(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"ANNIF_PROJECTS": "projects.cfg", "ANNIF_DATADIR": "data", "NLTK_DATA": "."}
    command = [sys.executable, "-m", "sparseleaf.integrations.annif", *arguments]
    with (folder / "annif.log").open("ab") as log:  # progress bars
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=log, stderr=log)


def measure(folder: Path, name: str, times: bool) -> dict[str, Any]:
    """Train and evaluate a project."""
    project = number(name)
    _, train_seconds = measured(lambda: annif(folder, "train", project, "train.tsv.gz"))
    metrics = [word for metric in METRICS for word in ("-m", metric)]
    output = f"{project}.json"
    _, eval_seconds = measured(
        lambda: annif(folder, "eval", "-l", "5", "-M", output, *metrics, project, "test.tsv.gz")
    )
    values = json.loads((folder / output).read_text())
    files = [path for path in (folder / "data" / "projects" / project).rglob("*") if path.is_file()]
    return {
        **{metric: values[metric] for metric in METRICS},
        **({"train_seconds": train_seconds, "eval_seconds": eval_seconds} if times else {}),
        "bytes": sum(path.stat().st_size for path in files if "-train" not in path.name),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--test-rows", type=int, default=3_000)
    parser.add_argument("--out", type=Path, default=Path("docs/results/annif.json"))
    parser.add_argument("--work", type=Path, default=Path("results/annif"), help="folder for Annif's files")
    parser.add_argument("--no-times", action="store_true", help="if other work runs on the machine")
    parser.add_argument("--only", nargs="+", choices=PROJECTS, default=list(PROJECTS), metavar="NAME")
    arguments = parser.parse_args()
    about = {"rows": arguments.rows, "test_rows": arguments.test_rows}
    runs = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}
    if not (arguments.work / "data" / "vocabs").exists():
        prepare(arguments.work, arguments.data / "tibkat-gnd-text", *about.values())
    for name in arguments.only:
        if name in runs:
            continue
        runs[name] = measure(arguments.work, name, not arguments.no_times)
        print(f"{name:24s}", {key: round(value, 3) for key, value in runs[name].items()}, flush=True)
        write_results(arguments.out, {"machine": machine(), **about, "runs": runs})


if __name__ == "__main__":
    main()
