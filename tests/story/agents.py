"""Agents as the product meets them: MCP clients of both revisions at the far end of a real bridge.

Beside them stand the person at the command line and the record as a second process reads it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import mcp_types as types

from shiftlog.app.stores import store_of
from shiftlog.config.loading import load
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Reader
from tests.daemon.support import BRIDGE, Bridge, environment
from tests.postgres_server import store_environ

T = TypeVar("T")

REVISIONS = ("2025-11-25", "2026-07-28")
SHIFTLOG = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]
CLI_S = 60.0

_ENVELOPE = {
    types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
    types.CLIENT_CAPABILITIES_META_KEY: {},
    types.CLIENT_INFO_META_KEY: {"name": "story", "version": "1"},
}

Answer = dict[str, Any]


class Refused(AssertionError):
    """A tool call that failed; `said` is all that the agent was told, `error` the part that every tool has."""

    def __init__(self, said: Answer) -> None:
        super().__init__(json.dumps(said))
        self.said = said
        self.error: Answer = said["error"]


class Agent:
    """One agent: a bridge of its own (or a server in-process), and calls to tools by name."""

    def __init__(self, home: Path, *arguments: str, revision: str = REVISIONS[0], **environ: str) -> None:
        self.revision = revision
        self.bridge = Bridge(home, *arguments, program=BRIDGE, stdout=subprocess.PIPE, **environ)
        self._last_id = 0

    def __enter__(self) -> Self:
        if self.revision == REVISIONS[0]:
            self.bridge.shake_hands()
        return self

    def __exit__(self, *_: object) -> None:
        self.bridge.end()

    def send(self, method: str, **params: Any) -> int:
        """Send a request without waiting, and return its id."""
        self._last_id += 1
        if self.revision == REVISIONS[1]:
            params["_meta"] = _ENVELOPE
        self.bridge.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def send_call(self, tool: str, **arguments: Any) -> int:
        """Send a tool call without waiting, and return its id."""
        return self.send("tools/call", name=tool, arguments=arguments)

    def ask(self, method: str, **params: Any) -> Answer:
        """Send a request and return the whole answer."""
        number = self.send(method, **params)
        answer = self.bridge.read()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool and return its structured answer; raise Refused when it failed."""
        return result_of(self.ask("tools/call", name=tool, arguments=arguments))

    def leave(self) -> None:
        """Close the input as an agent does that is done, and see the bridge end well."""
        self.bridge.close_input()
        assert self.bridge.wait() == 0


def result_of(answer: Answer) -> Answer:
    """Return the structured result of a tool call, having checked that the text block says the same."""
    if "error" in answer:
        raise Refused(answer)
    result = answer["result"]
    said: Answer = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == said
    if result["isError"]:
        raise Refused(said)
    return said


def said(role: str, category: str, content: str) -> Answer:
    """Return a dialog item."""
    return {"role": role, "category": category, "content": content}


def shiftlog(home: Path, *arguments: str, status: int = 0, within_s: float = CLI_S, **environ: str) -> str:
    """Run the command line as a person does and return what it printed."""
    done = subprocess.run(
        [*SHIFTLOG, *arguments],
        env=environment(home, **environ),
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def shiftlog_json(home: Path, *arguments: str, status: int = 0, within_s: float = CLI_S) -> Any:
    """Run the command line with --json and return the document."""
    return json.loads(shiftlog(home, *arguments, "--json", status=status, within_s=within_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry as it stands in the record."""

    session_id: str
    seq: int
    kind: str
    hash: str
    body: Answer


def read_record(home: Path) -> list[Line]:
    """Read every entry of every session, beside others that have the store open."""

    def lines(reader: Reader) -> list[Line]:
        return [
            Line(session_id=name, seq=entry.seq, kind=str(entry.kind), hash=entry.hash, body=entry.facts)
            for name in reader.session_ids()
            for entry in reader.entries(name)
        ]

    return _read(home, lines)


def read_projections(home: Path) -> dict[str, tuple[Session | None, list[Turn]]]:
    """Read every session with its turns, as the projections have them."""
    return _read(home, lambda reader: {n: (reader.session(n), reader.turns(n)) for n in reader.session_ids()})


def _read(home: Path, work: Callable[[Reader], T]) -> T:
    async def read() -> T:
        async with store_of(home, load(home, store_environ(home))) as store:
            return await store.read(work)

    return anyio.run(read)


def check_intact(home: Path) -> Answer:
    """See that `verify` finds nothing wrong and that `rebuild` changes nothing; return verify's report."""
    report: Answer = shiftlog_json(home, "verify")
    assert report["broken"] == []
    before = read_projections(home)
    assert shiftlog_json(home, "rebuild")["changed"] == []
    assert read_projections(home) == before
    return report
