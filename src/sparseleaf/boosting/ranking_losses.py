"""The former place of :mod:`sparseleaf.objectives.queries`; goes when nothing imports it any more."""

from sparseleaf.objectives.queries import Queries

__all__ = ["Queries"]
