"""Runs a command with a time limit and a memory limit and terminates every process that it started.

Memory is the resident memory of all processes of the command's session, polled from /proc: RLIMIT_AS limits address
space and would stop libraries that map more than they use. Without /proc only time is limited.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1
KEPT_CHARACTERS = 2_000
"""Length of the output kept of a process, from its end."""


@dataclass(frozen=True)
class Outcome:
    """``status`` is "ok", "time limit", "memory limit" or "failed"; ``message`` the end of its output."""

    status: str
    seconds: float
    peak_bytes: int
    exit_code: int
    message: str


def run_limited(command, *, seconds, memory_bytes, environment=None):
    """Run ``command`` in a new session; on return, also by an exception, every process of it has ended."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        peak, status = 0, None
        try:
            while status is None:
                # WNOWAIT leaves the process waitable, so that its id cannot be reused yet
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                peak = max(peak, session_bytes(process.pid))
                if peak > memory_bytes:
                    status = "memory limit"
                elif time.monotonic() - started > seconds:
                    status = "time limit"
                else:
                    time.sleep(POLL_SECONDS)
        finally:
            end_session(process.pid)
            code = process.wait()
        elapsed = time.monotonic() - started
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4 * KEPT_CHARACTERS))
        message = output.read().decode(errors="replace")[-KEPT_CHARACTERS:]
        return Outcome(status or ("failed" if code else "ok"), elapsed, peak, code, message)


def session_members(session):
    """Ids of the live processes of a session."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # the process may have ended
            state, _, _, member_of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(member_of) == session and state != "Z":
                yield int(folder.name)


def session_bytes(session):
    """Total resident memory of the processes of a session."""
    total = 0
    for process in session_members(session):
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


def end_session(session):
    """Kill the processes of a session: its first process group, then those that changed their group."""

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    for process in list(session_members(session)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
