"""Readers of data files: one module per format, registered by name and suffix.

Every module of this package is imported here, so a new format is a new module.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
