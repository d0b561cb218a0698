"""Data sets: reading files of any format, writing XC text, targets and label names, synthetic sets."""

from sparseleaf.data import readers  # noqa: F401, which registers them
from sparseleaf.data.mapped import load_mapped, map_xc, save_mapped
from sparseleaf.data.reading import READERS, Columns, Reader, Rows, Source, read, reader_of
from sparseleaf.data.synthetic import make_xc
from sparseleaf.data.tables import Table, load_table
from sparseleaf.data.targets import Targets, encode_targets
from sparseleaf.data.xc import load_xc, save_xc

__all__ = [
    "READERS",
    "Columns",
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
