"""The web application: predictions equal those of the estimator; what is wrong with a request is said in JSON."""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import pytest

from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTRegressor,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.data import make_xc

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from sparseleaf.serve import ServeOptions, create_app
from sparseleaf.serve.endpoint import PredictEndpoint
from sparseleaf.serve.holder import ModelHolder
from sparseleaf.serve.telemetry import JsonLines

X, Y = make_xc(200, 30, 8, labels_per_row=2, nnz_per_row=5, seed=1)
NAMES = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"])
LISTS = [NAMES[row.indices].tolist() for row in Y]


def sparse_rows(X):
    return [{"indices": row.indices.tolist(), "values": row.data.tolist()} for row in X]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "tagger.safetensors"
    estimator = SparseGBDTClassifier(n_trees=10, min_samples_leaf=5).fit(X, LISTS)
    estimator.save(path)
    return path, estimator


@pytest.fixture(scope="module")
def client(model):
    options = ServeOptions(model=str(model[0]), name="tagger", max_rows=50, max_body=20_000, max_labels=8)
    with TestClient(create_app(options)) as client:
        yield client


def predict(client, **request):
    return client.post("/v1/predict", json=request)


@pytest.mark.parametrize("n_rows", [1, 50])
def test_sparse_rows_get_the_labels_of_the_estimator(client, model, n_rows):
    answer = predict(client, rows=sparse_rows(X[:n_rows]), k=3)
    labels, scores = model[1].predict_topk(X[:n_rows], k=3)
    assert answer.status_code == 200
    rows = [row["labels"] for row in answer.json()["predictions"]]
    assert [[one["label"] for one in row] for row in rows] == labels.tolist()
    np.testing.assert_array_equal([[one["score"] for one in row] for row in rows], scores)
    assert answer.json()["model"] == "tagger"


def test_dense_rows_are_the_same_rows(client):
    dense = predict(client, dense=X[:5].toarray().tolist(), k=2).json()
    assert dense["predictions"] == predict(client, rows=sparse_rows(X[:5]), k=2).json()["predictions"]


def test_duplicate_and_unsorted_features_are_summed(client):
    rows = [{"indices": [7, 2, 7], "values": [0.25, 1, 0.75]}, {"indices": [2, 7], "values": [1, 1]}]
    first, second = predict(client, rows=rows).json()["predictions"]
    assert first == second


def test_labels_below_the_threshold_are_left_out(client, model):
    _, scores = model[1].predict_topk(X[:1], k=8)
    least = float(np.sort(scores[0])[-2])
    (row,) = predict(client, rows=sparse_rows(X[:1]), k=8, threshold=least).json()["predictions"]
    assert len(row["labels"]) == int((scores[0] >= least).sum())


@pytest.mark.parametrize(
    ("request_", "status", "field", "message"),
    [
        ({"rows": [{"indices": [1, 30], "values": [1, 1]}]}, 422, "rows.0.indices.1", "Features must be below 30"),
        ({"rows": [{"indices": [1], "values": [1, 2]}]}, 422, "rows.0", "the same length"),
        ({"rows": [{"indices": [-1], "values": [1]}]}, 422, "rows.0.indices.0", "greater than or equal to 0"),
        ({"rows": [{"indices": [1], "values": ["x"]}]}, 422, "rows.0.values.0", "valid number"),
        ({"rows": [{"indices": [1], "values": [1e300]}]}, 422, "rows", "infinity"),
        ({"rows": [{"indices": [2**70], "values": [1]}]}, 422, "rows.0.indices.0", "less than 2147483648"),
        ({"dense": [[1, 2]]}, 422, "dense.0", "must have 30 numbers. Got 2 instead"),
        ({"rows": []}, 422, "rows", "from 1 to 50 rows. Got 0"),
        ({"rows": [{"indices": [], "values": []}] * 51}, 422, "rows", "from 1 to 50 rows. Got 51"),
        ({}, 422, None, "exactly one of rows, dense, texts, records. Got none"),
        ({"rows": [], "dense": []}, 422, None, "Got rows, dense instead"),
        ({"rows": [{"indices": [], "values": []}], "k": 0}, 422, "k", "greater than or equal to 1"),
        ({"rows": [{"indices": [], "values": []}], "k": 9}, 422, "k", "at most 8"),
        ({"texts": ["ant"]}, 422, "texts", "not trained on text"),
        ({"rows": [{"indices": [], "values": []}], "colour": 1}, 422, "colour", "not permitted"),
        ({"rows": [{"indices": [1], "values": [1]}], "probabilities": True}, 422, "probabilities", "calibrat"),
        ({"records": [{"a": {"b": 1}}]}, 422, "records", "not trained on named columns"),
        ({"dense": [[0.5] * 30] * 200}, 413, None, "at most 20,000 bytes"),
    ],
)  # fmt: skip
def test_invalid_requests_name_the_field(client, request_, status, field, message):
    import re

    answer = predict(client, **request_)
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (status, field)
    assert re.search(message, error["message"])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"rows": NaN}', b"[" * 5000])
