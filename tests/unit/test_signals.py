"""Tests do not depend on whether the shell that started them ignores Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IGNORING = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
    "os.execv(sys.executable, [sys.executable, '-m', 'pytest', *sys.argv[1:]])"
)


def test_processes_of_tests_can_be_interrupted():
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_interrupts_are_tested_from_a_background_shell_too():
    command = [sys.executable, "-c", IGNORING, "-q", "-p", "no:cacheprovider"]
    tests = ["tests/unit/cli/test_train.py", "tests/unit/cli/test_checkpoint.py", __file__]
    tests += ["-k", "ctrl_c or can_be_interrupted"]
    done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
