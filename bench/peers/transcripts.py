"""Transcripts: importing, importing again, one line more, totals, search, memory and size; one corpus, one run.

Peers do different jobs: `agentsview` fills a database as we do, `claude-code-log` writes pages (of Claude Code alone),
`ccusage` only adds up. What a tool does not offer has no figure.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from bench.corpus import MB, write_corpus
from bench.peers.installs import AGENTSVIEW, CCUSAGE, CLAUDE_CODE_LOG, Peer, install, version
from bench.peers.talks import MARK, end_marked, memory_marked
from bench.tables import percentile, print_table

TIMEOUT_S = 1200
TIMES = 3
SHIFTLOG = str(Path(sys.executable).with_name("shiftlog"))
CHECKOUT = Path(__file__).resolve().parents[2]
JOBS = ("cold", "no change", "+1 line", "totals", "search")
FLOOR = (
    "import sys, pathlib; from bench.ingest import floor; "
    "floor(sorted(pathlib.Path(sys.argv[1]).rglob('*.jsonl')), pathlib.Path(sys.argv[2]))"
)


@dataclass(slots=True, kw_only=True)
class Tool:
    """One tool: its commands by job, where its data lies, and what was measured."""

    name: str
    commands: dict[str, list[str]]
    environ: dict[str, str]
    data: list[Path]
    peer: Peer | None = None
    note: str = ""
    spans: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    peak: int = 0
    size: int = 0
    answers: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def run(self, job: str) -> None:
        """Run one job to its end, unless the tool has none such or failed at it before."""
        first = "start" in self.reasons or "cold" in self.reasons
        if job not in self.commands or job in self.reasons or first:
            return
        mark = f"{self.name} {os.getpid()}"
        with Peak(mark) as peak:
            begun = time.perf_counter()
            try:
                done = subprocess.run(
                    self.commands[job],
                    env={**self.environ, MARK: mark},
                    cwd=CHECKOUT,
                    capture_output=True,
                    timeout=TIMEOUT_S,
                    check=True,
                )
            except subprocess.TimeoutExpired:
                self.reasons[job] = f"took over {TIMEOUT_S} s"
                return
            except (OSError, subprocess.CalledProcessError) as error:
                words = getattr(error, "stderr", b"") or str(error).encode()
                self.reasons[job] = words.decode(errors="replace").strip().splitlines()[-1][:160]
                return
            took = time.perf_counter() - begun
        self.spans.setdefault(job, []).append(took)
        self.answers[job] = done.stdout
        if job == "cold":
            self.peak = peak.bytes
            self.size = sum(_size(path) for path in self.data)

    def at(self, job: str) -> float | None:
        """Return the middle of the seconds a job took."""
        return percentile(self.spans[job], 0.5) / 1000 if self.spans.get(job) else None

    def shown(self, job: str) -> str:
        value = self.at(job)
        return "–" if value is None else f"{value:.2f} s"


class Peak:
    """The largest memory of all processes with a mark together, watched from a thread."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.bytes = max(self.bytes, memory_marked(self._mark))


