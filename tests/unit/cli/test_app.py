from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import sparseleaf
from sparseleaf import cli as commands
from sparseleaf.cli import app

COMMANDS = ("demo", "train", "predict", "evaluate", "inspect")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "-h"] for name in COMMANDS)])
def test_help(arguments):
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert "Usage" in shown.output


def test_no_arguments_show_the_help(cli):
    done = cli()
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)


def test_version(cli):
    assert cli("--version").out == f"sparseleaf {sparseleaf.__version__}\n"


def test_help_does_not_wait_for_scikit_learn():
    code = (
        "import sys; from sparseleaf.cli import run; assert run(['--help']) == 0;"
        " sys.exit(any(name in sys.modules for name in ('sklearn', 'scipy', 'numpy')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["trian"], "trian"), (["train"], "sparseleaf train --help"), (["predict", "--nope"], "--nope")],
)
def test_a_mistyped_command_line_is_one_line(cli, arguments, said):
    done = cli(*arguments)
    assert done.code == 2
    assert done.err.startswith("sparseleaf: error: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_our_own_errors_are_not_hidden(cli, files, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules["sparseleaf.cli.inspect"], "describe", fails)
    with pytest.raises(ZeroDivisionError):
        cli("inspect", files.model)


def test_traceback_on_request(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARSELEAF_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        cli("inspect", tmp_path / "m")


def test_ctrl_c_is_130(cli, files, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["sparseleaf.cli.inspect"], "describe", interrupted)
    assert cli("inspect", files.model).code == 130


def test_main_ends_the_process():
    with pytest.raises(SystemExit) as ended:
        commands.main(["nope"])
    assert ended.value.code == 2


@pytest.mark.slow
def test_a_terminal_without_box_characters_still_gets_the_numbers(process, files):
    running = process("inspect", files.model, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    assert "gbdt-sparse" in out
