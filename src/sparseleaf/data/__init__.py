"""Data sets: reading and writing XC text, reading tables, targets and label names, made-up sets."""

from sparseleaf.data.synthetic import make_xc
from sparseleaf.data.tables import Table, load_table
from sparseleaf.data.targets import Targets, encode_targets
from sparseleaf.data.xc import load_xc, save_xc

__all__ = ["Table", "Targets", "encode_targets", "load_table", "load_xc", "make_xc", "save_xc"]
