"""Malformed requests get a 4xx with a JSON error; a longer version is benchmarks/fuzz_serve.py."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from benchmarks.fuzz_serve import MALFORMED, content_type, train
from sparseleaf.serve import ServeOptions, create_app


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "m"
    train(path)
    with TestClient(create_app(ServeOptions(model=str(path), name="m", reload_seconds=0))) as client:
        yield client


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_requests_are_refused(client, kind):
    rng = random.Random(1)
    for _ in range(40):
        path, body = kind(rng)
        answer = client.post(path, content=body, headers={"Content-Type": content_type(path)})
        assert 400 <= answer.status_code < 500, (path, body[:200], answer.text[:200])
        assert answer.json()["error"]["message"]


def test_a_wrong_method_names_the_right_one(client):
    answer = client.get("/v1/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
