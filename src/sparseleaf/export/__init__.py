"""Export of models to ONNX, treelite and C.

Inputs of ONNX and treelite models are numeric: categorical features are passed as category indices, NaN for unknown
categories. Models that a format cannot represent raise ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparseleaf.export.c import to_c
from sparseleaf.export.onnx import to_onnx
from sparseleaf.export.treelite import to_treelite

FORMATS: dict[str, Callable[[Any, Any], Any]] = {"onnx": to_onnx, "treelite": to_treelite, "c": to_c}
"""Export functions by format."""

SUFFIXES = {".onnx": "onnx", ".treelite": "treelite", ".tl": "treelite"}
"""Formats by file suffix."""

EXPORTERS: dict[str, Callable[[Any, Any], Any]] = {suffix: FORMATS[name] for suffix, name in SUFFIXES.items()}
"""Export functions by file suffix."""

__all__ = ["to_c", "to_onnx", "to_treelite"]
