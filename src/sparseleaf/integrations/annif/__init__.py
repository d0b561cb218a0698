"""Backend for Annif: ``python -m sparseleaf.integrations.annif`` is Annif's command with the backend ``sparseleaf``."""

from sparseleaf.integrations.annif.backend import SparseleafBackend
from sparseleaf.integrations.annif.registration import create_app, register

__all__ = ["SparseleafBackend", "create_app", "register"]
