"""Who takes part in the race of the shells, each through the interface it offers to an agent."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.peers.installs import EXECKIT, MCP_SHELL, OPENHANDS, SWE_REX, Peer
from bench.peers.talks import TIMEOUT_S, Failed, McpTalk, Talk

DRIVERS = Path(__file__).with_name("drivers")
SHIFTLOG = str(Path(sys.executable).with_name("shiftlog"))
SEQ = "seq 1 1000000"
TAIL: dict[str, Any] = {"keep": {"mode": "tail", "n": 50}}
LAST_LINE = "1000000"
NO_BUDGET, NO_SHELL = "no budget", "no shell"


class Contestant(Protocol):
    """Shells of one tool. A figure that cannot be had raises `Failed`."""

    def start(self) -> None:
        """Start the tool and open a first shell."""
        ...

    def trues(self, times: int) -> list[float]:
        """Run `true` so many times, one after another, in the first shell."""
        ...

    def seq(self, *, budget: bool) -> float:
        """Print a million lines and take what the tool gives; the last line must be in it."""
        ...

    def open(self, count: int) -> float:
        """Open so many more shells at once."""
        ...

    def trues_at_once(self) -> float:
        """Run `true` in all shells at once."""
        ...

    def memory(self) -> int: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """How an MCP server names its shell tools; without `open` a command is a process and there is no shell."""

    open: str | None
    run: str
    shell: str = ""
    command: Callable[[str], object] = str
    budget: bool = True


NATIVE = Tools(open="open_shell", run="run_command", shell="shell_id")
DIALECT = Tools(open="session_create", run="session_exec", shell="session_id")
STATELESS = Tools(open=None, run="shell_execute", command=str.split, budget=False)


class McpShells:
    """Shells behind an MCP server."""

    def __init__(self, name: str, command: list[str], environ: dict[str, str], cwd: Path, tools: Tools) -> None:
        self._start = (name, command, environ, cwd)
        self._tools = tools
        self._shells: list[str] = []
        self._talk: McpTalk | None = None

    @property
    def talk(self) -> McpTalk:
        assert self._talk is not None
        return self._talk

    def start(self) -> None:
        self._talk = McpTalk(*self._start)
        self._talk.initialize()
        try:
            self.open(1)
        except Failed as error:
            if str(error) != NO_SHELL:
                raise

    def trues(self, times: int) -> list[float]:
        spans: list[float] = []
        for _ in range(times):
            begun = time.perf_counter()
            self.talk.call(self._tools.run, self._arguments(0, "true"))
            spans.append(time.perf_counter() - begun)
        return spans

    def seq(self, *, budget: bool) -> float:
        if budget and not self._tools.budget:
            raise Failed(NO_BUDGET)
        arguments = self._arguments(0, SEQ) | ({"budget": TAIL} if budget else {})
        begun = time.perf_counter()
        result = self.talk.call(self._tools.run, arguments)
        took = time.perf_counter() - begun
        if LAST_LINE not in result["content"][0]["text"]:
            raise Failed("the last line is not in the answer")
        return took

    def open(self, count: int) -> float:
        if self._tools.open is None:
            self._shells += [""] * count
            raise Failed(NO_SHELL)
        begun = time.perf_counter()
        for result in self.talk.calls(self._tools.open, [{"transport": "local"}] * count):
            self._shells.append(json.loads(result["content"][0]["text"])[self._tools.shell])
        return time.perf_counter() - begun

    def trues_at_once(self) -> float:
        begun = time.perf_counter()
        self.talk.calls(self._tools.run, [self._arguments(number, "true") for number in range(len(self._shells))])
        return time.perf_counter() - begun

    def memory(self) -> int:
        return self.talk.memory()

    def stop(self) -> None:
        if self._talk is not None:
            self._talk.stop()

    def leave(self) -> None:
        """Go away and leave the daemon running."""
        if self._talk is not None:
            self._talk.close()

    def _arguments(self, number: int, command: str) -> dict[str, Any]:
        shell = {self._tools.shell: self._shells[number]} if self._tools.shell else {}
        return {**shell, "command": self._tools.command(command)}


class DrivenShells:
    """Shells behind a driver that uses the tool as a library."""

    def __init__(self, name: str, command: list[str], environ: dict[str, str], cwd: Path) -> None:
        self._start = (name, command, environ, cwd)
        self._talk: Talk | None = None

    def start(self) -> None:
        self._talk = Talk(*self._start)
        self.open(1)

    def trues(self, times: int) -> list[float]:
        return self._ask(do="run", times=times)["spans"]

    def seq(self, *, budget: bool) -> float:
        if budget:
            raise Failed(NO_BUDGET)
        answer = self._ask(do="seq")
        if LAST_LINE not in answer["text"]:
            raise Failed(f"wrong: {answer['size']} characters that end with {answer['text'][-20:]!r}")
        return answer["seconds"]

    def open(self, count: int) -> float:
        return self._ask(do="open", count=count)["seconds"]

    def trues_at_once(self) -> float:
        return self._ask(do="all")["seconds"]

    def memory(self) -> int:
        assert self._talk is not None
        return self._talk.memory()

    def stop(self) -> None:
        if self._talk is not None:
            self._talk.stop()

    def _ask(self, **words: Any) -> dict[str, Any]:
        assert self._talk is not None
        self._talk.send(words)
        answer = self._talk.receive(time.perf_counter() + TIMEOUT_S)
        if "failed" in answer:
            raise Failed(answer["failed"].splitlines()[0][:200])
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A name in the table, the peer that must be installed for it, and how to make one."""

    name: str
    peer: Peer | None
    build: Any


