import pytest

from sparseleaf.boosting.frontier import FRONTIERS, BestFirst, DepthWise
from sparseleaf.boosting.tree import Node, Split


def node(id_, gain):
    return Node(id_, 0, 10, Split(0, 0, gain, False, 5))


def test_depth_wise_gives_a_level_at_a_time_in_order_of_node():
    frontier = DepthWise()
    for id_, gain in ((1, 0.5), (2, 3.0), (3, 1.0)):
        frontier.push(node(id_, gain))
    assert [n.id for n in frontier.pop(10)] == [1, 2, 3]
    assert frontier.pop(10) == []


@pytest.mark.parametrize(("most", "wanted"), [(2, [2, 3]), (1, [2]), (0, []), (3, [1, 2, 3])])
def test_depth_wise_prefers_gain_where_leaves_are_few(most, wanted):
    frontier = DepthWise()
    for id_, gain in ((1, 0.5), (2, 3.0), (3, 1.0)):
        frontier.push(node(id_, gain))
    assert [n.id for n in frontier.pop(most)] == wanted


def test_depth_wise_ties_go_to_the_lower_node():
    frontier = DepthWise()
    for id_ in (1, 2, 3):
        frontier.push(node(id_, 1.0))
    assert [n.id for n in frontier.pop(2)] == [1, 2]


def test_best_first_gives_the_highest_gain_and_the_lower_node_in_a_tie():
    frontier = BestFirst()
    for id_, gain in ((5, 1.0), (2, 3.0), (3, 1.0), (4, 2.0)):
        frontier.push(node(id_, gain))
    assert [frontier.pop(10)[0].id for _ in range(4)] == [2, 4, 3, 5]
    assert frontier.pop(10) == []


def test_best_first_ends_when_no_leaf_is_left():
    frontier = BestFirst()
    frontier.push(node(1, 1.0))
    assert frontier.pop(0) == []
    assert len(frontier.pop(1)) == 1


def test_names():
    assert set(FRONTIERS) == {"depth-wise", "best-first"}
