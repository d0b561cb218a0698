"""Data sets: reading and writing XC text, targets and label names, made-up sets."""

from sparseleaf.data.mapped import load_mapped, map_xc, save_mapped
from sparseleaf.data.synthetic import make_xc
from sparseleaf.data.targets import Targets, encode_targets
from sparseleaf.data.xc import load_xc, save_xc

__all__ = [
    "Targets",
    "encode_targets",
    "load_mapped",
    "load_xc",
    "make_xc",
    "map_xc",
    "save_mapped",
    "save_xc",
]
