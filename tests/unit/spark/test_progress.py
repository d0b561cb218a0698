"""Progress of the first task reaches the driver."""

import logging
import socket
import time

from sparseleaf.callbacks import TrainingState
from sparseleaf.distributed.spark_progress import Destination, ProgressClient, ProgressServer
from sparseleaf.progress import logger


class Session:
    def __init__(self, **settings):
        self.conf = {f"spark.driver.{name}": value for name, value in settings.items()}


def test_the_driver_shows_trees_and_phases(caplog, capsys):
    caplog.set_level(logging.DEBUG, "sparseleaf")
    with ProgressServer.open(Session(host="127.0.0.1"), 3, 10, 2) as to:
        with ProgressClient.open(to) as (after_tree,):
            logger.info("binning: 0.1 s")
            after_tree(TrainingState(4, 10, 7, 0, 1.5, {"valid loss": [0.5]}))
        deadline = time.monotonic() + 10
        while "tree 4/10" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
        with socket.create_connection((to.host, to.port)) as stranger:
            stranger.sendall(b"0" * 64 + b' {"level": 20, "text": "forged"}\n')
            assert stranger.recv(1) == b""  # closed
    printed = capsys.readouterr().err
    assert "binning: 0.1 s" in printed
    assert "tree 4/10  1.5 s  7 leaves  valid loss 0.5" in printed
    assert "3 Spark workers" in printed
    assert "forged" not in caplog.text


def test_training_goes_on_without_a_driver():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with ProgressClient.open(Destination("127.0.0.1", port, b"key")) as (after_tree,):
        assert after_tree(TrainingState(1, 1, 1, 0, 0.0, {})) is None
    with ProgressClient.open(None) as callbacks:
        assert callbacks == []
    with ProgressServer.open(Session(), 1, 1, 0) as to:
        assert to is None
