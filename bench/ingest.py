"""Importing transcripts: cold, again without change, one line more; beside the floor of parsing and indexing alone.

`python -m bench.ingest [FOLDER] [MB]` uses the corpus in FOLDER, or writes one of so many megabytes first.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec

from bench.corpus import MB, write_corpus
from bench.peak import Peak
from bench.tables import print_table

SHOWN = ("text", "thinking", "content", "input", "output", "message", "arguments", "last_agent_message")
PROGRAM = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text of a message that a reader would show."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            if name in SHOWN or isinstance(item, list):
                yield from texts_of(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from texts_of(item)


def floor(files: list[Path], database: Path) -> int:
    """Parse every line and index its texts, nothing else; return how many texts there were."""
    db = apsw.Connection(str(database))
    db.pragma("journal_mode", "WAL")
    db.pragma("synchronous", "NORMAL")
    db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
    decode = msgspec.json.Decoder().decode
    count = 0
    pending: list[tuple[str]] = []
    for path in files:
        with path.open("rb") as file:
            for line in file:
                record = decode(line)
                body: dict[str, Any] = record.get("message") or record.get("payload") or {}
                pending += [(text,) for text in texts_of(body.get("content", body))]
                if len(pending) >= 2000:
                    count += _insert(db, pending)
    count += _insert(db, pending)
    db.close()
    return count


def _insert(db: apsw.Connection, pending: list[tuple[str]]) -> int:
    with db:
        db.executemany("INSERT INTO found (text) VALUES (?)", pending)
    count = len(pending)
    pending.clear()
    return count


def resident(home: Path) -> int:
    """Return the memory of a home's processes together."""
    folders = (folder for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return sum(_resident(folder, str(home)) for folder in folders if folder.name != str(os.getpid()))


def _resident(folder: Path, home: str) -> int:
    """Return the proportional memory of a process that works for a home: what is shared counts once."""
    try:
        if f"SHIFTLOG_HOME={home}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
            return 0
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def run(home: Path, corpus: Path, *arguments: str) -> tuple[float, dict[str, Any], int]:
    """Import the corpus and return the wall time, the report and the peak memory."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SHIFTLOG_")}
    env |= {"SHIFTLOG_HOME": str(home), "HOME": str(home)}
    env |= {"CLAUDE_CONFIG_DIR": str(corpus / "claude"), "CODEX_HOME": str(corpus / "codex")}
    with Peak(lambda: resident(home)) as peak:
        start = time.perf_counter()
        done = subprocess.run([*PROGRAM, "import", "--json", *arguments], env=env, capture_output=True, check=False)
        wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return wall, json.loads(done.stdout), peak.bytes


def stop(home: Path) -> None:
    env = {**os.environ, "SHIFTLOG_HOME": str(home)}
    subprocess.run([*PROGRAM, "daemon", "stop"], env=env, capture_output=True, check=False)


def main(corpus: Path) -> None:
    """Measure and print."""
    files = sorted(corpus.rglob("*.jsonl"))
    raw = sum(path.stat().st_size for path in files)
    for path in files:
        path.read_bytes()  # warm
    scratch = Path(tempfile.mkdtemp(prefix="shiftlog-bench-ingest-"))
    home = scratch / "home"
    home.mkdir(mode=0o700)
    try:
        start = time.perf_counter()
        texts = floor(files, scratch / "floor.db")
        bare = time.perf_counter() - start
        run(home, scratch / "nothing")  # the daemon is up, as it is on a machine in use
        time.sleep(3)
        cold, report, peak = run(home, corpus)
        again, _, _ = run(home, corpus)
        grown = files[len(files) // 2]
        before = grown.read_bytes()
        with grown.open("ab") as file:
            file.write(before.rstrip(b"\n").rpartition(b"\n")[2] + b"\n")
        try:
            line, one, _ = run(home, corpus)
        finally:
            grown.write_bytes(before)
        stop(home)
        kept = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        print_table(
            f"Import of {raw / MB:.0f} MB in {len(files)} files ({report['totals']['entries']} entries, {texts} texts)",
            ["job", "wall", "ratio", "more"],
            [
                ["floor: parse + FTS5", f"{bare:.2f} s", "1.00×", f"{raw / MB / bare:.1f} MB/s"],
                ["cold", f"{cold:.2f} s", f"{cold / bare:.2f}×", f"{raw / MB / cold:.1f} MB/s"],
                ["no change", f"{again:.3f} s", "", ""],
                ["one line more", f"{line:.3f} s", "", f"{one['bytes_read']} bytes read"],
                ["peak memory", "", "", f"{peak / MB:.0f} MB"],
                ["database", "", f"{kept / raw:.0%} of raw", f"{kept / MB:.0f} MB"],
            ],
        )
    finally:
        stop(home)
        shutil.rmtree(scratch)


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="shiftlog-corpus-"))
    if not any(given.rglob("*.jsonl")):
        write_corpus(given, (int(sys.argv[2]) if len(sys.argv) > 2 else 300) * MB, turns=16)
    main(given)
