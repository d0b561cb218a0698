"""Remote files: the interface of ``pathlib.Path`` for fsspec URLs (``s3://…``, ``hdfs://…``, …).

fsspec is imported on first use; error messages have the full URL.
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
    """The part of ``os.stat_result`` that is used."""

    st_size: int


class RemotePath:
    """A remote file.

    Parameters
    ----------
    url : str
        fsspec URL, including chained ones (``simplecache::s3://…``).
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
        """Last component of the URL."""
        return PurePosixPath(self._url).name

    @property
    def suffix(self) -> str:
        """Suffix of the name, from its last dot."""
        return PurePosixPath(self._url).suffix

    def exists(self) -> bool:
        """Whether the URL exists."""
        with self._os_errors():
            system, inside = self._system()
            return bool(system.exists(inside))

    def is_file(self) -> bool:
        """Whether the URL is a file."""
        with self._os_errors():
            system, inside = self._system()
            return bool(system.isfile(inside))

    def stat(self) -> Size:
        """Size of the file."""
        with self._os_errors():
            system, inside = self._system()
            return Size(int(system.size(inside)))

    def read_bytes(self) -> bytes:
        """Content of the file."""
        with self._os_errors():
            system, inside = self._system()
            return bytes(system.cat_file(inside))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open the file for reading; its whole content is fetched at once."""
        if mode != "rb":
            raise ValueError(f"{self}: mode must be 'rb'. Got {mode!r} instead.")
        return io.BytesIO(self.read_bytes())

    def download(self, place: os.PathLike[str]) -> None:
        """Copy the file to a local path."""
        with self._os_errors():
            system, inside = self._system()
            system.get_file(inside, os.fspath(place))

    def check_writable(self) -> None:
        """Raise an error if files cannot be created beside this one, by creating one."""
        with self._os_errors():
            system, inside = self._system()
            probe = f"{inside}.{secrets.token_hex(8)}.part"
            if system.isdir(inside):
                raise IsADirectoryError("expected a file to write, got a directory")
            try:
                with system.open(probe, "wb") as file:
                    file.write(b"sparseleaf")
            finally:
                _remove(system, probe)

    def glob(self) -> list[RemotePath]:
        """Files that match the URL as a pattern with ``*`` and ``?``, sorted by name."""
        with self._os_errors():
            system, inside = self._system()
            return [RemotePath(system.unstrip_protocol(path)) for path in sorted(system.glob(inside))]

    def upload(self, content: IO[bytes], draft_suffix: str) -> None:
        """Write the file under a temporary name and move it into place.

        Object stores without rename copy the temporary file; the previous file is replaced completely or not at all.
        """
        with self._os_errors():
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
                f"{self}: remote files require fsspec. Install it with: pip install 'sparseleaf[remote]'",
                name="fsspec",
            ) from None
        try:
            system, inside = fsspec.core.url_to_fs(self._url)
        except ImportError as error:  # fsspec knows the protocol, its package is missing
            raise ImportError(
                f"{self}: this protocol requires another package in addition to sparseleaf[remote]: {error}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{self}: {error}; the protocol must be one that fsspec supports.") from None
        return system, inside

    @contextmanager
    def _os_errors(self) -> Iterator[None]:
        """Convert errors of the file system to OSError with the full URL."""
        try:
            yield
        except (ImportError, ValueError):
            raise
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._url) from None
        except Exception as error:  # every protocol raises its own error types
            raise OSError(f"{self}: {type(error).__name__}: {error}") from error


def _remove(system: Any, path: str) -> None:
    try:
        system.rm_file(path)
    except Exception:  # it may not exist; the original error matters
        return
