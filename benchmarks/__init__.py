"""Benchmarks of the documentation: ``python -m benchmarks`` and a script per claim, ``python -m benchmarks.<name>``."""
