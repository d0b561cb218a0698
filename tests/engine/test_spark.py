"""Spark's executors give the model of one process, to the byte, and go on when one of them is killed."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import jobs
import numpy as np
import pandas as pd
import psutil
import pytest

from benchmarks._common import spark_home
from sparseleaf import SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc, save_xc

pytest.importorskip("pyspark", reason="PySpark is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # PySpark's warnings are not ours

HANG = 1800
"""Seconds after which a process hangs, also on a machine that is busy with other things."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "1g",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.speculation": "true",  # which Spark does not apply to barrier stages
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.stage.maxConsecutiveAttempts": "10",
    "spark.deploy.maxExecutorRetries": "-1",
}


def environment(folder):
    """Of a driver and its executors: this Python, and work folders of the test."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home(folder)),  # the executors of local-cluster work in a folder of it
        "SPARK_WORKER_DIR": str(folder / "work"),  # those of a standalone cluster
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session with two executors of one core, which are processes."""
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ.update(environment(tmp_path_factory.mktemp("spark")))
    if SparkSession.getActiveSession() is not None:  # of a page of the documentation
        SparkSession.getActiveSession().stop()
    builder = SparkSession.builder.master("local-cluster[2,1,2048]").config(map=SETTINGS)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


def fitted(spark, name, **params):
    from spark_rows import make_frame, on_spark_like

    estimator, rows = jobs.make_jobs()[name]
    return on_spark_like(estimator, rows, numWorkers=2, **params).fit(make_frame(spark, **rows))


def alone(name):
    from spark_rows import by_query

    estimator, rows = jobs.make_jobs()[name]
    return jobs.digest(estimator.fit(**by_query(rows)))


EVERY_ESTIMATOR = ("names", "forest", "ldsm", "multi", "classes", "rank")


@pytest.mark.parametrize(("layout", "names"), [
    ("rows", (*EVERY_ESTIMATOR, "sparse", "sampled", "leml", "reranked", "weights", "weights, forest", "unknown",
              "absolute")),
    ("features", (*EVERY_ESTIMATOR, "sampled")),
])  # fmt: skip
def test_executors_train_the_model_of_one_process(spark, layout, names):
    found = {name: jobs.digest(fitted(spark, name, layout=layout).estimator) for name in names}
    assert found == {name: alone(name) for name in names}


def test_validation_rows_and_early_stopping(spark):
    from spark_rows import make_frame, on_spark_like

    estimator, rows = jobs.make_jobs()["names"]
    estimator.set_params(n_trees=40, early_stopping_rounds=3, learning_rate=0.5)
    held = np.arange(len(rows["y"])) % 3 == 0
    known = {True: [], False: []}
    for labels, one in zip(rows["y"], held.tolist(), strict=True):
        known[one].append(labels)
    estimator.fit(rows["X"][~held], known[False], eval_set=(rows["X"][held], known[True]))
    frame = make_frame(spark, **rows, held=held).orderBy("X", "number")  # in an order of its own
    made = on_spark_like(estimator, rows, validationIndicatorCol="held", orderCol="number", numWorkers=2)
    model = made.fit(frame)
    assert jobs.digest(model.estimator) == jobs.digest(estimator)
    assert model.estimator.history_ == estimator.history_


def test_predictions_are_those_of_one_process(spark):
    from spark_rows import make_frame

    for name in ("names", "sparse", "multi", "classes", "categories"):
        estimator, rows = jobs.make_jobs()[name]
        model = fitted(spark, name)
        predicted = (
            model.transform(make_frame(spark, **rows)).orderBy("number").select("prediction").collect()
        )
        if name in ("names", "sparse"):
            labels, scores = estimator.fit(**rows).predict_topk(rows["X"], 5)
            assert [[one["label"] for one in row[0]] for row in predicted] == labels.tolist()
            assert [[one["score"] for one in row[0]] for row in predicted] == scores.tolist()
        else:
            assert [row[0] for row in predicted] == estimator.fit(**rows).predict(rows["X"]).tolist()


