"""Clusters that cannot run a barrier stage are refused at once."""

import pytest

from sparseleaf.distributed import spark_cluster
from sparseleaf.distributed.spark_cluster import check_cluster, configured_slots, count_slots, run_barrier


class Session:
    """The part of a SparkSession that is used."""

    class sparkContext:
        uiWebUrl = None
        applicationId = "app"
        defaultParallelism = 4

    def __init__(self, **settings):
        self.conf = {name.replace("_", "."): value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"spark_master": "local"}, 1),
        ({"spark_master": "local[3]"}, 3),
        ({"spark_master": "local[8, 2]", "spark_task_cpus": "4"}, 2),
        ({"spark_master": "local[*]"}, None),
        ({"spark_master": "local-cluster[2,4,1024]", "spark_task_cpus": "2"}, 4),
        ({"spark_master": "yarn", "spark_executor_instances": "3"}, 3),
        ({"spark_master": "yarn", "spark_executor_instances": "3", "spark_executor_cores": "5"}, 15),
        ({"spark_master": "spark://host:7077", "spark_executor_instances": "3"}, None),
        ({"spark_master": "spark://host:7077", "spark_cores_max": "6", "spark_task_cpus": "2"}, 3),
        ({}, None),
    ],
)
def test_slots_of_the_configuration(settings, slots):
    assert configured_slots(Session(**settings)) == slots


def test_too_few_slots():
    session = Session(spark_master="local[2]")
    check_cluster(session, 2)
    with pytest.raises(
        ValueError, match=r"Training on 3 workers requires 3 task slots at once\. Got 2 instead"
    ):
        check_cluster(session, 3)
    assert count_slots(session) == 2


def test_slots_without_a_web_ui(monkeypatch):
    monkeypatch.setattr(spark_cluster, "PATIENCE", 0.05)
    monkeypatch.setattr(spark_cluster, "SETTLED", 0.05)
    standalone = {"spark_master": "spark://host:7077", "spark_task_cpus": "2"}
    assert count_slots(Session(**standalone)) == 2
    with pytest.raises(ValueError, match=r"requires 3 task slots at once\. Got 2 instead"):
        check_cluster(Session(**standalone), 3)
    with pytest.raises(ValueError, match="set the number of workers"):  # that setting is no number of cores
        count_slots(Session(**standalone, spark_default_parallelism="200"))


def test_executors_that_start_one_after_the_other(monkeypatch):
    monkeypatch.setattr(spark_cluster, "SETTLED", 0.05)
    monkeypatch.setattr(spark_cluster, "POLL", 0.02)
    registered = iter([0, 2, 4])
    monkeypatch.setattr(spark_cluster, "registered_slots", lambda spark: next(registered, 6))
    assert count_slots(Session(spark_master="spark://host:7077")) == 6


def test_executors_that_do_not_start(monkeypatch):
    monkeypatch.setattr(spark_cluster, "PATIENCE", 0.05)
    monkeypatch.setattr(spark_cluster, "registered_slots", lambda spark: 1)
    with pytest.raises(ValueError, match="Got 1 instead"):
        check_cluster(Session(spark_master="yarn", spark_executor_instances="4"), 4)


def test_barrier_stages_that_spark_refuses(monkeypatch):
    monkeypatch.setattr(spark_cluster, "POLL", 0.01)
    session, refusals = Session(spark_master="spark://host:7077"), iter(range(3))

    def job():
        if next(refusals, None) is not None:
            raise RuntimeError(
                "[SPARK-24819]: Barrier execution mode does not allow run a barrier stage that …"
            )
        return "rows"

    assert run_barrier(session, 2, job) == "rows"
    with pytest.raises(ZeroDivisionError):
        run_barrier(session, 2, lambda: 1 / 0)
    monkeypatch.setattr(spark_cluster, "PATIENCE", 0)
    refusals = iter(range(1000))
    with pytest.raises(ValueError, match=r"requires 2 task slots at once\. Got fewer instead"):
        run_barrier(session, 2, job)


def test_dynamic_allocation():
    settings = {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"}
    session = Session()
    session.conf = settings
    with pytest.raises(ValueError, match=r"spark\.dynamicAllocation\.enabled must be false"):
        check_cluster(session, 1)
    session.conf = {**settings, "spark.master": "local[1]"}  # Spark ignores it there
    check_cluster(session, 1)
