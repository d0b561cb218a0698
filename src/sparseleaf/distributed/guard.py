"""Check for the ``if __name__ == "__main__":`` guard in scripts that spawn worker processes."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import FrameType


def require_main_guard() -> None:
    """Raise RuntimeError if called from the top level of a script outside of ``if __name__ == "__main__":``.

    Spawned processes import the script first. Without a guard they would reach the same line, spawn processes
    themselves, and fail with an obscure error.
    """
    frame = _top_level_frame()
    if frame is not None and not _is_guarded(frame):
        raise RuntimeError(
            f"engine='dask' starts worker processes, and each of them first imports {frame.f_code.co_filename}, which"
            f" would train again in line {frame.f_lineno}. Put the code that trains below"
            ' `if __name__ == "__main__":`, or give the client of a running cluster as engine.'
        )


def _top_level_frame() -> FrameType | None:
    """The top-level frame of the main script on the call stack, if spawned processes would import the script."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    if file is None or (spec is not None and spec.name.endswith(".__main__")):
        return None  # an interactive session, or python -m package: not imported again
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _same_file(frame.f_code.co_filename, file):
            return frame
        frame = frame.f_back
    return None


def _same_file(first: str, second: str) -> bool:
    return Path(first).absolute() == Path(second).absolute()


def _is_guarded(frame: FrameType) -> bool:
    """Whether an ``if`` on ``__name__`` starts at or above the current line."""
    try:
        tree = ast.parse(Path(frame.f_code.co_filename).read_bytes())
    except (OSError, SyntaxError):  # undecidable
        return True
    return any(
        isinstance(name, ast.Name) and name.id == "__name__"
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and node.lineno <= frame.f_lineno
        for name in ast.walk(node.test)
    )
