"""Annif's protocol: the suggestions are those of the estimator, in Annif's form."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from sparseleaf import SparseGBDTClassifier
from sparseleaf.serve import ServeOptions, create_app

TEXTS = ["knead dough bake bread", "onion soup bread", "goal final match", "won race"] * 10
SUBJECTS = [["urn:food", "urn:baking"], ["urn:food"], ["urn:sport", "urn:football"], ["urn:sport"]] * 10


@pytest.fixture(scope="module")
def estimator():
    return SparseGBDTClassifier(n_trees=20, min_samples_leaf=1).fit(TEXTS, SUBJECTS)


@pytest.fixture(scope="module")
def client(estimator, tmp_path_factory):
    path = tmp_path_factory.mktemp("annif") / "m"
    estimator.save(path)
    with TestClient(create_app(ServeOptions(model=str(path), name="tags", reload_seconds=0))) as client:
        yield client


def test_suggestions_are_those_of_the_estimator(client, estimator):
    answer = client.post("/v1/projects/tags/suggest", data={"text": "bake a bread", "limit": "2"})
    labels, scores = estimator.predict_topk(["bake a bread"], k=2)
    results = answer.json()["results"]
    assert [result["uri"] for result in results] == labels[0].tolist()
    assert [result["score"] for result in results] == pytest.approx([min(1, s) for s in scores[0].tolist()])


def test_batches(client):
    documents = [{"text": "goal", "document_id": "a"}, {"text": ""}]
    answer = client.post("/v1/projects/tags/suggest-batch?limit=1", json={"documents": documents}).json()
    assert [one["document_id"] for one in answer] == ["a", None]
    assert answer[0]["results"][0]["uri"] == "urn:sport"


def test_the_project_is_the_model(client):
    (project,) = client.get("/v1/projects").json()["projects"]
    assert client.get("/v1/projects/tags").json() == project
    assert (project["project_id"], project["is_trained"]) == ("tags", True)


@pytest.mark.parametrize(("path", "data", "status", "field"), [
    ("other", {"text": "x"}, 404, "project_id"),
    ("tags", {"limit": "2"}, 422, "text"),
    ("tags", {"text": "x", "limit": "-1"}, 422, "limit"),
    ("tags", {"text": "x", "limit": "1.5"}, 422, "limit"),
    ("tags", {"text": "x", "limit": "many"}, 422, "limit"),
    ("tags", {"text": "x", "threshold": "nan"}, 422, "threshold"),
    ("tags", {}, 422, "text"),
])  # fmt: skip
def test_invalid_forms(client, path, data, status, field):
    answer = client.post(f"/v1/projects/{path}/suggest", data=data)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)


def test_no_results_below_the_threshold_or_for_limit_zero(client):
    for data in ({"text": "bread", "limit": "0"}, {"text": "bread", "threshold": "1"}):
        assert client.post("/v1/projects/tags/suggest", data=data).json() == {"results": []}


def test_uris_of_the_model(tmp_path):
    subjects = [[subject.removeprefix("urn:") for subject in row] for row in SUBJECTS]
    uris = {"food": "https://example.org/1", "baking": "https://example.org/2"}
    estimator = SparseGBDTClassifier(n_trees=5, min_samples_leaf=1).fit(TEXTS, subjects).set_label_uris(uris)
    estimator.save(tmp_path / "m")
    with TestClient(create_app(ServeOptions(model=str(tmp_path / "m"), name="m"))) as client:
        results = client.post("/v1/projects/m/suggest", data={"text": "bake bread", "limit": "4"}).json()[
            "results"
        ]
        found = {one["label"]: one["uri"] for one in results}
        assert {"food", "baking"} <= found.keys()
        assert found == {label: uris.get(label, label) for label in found}
        (row,) = client.post("/v1/predict", json={"texts": ["bake bread"], "k": 4}).json()["predictions"]
        assert {one["label"]: one["uri"] for one in row["labels"]} == {
            one["label"]: uris.get(one["label"]) for one in row["labels"]
        }
        assert client.get("/v1/model").json()["has_uris"]
