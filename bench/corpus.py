"""`python -m bench.corpus FOLDER [MB]`: transcripts as Claude Code and Codex write them, made from a seed.

Not random letters: words come with the frequencies of prose and code, tool outputs repeat, edits carry patches, and a
record has the fields of real ones, so that parsing, masking and indexing cost what they cost on a real machine.
"""

import json
import random
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MB = 1_000_000
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_SYLLABLES = "ba co de fi ga hu in ja ke lo mi no or pa qui ra se ti un ve wo xa ze str ing tion ment able er".split()
# How often a tool shows what it has shown before: files are read again, tests run again.
REPEATS = 0.3
_CODE = (
    "def {a}({b}, {c}):",
    "    return {a}.{b}({c})",
    "from {a}.{b} import {c}",
    "    if {a} is None and {b} > 12:",
    "const {a} = await {b}.{c}();",
    "    self.{a} = {b}[{c}]",
    "# {a} {b} {c} {d}",
    '    raise ValueError(f"{a} {b}")',
    "{a}: {b}  # {c}",
)

Record = dict[str, Any]


class Author:
    """Writes words, lines and files; the same seed writes the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._shown: list[list[str]] = []
        self.words = ["".join(self._random.choices(_SYLLABLES, k=self._random.randint(1, 4))) for _ in range(20_000)]

    def word(self) -> str:
        # Few words are most of a text.
        return self.words[min(int(self._random.paretovariate(0.6)) - 1, len(self.words) - 1)]

    def prose(self, words: int) -> str:
        ends = {13: ".", 27: ".", 89: ".\n\n"}
        return " ".join(self.word() + ends.get(number % 90, "") for number in range(words))

    def code(self, lines: int) -> list[str]:
        pick = self._random.choice
        return [pick(_CODE).format(a=self.word(), b=self.word(), c=self.word(), d=self.word()) for _ in range(lines)]

    def shown(self, mean: int) -> list[str]:
        """Return what a tool shows, now and then the same again."""
        if self._shown and self.chance(REPEATS):
            return self._random.choice(self._shown)
        self._shown = [*self._shown[-20:], self.code(self.size(mean))]
        return self._shown[-1]

    def size(self, mean: int) -> int:
        return max(1, int(self._random.expovariate(1 / mean)))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def number(self, high: int) -> int:
        return self._random.randint(1, high)


class ClaudeSession:
    """One session of Claude Code, record by record."""

    def __init__(self, author: Author, started: datetime) -> None:
        self._author = author
        self._at = started
        self.id = author.uuid()
        self._parent: str | None = None

    def records(self, turns: int) -> Iterator[Record]:
        author = self._author
        for _ in range(turns):
            yield self.prompt(author.prose(author.size(60)))
            for _ in range(author.size(12)):
                yield from self._step()
            yield self.answer(author.prose(author.size(150)))
            yield self._record("system", subtype="turn_duration", durationMs=author.number(90_000))

    def prompt(self, text: str) -> Record:
        return self._record("user", message={"role": "user", "content": text})

    def answer(self, text: str) -> Record:
        return self._assistant({"type": "text", "text": text}, self._message())

    def command(self, command: str, lines: list[str]) -> Iterator[Record]:
        """Yield the call of a command and what it printed."""
        call = "toolu_01" + self._author.uuid().replace("-", "")[:22]
        use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
        yield self._assistant(use, self._message())
        result = {"tool_use_id": call, "type": "tool_result", "content": "\n".join(lines)}
        yield self._record("user", message={"role": "user", "content": [result]})

    def _step(self) -> Iterator[Record]:
        author = self._author
        message = self._message()
        if author.chance(0.3):
            thought = {"type": "thinking", "thinking": author.prose(author.size(80)), "signature": author.uuid() * 8}
            yield self._assistant(thought, message)
        if author.chance(0.4):
            yield self._assistant({"type": "text", "text": author.prose(author.size(40))}, message)
        call = "toolu_01" + author.uuid().replace("-", "")[:22]
        path = f"/home/dev/project/src/{author.word()}/{author.word()}.py"
        lines = author.shown(150)
        kind = author.number(10)
        if kind <= 4:
            use = {"name": "Read", "input": {"file_path": path}}
            content = "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, 1))
            file = {"filePath": path, "content": "\n".join(lines), "numLines": len(lines)}
            beside: Any = {"type": "text", "file": file}
        elif kind <= 8:
            command = f"grep -rn {author.word()} src | head -50"
            use = {"name": "Bash", "input": {"command": command, "description": "Look"}}
            content = "\n".join(f"src/main.py:{number}: {line}" for number, line in enumerate(lines))
            beside = {"stdout": content, "stderr": "", "interrupted": False, "isImage": False}
        else:
            old, new = lines[: max(1, len(lines) // 8)], author.code(max(1, len(lines) // 8))
            use = {
                "name": "Edit",
                "input": {"file_path": path, "old_string": "\n".join(old), "new_string": "\n".join(new)},
            }
            content = f"The file {path} has been updated."
            patch = [f"-{line}" for line in old] + [f"+{line}" for line in new]
            hunk = {"oldStart": 10, "oldLines": len(old), "newStart": 10, "newLines": len(new), "lines": patch}
            beside = {"filePath": path, "oldString": "\n".join(old), "newString": "\n".join(new)}
            beside |= {"originalFile": "\n".join(lines), "structuredPatch": [hunk], "userModified": False}
        yield self._assistant({"type": "tool_use", "id": call, **use}, message)
        result = {"tool_use_id": call, "type": "tool_result", "content": content}
        yield self._record("user", message={"role": "user", "content": [result]}, toolUseResult=beside)

    def _message(self) -> Record:
        author = self._author
        usage = {
            "input_tokens": author.number(30),
            "cache_creation_input_tokens": author.number(4000),
            "cache_read_input_tokens": author.number(90_000),
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": author.number(900),
            "service_tier": "standard",
        }
        return {
            "model": "claude-opus-4-6",
            "id": "msg_01" + author.uuid().replace("-", "")[:22],
            "type": "message",
            "role": "assistant",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _assistant(self, block: Record, message: Record) -> Record:
        request = "req_01" + message["id"][6:]
        return self._record("assistant", message={**message, "content": [block]}, requestId=request)

    def _record(self, kind: str, **more: Any) -> Record:
        self._at += timedelta(milliseconds=self._author.number(4000))
        own = self._author.uuid()
        record = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/project",
            "sessionId": self.id,
            "version": "2.1.114",
            "gitBranch": "main",
            "type": kind,
            **more,
            "uuid": own,
            "timestamp": self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        self._parent = own
        return record


class CodexSession:
    """One rollout of Codex, line by line."""

    def __init__(self, author: Author, started: datetime) -> None:
        self._author = author
        self._at = started
        self.id = author.uuid()
        self._total = [0, 0, 0, 0, 0]

    def records(self, turns: int) -> Iterator[Record]:
        author = self._author
        meta = {
            "id": self.id,
            "timestamp": self._time(),
            "cwd": "/home/dev/project",
            "originator": "codex_cli_rs",
            "cli_version": "0.144.0",
            "source": "cli",
            "model_provider": "openai",
            "base_instructions": {"text": author.prose(900)},
            "git": {"commit_hash": "0" * 40, "branch": "main", "repository_url": "https://example.org/project.git"},
        }
        yield self._line("session_meta", meta)
        for _ in range(turns):
            turn = author.uuid()
            yield self._line("event_msg", {"type": "task_started", "turn_id": turn})
            yield self._line("turn_context", {"turn_id": turn, "cwd": "/home/dev/project", "model": "gpt-5.4-codex"})
            prompt = author.prose(author.size(60))
            content = [{"type": "input_text", "text": prompt}]
            yield self._line("response_item", {"type": "message", "role": "user", "content": content})
            yield self._line("event_msg", {"type": "user_message", "message": prompt, "images": []})
            for _ in range(author.size(10)):
                yield from self._step()
            answer = author.prose(author.size(120))
            yield self._line("event_msg", {"type": "agent_message", "message": answer})
            said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}
            yield self._line("response_item", said)
            yield self._line("event_msg", {"type": "task_complete", "turn_id": turn, "last_agent_message": answer})

    def _step(self) -> Iterator[Record]:
        author = self._author
        call = "call_" + author.uuid().replace("-", "")[:24]
        arguments = json.dumps({"command": ["bash", "-lc", f"sed -n '1,200p' src/{author.word()}.py"]})
        yield self._line("response_item", {"type": "reasoning", "summary": [], "encrypted_content": author.uuid() * 20})
        yield self._line(
            "response_item", {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": call}
        )
        lines = "\n".join(author.shown(170))
        output = json.dumps({"output": lines, "metadata": {"exit_code": 0, "duration_seconds": 0.2}})
        yield self._line("response_item", {"type": "function_call_output", "call_id": call, "output": output})
        last = [author.number(3000), author.number(2000), author.number(400), author.number(100)]
        last[1] = min(last[0], last[1])
        last.append(last[0] + last[2])
        self._total = [a + b for a, b in zip(self._total, last, strict=True)]
        names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")
        info = {
            "total_token_usage": dict(zip(names, self._total, strict=True)),
            "last_token_usage": dict(zip(names, last, strict=True)),
            "model_context_window": 272_000,
        }
        yield self._line("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    def _line(self, kind: str, payload: Record) -> Record:
        self._at += timedelta(milliseconds=self._author.number(3000))
        return {"timestamp": self._time(), "type": kind, "payload": payload}

    def _time(self) -> str:
        return self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_corpus(folder: Path, size: int, *, seed: int = 7, turns: int = 8) -> int:
    """Write about so many bytes of transcripts, four of five of Claude Code, and return how many files they are."""
    author = Author(seed)
    written = files = 0
    while written < size:
        started = START + timedelta(hours=3 * files)
        session = CodexSession(author, started) if files % 5 == 4 else ClaudeSession(author, started)
        if isinstance(session, CodexSession):
            day = started.strftime("%Y/%m/%d")
            path = folder / "codex" / "sessions" / day / f"rollout-{started:%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl"
        else:
            path = folder / "claude" / "projects" / "-home-dev-project" / f"{session.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for record in session.records(author.size(turns)):
                file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
        written += path.stat().st_size
        files += 1
    return files


if __name__ == "__main__":
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    print(write_corpus(Path(sys.argv[1]), wanted * MB, turns=16), "files")
