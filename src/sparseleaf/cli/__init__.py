"""Command-line interface: one module per command.

Errors of the library become one line on stderr and exit code 2. Slow imports are inside the commands, so that
``--help`` and invalid options respond immediately.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated, NoReturn, TextIO

import typer

from sparseleaf._printable import printable
from sparseleaf.cli.blend import blend
from sparseleaf.cli.calibrate import calibrate
from sparseleaf.cli.demo import demo
from sparseleaf.cli.evaluate import evaluate
from sparseleaf.cli.export import export
from sparseleaf.cli.inspect import inspect
from sparseleaf.cli.label_uris import label_uris
from sparseleaf.cli.predict import predict
from sparseleaf.cli.report import report
from sparseleaf.cli.serve import serve
from sparseleaf.cli.train import train
from sparseleaf.cli.tune import tune
from sparseleaf.cli.update import update

USER_ERROR = 2
INTERRUPTED = 130

app = typer.Typer(
    help="Tree ensembles with sparse vector leaves for multi-label classification, multi-output regression and ranking."
    " Start with [bold]sparseleaf demo[/bold].",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _paragraphs(docstring: str | None) -> str:
    """A docstring with one line per paragraph, since typer keeps line breaks."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", cleandoc(docstring or ""))


COMMANDS = (demo, train, tune, predict, evaluate, report, inspect, update)
MORE_COMMANDS = (blend, calibrate, label_uris, export, serve)

for command in COMMANDS + MORE_COMMANDS:
    app.command(help=_paragraphs(command.__doc__))(command)


def _print_version(requested: bool) -> None:
    if requested:
        from sparseleaf import __version__

        typer.echo(f"sparseleaf {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command-line interface and exit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without box-drawing characters
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command-line interface and return its exit code.

    0: success; 2: invalid input; 130: interrupted. With ``SPARSELEAF_TRACEBACK=1`` in the environment, errors have a
    traceback.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # not affected by PYTHONWARNINGS
        warnings.showwarning = _show_warning
        try:
            code = typer.main.get_command(app).main(
                args=arguments, prog_name="sparseleaf", standalone_mode=False
            )
        except (KeyboardInterrupt, typer.Abort):
            print("sparseleaf: interrupted; no output was written", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            text = _user_error(error)
            if text is None or os.environ.get("SPARSELEAF_TRACEBACK"):
                raise
            if not _reported_by_rank_0():
                print(f"sparseleaf: error: {printable(' '.join(text.split()))}", file=sys.stderr)
            return USER_ERROR
    return code if isinstance(code, int) else 0


def _reported_by_rank_0() -> bool:
    """Whether this is an MPI rank other than 0: all ranks raise the same error."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.COMM_WORLD.Get_rank() > 0


def _user_error(error: Exception) -> str | None:
    """Message of an error caused by user input; None for a bug."""
    if hasattr(error, "format_message"):  # usage errors; their class depends on the version of typer
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return f"{error.format_message()}{hint}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ValueError | OSError | MemoryError | ImportError):
        notes = getattr(error, "__notes__", [])  # such as the rank that raised it
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