def test_executors_map_large_models(spark):
    from pyspark.sql.functions import pandas_udf

    from sparseleaf.model.file import MAP_FROM
    from sparseleaf.spark.prediction import share_model, store_model

    path = store_model(SketchForestClassifier().fit(*make_xc(2_000, 500, 300)))
    assert path.stat().st_size >= MAP_FROM
    name = share_model(spark, path)

    @pandas_udf("boolean")
    def is_mapped(numbers: pd.Series) -> pd.Series:
        from pyspark import SparkFiles

        from sparseleaf.spark.prediction import _open_model

        estimator = _open_model(SparkFiles.get(name))
        mapped = name in Path("/proc/self/maps").read_text()
        return (numbers >= 0) & mapped & (estimator.model_.n_labels == 300)

    frame = spark.range(4, numPartitions=2)
    assert [one[0] for one in frame.select(is_mapped("id")).collect()] == [True] * 4


TEXTS = [
    ("knead the dough and bake the bread", ["food", "baking"]),
    ("onion soup with bread", ["food"]),
    ("a goal in the final match", ["sport", "football"]),
    ("she won the race", ["sport"]),
]

LOADED = """
import json, sys
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.json(sys.argv[1])
rows = PipelineModel.load(sys.argv[2]).transform(frame).select("prediction").collect()
print("PREDICTED " + json.dumps([[list(one) for one in row[0]] for row in rows]))
spark.stop()
"""


def test_a_pipeline_is_saved_and_loaded_in_another_application(spark, tmp_path):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import IDF, HashingTF, Tokenizer

    from sparseleaf.spark import SketchForestClassifier

    texts = tmp_path / "texts.json"
    texts.write_text("".join(json.dumps({"text": text, "tags": tags}) + "\n" for text, tags in TEXTS * 10))
    frame = spark.read.json(str(texts))
    tagger = SketchForestClassifier(labelCol="tags", n_trees=10, topK=2, numWorkers=2)
    words = Tokenizer(inputCol="text", outputCol="words")
    counts = HashingTF(inputCol="words", outputCol="counts", numFeatures=1 << 12)
    model = Pipeline(stages=[words, counts, IDF(inputCol="counts", outputCol="features"), tagger]).fit(frame)
    rows = model.transform(frame).select("prediction").collect()
    predicted = [[list(one) for one in row[0]] for row in rows]
    assert {label for label, _ in predicted[0]} == {"food", "baking"}

    model.save(str(tmp_path / "pipeline"))
    (tmp_path / "loaded.py").write_text(LOADED)
    done = subprocess.run(
        [sys.executable, tmp_path / "loaded.py", texts, tmp_path / "pipeline"],
        capture_output=True, text=True, check=False, timeout=HANG, env=environment(tmp_path),
    )  # fmt: skip
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("PREDICTED")] or [done.stderr]
    assert json.loads(line.removeprefix("PREDICTED ")) == predicted


def test_estimators_are_copied_saved_and_cross_validated(spark, tmp_path):
    from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
    from spark_rows import make_frame, on_spark_like

    from sparseleaf.metrics import ndcg_at_k
    from sparseleaf.spark import SparseGBDTClassifier as OnSpark
    from sparseleaf.spark import TopKEvaluator

    estimator, rows = jobs.make_jobs()["names"]
    frame = make_frame(spark, **rows).cache()
    made = on_spark_like(estimator, rows, numWorkers=1)
    made.save(str(tmp_path / "estimator"))
    again = OnSpark.load(str(tmp_path / "estimator"))
    assert {one.name: value for one, value in again.extractParamMap().items()} == {
        one.name: value for one, value in made.extractParamMap().items()
    }
    evaluator = TopKEvaluator(labelCol="y", metricName="ndcg@3")
    grid = ParamGridBuilder().addGrid(made.n_trees, [1, 4]).build()
    search = CrossValidator(estimator=made, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=0)
    model = search.fit(frame)
    assert model.avgMetrics[1] > model.avgMetrics[0]
    assert model.bestModel.estimator.n_trees == 4
    model.save(str(tmp_path / "search"))
    best = CrossValidatorModel.load(str(tmp_path / "search")).bestModel
    assert jobs.digest(best.estimator) == jobs.digest(model.bestModel.estimator)

    local = SparseGBDTClassifier.from_settings({**vars(estimator._settings()), "n_trees": 4}).fit(**rows)
    value = evaluator.evaluate(best.transform(frame))
    ids = {name: number for number, name in enumerate(local.classes_)}
    truth = np.zeros((len(rows["y"]), len(ids)))
    for row, labels in enumerate(rows["y"]):
        truth[row, [ids[label] for label in labels]] = 1
    assert value == pytest.approx(ndcg_at_k(truth, local.decision_function(rows["X"]), 3))


