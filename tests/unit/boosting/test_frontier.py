import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf.boosting.frontier import FRONTIERS, MOST_AT_ONCE, ROWS_AT_ONCE, BestFirst, DepthWise
from sparseleaf.boosting.tree import Node, Split


def node(id_, gain):
    return Node(id_, 0, 10, Split(0, 0, gain, False, 5))


def fill(frontier, gains, parent=None):
    for id_, gain in gains:
        frontier.push(node(id_, gain), parent)


def test_depth_wise_gives_a_level_at_a_time_in_order_of_node():
    frontier = DepthWise(None)
    fill(frontier, ((1, 0.5), (2, 3.0), (3, 1.0)))
    assert [n.id for n in frontier.pop()] == [1, 2, 3]
    assert frontier.pop() == []
    assert frontier.early() == []


@pytest.mark.parametrize(("leaves", "wanted"), [(3, [2, 3]), (2, [2]), (1, []), (4, [1, 2, 3])])
def test_depth_wise_prefers_gain_where_leaves_are_few(leaves, wanted):
    frontier = DepthWise(leaves)
    fill(frontier, ((1, 0.5), (2, 3.0), (3, 1.0)))
    assert [n.id for n in frontier.pop()] == wanted


def test_depth_wise_ties_go_to_the_lower_node():
    frontier = DepthWise(3)
    fill(frontier, ((1, 1.0), (2, 1.0), (3, 1.0)))
    assert [n.id for n in frontier.pop()] == [1, 2]


def test_best_first_prefers_gain_and_the_lower_node_in_a_tie():
    frontier = BestFirst(None)
    fill(frontier, ((5, 1.0), (2, 3.0), (3, 1.0), (4, 2.0)))
    assert [n.id for n in frontier.pop()] == [2, 4, 3, 5]
    assert frontier.pop() == []
    assert frontier.early() == [], "everybody's turn came"


def test_best_first_takes_large_nodes_one_at_a_time():
    frontier = BestFirst(None)
    for id_, gain in ((1, 1.0), (2, 3.0)):
        frontier.push(Node(id_, 0, ROWS_AT_ONCE, Split(0, 0, gain, False, 5)), None)
    assert [[n.id for n in frontier.pop()] for _ in range(3)] == [[2], [1], []]


def test_best_first_ends_when_no_leaf_is_left():
    frontier = BestFirst(1)
    fill(frontier, ((1, 1.0),))
    assert frontier.pop() == []
    assert frontier.early() == []


def test_a_node_split_early_is_dropped_when_better_ones_come():
    frontier = BestFirst(4)  # three splits
    fill(frontier, ((1, 5.0), (2, 4.0), (3, 1.0)))
    batch = frontier.pop()
    assert [n.id for n in batch] == [1, 2, 3]
    fill(frontier, ((4, 3.0),), parent=batch[0])  # takes the turn of node 3
    fill(frontier, ((6, 9.0),), parent=batch[2])  # behind node 3: never seen
    assert [n.id for n in frontier.pop()] == [4]
    assert frontier.pop() == []
    assert frontier.early() == [batch[2]]


def one_at_a_time(gains, n_splits):
    """The plain way: split the best, of equals the one that waits longest; its children join."""
    waiting, done = [0], []
    while waiting and len(done) < n_splits:
        best = min(waiting, key=lambda v: -gains[v])
        waiting.remove(best)
        done.append(best)
        waiting += [c for c in (2 * best + 1, 2 * best + 2) if c < len(gains)]
    return sorted(done)


@given(
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=127)
    | st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=127),
    st.integers(2, 60),
    st.data(),
)
def test_best_first_grows_the_tree_of_one_at_a_time(gains, max_leaves, data):
    """Nodes are those of a heap: the children of v are 2v + 1 and 2v + 2."""
    counts = data.draw(st.lists(st.integers(1, ROWS_AT_ONCE), min_size=len(gains), max_size=len(gains)))
    nodes = [Node(v, 0, counts[v], Split(0, 0, gains[v], False, 0)) for v in range(len(gains))]
    frontier = BestFirst(max_leaves)
    frontier.push(nodes[0], None)
    split = []
    while batch := frontier.pop():
        assert len(batch) <= MOST_AT_ONCE
        for parent in batch:
            split.append(parent.id)
            for child in nodes[2 * parent.id + 1 : 2 * parent.id + 3]:
                frontier.push(child, parent)
    dropped = [n.id for n in frontier.early()]
    assert sorted(set(split) - set(dropped)) == one_at_a_time(gains, max_leaves - 1)


def test_names():
    assert set(FRONTIERS) == {"depth-wise", "best-first"}
