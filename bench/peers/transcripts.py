"""Transcripts: importing, importing again, one line more, totals, search, memory and size; one corpus, one run.

Peers do different jobs: `agentsview` fills a database as we do, `claude-code-log` writes pages (of Claude Code alone),
`ccusage` only adds up. What a tool does not offer has no figure. Nobody looks on while something is timed: to look at
the memory of several processes twenty times a second takes a tenth of this machine, so that has a run of its own.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.corpus import MB, write_corpus
from bench.peak import Peak
from bench.peers.installs import AGENTSVIEW, CCUSAGE, CLAUDE_CODE_LOG, Peer, install, version
from bench.peers.talks import MARK, end_marked, memory_marked
from bench.tables import percentile, print_table

TIMEOUT_S = 1200
TIMES = 3
LONG_S = 60  # what takes longer is done once, and watched then
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
    total: tuple[str, str] = ("", "")
    spans: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    peak: int = 0
    size: int = 0
    answers: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, job: str, *, is_watched: bool = False) -> None:
        """Run one job, unless the tool has none such or failed at it before; watch its memory, or the clock."""
        hopeless = "start" in self.reasons or "cold" in self.reasons
        if job not in self.commands or job in self.reasons or hopeless:
            return
        # A daemon that does the searching must not be met by the jobs that are measured without one.
        served = {"AGENTSVIEW_NO_DAEMON": "0"} if job in ("serve", "search", "stop") else {}
        mark = f"{self.name} {os.getpid()}"
        # Files, not pipes: a daemon that a job leaves behind would hold a pipe open.
        with (
            Peak(lambda: memory_marked(mark)) if is_watched else nullcontext() as peak,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            begun = time.perf_counter()
            try:
                process = subprocess.Popen(
                    self.commands[job],
                    env={**self.environ, **served, MARK: mark},
                    cwd=CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
            except OSError as error:
                self.reasons[job] = str(error)[:160]
                return
            # Not `wait(timeout)`, which looks only every twentieth of a second.
            impatience = threading.Timer(TIMEOUT_S, process.kill)
            impatience.start()
            status = process.wait()
            took = time.perf_counter() - begun
            impatience.cancel()
            if status:
                words = _text(err).strip() or f"exit status {status}"
                self.reasons[job] = f"took over {TIMEOUT_S} s" if took >= TIMEOUT_S else words.splitlines()[-1][:160]
                return
            self.answers[job] = _text(out)
        if peak is None or took > LONG_S:
            self.spans.setdefault(job, []).append(took)
        if peak is not None:
            self.peak = peak.bytes

    def start_over(self) -> None:
        """Let go of the data and forget it."""
        self.run("stop")
        for path in self.data:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def measure_size(self) -> None:
        """Let go of the data, so that nothing waits in a log, and measure it."""
        self.run("stop")
        self.size = sum(_size(path) for path in self.data)

    def output_tokens(self) -> int | None:
        """Return the output tokens of all sessions as the tool counts them: tools that agree read alike."""
        outer, inner = self.total
        return json.loads(self.answers["totals"])[outer][inner] if self.answers.get("totals") else None

    def at(self, job: str) -> float | None:
        """Return the middle of the seconds a job took."""
        return percentile(self.spans[job], 0.5) / 1000 if self.spans.get(job) else None

    def shown(self, job: str) -> str:
        value = self.at(job)
        return "–" if value is None else f"{value:.2f} s"


def main(scratch: Path, megabytes: int, given: Path | None, only: str = "") -> None:
    """Measure and print; of the peers only the one that is named, if one is."""
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
    tools = [tool for tool in _tools(scratch, corpus, pages, word) if not (only and tool.peer) or tool.name == only]
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
        tool.run("cold", is_watched=True)
    quick = [tool for tool in tools if "cold" not in tool.spans]
    for _ in range(TIMES):
        for tool in quick:
            tool.start_over()
            tool.run("cold")
    for _ in range(TIMES):
        for tool in tools:
            tool.run("no change")
    for number in range(TIMES):
        for path in (files[number % len(files)], twins[number % len(twins)]):
            _grow(path, number)
        for tool in tools:
            tool.run("+1 line")
    for job, times in (("totals", TIMES), ("serve", 1), ("search", TIMES)):
        for _ in range(times):
            for tool in tools:
                tool.run(job)
    for tool in tools:
        tool.measure_size()


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
                "stop": [SHIFTLOG, "daemon", "stop"],
            },
            total=("total", "output_tokens"),
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
                "serve": [view, "daemon", "start"],
                "search": [view, "session", "search", word, "--fts", "--json"],
                "stop": [view, "daemon", "stop"],
            },
            total=("totals", "outputTokens"),
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
            total=("totals", "outputTokens"),
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


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


def _print(tools: list[Tool], raw: int, files: int) -> None:
    floor = tools[0].at("cold")
    viewed = next((tool.at("cold") for tool in tools if tool.name == "agentsview"), None)
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
    counted = {tool.name: tool.output_tokens() for tool in tools if tool.total[0]}
    print(f"  output tokens: {', '.join(f'{name} {count}' for name, count in counted.items())}")
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
