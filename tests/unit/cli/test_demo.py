from __future__ import annotations

import importlib
import sys

import pytest

import sparseleaf

demo_module = importlib.import_module("sparseleaf.cli.demo")  # the package's own `demo` is the command


@pytest.fixture
def short(monkeypatch):
    """The demo with fewer rows and trees."""
    monkeypatch.setattr(demo_module, "ROWS", {"train": 1500, "valid": 200, "test": 300})
    monkeypatch.setattr(demo_module, "TREES", 15)


@pytest.mark.usefixtures("short")
def test_demo_leaves_what_it_says_and_what_it_says_works(cli, tmp_path):
    done = cli("demo", "--out", tmp_path)
    assert done.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "sparseleaf-demo-test.txt.gz",
        "sparseleaf-demo.png",
        "sparseleaf-demo.safetensors",
    ]
    assert "valid precision@1" in done.out
    precision = {
        line.split("│")[1].strip(): float(line.split("│")[2])
        for line in done.out.splitlines()
        if line.startswith("│")
    }
    assert precision["GBDT, 20 labels per leaf"] > 2 * precision["most frequent labels"]
    model, test = tmp_path / "sparseleaf-demo.safetensors", tmp_path / "sparseleaf-demo-test.txt.gz"
    assert sparseleaf.load(model).model_.n_trees == 15
    next_commands = done.out.split("Try next:\n")[1].splitlines()
    for command, line in zip(("predict", "evaluate", "inspect"), next_commands, strict=True):
        assert f" {command} {model}" in line
    assert cli("predict", model, test, "-k", 3).out.count("\n") == 300
    assert cli("evaluate", model, test).code == 0


@pytest.mark.usefixtures("short")
def test_without_matplotlib_there_is_no_picture_but_a_drawing(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = cli("demo", "--out", tmp_path)
    assert done.code == 0
    assert not (tmp_path / "sparseleaf-demo.png").exists()
    assert "valid precision@1" in done.out
    assert "pip install matplotlib" in done.out


def test_no_folder(cli, tmp_path):
    done = cli("demo", "--out", tmp_path / "no")
    assert done.code == 2
    assert "the directory does not exist" in done.err
