"""One script per claim: ``python -m benchmarks.<name> --data <folder>`` from the repository's root."""
