import builtins
import math

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseleaf.plotting import draw_learning_curve, plot_learning_curve

HISTORY = {"train P@1": [0.5, 0.6, 0.7], "valid P@1": [0.4, 0.5, 0.45]}
NAN = float("nan")


# --- matplotlib


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".SVG", b"<?xml"), (".pdf", b"%PDF")]
)
def test_saves_what_the_suffix_says(tmp_path, suffix, start):
    path = tmp_path / f"curve{suffix}"
    path.write_text("old")
    plot_learning_curve(HISTORY, path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]  # nothing left over


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "curve.png"
    path.write_text("old")

    def fail(self, draft, **_):
        draft.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plot_learning_curve(HISTORY, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["curve", "curve.gif"])
def test_unknown_suffix(path):
    with pytest.raises(ValueError, match=r"'path' parameter must end in \.png, \.svg or \.pdf"):
        plot_learning_curve(HISTORY, path)


def test_draws_on_the_axes_given():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot_learning_curve(HISTORY, ax=ax) is ax
    train, valid = ax.get_lines()
    assert valid.get_xdata().tolist() == [1, 2, 3]
    assert valid.get_ydata().tolist() == HISTORY["valid P@1"]
    assert train.get_color() == valid.get_color()  # one metric, one colour
    assert train.get_linestyle() != valid.get_linestyle()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("trees", "P@1")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(HISTORY)


def test_the_whole_figure_is_saved(tmp_path):
    from matplotlib.figure import Figure

    left, right = Figure().subfigures(1, 2)
    left.suptitle("left side")
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_learning_curve(HISTORY, tmp_path / "curve.svg", ax=right.add_subplot())
    assert "left side" in (tmp_path / "curve.svg").read_text()


def test_without_path_or_axes_pyplot_has_the_figure():
    with mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        ax = plot_learning_curve({"valid P@1": [0.1, 0.2], "loss": [2, 1]})
        assert ax.get_figure().number in plt.get_fignums()
        assert ax.get_ylabel() == "metric"
        plt.close(ax.get_figure())


def test_a_file_leaves_no_pyplot_figure(tmp_path):
    import matplotlib.pyplot as plt

    plot_learning_curve(HISTORY, tmp_path / "curve.png")
    assert plt.get_fignums() == []


@pytest.mark.parametrize("values", [[0.3], [0.5, 0.5], [NAN, 0.1, NAN, math.inf], [NAN], [0.0]])
def test_odd_histories_can_be_plotted(tmp_path, values):
    plot_learning_curve({"x": values, "empty": []}, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    load = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r'pip install "sparseleaf\[plot\]"'):
        plot_learning_curve(HISTORY)
    assert draw_learning_curve(HISTORY)


# --- characters


def braille(line):
    return [column for column, char in enumerate(line) if 0x2800 < ord(char) <= 0x28FF]


def test_a_straight_line():
    drawing = draw_learning_curve({"P@1": [0, 1]}, width=10, height=5).splitlines()
    assert drawing == [
        "1.0 ┤        ⡠⠊ a",
        "    │      ⡠⠊",
        "0.5 ┤    ⡠⠊",
        "    │  ⡠⠊",
        "0.0 ┤⡠⠊",
        "    └──────────",
        "     1  2 trees",
        "     a ⠒⠒⠒⠒⠒  P@1  1",
    ]


def test_parts_of_the_drawing():
    lines = draw_learning_curve(HISTORY, width=40, height=8).splitlines()
    assert len(lines) == 8 + 2 + 2
    assert lines[0].startswith("0.7 ┤")
    assert lines[0].endswith(" a")
    assert lines[7].startswith("0.4 ┤")
    assert lines[9].split() == ["1", "3", "trees"]
    assert lines[10].split()[-3:] == ["train", "P@1", "0.7"]
    assert lines[11].split()[-3:] == ["valid", "P@1", "0.45"]


