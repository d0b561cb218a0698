"""Malformed requests to the server: every response must be a 4xx with a JSON error.

    python -m benchmarks.fuzz_serve [--count 10000] [--seed 0]

Starts a server with a small model and sends requests that are wrong by construction: truncated JSON, bytes that are not
UTF-8, values of wrong types and ranges, missing, unknown and contradictory fields, deep nesting, forms.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sparseleaf import SparseGBDTClassifier

N_FEATURES = 30
PREDICT, SUGGEST, BATCH = "/v1/predict", "/v1/projects/m/suggest", "/v1/projects/m/suggest-batch"
WORDS = ("bread", "", "ä", "\U0001f35e", "\u0000", "NaN", "rows", "-1")

Request = tuple[str, bytes]


def valid(rng: random.Random) -> dict[str, Any]:
    """A request that the server accepts."""
    indices = rng.sample(range(N_FEATURES), rng.randint(1, 5))
    return {"rows": [{"indices": indices, "values": [rng.random() for _ in indices]}], "k": rng.randint(1, 9)}


def anything(rng: random.Random, depth: int = 0) -> Any:
    """A JSON value."""
    kinds = [
        None,
        True,
        rng.randint(-(10**18), 10**18),
        rng.random() * 10 ** rng.randint(-9, 300),
        rng.choice(WORDS),
    ]
    if depth < 3:
        kinds.append([anything(rng, depth + 1) for _ in range(rng.randint(0, 3))])
        kinds.append({rng.choice(WORDS): anything(rng, depth + 1) for _ in range(rng.randint(0, 3))})
    return rng.choice(kinds)


def but(rng: random.Random, accepted: type | tuple[type, ...]) -> Any:
    """A JSON value of another type; numbers include their notation as strings."""
    while True:
        value = anything(rng)
        if isinstance(value, bool) or not isinstance(value, accepted):
            return value


def _truncated(rng: random.Random) -> Request:
    text = json.dumps(valid(rng)).encode()
    return PREDICT, text[: rng.randrange(len(text))]


def _not_utf8(rng: random.Random) -> Request:
    body = valid(rng) | {"unknown": "x"}
    return PREDICT, json.dumps(body).encode().replace(b'"x"', bytes([34, rng.randint(0x80, 0xFF), 34]))


def _bytes(rng: random.Random) -> Request:
    return PREDICT, b"\x00" + rng.randbytes(rng.randint(0, 200))


def _nested(rng: random.Random) -> Request:
    depth = rng.randint(10, 5_000)
    return PREDICT, b'{"rows": ' + b"[" * depth + b"]" * rng.choice((depth, depth - 1)) + b"}"


def _not_an_object(rng: random.Random) -> Request:
    return PREDICT, json.dumps(but(rng, dict)).encode()


def _field_type(rng: random.Random) -> Request:
    body = valid(rng)
    name = rng.choice(("rows", "k", "threshold", "probabilities", "explain"))
    wrong = {"rows": 5, "k": "many", "threshold": "high", "probabilities": 2, "explain": "perhaps"}
    body[name] = rng.choice((wrong[name], {"a": 1}, [[]] if name != "rows" else "x"))
    return PREDICT, json.dumps(body).encode()


def _range(rng: random.Random) -> Request:
    body = valid(rng)
    body["k"] = rng.choice((0, -1, -(10**30), 10**30, 1_001, 1.5, 1e308))
    return PREDICT, json.dumps(body).encode()


def _row(rng: random.Random) -> Request:
    body = valid(rng)
    row = body["rows"][0]
    kind = rng.randrange(7)
    if kind == 0:
        row["indices"][0] = rng.choice((-1, N_FEATURES, 2**31, 2**63, 10**40, 0.5, "x", None, []))
    elif kind == 1:
        row["values"][0] = rng.choice(("x", None, [], {}, 1e39, -1e300))
    elif kind == 2:
        row["values"].append(1.0)
    elif kind == 3:
        del row[rng.choice(("indices", "values"))]
    elif kind == 4:
        row[f"other{rng.randint(0, 9)}"] = anything(rng)
    elif kind == 5:
        body["rows"] = rng.choice(([], [row] * 1_001, [None], [[]], [5]))
    else:
        text = json.dumps(body)
        return PREDICT, text.replace(
            "[0.", rng.choice(("[NaN, 0.", "[Infinity, 0.", "[-, 0.", "[1e, 0.")), 1
        ).encode()
    return PREDICT, json.dumps(body).encode()


def _fields(rng: random.Random) -> Request:
    body = valid(rng)
    kind = rng.randrange(4)
    if kind == 0:
        body[f"unknown{rng.randint(0, 99)}"] = anything(rng)
    elif kind == 1:
        body[rng.choice(("dense", "texts", "records"))] = [[]]
    elif kind == 2:
        del body["rows"]
    else:
        body["probabilities"] = True  # the model has none
    return PREDICT, json.dumps(body).encode()


def _dense(rng: random.Random) -> Request:
    n = rng.choice([n for n in range(60) if n != N_FEATURES])
    body = rng.choice(
        ({"dense": [[0.0] * n]}, {"dense": [["x"] * N_FEATURES]}, {"dense": [[1e300] * N_FEATURES]})
    )
    return PREDICT, json.dumps(body).encode()


def _text(rng: random.Random) -> Request:
    return PREDICT, json.dumps(
        {"texts": [rng.choice(WORDS)] * rng.randint(1, 3)}
    ).encode()  # not a text model


def _form(rng: random.Random) -> Request:
    fields = {"text": "bread", "limit": "5", "threshold": "0"}
    kind = rng.randrange(4)
    if kind == 0:
        fields["limit"] = rng.choice(("-1", "x", "1.5", "", "1e400", "99999", "nan"))
    elif kind == 1:
        fields["threshold"] = rng.choice(("-1", "2", "x", "", "nan", "inf"))
    elif kind == 2:
        del fields["text"]
    else:
        return SUGGEST, rng.randbytes(rng.randint(0, 50)).replace(b"=", b"&")
    return SUGGEST, urlencode(fields).encode()


def _batch(rng: random.Random) -> Request:
    body = rng.choice((
        {}, {"documents": 5}, {"documents": [{}]}, {"documents": [{"text": 5}]}, {"documents": [{"text": "a"}] * 33},
        {"documents": [{"text": "a", "document_id": []}]}, [], None, "x",
    ))  # fmt: skip
    return BATCH, json.dumps(body).encode()


MALFORMED: tuple[Callable[[random.Random], Request], ...] = (
    _truncated, _not_utf8, _bytes, _nested, _not_an_object, _field_type, _range, _row, _fields, _dense, _text, _form,
    _batch,
)  # fmt: skip


def malformed(rng: random.Random) -> Request:
    """A path and a body that must be refused."""
    return rng.choice(MALFORMED)(rng)


def content_type(path: str) -> str:
    return "application/x-www-form-urlencoded" if path == SUGGEST else "application/json"


def train(path: Path) -> None:
    """The model of the server: without texts and probabilities."""
    from sparseleaf.data import make_xc

    X, Y = make_xc(200, N_FEATURES, 8, labels_per_row=2, nnz_per_row=5, seed=1)
    SparseGBDTClassifier(n_trees=3, calibrate=None).fit(X, Y).save(path)


def main() -> None:
    from benchmarks.serve import server

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, counts, failures = random.Random(arguments.seed), Counter[int](), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        train(path)
        with server(path, 1) as address:
            connection = http.client.HTTPConnection(address, timeout=30)
            for _ in range(arguments.count):
                place, body = malformed(rng)
                connection.request("POST", place, body, {"Content-Type": content_type(place)})
                response = connection.getresponse()
                answer = response.read()
                counts[response.status] += 1
                if not 400 <= response.status < 500 or "error" not in json.loads(answer):
                    failures += 1
                    print(response.status, place, body[:200], answer[:200])
    print(dict(sorted(counts.items())))
    if failures:
        sys.exit(f"{failures} of {arguments.count} malformed requests were not refused")


if __name__ == "__main__":
    main()
