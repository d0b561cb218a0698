"""``python -m benchmarks.tables``: write all of it."""

from benchmarks import tables

tables.write()
