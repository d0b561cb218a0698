"""Subject indexing from records to suggestions: JSON lines to a model to labels, one command each.

    python -m benchmarks.records --data <folder> [--out results/records.json] [--set NAME=VALUE ...] [--peers] [--names]
        [--dictionary FILE]

The dataset is tibkat-gnd-text: records of a library with title and abstract, in German and English, and subjects
of the GND, from LLMs4Subjects (SemEval-2025 task 5). Both commands run as a user types them, and their CPU time, peak
memory and output are measured. ``--peers`` trains Bonsai (omikuji) on the features of the same vectorizer; ``--names``
trains another model with the names of the labels, and ``--dictionary`` a third one whose German names are also
translated to English, by a file of ``sparseleaf.data.Dictionary`` (measured with Ding's dictionary 1.9 of TU Chemnitz,
Debian's package trans-de-en). ``--only`` limits the number of records, to test the script.

F1@5 of the development records is given twice. ``F1@5 (task)``: the harmonic mean of the mean precision@5 and the mean
recall@5, as the task's evaluation script computes it. ``F1@5 (mean)``: the mean F1 of the records, as Annif's ``eval``
reports it, which the published figures of components are. Those were measured on 13,666 development records, all of
them translated to one language (de or en), and with translated and synthetic training records besides: they stand for
orientation, not for a comparison.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks._common import commit, in_child, machine, write_results

NAME = "tibkat-gnd-text"
K = 5
THREADS = 2
FREQUENCIES = {"no record": (0, 0), "1 to 4": (1, 4), "5 to 19": (5, 19), "20 or more": (20, 10**9)}
"""Groups of labels by their number of training records."""

PUBLISHED = {
    "omikuji Bonsai": {"de": 0.300, "en": 0.323},
    "XTransformer": {"de": 0.293, "en": 0.309},
    "best ensemble": {"de": 0.334, "en": 0.350},
}
"""F1@5 (mean) of the components of the winning team, trained and evaluated on translated records."""


def read_records(path):
    """All records of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def scores(records, predicted):
    """Metrics of the records of each language and of all."""
    result = {}
    for language in ("de", "en", "all"):
        pairs = [
            (set(record["labels"]), labels[:K])
            for record, labels in zip(records, predicted, strict=True)
            if language in (record["lang"], "all")
        ]
        hits = [len(true.intersection(labels)) for true, labels in pairs]
        precision = sum(hits) / (K * len(pairs))
        recall = sum(n / len(true) for n, (true, _) in zip(hits, pairs, strict=True)) / len(pairs)
        result[language] = {
            "records": len(pairs),
            "P@1": sum(labels[0] in true for true, labels in pairs if labels) / len(pairs),
            "P@5": precision,
            "R@5": recall,
            "F1@5 (task)": 2 * precision * recall / (precision + recall) if precision else 0.0,
            "F1@5 (mean)": sum(2 * n / (K + len(true)) for n, (true, _) in zip(hits, pairs, strict=True))
            / len(pairs),
        }
    return result


def recall_by_frequency(records, predicted, train):
    """Recall@5 of the labels by their number of training records."""
    counts = Counter(label for record in read_records(train) for label in record["labels"])
    total, hits = Counter(), Counter()
    for record, labels in zip(records, predicted, strict=True):
        for label in record["labels"]:
            group = next(name for name, (low, high) in FREQUENCIES.items() if low <= counts[label] <= high)
            total[group] += 1
            hits[group] += label in labels[:K]
    return {name: {"labels": total[name], "R@5": hits[name] / max(1, total[name])} for name in FREQUENCIES}


