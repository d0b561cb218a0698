"""Warnings that name the user's line, however deep in the package they come from."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

PACKAGE = f"{Path(__file__).parent}{os.sep}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the call that entered this package."""
    frame = inspect.currentframe()
    depth = entered = 0
    while frame is not None:
        depth += 1
        if frame.f_code.co_filename.startswith(PACKAGE):
            entered = depth
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=entered + 1)
