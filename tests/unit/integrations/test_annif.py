"""The real Annif: through its ``http`` backend and a server, and with the backend ``sparseleaf``."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("annif")

from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

import sparseleaf
from sparseleaf import SketchForestClassifier

pytestmark = pytest.mark.slow

SUBJECTS = {
    "food": "bread soup onion dough bake",
    "sport": "goal match race final",
    "sea": "ship wave harbour sail",
}
URIS = {name: f"https://example.org/{name}" for name in SUBJECTS}
TEXTS = [
    (f"{first} and {second} {extra}", [name])
    for name, words in SUBJECTS.items()
    for first in words.split()
    for second in words.split()
    for extra in ("today", "again", "the old")
]
PROJECTS = """
[direct]
name=direct
language=en
backend=sparseleaf
vocab=topics
limit=10
allow_learn=true
n_trees=10
vectorizer__ngram_range=1,2

[analysed]
name=analysed
language=en
backend=sparseleaf
vocab=topics
analyzer=snowball(english)
method=gbdt-sparse
n_trees=10

[remote]
name=remote
language=en
backend=http
vocab=topics
endpoint=http://127.0.0.1:{port}/v1/projects/model/suggest
"""
SETTINGS = {"ANNIF_PROJECTS": "projects.cfg", "ANNIF_DATADIR": "data", "NLTK_DATA": "."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Annif's configuration, vocabulary and corpora, and a model with the URIs of labels."""
    folder = tmp_path_factory.mktemp("annif")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "projects.cfg").write_text(PROJECTS.format(port=port))
    (folder / "port").write_text(str(port))
    (folder / "vocab.tsv").write_text("".join(f"<{uri}>\t{name}\n" for name, uri in URIS.items()))
    lines = [f"{text}\t{' '.join(f'<{URIS[name]}>' for name in names)}\n" for text, names in TEXTS]
    for name, some in (("train", lines[::2] + lines[1::4]), ("test", lines[3::4])):
        with gzip.open(folder / f"{name}.tsv.gz", "wt") as file:
            file.writelines(some)
    (folder / "new.tsv").write_text("yoghurt drink\t<https://example.org/food>\n" * 20)
    texts, labels = zip(*TEXTS, strict=True)
    model = SketchForestClassifier(n_trees=10, verbose=0).fit(list(texts), list(labels))
    model.set_label_uris(URIS).save(folder / "model.safetensors")
    sentences = PunktTrainer(" ".join(f"{text}." for text in texts))  # instead of NLTK's, which is a download
    (folder / "tokenizers" / "punkt_tab").mkdir(parents=True)
    save_punkt_params(sentences.get_params(), str(folder / "tokenizers" / "punkt_tab" / "english"))
    annif(folder, "load-vocab", "topics", folder / "vocab.tsv", language="en")
    return folder


def annif(folder, *arguments, text="", ours=True, language=None):
    """Run a command of Annif: its own, or the one with our backend."""
    program = ["-m", "sparseleaf.integrations.annif"] if ours else ["-c", "from annif.cli import cli; cli()"]
    options = ["-L", language] if language else []
    done = subprocess.run(
        [sys.executable, *program, *map(str, arguments), *options],
        input=text, capture_output=True, text=True, cwd=folder, timeout=300,
        env=os.environ | SETTINGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def hits(output):
    """URIs and scores of the lines that ``annif suggest`` prints."""
    rows = (line.split("\t") for line in output.splitlines())
    return [(row[0].strip("<>"), float(row[-1])) for row in rows]


@pytest.fixture(scope="module")
def server(folder):
    port = (folder / "port").read_text()
    command = [sys.executable, "-m", "sparseleaf", "serve", str(folder / "model.safetensors"), "--port", port]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()


@pytest.mark.parametrize("text", ["bread and soup", "a race to the harbour", "goal"])
def test_the_http_backend_of_an_unmodified_annif(folder, server, text):
    estimator = sparseleaf.load(folder / "model.safetensors")
    likely = estimator.predict_proba([text], 3).toarray()[0]
    labels, _ = estimator.predict_topk([text], k=3)
    expected = [(URIS[name], likely[estimator.classes_.tolist().index(name)]) for name in labels[0] if name]
    suggested = hits(annif(folder, "suggest", "remote", text=text, ours=False))
    assert [uri for uri, _ in suggested] == [uri for uri, score in expected if score > 0]
    assert [score for _, score in suggested] == pytest.approx([s for _, s in expected if s > 0], abs=1e-4)


def test_evaluation_through_http(folder, server):
    assert "True" in annif(folder, "list-projects", ours=False)
    shown = annif(folder, "eval", "-l", "1", "remote", folder / "test.tsv.gz", ours=False)
    assert _metric(shown, "F1 score (doc avg)") == 1


@pytest.mark.parametrize("project", ["direct", "analysed"])
def test_train_suggest_and_eval(folder, project):
    annif(folder, "train", project, folder / "train.tsv.gz")
    (uri, score), *_ = hits(annif(folder, "suggest", project, text="onion soup with bread"))
    assert uri == URIS["food"]
    assert 0.5 < score <= 1
    for jobs in ("1", "2"):
        shown = annif(folder, "eval", "-l", "1", "-j", jobs, project, folder / "test.tsv.gz")
        assert _metric(shown, "F1 score (doc avg)") == 1
    assert annif(folder, "suggest", project, "-l", "0", text="onion soup") == ""


def test_learn(folder):
    annif(folder, "train", "direct", folder / "train.tsv.gz")
    path = folder / "data" / "projects" / "direct" / "sparseleaf.safetensors"
    before = sparseleaf.load(path)
    annif(folder, "learn", "direct", folder / "new.tsv")
    after = sparseleaf.load(path)
    assert after.model_.n_train_rows == before.model_.n_train_rows + 20
    assert sorted(after.classes_) == sorted(URIS.values())


def test_what_is_wrong_is_said(folder):
    def failed(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "sparseleaf.integrations.annif", *map(str, arguments)],
            capture_output=True, text=True, cwd=folder, timeout=300,
            env=os.environ | SETTINGS,
        )  # fmt: skip
        assert done.returncode != 0
        return done.stderr

    train = ("train", "direct", folder / "train.tsv.gz", "-b")
    assert "method must be one of" in failed(*train, "sparseleaf.method=svm")
    assert "'n_trees' parameter must be" in failed(*train, "sparseleaf.n_trees=many")
    assert "cached data" in failed("train", "direct", "--cached")
    (folder / "empty.tsv").write_text("")
    assert "Cannot train without documents" in failed("train", "direct", folder / "empty.tsv")


def _metric(shown, name):
    return float(re.search(rf"^{re.escape(name)}:\s+([\d.]+)", shown, re.MULTILINE).group(1))


def test_the_web_application(folder):
    script = """
import json
from starlette.testclient import TestClient
from sparseleaf.integrations.annif import create_app
with TestClient(create_app()) as client:
    print(client.get("/v1/projects/direct").text)
    print(client.post("/v1/projects/direct/suggest", data={"text": "onion soup"}).text)
"""
    annif(folder, "train", "direct", folder / "train.tsv.gz")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=300,
        env=os.environ | SETTINGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    decoder, answers, rest = json.JSONDecoder(), [], done.stdout.strip()
    while rest:
        answer, end = decoder.raw_decode(rest)
        answers.append(answer)
        rest = rest[end:].strip()
    assert answers[0]["backend"]["backend_id"] == "sparseleaf"
    assert answers[1]["results"][0]["uri"] == URIS["food"]