def test_a_single_point_is_in_the_middle():
    (marked,) = [
        line for line in draw_learning_curve({"train P@1": [0.25]}).splitlines()[:12] if braille(line)
    ]
    assert marked.startswith("0.25 ┤")
    assert len(braille(marked)) == 1


def test_a_constant_is_a_level_line():
    (marked,) = [line for line in draw_learning_curve({"x": [3, 3, 3]}).splitlines()[:12] if braille(line)]
    assert len(braille(marked)) == 60
    assert marked.startswith("3.0 ┤")


def test_gaps_are_not_bridged():
    lines = draw_learning_curve({"x": [1, NAN, 1, math.inf, 1]}, width=41, height=4).splitlines()
    (marked,) = [line for line in lines[:4] if braille(line)]
    start = marked.index("┤" if "┤" in marked else "│") + 1
    assert [column - start for column in braille(marked)] == [0, 20, 40]


def test_neighbouring_ticks_differ():
    lines = draw_learning_curve({"x": [1e9, 1e9 + 100]}, height=6).splitlines()
    ticks = [line.split()[0] for line in lines[:6] if "┤" in line]
    assert len(set(ticks)) == len(ticks) > 1


def test_nothing_to_draw_is_said():
    lines = draw_learning_curve({"x": [NAN, NAN], "y": []}, height=4).splitlines()
    assert not any(braille(line) for line in lines[:4])
    assert [line.endswith("no value") for line in lines[-2:]] == [True, True]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-1e3, 1e3) | st.floats(), min_size=1, max_size=30),
        min_size=1,
        max_size=4,
    ),
    st.integers(10, 50),
    st.integers(2, 12),
)
def test_any_history_can_be_drawn(curves, width, height):
    history = {f"train m{number}": curve for number, curve in enumerate(curves)}
    lines = draw_learning_curve(history, width, height).splitlines()
    assert len(lines) == height + 2 + len(curves)
    axis = lines[height].index("└")
    for line in lines[:height]:
        assert line[axis] in "┤│"
        assert all(axis < column <= axis + width for column in braille(line))


# --- errors


@pytest.mark.parametrize("draw", [plot_learning_curve, draw_learning_curve])
@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({}, "at least one metric"),
        ({"x": []}, "at least one metric"),
        ({"x": ["high"]}, r"history\['x'\] must be a sequence of numbers"),
        ({"x": np.zeros((2, 2))}, r"history\['x'\] must be one-dimensional"),
        ({"x": 0.5}, r"history\['x'\] must be one-dimensional"),
    ],
)
def test_bad_history(draw, history, message):
    with pytest.raises(ValueError, match=message):
        draw(history)


@pytest.mark.parametrize(("name", "size"), [("width", 9), ("height", 1), ("width", 20.0)])
def test_bad_size(name, size):
    with pytest.raises(ValueError, match=f"'{name}' parameter must be an int >= "):
        draw_learning_curve(HISTORY, **{name: size})


def test_reliability_diagrams_show_the_curve_and_the_error(tmp_path):
    pytest.importorskip("matplotlib")
    from sparseleaf.metrics import expected_calibration_error, reliability_curve
    from sparseleaf.plotting import plot_reliability

    rng = np.random.default_rng(0)
    p = rng.random((100, 4))
    truth = (rng.random(p.shape) < p**2).astype(int)
    ax = plot_reliability(truth, p, n_bins=5, label="model", path=tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 1_000
    predicted, frequency, _ = reliability_curve(truth, p, 5)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), np.column_stack([predicted, frequency]))
    text = ax.get_legend().get_texts()[0].get_text()
    assert text == f"model, ECE {expected_calibration_error(truth, p, 5):.3f}"
    again = plot_reliability(truth, np.clip(p, 0, 0), ax=ax)
    assert again is ax
    with pytest.raises(ValueError, match=r"must end in .png, .svg or .pdf"):
        plot_reliability(truth, p, path="r.gif")
