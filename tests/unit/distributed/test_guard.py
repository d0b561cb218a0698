"""Scripts that would start processes without end are told so, before any process starts."""

import subprocess
import sys
import textwrap

import pytest

CALL = "require_main_guard()\n"
SCRIPTS = {
    "at the top": (CALL, False),
    "in a function": ("def main():\n    require_main_guard()\n\nmain()\n", False),
    "in another if": ("if sys.argv:\n    require_main_guard()\n", False),
    "guarded": ('if __name__ == "__main__":\n    require_main_guard()\n', True),
    "guarded in a function": (
        'def main():\n    require_main_guard()\n\nif "__main__" == __name__:\n    main()\n',
        True,
    ),
    "left before": ('if __name__ != "__main__":\n    sys.exit()\nrequire_main_guard()\n', True),
}
HEAD = "import sys\nfrom sparseleaf.distributed.guard import require_main_guard\n"


def run(*words, **options):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=100, **options
    )


def test_scripts_without_a_guard_are_refused(tmp_path):
    """One process runs them all, each as the main module."""
    for name, (text, _) in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(HEAD + text)
    runner = textwrap.dedent("""
        import runpy, sys
        for path in sys.argv[1:]:
            try:
                runpy.run_path(path, run_name="__main__")
                print("ran")
            except RuntimeError as error:
                print(error)
    """)
    done = run("-c", runner, *(tmp_path / f"{name}.py" for name in SCRIPTS))
    assert done.returncode == 0, done.stderr
    for (name, (text, fine)), line in zip(SCRIPTS.items(), done.stdout.splitlines(), strict=True):
        if fine:
            assert line == "ran", name
        else:
            at = (HEAD + text).count("\n")  # the last line
            assert f"{tmp_path / f'{name}.py'}, which would train again in line {at}." in line, name
            assert 'Put the code that trains below `if __name__ == "__main__":`' in line


@pytest.mark.parametrize("how", ["script", "module", "package"])
def test_only_what_workers_import_needs_a_guard(how, tmp_path):
    (tmp_path / "own").mkdir()
    for path in ("script.py", "own/__main__.py"):
        (tmp_path / path).write_text(HEAD + CALL)
    words = {"script": ["script.py"], "module": ["-m", "script"], "package": ["-m", "own"]}[how]
    done = run(*words, cwd=tmp_path)
    assert (done.returncode == 0) == (how == "package")
    if done.returncode:
        assert "RuntimeError: engine='dask' starts worker processes" in done.stderr


@pytest.mark.slow
def test_training_in_workers_of_its_own_needs_a_guard(tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed")
    (tmp_path / "script.py").write_text(
        "from sparseleaf import MultiGBDTRegressor\n"
        "X = [[0.0], [1.0]] * 20\n"
        "MultiGBDTRegressor(n_trees=1).fit(X, X, engine='dask')\n"
    )
    done = run("script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'script.py'}, which would train again in line 3." in done.stderr
    assert done.stderr.count("Traceback") == 1  # no worker was started
