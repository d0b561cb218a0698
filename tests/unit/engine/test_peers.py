"""Boxes of messages between workers: who waits gets what has come, or is told that nothing will."""

import threading

import pytest

from sparseleaf.engine.peers import Box, WorkerLostError


def test_pieces_are_taken_by_number_and_sender():
    box = Box()
    box.put(1, 0, "late")
    box.put(0, 2, "b")
    box.put(0, 0, "a")
    assert [box.take(0, 0), box.take(0, 2), box.take(1, 0)] == ["a", "b", "late"]


def test_who_waits_gets_what_comes_later():
    box = Box()
    timer = threading.Timer(0.05, box.put, (0, 1, "here"))
    timer.start()
    assert box.take(0, 1) == "here"
    timer.join()


def test_who_waits_is_told_when_nothing_will_come():
    box = Box()
    timer = threading.Timer(0.05, box.close)
    timer.start()
    with pytest.raises(WorkerLostError):
        box.take(0, 1)
    box.put(0, 1, "too late")
    with pytest.raises(WorkerLostError):
        box.take(0, 1)
    timer.join()


def test_the_first_reason_is_the_one_that_is_told():
    box = Box()
    box.close(OSError("no route"))
    box.close()
    with pytest.raises(OSError, match="no route"):
        box.take(0, 1)