def test_bodies_that_are_no_requests_are_refused(client, body):
    answer = client.post("/v1/predict", content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


def test_a_body_without_announced_length_is_limited(client):
    def chunks():
        for _ in range(40):
            yield b" " * 1000

    answer = client.post("/v1/predict", content=chunks())
    assert answer.status_code == 413


def test_state_of_the_server(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json()["status"] == "ready"
    model = client.get("/v1/model").json()
    assert (model["estimator"], model["n_labels"], model["task"]) == (
        "SparseGBDTClassifier",
        8,
        "classification",
    )
    assert "<textarea" in client.get("/").text
    answer = client.get("/no/such/path")
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Not Found")


def test_metrics_count_requests_and_rows(client):
    def value(name):
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    before = value("sparseleaf_rows_total")
    predict(client, rows=sparse_rows(X[:3]))
    client.get("/secret/path")
    assert value("sparseleaf_rows_total") == before + 3
    assert "secret" not in client.get("/metrics").text


def test_the_api_is_described(client):
    document = client.get("/openapi.json").json()
    schema = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) >= {"rows", "dense", "texts", "records", "k"}
    assert "SparseRow" in document["components"]["schemas"]


def test_a_token_is_required(model):
    options = ServeOptions(model=str(model[0]), token="secret", reload_seconds=0)
    with TestClient(create_app(options)) as client:
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
            answer = client.get("/v1/model", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/v1/model", headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.get("/health").status_code == 200


def test_requests_have_a_time_limit(model, monkeypatch):
    import asyncio

    async def slow(*arguments):
        await asyncio.sleep(60)

    monkeypatch.setattr(PredictEndpoint, "answer", slow)
    with TestClient(create_app(ServeOptions(model=str(model[0]), timeout=0.01, reload_seconds=0))) as client:
        answer = predict(client, rows=sparse_rows(X[:1]))
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            504,
            "The request took longer than 0.01 s.",
        )


def test_an_error_of_the_server_tells_nothing_of_it(model, monkeypatch):
    async def broken(*arguments):
        raise RuntimeError("password")

    monkeypatch.setattr(PredictEndpoint, "answer", broken)
    options = ServeOptions(model=str(model[0]), reload_seconds=0)
    with TestClient(create_app(options), raise_server_exceptions=False) as client:
        answer = predict(client, rows=sparse_rows(X[:1]))
        assert answer.status_code == 500
        assert "password" not in answer.text


def test_probabilities_and_explanations(tmp_path):
    clf = LdSMClassifier(n_trees=5).fit(X, LISTS).fit_calibration(X, LISTS)
    clf.save(tmp_path / "m")
    with TestClient(create_app(ServeOptions(model=str(tmp_path / "m"), reload_seconds=0))) as client:
        answer = predict(client, rows=sparse_rows(X[:3]), k=2, probabilities=True, explain=True).json()
    likely = clf.predict_proba(X[:3])
    labels, _ = clf.predict_topk(X[:3], k=2)
    for number, row in enumerate(answer["predictions"]):
        assert [one["label"] for one in row["labels"]] == labels[number].tolist()
        for one in row["labels"]:
            assert one["score"] == likely[number, NAMES.tolist().index(one["label"])]
            reasons = one["explanation"]
            total = reasons["base"] + sum(word["contribution"] for word in reasons["features"])
            assert total + reasons["other_features"] == pytest.approx(reasons["score"], abs=1e-5)


@pytest.mark.parametrize("make", ["regressor", "ranker"])
def test_outputs_of_regressors_and_rankers(tmp_path, make):
    if make == "regressor":
        estimator = MultiGBDTRegressor(n_trees=3).fit(X.toarray(), Y.toarray()[:, :2])
    else:
        estimator = GBDTRanker(n_trees=3).fit(X.toarray(), Y.toarray()[:, 0].astype(int), group=[100, 100])
    estimator.save(tmp_path / "m")
    with TestClient(create_app(ServeOptions(model=str(tmp_path / "m"), reload_seconds=0))) as client:
        rows = predict(client, dense=X[:4].toarray().tolist()).json()["predictions"]
        values = [list(row["outputs"].values()) for row in rows]
        np.testing.assert_array_equal(np.squeeze(values), np.squeeze(estimator.predict(X[:4].toarray())))
        assert predict(client, dense=[[0.0] * 30], explain=True).json()["error"]["field"] == "explain"


def test_a_replaced_model_is_used_and_a_broken_one_is_not(tmp_path, caplog):
    path, other = tmp_path / "m", tmp_path / "other"
    SparseGBDTClassifier(n_trees=2).fit(X, Y).save(path)
    LdSMClassifier(n_trees=3).fit(X, Y).save(other)
    holder = ModelHolder(str(path), 1)
    assert not holder.refresh(), "it did not change"
    shutil.copy(other, tmp_path / "draft")
    (tmp_path / "draft").replace(path)
    assert holder.refresh()
    assert isinstance(holder.current.estimator, LdSMClassifier)
    (tmp_path / "draft").write_bytes(b"broken")
    (tmp_path / "draft").replace(path)
    with caplog.at_level(logging.ERROR, "sparseleaf.serve"):
        assert not holder.refresh()
        assert not holder.refresh(), "it is tried once"
    assert len(caplog.records) == 1
    path.unlink()
    assert not holder.refresh()
    assert isinstance(holder.current.estimator, LdSMClassifier)


def test_one_text_for_a_model_of_several_fields(tmp_path):
    """It is the field of the longest texts: what the page of the server and Annif's protocol send."""
    records = [
        {"title": "bread", "abstract": "knead the dough and bake it", "year": 2001},
        {"title": "race", "abstract": "they won the final match of the year", "year": 2002},
    ] * 20
    vectorizer = TextVectorizer(fields=["title", "abstract"], numeric="year")
    clf = SparseGBDTClassifier(n_trees=3, min_samples_leaf=1, vectorizer=vectorizer)
    clf.fit(records, [["food"], ["sport"]] * 20).save(tmp_path / "m")
    labels, scores = clf.predict_topk([{"abstract": "bake the dough"}], k=2)
    expected = [
        {"label": label, "score": score}
        for label, score in zip(labels[0].tolist(), scores[0].tolist(), strict=True)
        if label is not None
    ]
    with TestClient(create_app(ServeOptions(model=str(tmp_path / "m"), name="m"))) as client:
        nested = predict(client, records=[records[0], {"title": {"a": 1}}]).json()
        assert nested["error"]["field"] == "records.1.title"
        (row,) = predict(client, texts=["bake the dough"], k=2).json()["predictions"]
        assert row["labels"] == expected
        answer = client.post("/v1/projects/m/suggest", data={"text": "bake the dough", "limit": "2"}).json()
        assert [one["label"] for one in answer["results"]] == [
            one["label"] for one in expected if one["score"] > 0
        ]


def test_large_requests_do_not_block_the_server(model, monkeypatch):
    """They are predicted in another thread."""
    import threading

    from sparseleaf.serve import endpoint

    threads = []

    def observed(loaded, request, options):
        threads.append(threading.current_thread().name)
        return []

    monkeypatch.setattr(endpoint, "predict", observed)
    with TestClient(create_app(ServeOptions(model=str(model[0]), reload_seconds=0))) as client:
        for request in ({"texts": ["a"]}, {"texts": ["a" * 200_000]}, {"texts": ["a"] * 9}):
            predict(client, **request)
    loop, *others = threads
    assert loop not in others


def test_logs_are_json_lines():
    record = logging.makeLogRecord({"msg": "request", "levelname": "INFO", "name": "x", "path": '/a"b\n'})
    entry = json.loads(JsonLines().format(record))
    assert (entry["message"], entry["path"], entry["level"]) == ("request", '/a"b\n', "info")


def test_behind_a_proxy_with_a_path_the_api_is_the_same(model):
    """Servers put the path of the proxy before that of the request; FastAPI removes it."""
    options = ServeOptions(model=str(model[0]), reload_seconds=0)
    with TestClient(create_app(options), root_path="/tags") as client:
        body = {"rows": sparse_rows(X[:1])}
        assert (
            client.post("/tags/v1/predict", json=body).json() == client.post("/v1/predict", json=body).json()
        )
