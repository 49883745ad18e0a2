"""An import that is killed at any moment goes on to the journal that an undisturbed one gives."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.corpus import write_corpus
from tests.cli.support import shiftlog
from tests.daemon.support import end_daemon, environment, eventually, lock_holder
from tests.ingest.import_app import NOW

PROGRAM = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]


def journal(home: Path) -> list[dict[str, Any]]:
    """Return what every session came to."""
    done = shiftlog(home, "sessions", "--limit", "1000", "--json")
    heads: list[dict[str, Any]] = []
    for item in done.json()["items"]:
        shown = shiftlog(home, "show", item["session_id"], "--json").json()
        session = shown.get("session", shown)
        heads.append({name: session[name] for name in ("session_id", "head_hash", "turns_total", "tokens_total")})
    return sorted(heads, key=lambda one: str(one["session_id"]))


@pytest.mark.long
@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_killing_the_daemon_at_random_moments_changes_nothing_in_the_end(tmp_path: Path, kills: int) -> None:
    """Case 42."""
    corpus = tmp_path / "corpus"
    write_corpus(corpus, 12_000_000, turns=4)
    clock = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": NOW.isoformat()}
    whole, broken = tmp_path / "w", tmp_path / "b"
    try:
        for home in (whole, broken):
            home.mkdir(mode=0o700)
        shiftlog(whole, "import", str(corpus), "--json", env=clock)
        moments = random.Random(4)
        for _ in range(kills):
            importing = subprocess.Popen(
                [*PROGRAM, "import", str(corpus), "--json", "--jobs", "1"],
                env=environment(broken, **clock),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                importing.wait(0.2 + moments.random())
            except subprocess.TimeoutExpired:
                pass
            kill_daemon(broken)
            importing.wait(30)
        shiftlog(broken, "import", str(corpus), "--json", env=clock)
        assert journal(broken) == journal(whole)
        shiftlog(broken, "verify", "--json")
    finally:
        end_daemon(whole)
        end_daemon(broken)


def kill_daemon(home: Path) -> None:
    pid = lock_holder(home)
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: lock_holder(home) != pid)
