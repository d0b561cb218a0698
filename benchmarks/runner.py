"""Run a command with a limit of time and of memory, and see what it takes; nothing it started is left behind.

In: a command. Out: an `Outcome` that says how it ended. Memory is what the processes of its session hold together, read
from /proc a few times a second: a limit on addresses, the kernel's own kind, would refuse libraries that only map much.
Where there is no /proc, only the time is limited.
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
"""Of what a failed process said last."""


@dataclass(frozen=True)
class Outcome:
    """How a process ended: ``ended`` is "ok", "time limit", "memory limit" or "failed"."""

    ended: str
    seconds: float
    peak_bytes: int
    exit_code: int
    said: str


def run_limited(command, *, seconds, memory_bytes, environment=None):
    """Run ``command`` in a session of its own; whatever happens here, the whole session has ended on return."""
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        peak, ended = 0, None
        try:
            while ended is None:
                # looked at, not taken away: until it is, its number cannot become another process's
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                peak = max(peak, session_bytes(process.pid))
                if peak > memory_bytes:
                    ended = "memory limit"
                elif time.monotonic() - began > seconds:
                    ended = "time limit"
                else:
                    time.sleep(POLL_SECONDS)
        finally:
            end_session(process.pid)
            code = process.wait()
        taken = time.monotonic() - began
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4 * KEPT_CHARACTERS))
        said = output.read().decode(errors="replace")[-KEPT_CHARACTERS:]
        return Outcome(ended or ("failed" if code else "ok"), taken, peak, code, said)


def session_members(session):
    """Processes of a session that are alive, its leader's children's children and all."""
    for folder in Path("/proc").glob("[0-9]*"):
        # a process may be gone by now
        with contextlib.suppress(OSError, IndexError, ValueError):
            state, _, _, found = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(found) == session and state != "Z":
                yield int(folder.name)


def session_bytes(session):
    """Resident memory of all processes of a session together."""
    total = 0
    for process in session_members(session):
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


def end_session(session):
    """Kill what is left of a session: its first process group, then what left that group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    for process in list(session_members(session)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
