"""The command line: one file per command.

Commands raise what the library raises; here a user's mistake becomes one line on stderr and exit code 2.
Whatever is slow to import is imported inside the commands, so that ``--help`` and a mistyped option answer at
once.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn, TextIO

import typer

from sparseleaf._printable import printable
from sparseleaf.cli.blend import blend
from sparseleaf.cli.demo import demo
from sparseleaf.cli.evaluate import evaluate
from sparseleaf.cli.export import export
from sparseleaf.cli.inspect import inspect
from sparseleaf.cli.predict import predict
from sparseleaf.cli.train import train

USER_ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    help="Boosted trees with sparse vector leaves, for data with very many labels."
    " Try [bold]sparseleaf demo[/bold].",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, predict, evaluate, inspect, blend, export):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from sparseleaf import __version__

        typer.echo(f"sparseleaf {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that knows no box characters still gets the numbers
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code.

    0 is success, 2 a mistake of the user's, 130 an interruption. ``SPARSELEAF_TRACEBACK=1`` in the
    environment shows where an error comes from.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # shown, and no errors, whatever the environment says
        warnings.showwarning = _show_warning
        try:
            code = typer.main.get_command(app).main(args=given, prog_name="sparseleaf", standalone_mode=False)
        except (KeyboardInterrupt, typer.Abort):
            print("sparseleaf: interrupted; nothing was written", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            text = _user_error(error)
            if text is None or os.environ.get("SPARSELEAF_TRACEBACK"):
                raise
            if not _first_rank_tells():
                print(f"sparseleaf: error: {printable(' '.join(text.split()))}", file=sys.stderr)
            return USER_ERROR
    return code if isinstance(code, int) else 0


def _first_rank_tells() -> bool:
    """Whether this is one of several ranks, all of which know the error, and not the first."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.COMM_WORLD.Get_rank() > 0


def _user_error(error: Exception) -> str | None:
    """What to tell the user, or None if the error is ours."""
    if hasattr(error, "format_message"):  # a mistyped command line; the class moved between versions of typer
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return f"{error.format_message()}{hint}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ValueError | OSError | MemoryError | ImportError):
        notes = getattr(error, "__notes__", [])  # such as the rank that it comes from
        return " ".join([str(error) or type(error).__name__, *notes])
    return None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"sparseleaf: warning: {printable(' '.join(str(message).split()))}", file=file or sys.stderr)