def test_errors_of_executors_are_those_of_one_process(spark):
    from spark_rows import make_frame

    from sparseleaf.spark import MultiGBDTClassifier
    from sparseleaf.spark import SparseGBDTClassifier as OnSpark

    X, _, _ = jobs.make_rows()
    missing = make_frame(spark, X=X, y=[["a"]] * len(X))
    made = OnSpark(featuresCol="X", labelCol="y", projection="random", numWorkers=2)
    with pytest.raises(ValueError, match="NaN") as caught:
        made.fit(missing)
    assert "worker" in "".join(caught.value.__notes__)
    with pytest.raises(ValueError, match="labelCol must not have nulls"):
        made.fit(missing.withColumn("y", missing["y"].getItem(0)).na.replace("a", None))
    for empty in (missing.limit(0), missing.filter("number < 0")):
        with pytest.raises(ValueError, match="at least one training row"):
            made.fit(empty)
    with pytest.raises(ValueError, match=r"requires 3 task slots at once\. Got 2"):
        MultiGBDTClassifier(featuresCol="X", labelCol="number", numWorkers=3).fit(missing)


LIMITED = """
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession, functions as F
from sparseleaf.spark import SparseGBDTClassifier

spark = SparkSession.builder.master("local[2]").config("spark.executor.pyspark.memory", "2g").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(200_000, numPartitions=2).select(
    array_to_vector(F.array(F.rand(0), F.rand(1))).alias("features"),
    F.array((F.col("id") % 5000).cast("int")).alias("label"),
)
try:
    SparseGBDTClassifier(projection=None, sketch_dim=4096, n_trees=1, numWorkers=2).fit(rows)
except MemoryError as error:
    print(error)
spark.stop()
"""


def test_memory_is_checked_before_the_first_tree(tmp_path):
    """Sketched gradients of 100,000 rows take 2.3 GiB in each of two workers, which may have 2 GiB."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    done = subprocess.run(
        [sys.executable, script],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert re.search(
        r"Training needs at least 2\.3 GiB at once .* [MG]iB are available\. .*smaller sketch_dim",
        done.stdout,
    )


def executors():
    """Processes of the executors that this process started."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()):
                found.append(one)
        except psutil.Error:  # it has just ended
            continue
    return found


@pytest.mark.parametrize("layout", ["rows", "features"])
def test_a_killed_executor_changes_nothing(spark, layout, tmp_path):
    from spark_rows import make_frame

    from sparseleaf.spark import SparseGBDTClassifier as OnSpark

    X, Y = make_xc(3000, 60, 100, nnz_per_row=20, seed=0)[:2]
    names = [[f"label {j}" for j in row.indices] for row in Y]
    settings = {"n_trees": 30, "max_depth": 6, "projection": None, "n_jobs": 1}
    frame, checkpoint = make_frame(spark, X=X, y=names), tmp_path / "checkpoint"
    made = OnSpark(featuresCol="X", labelCol="y", numWorkers=2, layout=layout, **settings)
    made.setParams(checkpoint=str(checkpoint), checkpointEvery=2)
    killed = []

    def kill():
        while not checkpoint.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        killed.append(executors()[0])
        killed[0].kill()

    thread = threading.Thread(target=kill)
    thread.start()
    model = made.fit(frame)
    thread.join()
    assert killed
    assert jobs.digest(model.estimator) == jobs.digest(SparseGBDTClassifier(**settings).fit(X, names))


