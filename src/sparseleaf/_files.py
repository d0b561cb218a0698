"""Local and remote files: transparent gzip, and atomic writes."""

from __future__ import annotations

import codecs
import fcntl
import glob
import gzip
import io
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
    """A local path, or a remote path for URLs; ``file://`` is local."""
    text = os.fspath(path)
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    return RemotePath(text) if "://" in text else Path(text)


def expand(paths: Sequence[AnyPath]) -> list[AnyPath]:
    """Expand patterns in remote paths; the shell expands local ones."""
    expanded: list[AnyPath] = []
    for path in paths:
        if isinstance(path, RemotePath) and any(sign in str(path) for sign in "*?["):
            matches = path.glob()
            if not matches:
                raise ValueError(f"{path}: no file matches the pattern.")
            expanded += matches
        else:
            expanded.append(path)
    return expanded


def read_bytes(path: AnyPath) -> bytes:
    """Content of a file, decompressed if it is gzipped (detected by content)."""
    content = path.read_bytes()
    if not content.startswith(GZIP_MAGIC):
        return content
    with _gzip_errors(path):
        return gzip.decompress(content)


def read_lines(path: AnyPath) -> Iterator[bytes]:
    """Lines of a file as they are read, without line ends and byte order mark; decompressed like :func:`read_bytes`."""
    with path.open("rb") as file, _gzip_errors(path):
        stream: IO[bytes] = file if hasattr(file, "peek") else io.BufferedReader(file)  # type: ignore[type-var]
        if stream.peek(2).startswith(GZIP_MAGIC):  # type: ignore[attr-defined]
            stream = gzip.GzipFile(fileobj=stream)  # type: ignore[assignment]
        for number, line in enumerate(stream):
            yield (line.removeprefix(codecs.BOM_UTF8) if number == 0 else line).rstrip(b"\r\n")


@contextmanager
def _gzip_errors(path: AnyPath) -> Iterator[None]:
    """Convert errors of decompression to ValueError."""
    try:
        yield
    except EOFError:
        raise ValueError(f"{path}: truncated gzip stream.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: corrupt gzip stream ({error}).") from None


@contextmanager
def local_copy(path: AnyPath) -> Iterator[Path]:
    """A local path of the file; the copy of a remote file is removed afterwards, memory-mapped content stays valid."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sparseleaf-") as folder:
        copy = Path(folder) / "copy"
        path.download(copy)
        yield copy


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` on success and is removed otherwise.

    The file is in a private directory beside ``path``, which is locked while the writer lives, so that the next writer
    can remove the leftovers of killed ones. The file gets the permissions of the file it replaces.
    """
    path = path.resolve()  # replaces the target of a symbolic link
    remove_drafts(path)
    with _locked_folder(path) as folder:
        draft = folder / path.name
        draft.touch()
        mode = (path if path.exists() else draft).stat().st_mode
        yield draft
        draft.chmod(mode)  # the writer may have changed it
        draft.replace(path)


@contextmanager
def _locked_folder(path: Path) -> Iterator[Path]:
    """A new locked directory beside ``path``, removed afterwards."""
    while True:
        folder = path.with_name(f".{path.name}{_draft_suffix()}")
        folder.mkdir(mode=0o700)
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not folder.exists():  # another writer locked and removed it first
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        finally:
            os.close(handle)


def remove_drafts(path: AnyPath) -> None:
    """Remove temporary files that killed writers left beside a local file."""
    if not isinstance(path, Path):
        return
    path = path.resolve()
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * DRAFT_DIGITS}.part"):
        with suppress(OSError):  # locked by a live writer, or already removed
            handle = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(handle)


@contextmanager
def replacing(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when it is complete; gzipped if ``path`` ends in ``.gz``.

    Existing paths that are not regular files (pipes, ``/dev/null``) are written to directly.
    """
    if isinstance(path, RemotePath):
        with tempfile.TemporaryFile() as file:  # uploaded when complete
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
    # no time stamp and no name in the header: the output is deterministic
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        yield packed  # type: ignore[misc]


def _draft_suffix() -> str:
    return f".{secrets.token_hex(DRAFT_DIGITS // 2)}.part"
