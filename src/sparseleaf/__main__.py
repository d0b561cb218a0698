"""``python -m sparseleaf``: the command line."""

from sparseleaf.cli import main

main()