@pytest.fixture
def standalone(tmp_path):
    """Address of a standalone cluster: a master and two workers of one core, which are processes."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    env = {**environment(tmp_path), "SPARK_DAEMON_MEMORY": "512m"}
    started = []

    def start(role, *arguments):
        with (tmp_path / f"{len(started)}.log").open("w") as log:
            command = [spark_class, f"org.apache.spark.deploy.{role}", "--webui-port", "0", *arguments]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, env=env))

    try:
        start("master.Master", "--host", "127.0.0.1", "--port", "0")
        deadline, found = time.monotonic() + 120, None
        while found is None and time.monotonic() < deadline:
            time.sleep(0.2)
            found = re.search(r"Starting Spark master at (spark://\S+)", (tmp_path / "0.log").read_text())
        for _ in range(2):
            start("worker.Worker", "--cores", "1", "--memory", "1g", found[1])
        yield found[1]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


def test_the_command_line_trains_on_a_standalone_cluster(standalone, tmp_path):
    X, Y = make_xc(600, 60, 30, nnz_per_row=20, seed=0)[:2]
    parts = [tmp_path / f"part-{i}.txt.gz" for i in range(3)]
    for i, part in enumerate(parts):
        save_xc(part, X[i * 200 : (i + 1) * 200], Y[i * 200 : (i + 1) * 200])

    def train(name, *options):
        model = tmp_path / name
        words = [sys.executable, "-m", "sparseleaf", "train", *parts, "-m", model, "-v", "-s", "n_trees=5"]
        env = environment(tmp_path) | {"PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=1g pyspark-shell"}
        done = subprocess.run(
            [*words, *options], capture_output=True, text=True, check=False, timeout=HANG, env=env
        )
        return model, done

    alone, done = train("alone")
    assert done.returncode == 0, done.stderr
    for layout in ("rows", "features"):
        profile = tmp_path / "profile.json"
        model, done = train(
            layout, "--engine", "spark", "--scheduler", standalone, "--workers", "2", "--layout", layout,
            "--checkpoint", tmp_path / f"{layout}.ckpt", "--profile", profile,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "tree 5/5" in done.stderr
        assert model.read_bytes() == alone.read_bytes()
        assert len(json.loads(profile.read_text())[0]["workers"]) == 2
    _, done = train(
        "missing", "--engine", "spark", "--scheduler", standalone, "--workers", "2", "-s", "n_trees=0"
    )
    assert done.returncode == 2
    assert "n_trees" in done.stderr


ON_STANDALONE = """
import json, sys
import jobs
from pyspark.sql import SparkSession
from spark_rows import make_frame, on_spark_like

master, *names = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.executor.memory": "1g"}
spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
digests = {}
for layout in ("rows", "features"):
    for name in names:
        estimator, rows = jobs.make_jobs()[name]
        model = on_spark_like(estimator, rows, layout=layout).fit(make_frame(spark, **rows))
        assert len(model.profile[0]["workers"]) == 2  # all task slots of the cluster
        digests.setdefault(name, []).append(jobs.digest(model.estimator))
print("DIGESTS " + json.dumps(digests))
try:
    on_spark_like(estimator, rows, numWorkers=3).fit(make_frame(spark, **rows))
except ValueError as error:
    print("REFUSED " + str(error))
spark.stop()
"""


def test_a_standalone_cluster_trains_the_model_of_one_process(standalone, tmp_path):
    (tmp_path / "fits.py").write_text(ON_STANDALONE)
    env = environment(tmp_path) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "fits.py", standalone, *EVERY_ESTIMATOR],
        capture_output=True, text=True, check=False, timeout=HANG, env=env,
    )  # fmt: skip
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:7] in ("DIGESTS", "REFUSED"))
    assert "DIGESTS" in said, done.stderr[-5000:]
    assert json.loads(said["DIGESTS"]) == {name: [alone(name)] * 2 for name in EVERY_ESTIMATOR}
    assert "requires 3 task slots at once. Got 2 instead" in said["REFUSED"]


CONNECTED = """
import sys
import jobs
from pyspark.sql import SparkSession
from sparseleaf.spark import MultiGBDTRegressor, MultiGBDTRegressorModel

if __name__ == "__main__":
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    estimator, rows = jobs.make_jobs()["multi"]
    frame = spark.createDataFrame(
        [(x.tolist(), y.tolist(), i) for i, (x, y) in enumerate(zip(rows["X"], rows["y"]))],
        "X array<float>, y array<float>, number int",
    )
    few = {"n_trees": 3, "min_samples_leaf": 3, "max_depth": 5}
    model = MultiGBDTRegressor(featuresCol="X", labelCol="y", orderCol="number", numWorkers=2, **few).fit(frame)
    assert jobs.digest(model.estimator) == jobs.digest(estimator.fit(**rows))
    model.save(sys.argv[1])
    again = MultiGBDTRegressorModel.load(sys.argv[1])
    predicted = again.transform(frame).orderBy("number").select("prediction").collect()
    assert [row[0] for row in predicted] == estimator.predict(rows["X"]).tolist()
    print("CONNECTED")
    spark.stop()
"""


def test_spark_connect(tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    (tmp_path / "connected.py").write_text(CONNECTED)
    env = environment(tmp_path) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "connected.py", tmp_path / "model"],
        capture_output=True, text=True, check=False, timeout=HANG, env=env,
    )  # fmt: skip
    assert "CONNECTED" in done.stdout, done.stderr[-5000:]
