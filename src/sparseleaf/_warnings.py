"""Warnings that are attributed to the user's code."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

PACKAGE = f"{Path(__file__).parent}{os.sep}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning with the location of the call into this package."""
    frame = inspect.currentframe()
    depth = entered = 0
    while frame is not None:
        depth += 1
        if frame.f_code.co_filename.startswith(PACKAGE):
            entered = depth
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=entered + 1)