def entrants(scratch: Path) -> list[Entrant]:
    """Return who takes part; each has a folder of its own below `scratch`."""

    def place(name: str) -> Path:
        folder = scratch / name.replace(" ", "-").replace(",", "")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def ours(name: str, tools: Tools, *more: str) -> Entrant:
        def build() -> McpShells:
            home = place(name)
            environ = {key: value for key, value in os.environ.items() if not key.startswith("SHIFTLOG_")}
            environ |= {"SHIFTLOG_HOME": str(home / "state")}
            environ.pop("PYTHONDONTWRITEBYTECODE", None)
            return McpShells(name, [SHIFTLOG, "mcp", *more], environ, home, tools)

        return Entrant(name=name, peer=None, build=build)

    def driven(name: str, peer: Peer | None, script: str, *more: str, **environ: str) -> Entrant:
        def build() -> DrivenShells:
            python = str(peer.program("python")) if peer else sys.executable
            env = peer.environ(**environ) if peer else dict(os.environ)
            return DrivenShells(name, [python, str(DRIVERS / script), *more], env, place(name))

        return Entrant(name=name, peer=peer, build=build)

    def served(peer: Peer, tools: Tools, **environ: str) -> Entrant:
        def build() -> McpShells:
            command = [str(peer.program(peer.name))]
            return McpShells(peer.name, command, peer.environ(**environ), place(peer.name), tools)

        return Entrant(name=peer.name, peer=peer, build=build)

    # Without the settings OpenHands would first try to reach the network for a list of prices.
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}
    return [
        driven("floor, pipe and marker", None, "floor_shells.py"),
        driven("ours, engine", None, "engine_shells.py"),
        ours("ours, bridge", NATIVE),
        ours("ours, bridge, execkit dialect", DIALECT, "--dialect", "execkit"),
        served(EXECKIT, DIALECT, EXECKIT_MCP_MAX_SESSIONS="100"),
        served(MCP_SHELL, STATELESS, ALLOW_COMMANDS="true,seq"),
        driven("swe-rex", SWE_REX, "swe_rex_shells.py"),
        driven("openhands-tools, tmux", OPENHANDS, "openhands_shells.py", "tmux", **quiet),
        driven("openhands-tools, subprocess", OPENHANDS, "openhands_shells.py", "subprocess", **quiet),
    ]
