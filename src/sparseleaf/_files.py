"""Files here and elsewhere: reading what may be gzipped, and writing files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import glob
import gzip
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias
from urllib.parse import unquote, urlsplit

from sparseleaf._remote import RemotePath

GZIP_MAGIC = b"\x1f\x8b"
DRAFT_DIGITS = 16

AnyPath: TypeAlias = Path | RemotePath


def as_path(path: str | os.PathLike[str]) -> AnyPath:
    """A local path, or one of fsspec for what looks like a URL; ``file://`` is local."""
    text = os.fspath(path)
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    return RemotePath(text) if "://" in text else Path(text)


def expand(paths: Sequence[AnyPath]) -> list[AnyPath]:
    """The same, with the files that remote patterns stand for in their places; the shell knows only local ones."""
    expanded: list[AnyPath] = []
    for path in paths:
        if isinstance(path, RemotePath) and any(sign in str(path) for sign in "*?["):
            found = path.glob()
            if not found:
                raise ValueError(f"{path}: found no file of such a name, wanted at least one.")
            expanded += found
        else:
            expanded.append(path)
    return expanded


def read_bytes(path: AnyPath) -> bytes:
    """All of a file, unpacked if it is gzipped; that is known by its content, not by its name."""
    content = path.read_bytes()
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except EOFError:
        raise ValueError(f"{path}: found a gzip stream that is cut short, wanted a complete one") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: found a damaged gzip stream ({error}), wanted a valid one") from None


@contextmanager
def local_copy(path: AnyPath) -> Iterator[Path]:
    """The file as a local one; the copy of a remote one goes away, but what is mapped stays."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sparseleaf-") as folder:
        copy = Path(folder) / "copy"
        path.download(copy)
        yield copy


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """A file to write to, empty at first; it takes the place of ``path`` when all went well, and goes away otherwise.

    It is in a folder beside ``path`` that only its owner can read, and that is locked while the writer lives: so the
    next writer can tell what killed ones have left, and removes it. The file gets the permissions of the one that it
    replaces.
    """
    path = path.resolve()  # a symbolic link stays one, its target is replaced
    remove_drafts(path)
    with _locked_folder(path) as folder:
        draft = folder / path.name
        draft.touch()
        mode = (path if path.exists() else draft).stat().st_mode
        yield draft
        draft.chmod(mode)  # whatever the writer made of it
        draft.replace(path)


@contextmanager
def _locked_folder(path: Path) -> Iterator[Path]:
    """A new folder beside ``path``, which goes away."""
    while True:
        folder = path.with_name(f".{path.name}{_draft_suffix()}")
        folder.mkdir(mode=0o700)
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not folder.exists():  # another writer was quicker to lock it, and took it for a dead one's
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        finally:
            os.close(handle)


def remove_drafts(path: AnyPath) -> None:
    """Remove what writers of a local file that were killed have left beside it."""
    if not isinstance(path, Path):
        return
    path = path.resolve()
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * DRAFT_DIGITS}.part"):
        with suppress(OSError):  # it is locked: its writer lives; or it is gone
            handle = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(handle)


@contextmanager
def replacing(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` only when everything is written; gzipped if named ``.gz``.

    What is there and is no regular file (a pipe, ``/dev/null``) is written to directly.
    """
    if isinstance(path, RemotePath):
        with tempfile.TemporaryFile() as file:  # nothing is sent before all of it is there
            with _maybe_packed(path, file) as target:
                yield target
            file.seek(0)
            path.upload(file, _draft_suffix())
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    with drafting(path) as draft, draft.open("wb") as file:
        with _maybe_packed(path, file) as target:
            yield target
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _maybe_packed(path: AnyPath, file: IO[bytes]) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield file
        return
    # no time stamp and no name in the header: the same data gives the same bytes
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        yield packed  # type: ignore[misc]


def _draft_suffix() -> str:
    return f".{secrets.token_hex(DRAFT_DIGITS // 2)}.part"