def run(*arguments):
    """Run ``sparseleaf`` in a process: seconds, CPU seconds and peak memory."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "sparseleaf", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"sparseleaf {arguments[0]} failed with exit code {process.returncode}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1e3 if sys.platform != "darwin" else usage.ru_maxrss / 1e6,
    }


def ours(train, dev, folder, text, settings, label_info=None, dictionary=None):
    """Train from JSON lines and predict, with the command line; ``label_info`` are names of the labels, which
    ``dictionary`` translates."""
    model, output = folder / "model.safetensors", folder / "top.jsonl"
    options = [word for setting in settings for word in ("--set", setting)]
    for option, file in (("--label-info", label_info), ("--dictionary", dictionary)):
        options += [] if file is None else [option, file]
    training = run("train", train, "--text", text, "--labels", "labels", "-m", model, "-j", THREADS, *options)
    prediction = run("predict", model, dev, "-k", K, "--id", "id", "--json", "-j", THREADS, "-o", output)
    lines = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    predicted = {line["id"]: line["labels"] for line in lines}
    records = read_records(dev)
    best = [predicted[record["id"]] for record in records]
    return {
        "train": training,
        "predict": prediction,
        "model_mb": model.stat().st_size / 1e6,
        "by_frequency": recall_by_frequency(records, best, train),
        **scores(records, best),
    }


def bonsai(train, dev, model):
    """Bonsai on the features of our model's vectorizer; in a process of its own."""
    import numpy as np

    import sparseleaf
    from benchmarks.sets import Split
    from benchmarks.systems import BONSAI
    from benchmarks.systems.base import Task, TimeBudget, folder_bytes
    from benchmarks.systems.label_trees import Omikuji
    from sparseleaf.data import encode_targets

    loaded = sparseleaf.load(model)
    records = read_records(train)
    targets = encode_targets([record["labels"] for record in records])
    split = Split(loaded.vectorizer_.transform(records), targets.matrix, None, None)
    with tempfile.TemporaryDirectory() as folder:
        task = Task("multilabel", {}, {}, THREADS, TimeBudget(3600, may_stop=False))
        system = Omikuji(task, BONSAI)
        system.prepare(split, Path(folder))
        began, cpu = time.perf_counter(), time.process_time()
        system.fit(split)
        training = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        saved = Path(folder) / "model"
        saved.mkdir()
        system.save(saved)
        size = folder_bytes(saved)
    others = read_records(dev)
    ids = system.predict(loaded.vectorizer_.transform(others))
    names = np.append(targets.names, None)
    return {"train": training, "model_mb": size / 1e6, **scores(others, names[ids].tolist())}


def shortened(path, count, folder):
    """The first records of a file."""
    if count is None:
        return path
    with gzip.open(path, "rb") as source, gzip.open(folder / path.name, "wb") as target:
        target.writelines(itertools.islice(source, count))
    return folder / path.name


def show(results):
    """A table of F1@5."""
    print(f"{'F1@5':30} {'de':>7} {'en':>7} {'all':>7}")
    for name, figures in results["systems"].items():
        for metric in ("F1@5 (task)", "F1@5 (mean)"):
            row = "".join(f" {figures[language][metric]:7.4f}" for language in ("de", "en", "all"))
            print(f"{name + metric.removeprefix('F1@5'):30}{row}")
    for name, values in PUBLISHED.items():
        print(f"{name + ' (published, mean)':30} {values['de']:7.3f} {values['en']:7.3f}       –")
    for name, figures in results["systems"].items():
        training = figures["train"]
        memory = f", {training['peak_mb']:,.0f} MB of memory" if "peak_mb" in training else ""
        print(
            f"{name}: training {training['seconds']:.0f} s ({training['cpu_seconds']:.0f} s of CPU){memory},"
            f" model {figures['model_mb']:.0f} MB"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/records.json"))
    parser.add_argument("--text", default="title,abstract")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--only", type=int, metavar="N", help="the first N records of both files")
    parser.add_argument("--names", action="store_true", help="with label names (--label-info), too")
    parser.add_argument("--only-names", action="store_true", help="with label names only")
    parser.add_argument("--dictionary", type=Path, help="with translated label names, too; German to English")
    parser.add_argument("--add", action="store_true", help="keep the systems of an earlier run in --out")
    parser.add_argument("--peers", action="store_true", help="Bonsai (omikuji) on the same features, too")
    arguments = parser.parse_args()
    files = [arguments.data / NAME / f"{part}.jsonl.gz" for part in ("train", "dev")]
    for file in files:
        if not file.is_file():
            sys.exit(f"The dataset {NAME!r} was not found in --data {arguments.data}: {file} does not exist.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, dev = (shortened(file, arguments.only, folder) for file in files)
        systems = {}
        if not arguments.only_names:
            systems["sparseleaf"] = ours(train, dev, folder, arguments.text, arguments.settings)
        if arguments.peers and not arguments.only_names:
            model = folder / "model.safetensors"
            systems["Bonsai, same features"] = in_child("bonsai", str(train), str(dev), str(model))["result"]
        names = arguments.data / NAME / "gnd_names.json.gz"
        if arguments.names or arguments.only_names:
            systems["sparseleaf, label names"] = ours(
                train, dev, folder, arguments.text, arguments.settings, names
            )
        if arguments.dictionary:
            systems["sparseleaf, translated label names"] = ours(
                train, dev, folder, arguments.text, arguments.settings, names, arguments.dictionary
            )
    earlier = {}
    if arguments.add and arguments.out.exists():
        earlier = json.loads(arguments.out.read_text())["systems"]
    results = {
        "systems": earlier | systems,
        "published": PUBLISHED,
        "text": arguments.text,
        "settings": arguments.settings,
        "machine": machine(),
        "commit": commit(),
    }
    write_results(arguments.out, results)
    show(results)


if __name__ == "__main__":
    main()
