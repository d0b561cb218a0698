"""Files that are elsewhere: what a ``pathlib.Path`` does, for the URLs of fsspec (``s3://…``, ``hdfs://…``, …).

fsspec is imported only when such a file is touched; errors name the whole URL.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

COPY_BYTES = 1 << 22


class Size(NamedTuple):
    """What is known of a file: the part of ``os.stat_result`` that is asked for."""

    st_size: int


class RemotePath:
    """A file behind a URL.

    Parameters
    ----------
    url : str
        Whatever fsspec takes, chained ones (``simplecache::s3://…``) too.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"RemotePath({self._url!r})"

    def __fspath__(self) -> str:
        return self._url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self._url).name

    @property
    def suffix(self) -> str:
        """What the name ends in, from its last dot."""
        return PurePosixPath(self._url).suffix

    def exists(self) -> bool:
        """Whether there is anything at all."""
        with self._telling():
            system, inside = self._system()
            return bool(system.exists(inside))

    def is_file(self) -> bool:
        """Whether there is a file."""
        with self._telling():
            system, inside = self._system()
            return bool(system.isfile(inside))

    def stat(self) -> Size:
        """The file's size."""
        with self._telling():
            system, inside = self._system()
            return Size(int(system.size(inside)))

    def read_bytes(self) -> bytes:
        """All of the file."""
        with self._telling():
            system, inside = self._system()
            return bytes(system.cat_file(inside))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """The file to read; all of it is fetched at once."""
        if mode != "rb":
            raise ValueError(f"{self}: found mode {mode!r}; a file elsewhere is written through `replacing`.")
        return io.BytesIO(self.read_bytes())

    def download(self, place: os.PathLike[str]) -> None:
        """Copy the file to a local place."""
        with self._telling():
            system, inside = self._system()
            system.get_file(inside, os.fspath(place))

    def check_writable(self) -> None:
        """Refuse a place where no file can be made, by making one beside this."""
        with self._telling():
            system, inside = self._system()
            probe = f"{inside}.{secrets.token_hex(8)}.part"
            if system.isdir(inside):
                raise IsADirectoryError("it is a folder; wanted a file to write")
            try:
                with system.open(probe, "wb") as file:
                    file.write(b"sparseleaf")
            finally:
                _remove(system, probe)

    def glob(self) -> list[RemotePath]:
        """The files that the URL, with ``*`` and ``?`` in it, stands for; in order of name."""
        with self._telling():
            system, inside = self._system()
            return [RemotePath(system.unstrip_protocol(found)) for found in sorted(system.glob(inside))]

    def upload(self, content: IO[bytes], draft_suffix: str) -> None:
        """Write the file: first under another name, from which it is moved, or which goes away.

        Stores without a rename copy the draft: what was there before is replaced by a whole file, or stays.
        """
        with self._telling():
            system, inside = self._system()
            draft = f"{inside}{draft_suffix}"
            try:
                with system.open(draft, "wb") as file:
                    shutil.copyfileobj(content, file, COPY_BYTES)
                system.mv(draft, inside)
            except BaseException:
                _remove(system, draft)
                raise

    # --- inside

    def _system(self) -> tuple[Any, str]:
        """The file system and the path in it."""
        try:
            import fsspec
        except ImportError:
            raise ImportError(
                f"{self}: a file that is not local needs fsspec, which is not installed:"
                " pip install 'sparseleaf[remote]'",
                name="fsspec",
            ) from None
        try:
            system, inside = fsspec.core.url_to_fs(self._url)
        except ImportError as error:  # fsspec knows the protocol, its package is missing
            raise ImportError(
                f"{self}: the package of this protocol is missing, beside sparseleaf[remote]: {error}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{self}: {error}; wanted a protocol that fsspec knows.") from None
        return system, inside

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Errors of the file system as OSError with the whole URL."""
        try:
            yield
        except (ImportError, ValueError):
            raise
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._url) from None
        except Exception as error:  # every protocol has errors of its own
            raise OSError(f"{self}: {type(error).__name__}: {error}") from error


def _remove(system: Any, path: str) -> None:
    try:
        system.rm_file(path)
    except Exception:  # it may never have come to be, and the first error is the one to tell
        return
