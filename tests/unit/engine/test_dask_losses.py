"""Losses that recur: shards are made anew a number of times, not for ever. No cluster is needed for that."""

import pytest

pytest.importorskip("distributed")

from sparseleaf.engine.dask import MOST_LOSSES, DaskShards
from sparseleaf.engine.peers import WorkerLostError


class Doomed(DaskShards):
    """Shards that are lost whenever they are made."""

    def __init__(self):
        self._losses = self.tries = 0

    def _make_anew(self):
        self.tries += 1
        raise WorkerLostError("again")


def test_a_loss_that_always_recurs_ends_the_training():
    shards = Doomed()
    assert not shards.recover(WorkerLostError("first"))
    assert shards.tries == MOST_LOSSES
    assert not Doomed().recover(ValueError("another error"))


def test_what_cannot_be_sent_is_a_loss():
    def send():
        raise KeyError("tcp://gone")

    with pytest.raises(WorkerLostError, match="tcp://gone"):
        Doomed()._sent(send)
