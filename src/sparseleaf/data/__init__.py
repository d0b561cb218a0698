"""Datasets: file readers, XC text, target encoding, memory-mapped data and synthetic data."""

from sparseleaf.data import readers  # noqa: F401, registers the readers
from sparseleaf.data.dictionary import Dictionary
from sparseleaf.data.label_info import LabelInfo
from sparseleaf.data.mapped import load_mapped, map_xc, save_mapped
from sparseleaf.data.reading import READERS, Columns, Reader, Rows, Source, read, reader_of
from sparseleaf.data.synthetic import make_xc
from sparseleaf.data.tables import Table, load_table
from sparseleaf.data.targets import Targets, encode_targets
from sparseleaf.data.xc import load_xc, save_xc

__all__ = [
    "READERS",
    "Columns",
    "Dictionary",
    "LabelInfo",
    "Reader",
    "Rows",
    "Source",
    "Table",
    "Targets",
    "encode_targets",
    "load_mapped",
    "load_table",
    "load_xc",
    "make_xc",
    "map_xc",
    "read",
    "reader_of",
    "save_mapped",
    "save_xc",
]
