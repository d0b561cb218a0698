"""``python -m sparseleaf``: the command-line interface."""

from sparseleaf.cli import main

main()