def main(scratch: Path, megabytes: int, given: Path | None) -> None:
    """Measure and print."""
    corpus = scratch / "corpus"
    if given is None:
        write_corpus(corpus, megabytes * MB, turns=16)
    else:
        shutil.copytree(given, corpus)
    pages = scratch / "pages"
    shutil.copytree(corpus / "claude" / "projects", pages / "projects")  # claude-code-log writes beside what it reads
    files = sorted(corpus.rglob("*.jsonl"))
    raw = sum(path.read_bytes().__len__() for path in files)  # read, so that every tool finds them in the cache
    word = _rare_word(files[len(files) // 2])
    tools = _tools(scratch, corpus, pages, word)
    try:
        _measure(tools, _claude_files(corpus), _claude_files(pages))
    finally:
        for tool in tools:
            end_marked(f"{tool.name} {os.getpid()}")
    _print(tools, raw, len(files))


def _measure(tools: list[Tool], files: list[Path], twins: list[Path]) -> None:
    for tool in tools:
        reason = install(tool.peer) if tool.peer else None
        if reason:
            tool.reasons["start"] = reason
        tool.run("cold")
    for _ in range(TIMES):
        for tool in tools:
            tool.run("no change")
    for number in range(TIMES):
        for path in (files[number % len(files)], twins[number % len(twins)]):
            _grow(path, number)
        for tool in tools:
            tool.run("+1 line")
    for job in ("totals", "search"):
        for _ in range(TIMES):
            for tool in tools:
                tool.run(job)


def _tools(scratch: Path, corpus: Path, pages: Path, word: str) -> list[Tool]:
    state, viewed = scratch / "state", scratch / "agentsview"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SHIFTLOG_")}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)
    claude, codex = str(corpus / "claude"), str(corpus / "codex")
    ours = [SHIFTLOG, "import", "--json"]
    view = str(AGENTSVIEW.program("agentsview"))
    log = [str(CLAUDE_CODE_LOG.program("claude-code-log")), "--projects-dir", str(pages / "projects")]
    log += ["--all-projects", "-o", str(pages / "out")]
    return [
        Tool(
            name="floor: parse + FTS5",
            commands={"cold": [sys.executable, "-c", FLOOR, str(corpus), str(scratch / "floor.db")]},
            environ=clean,
            data=[scratch / "floor.db"],
        ),
        Tool(
            name="ours",
            commands={
                "cold": ours,
                "no change": ours,
                "+1 line": ours,
                "totals": [SHIFTLOG, "usage", "--by", "day", "--by", "model", "--by", "agent", "--json"],
                "search": [SHIFTLOG, "search", word, "--json"],
            },
            environ=clean | {"SHIFTLOG_HOME": str(state), "CLAUDE_CONFIG_DIR": claude, "CODEX_HOME": codex},
            data=[state],
        ),
        Tool(
            name="agentsview",
            peer=AGENTSVIEW,
            commands={
                "cold": [view, "sync"],
                "no change": [view, "sync"],
                "+1 line": [view, "sync"],
                "totals": [view, "usage", "daily", "--all", "--breakdown", "--json", "--no-sync", "--offline"],
                "search": [view, "session", "search", word, "--fts", "--json"],
            },
            environ=AGENTSVIEW.environ(
                AGENTSVIEW_DATA_DIR=str(viewed),
                AGENTSVIEW_NO_DAEMON="1",
                CLAUDE_PROJECTS_DIR=f"{claude}/projects",
                CODEX_SESSIONS_DIR=f"{codex}/sessions",
            ),
            data=[viewed],
        ),
        Tool(
            name="claude-code-log",
            peer=CLAUDE_CODE_LOG,
            commands={"cold": log, "no change": log, "+1 line": log},
            environ=CLAUDE_CODE_LOG.environ(),
            data=[pages / "out", pages / "projects" / "claude-code-log-cache.db"],
        ),
        Tool(
            name="ccusage",
            peer=CCUSAGE,
            commands={"totals": [str(CCUSAGE.program("ccusage")), "daily", "--json", "--offline"]},
            environ=CCUSAGE.environ(CLAUDE_CONFIG_DIR=claude, CODEX_HOME=codex),
            data=[],
        ),
    ]


def _grow(path: Path, number: int) -> None:
    """Append one record as the client would: the last one again under an id of its own."""
    last = json.loads(path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2])
    last |= {"parentUuid": last["uuid"], "uuid": str(uuid.UUID(int=number + 1, version=4))}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(last, ensure_ascii=False, separators=(",", ":")) + "\n")


def _claude_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.jsonl") if "projects" in path.parts)


def _rare_word(path: Path) -> str:
    """Pick a long word of a recorded text."""
    words = path.read_text(encoding="utf-8").replace("\\n", " ").split()
    return max((word for word in words if word.isascii() and word.isalpha() and len(word) < 30), key=len)


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


def _print(tools: list[Tool], raw: int, files: int) -> None:
    floor = tools[0].at("cold")
    viewed = next(tool.at("cold") for tool in tools if tool.name == "agentsview")
    rows: list[list[str]] = []
    for tool in tools:
        cold = tool.at("cold")
        known = tool.peer is not None and "start" not in tool.reasons
        rows.append(
            [
                f"{tool.name} {version(tool.peer)}" if tool.peer and known else tool.name,
                tool.shown("cold"),
                f"{cold / floor:.2f}×" if cold and floor else "–",
                f"{cold / viewed:.2f}×" if cold and viewed else "–",
                *(tool.shown(job) for job in JOBS[1:]),
                f"{tool.peak / MB:.0f} MB" if tool.peak else "–",
                f"{tool.size / MB:.0f} MB, {tool.size / raw:.0%}" if tool.size else "–",
            ]
        )
    header = ["tool", "cold", "÷ floor", "÷ agentsview", *JOBS[1:], "peak memory", "on disk, of raw"]
    print_table(f"Transcripts: {raw / MB:.0f} MB in {files} files", header, rows)
    reasons = [(tool.name, job, reason) for tool in tools for job, reason in tool.reasons.items()]
    if reasons:
        print_table("No figure, and why", ["tool", "job", "reason"], reasons)
    _print_bounds(tools[1], floor, viewed, raw)


def _print_bounds(ours: Tool, floor: float | None, viewed: float | None, raw: int) -> None:
    cold, again, line = ours.at("cold"), ours.at("no change"), ours.at("+1 line")
    bounds = [
        ("cold ÷ floor", cold / floor if cold and floor else None, 2.5),
        ("cold ÷ agentsview", cold / viewed if cold and viewed else None, 0.8),
        ("no change, seconds", again, 0.5),
        ("+1 line, seconds", line, 0.5),
        ("totals, seconds (the process included)", ours.at("totals"), 0.1),
        ("peak memory, MB", ours.peak / MB or None, 200),
        ("on disk ÷ raw", ours.size / raw or None, 0.4),
    ]
    for name, value, most in bounds:
        if value is not None:
            print(f"  ours: {name} {value:.2f} (at most {most}): {'holds' if value <= most else 'MISSED'}")
