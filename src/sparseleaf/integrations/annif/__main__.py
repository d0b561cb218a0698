"""Annif's command line, with the backend registered: also in the processes that it starts, which import this file."""

from sparseleaf.integrations.annif.registration import register

register()

if __name__ == "__main__":
    from annif.cli import cli

    cli(prog_name="annif")
