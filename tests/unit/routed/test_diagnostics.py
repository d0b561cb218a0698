"""Numbers by level, and their pictures."""

from __future__ import annotations

import pytest

from sparseleaf.routed.diagnostics import SplitRecord, level_summary, objective_by_level
from sparseleaf.routed.plotting import plot_depths, plot_levels, plot_objective

RECORDS = [
    [SplitRecord(0, 100, [0.5, -0.5], 0.1, 0.3), SplitRecord(1, 60, [-1.0], 0.2, 0.0)],
    [SplitRecord(0, 100, [1.5, 0.5], 0.3, 0.1), SplitRecord(1, 40, [-1.0, -2.0], 0.0, 0.2)],
]


def test_levels_are_means_over_trees():
    root, below = level_summary(RECORDS)
    assert (root.depth, root.n_splits, root.n_rows) == (0, 2, 100)
    assert (root.objective, root.balance, root.purity) == pytest.approx((0.0, 0.2, 0.2))
    assert (below.n_rows, below.objective, below.balance, below.purity) == pytest.approx((50, -1.5, 0.1, 0.1))
    assert level_summary([[], []]) == []


def test_a_node_that_stopped_early_keeps_its_value():
    assert objective_by_level(RECORDS) == {0: pytest.approx([1.0, 0.0]), 1: pytest.approx([-1.0, -1.5])}


def test_pictures_show_the_numbers(tmp_path):
    lines = plot_objective(RECORDS, tmp_path / "j.png").get_lines()
    assert [list(line.get_ydata()) for line in lines] == [[1.0, 0.0], [-1.0, -1.5]]
    balance, purity = plot_levels(RECORDS, tmp_path / "levels.svg").get_lines()
    assert list(balance.get_ydata()) == pytest.approx([0.2, 0.1])
    assert list(purity.get_ydata()) == pytest.approx([0.2, 0.1])
    ax = plot_depths({"one": (12, 983, 2), "two": (17, 41218, 2)}, tmp_path / "depths.pdf")
    assert ax.get_lines()[2].get_ydata()[0] == pytest.approx(8.94, abs=0.01)  # log2(983 / 2)
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".svg", ".pdf"}
    again = plot_levels(RECORDS, ax=ax)
    assert again is ax


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .png"):
        plot_levels(RECORDS, tmp_path / "levels.gif")
