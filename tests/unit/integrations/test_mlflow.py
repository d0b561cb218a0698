"""MLflow: what is loaded and scored equals the estimator; runs have what the training had."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlflow")

with warnings.catch_warnings(action="ignore"):  # its own, on import
    import mlflow.pyfunc
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from sklearn.model_selection import cross_val_score

from sparseleaf import (
    GBDTRanker,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.data import make_xc, save_xc
from sparseleaf.integrations import mlflow as flavour
from sparseleaf.integrations.mlflow import MLflowCallback, autolog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:mlflow"),
]  # fmt: skip

X, Y = make_xc(200, 30, 8, labels_per_row=2, nnz_per_row=5, seed=1)
NAMES = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"])
LISTS = [NAMES[row.indices].tolist() for row in Y]
TEXTS = ["knead dough bake bread", "onion soup bread", "goal final match", "won race"] * 20
TOPICS = [["food", "baking"], ["food"], ["sport", "football"], ["sport"]] * 20


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture(autouse=True)
def experiment(database, tmp_path, monkeypatch, request):
    """An empty experiment, and no autologging afterwards."""
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(database)
    place = f"file://{tmp_path}/artifacts"
    mlflow.set_experiment(experiment_id=mlflow.create_experiment(request.node.name, artifact_location=place))
    yield
    autolog(disable=True)
    assert mlflow.active_run() is None


@pytest.fixture(scope="module")
def labels_model():
    return SparseGBDTClassifier(n_trees=10, min_samples_leaf=5).fit(X, LISTS).fit_calibration(X, LISTS)


@pytest.fixture(scope="module")
def text_model():
    return SketchForestClassifier(n_trees=5).fit(TEXTS, TOPICS)


def scored(estimator, path, data, params=None, **options):
    """Predictions of the saved model."""
    flavour.save_model(estimator, path / "m", **options)
    return mlflow.pyfunc.load_model(str(path / "m")).predict(data, params=params)


def runs():
    return mlflow.search_runs(output_format="list", order_by=["attributes.start_time ASC"])


def metric(run, name):
    return [(one.step, one.value) for one in mlflow.MlflowClient().get_metric_history(run.info.run_id, name)]


# --- the flavour


def test_a_saved_model_is_our_file_and_no_pickle(labels_model, tmp_path):
    flavour.save_model(labels_model, tmp_path / "m", extra_pip_requirements=["pandas"])
    labels_model.save(tmp_path / "plain")
    assert (tmp_path / "m" / "data" / "model.safetensors").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not [path for path in (tmp_path / "m").rglob("*") if path.suffix in (".pkl", ".pickle")]
    config = Model.load(str(tmp_path / "m")).flavors
    assert config["sparseleaf"]["model_class"] == "SparseGBDTClassifier"
    assert config["python_function"]["loader_module"] == "sparseleaf.integrations.mlflow"
    requirements = (tmp_path / "m" / "requirements.txt").read_text().split()
    assert {*flavour.get_default_pip_requirements(), "pandas"} <= set(requirements)
    assert any(line.startswith("mlflow") for line in requirements)


def test_a_logged_model_is_loaded_by_run_and_by_registered_version(labels_model):
    with mlflow.start_run():
        info = flavour.log_model(labels_model, "tags", registered_model_name="tagger", input_example=X[:3])
    for uri in (info.model_uri, "models:/tagger/1"):
        loaded = flavour.load_model(uri, n_jobs=1)
        assert isinstance(loaded, SparseGBDTClassifier)
        np.testing.assert_array_equal(loaded.predict_topk(X)[1], labels_model.predict_topk(X)[1])
        rows = mlflow.pyfunc.load_model(uri).predict(X, params={"k": 3})
        assert rows["labels"].tolist() == labels_model.predict_topk(X, k=3)[0].tolist()


def test_other_models_are_refused(tmp_path):
    with pytest.raises(TypeError, match="must be an estimator of sparseleaf"):
        flavour.save_model([], tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        flavour.save_model(SparseGBDTClassifier(), tmp_path / "m")
    Model().add_flavor("other").save(str(tmp_path / "MLmodel"))
    with pytest.raises(MlflowException, match="does not have the flavour 'sparseleaf'"):
        flavour.load_model(str(tmp_path))


# --- scoring


@pytest.mark.parametrize(
    "rows",
    [
        X[:5],
        X[:5].toarray(),
        pd.DataFrame(X[:5].toarray(), index=list("abcde")),
        pd.DataFrame.sparse.from_spmatrix(X[:5]),
        pd.DataFrame(
            {
                "indices": [row.indices.tolist() for row in X[:5]],
                "values": [row.data.tolist() for row in X[:5]],
            }
        ),
    ],
    ids=["csr", "array", "frame", "sparse frame", "lists"],
)
def test_forms_of_rows(labels_model, tmp_path, rows):
    found = scored(labels_model, tmp_path, rows, {"k": 3})
    labels, scores = labels_model.predict_topk(X[:5], k=3)
    assert found["labels"].tolist() == labels.tolist()
    np.testing.assert_array_equal(np.array(found["scores"].tolist()), scores)
    if isinstance(rows, pd.DataFrame):
        assert found.index.equals(rows.index)


def test_labels_of_predict_probabilities_and_decoders(labels_model, tmp_path):
    flavour.save_model(labels_model, tmp_path / "m")
    model = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert model.predict(X)["labels"].tolist() == labels_model.predict(X)
    assert model.predict(X, params={"decode": "expected_f1"})["labels"].tolist() == labels_model.predict(
        X, decode="expected_f1"
    )
    likely = model.predict(X, params={"k": 2, "probabilities": True})
    expected = labels_model.predict_proba(X, k=2).toarray()
    for number, row in enumerate(likely.itertuples()):
        assert row.scores == [expected[number, NAMES.tolist().index(label)] for label in row.labels]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"k": -1}, "'k' parameter must be an int >= 1"),
        ({"probabilities": True}, "requires the number of labels"),
        ({"k": 2, "decode": "top:1"}, "Only one of the parameters"),
        ({"decode": "best"}, "decode"),
        ({"k": "many"}, "k"),
    ],
)
def test_invalid_parameters(labels_model, tmp_path, params, message):
    with pytest.raises((ValueError, MlflowException), match=message):
        scored(labels_model, tmp_path, X, params)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"indices": [1, 2], "values": [1.0]}, "the same lengths"),
        ({"indices": [30], "values": [1.0]}, "from 0 to 29"),
        ({"indices": [-1], "values": [1.0]}, "from 0 to 29"),
        ({"indices": [0.5], "values": [1.0]}, "integers from 0"),
        ({"indices": 3, "values": [1.0]}, "must contain lists"),
    ],
)
def test_invalid_sparse_rows(labels_model, tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        scored(labels_model, tmp_path, pd.DataFrame([row]))


FRAME = pd.DataFrame({"text": TEXTS[:3]})
TEXT_FORMS = [TEXTS[:3], np.array(TEXTS[:3]), FRAME["text"], FRAME, np.array([TEXTS[:3]]).T]


@pytest.mark.parametrize(
    ("rows", "example"),
    [*((rows, None) for rows in TEXT_FORMS), *((rows, TEXTS[:2]) for rows in TEXT_FORMS), (FRAME, FRAME[:1])],
)
def test_texts(text_model, tmp_path, rows, example):
    scores = scored(text_model, tmp_path, rows, {"k": 2}, input_example=example)
    assert scores["labels"].tolist() == text_model.predict_topk(TEXTS[:3], k=2)[0].tolist()


def test_records_and_named_columns(tmp_path):
    records = pd.DataFrame({"title": TEXTS, "year": np.arange(80.0)})
    estimator = SketchForestClassifier(
        n_trees=3, vectorizer=TextVectorizer(fields=["title"], numeric=["year"])
    ).fit(records, TOPICS)
    found = scored(estimator, tmp_path, records, {"k": 2}, input_example=records[:2])
    labels, _ = estimator.predict_topk(records, k=2)
    assert found["labels"].tolist() == [[name for name in row if name is not None] for row in labels]
    frame = pd.DataFrame(X.toarray(), columns=[f"x{i}" for i in range(30)])
    classifier = MultiGBDTClassifier(n_trees=3).fit(frame, np.arange(200) % 3)
    flavour.save_model(classifier, tmp_path / "classes", input_example=frame[:3])
    model = mlflow.pyfunc.load_model(str(tmp_path / "classes"))
    np.testing.assert_array_equal(model.predict(frame), classifier.predict(frame))
    likely = model.predict(frame, params={"probabilities": True})
    np.testing.assert_array_equal(likely, classifier.predict_proba(frame))
    assert likely.columns.tolist() == [0, 1, 2]


def test_outputs_of_regressors_and_rankers(tmp_path):
    targets = pd.DataFrame(Y.toarray()[:, :2], columns=["left", "right"]).astype(float)
    regressor = MultiGBDTRegressor(n_trees=3).fit(X.toarray(), targets)
    found = scored(regressor, tmp_path, X.toarray(), input_example=X[:3].toarray())
    assert found.columns.tolist() == ["left", "right"]
    np.testing.assert_array_equal(found, regressor.predict(X.toarray()))
    ranker = GBDTRanker(n_trees=3).fit(X.toarray(), Y.toarray()[:, 0].astype(int), group=[100, 100])
    np.testing.assert_array_equal(
        scored(ranker, tmp_path / "ranker", X.toarray()), ranker.predict(X.toarray())
    )
    with pytest.raises(ValueError, match="are for classifiers"):
        flavour.scoring.Scorer(ranker).predict(X.toarray(), {"k": 3})


def test_the_command_of_mlflow_scores_a_file(text_model, tmp_path):
    """``mlflow models predict`` is what ``mlflow models serve`` runs for a request."""
    flavour.save_model(text_model, tmp_path / "m")
    request = {"dataframe_split": {"columns": ["text"], "data": [[TEXTS[0]]]}, "params": {"k": 1}}
    (tmp_path / "in.json").write_text(json.dumps(request))
    command = [
        "models",
        "predict",
        "-m",
        "m",
        "-i",
        "in.json",
        "-o",
        "out.json",
        "-t",
        "json",
        "--env-manager",
    ]
    subprocess.run(
        [sys.executable, "-m", "mlflow", *command, "local"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        env=os.environ,
    )
    (row,) = json.loads((tmp_path / "out.json").read_text())["predictions"]
    assert row["labels"] == text_model.predict_topk(TEXTS[:1], k=1)[0][0].tolist()


# --- tracking


def test_the_callback_logs_parameters_metrics_importances_and_the_model():
    clf = SparseGBDTClassifier(n_trees=6, learning_rate=0.5)
    callback = MLflowCallback(log_model=True, name="tags", tags={"team": "a"})
    clf.fit(X[:150], Y[:150], eval_set=(X[150:], Y[150:]), callbacks=[callback])
    (run,) = runs()
    assert run.info.status == "FINISHED"
    assert (run.data.params["n_trees"], run.data.params["learning_rate"]) == ("6", "0.5")
    assert run.data.tags["team"] == "a"
    history = clf.history_["valid precision@1"]
    assert metric(run, "valid-precision_at_1") == list(enumerate(history, 1))
    assert run.data.metrics["best_iteration"] == 6
    assert run.data.metrics["training_seconds"] > 0
    importances = mlflow.artifacts.load_dict(f"runs:/{run.info.run_id}/feature_importance.json")
    assert importances == {str(i): v for i, v in enumerate(clf.feature_importances_.tolist()) if v}
    (logged,) = mlflow.search_logged_models(output_format="list")
    assert logged.source_run_id == run.info.run_id
    np.testing.assert_array_equal(
        flavour.load_model(logged.model_uri).predict_topk(X)[1], clf.predict_topk(X)[1]
    )


def test_the_callback_uses_the_active_run_and_parameters_of_the_vectorizer():
    with mlflow.start_run() as run:
        SketchForestClassifier(n_trees=2, vectorizer=TextVectorizer(min_df=2)).fit(
            TEXTS, TOPICS, callbacks=[MLflowCallback()]
        )
    (logged,) = runs()
    assert logged.info.run_id == run.info.run_id
    assert logged.data.params["vectorizer__min_df"] == "2"
    names = mlflow.artifacts.load_dict(f"runs:/{run.info.run_id}/feature_importance.json")
    assert "bread" in names


def test_a_failed_training_is_a_failed_run():
    def fail(state):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        SparseGBDTClassifier(n_trees=6).fit(
            X, Y, eval_set=(X, Y), callbacks=[MLflowCallback(log_model=True), fail]
        )
    (run,) = runs()
    assert run.info.status == "FAILED"
    assert [step for step, _ in metric(run, "valid-precision_at_1")] == [1]
    assert not mlflow.search_logged_models(output_format="list")


def test_steps_of_continued_and_resumed_trainings(tmp_path):
    first = MultiGBDTRegressor(n_trees=3).fit(X.toarray(), Y.toarray())
    data = {"X": X.toarray(), "y": Y.toarray(), "eval_set": (X.toarray(), Y.toarray())}
    MultiGBDTRegressor(n_trees=2).fit(**data, init_model=first, callbacks=[MLflowCallback()])
    assert [step for step, _ in metric(runs()[0], "valid-loss")] == [4, 5]
    for _ in range(2):
        MultiGBDTRegressor(n_trees=4).fit(**data, checkpoint="run.ckpt", callbacks=[MLflowCallback()])
    for run in runs()[1:]:
        assert [step for step, _ in metric(run, "valid-loss")] == [1, 2, 3, 4]


def test_errors_of_the_tracking_server_do_not_end_a_training(monkeypatch):
    log_batch = mlflow.MlflowClient.log_batch

    def fails(client, run_id, **entities):
        if entities.get("metrics"):
            raise MlflowException("unreachable")
        log_batch(client, run_id, **entities)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", fails)
    with pytest.warns(UserWarning, match="Metrics could not be logged to MLflow: unreachable"):
        clf = SparseGBDTClassifier(n_trees=3).fit(X, Y, eval_set=(X, Y), callbacks=[MLflowCallback()])
    assert clf.best_iteration_ == 3


def test_autologging():
    autolog(extra_tags={"team": "b"})
    autolog(log_models=True)  # replaces the former
    clf = SparseGBDTClassifier(n_trees=3).fit(X, Y, eval_set=(X, Y))
    clf.update(X, Y, how="trees", n_trees=2)
    SketchForestClassifier(n_trees=2, rerank="boosted").fit(X, Y)
    SparseGBDTClassifier(n_trees=1).fit(X, Y, callbacks=None)
    autolog(disable=True)
    SparseGBDTClassifier(n_trees=4).fit(X, Y)
    found = runs()
    assert [run.data.tags["estimator_class"] for run in found] == [
        "SparseGBDTClassifier",
        "SketchForestClassifier",
    ]
    assert "team" not in found[0].data.tags
    assert len(metric(found[0], "valid-precision_at_1")) == 3
    assert len(mlflow.search_logged_models(output_format="list")) == 2


def test_autologging_of_a_cross_validation_has_nested_runs():
    autolog(log_models=False)
    with mlflow.start_run() as run:
        cross_val_score(MultiGBDTClassifier(n_trees=2), X.toarray(), np.arange(200) % 2, cv=3)
    parents = [one.data.tags.get("mlflow.parentRunId") for one in runs()]
    assert parents == [None, run.info.run_id, run.info.run_id]


def test_the_command_line_logs_to_an_experiment(tmp_path, database):
    save_xc(tmp_path / "train.txt", X[:150], Y[:150])
    save_xc(tmp_path / "valid.txt", X[150:], Y[150:])
    (tmp_path / "uris.tsv").write_text("0\turn:zero\n")
    options = ["--valid", "valid.txt", "-m", "m.safetensors", "-s", "n_trees=3", "--label-uris", "uris.tsv"]
    done = subprocess.run(
        [sys.executable, "-m", "sparseleaf", "train", "train.txt", *options, "--mlflow", "tags"],
        capture_output=True,
        text=True,
        env=os.environ | {"MLFLOW_TRACKING_URI": database},
    )
    assert done.returncode == 0, done.stderr
    (run,) = mlflow.search_runs(experiment_names=["tags"], output_format="list")
    assert (run.info.status, run.data.params["n_trees"]) == ("FINISHED", "3")
    assert [step for step, _ in metric(run, "valid-precision_at_1")] == [1, 2, 3]
    (logged,) = mlflow.search_logged_models([run.info.experiment_id], output_format="list")
    flavour.load_model(logged.model_uri).save("again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def test_python_of_the_guide_runs():
    """It is not run with the other pages, whose environment has no MLflow."""
    text = (Path(__file__).parents[3] / "docs" / "guide" / "mlflow.md").read_text()
    names = {}
    for code in re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(code, "mlflow.md", "exec"), names)
    assert len(runs()) == 3
    assert isinstance(names["forest"], SketchForestClassifier)


def test_the_reference_has_the_signatures_of_the_functions():
    text = (Path(__file__).parents[3] / "docs" / "api" / "mlflow.rst").read_text()
    listed = dict(
        re.findall(r"^\.\. py:\w+:: sparseleaf\.integrations\.mlflow\.(\w+)\((.*)\)$", text, re.MULTILINE)
    )
    assert listed.keys() == set(flavour.__all__) - {"FLAVOR_NAME"}
    for name, arguments in listed.items():
        parameters = re.findall(r"(\w+)(?==|,|$)", re.sub(r"=[^,]+", "=", arguments))
        assert parameters == list(inspect.signature(getattr(flavour, name)).parameters)
