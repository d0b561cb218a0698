"""``python -m benchmarks.tables``: write all tables."""

from benchmarks import tables

tables.write()
