"""After a loss, new workers are sent what the lost ones had been sent, with the trees in place of the steps."""

import pytest

from sparseleaf.distributed.communicator import WorkerLostError
from sparseleaf.training.session import MAX_RESTARTS, Session


class Workers:
    """Workers that are lost at some of the calls, by number."""

    def __init__(self, lost=()):
        self.lost, self.calls, self.log = set(lost), 0, []

    def send(self, message):
        self.calls += 1
        self.log.append(message)
        if self.calls in self.lost:
            self.log.append("lost")
            raise WorkerLostError("gone")
        return f"answer to {message}"

    def step(self):
        return [self.send("step")]

    def restart(self):
        self.log.append("restart")


def train(workers, n_trees, per_round=1):
    session = Session(workers)
    answers = [session.send(None), session.send("plan")]
    session.replace_last("amended plan")
    trees = []
    for number in range(n_trees):
        answers += session.next(trees, number % per_round)
        trees.append(f"tree {number}")
    return answers


def test_without_a_loss_each_message_is_sent_once():
    workers = Workers()
    assert train(workers, 3) == ["answer to None", "answer to plan", *["answer to step"] * 3]
    assert workers.log == [None, "plan", [], "step", "step", "step"]


@pytest.mark.parametrize("lost", range(1, 7))
def test_the_answers_are_the_same_after_a_loss(lost):
    workers = Workers([lost])
    assert train(workers, 3) == train(Workers(), 3)
    assert workers.log.count("restart") == 1


def test_trees_so_far_are_replayed():
    workers = Workers([5])
    train(workers, 3)
    again = [None, "amended plan", ["tree 0"], "step", "step"]
    assert workers.log == [None, "plan", [], "step", "step", "lost", "restart", *again]


def test_a_round_begins_again():
    workers = Workers([8])  # at tree 4, the second of its round
    train(workers, 6, per_round=3)
    at = workers.log.index("restart")
    replay = ["tree 0", "tree 1", "tree 2"]
    assert workers.log[at + 1 :] == [None, "amended plan", replay, None, "step", "step"]


def test_a_loss_while_beginning_again():
    workers = Workers([5, 6, 8])
    assert train(workers, 3) == train(Workers(), 3)
    assert workers.log.count("restart") == 3


def test_a_loss_that_always_recurs_ends_the_training():
    workers = Workers(range(4, 1000))
    with pytest.raises(WorkerLostError):
        train(workers, 1)
    assert workers.log.count("restart") == MAX_RESTARTS


@pytest.mark.parametrize("lost", [None, 4, 5])
def test_a_model_is_completed_after_a_loss_and_without_new_trees(lost):
    """Its trees, those up to the best round, are replayed where no tree was grown before."""
    workers = Workers([] if lost is None else [lost])
    session = Session(workers)
    session.send(None)
    session.send("plan")
    assert session.complete(["tree 0"]) == "answer to complete"
    begun = [None, "plan", ["tree 0"], "complete"]
    again = [] if lost != 4 else ["lost", "restart", *begun]
    assert workers.log == [*begun, *again]


def test_a_model_is_completed_by_the_workers_that_grew_its_trees():
    workers = Workers()
    session = Session(workers)
    session.send(None)
    session.send("plan")
    session.next([], 0)
    assert session.complete(["tree 0"]) == "answer to complete"
    assert workers.log == [None, "plan", [], "step", "complete"]


def test_losses_are_counted_anew_after_a_tree():
    """Each tree is lost twice before it is grown."""
    workers = Workers()
    plain = workers.step
    steps = []

    def step():
        steps.append(1)
        if len(steps) % 3:
            raise WorkerLostError("gone")
        return plain()

    workers.step = step
    assert len(train(workers, 2 * MAX_RESTARTS)) == 2 + 2 * MAX_RESTARTS


def test_other_errors_are_raised_at_once():
    workers = Workers()
    workers.step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        train(workers, 1)
    assert "restart" not in workers.log
