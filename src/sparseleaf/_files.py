"""Reading files that may be gzipped, and writing files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """All of a file, unpacked if it is gzipped; that is known by its content, not by its name."""
    content = path.read_bytes()
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except EOFError:
        raise ValueError(f"{path}: found a gzip stream that is cut short, wanted a complete one") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: found a damaged gzip stream ({error}), wanted a valid one") from None


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes its place when all went well, and goes away otherwise."""
    path = path.resolve()  # a symbolic link stays one, its target is replaced
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` only when everything is written; gzipped if named ``.gz``.

    What is there and is no regular file (a pipe, ``/dev/null``) is written to directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    with drafting(path) as draft, draft.open("xb") as file:
        if path.suffix == ".gz":
            # no time stamp and no name in the header: the same data gives the same bytes
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield file
        file.flush()
        os.fsync(file.fileno())
