"""What a remote shell leaves on its target: processes found by a mark in their environment, and a server to kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GONE_S = 10.0
MARK = "SHIFTLOG_TEST_MARK"


async def until_gone(mark: str) -> None:
    """Wait until no process of this machine has a mark in its environment; fail when that takes too long."""
    deadline = time.monotonic() + GONE_S
    while left := marked(mark):
        assert time.monotonic() < deadline, [f"{pid}: {_words(pid)}" for pid in left[:10]]
        await asyncio.sleep(0.05)


def marked(mark: str) -> list[int]:
    """Return the living processes of this machine that have a mark in their environment."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if mark.encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
    return found


def stop_marked(mark: str) -> None:
    """Kill what has the mark, group by group, so that nothing which forks meanwhile escapes."""
    while left := marked(mark):
        for pid in left:
            try:
                os.killpg(os.getpgid(pid), signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.02)


def kill_busy_server(folder: Path, settings: str, opening: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Start a server whose remote shell is busy in every way, and kill it without a warning."""
    root = Path(__file__).parents[3]
    arguments = [str(folder), settings, json.dumps(opening), json.dumps(environ)]
    argv = [sys.executable, "-m", "tests.shell.remote.victim", *arguments]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=root)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"busy\n"
        assert len(marked(opening["env"][MARK])) >= 7
    finally:
        server.kill()
        server.communicate()


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"
