"""The acting agent of a story: its calls through the real services, in a workspace with a real repository.

What the next agent gets is the answer of `resume_session`, and nothing else.
"""

import os
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from shiftlog.control.questions import answer
from shiftlog.model.caller import Caller
from tests.journal.harness import NOON, Harness, client, open_harness

PERSON = Caller(face="cli", operator=True)
Answer = dict[str, Any]


class Actor:
    """One workspace, one daemon's worth of services, and the agent that works there now."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.place = folder / "shop"
        self.agent = "Codex"
        self.session = ""
        self.shell = ""
        self._clients = 0
        self._opened = AsyncExitStack()
        self.is_open = False
        self.harness: Harness
        self.me: Caller

    async def enter(self) -> None:
        self.harness = await self._opened.enter_async_context(open_harness(self.home))
        self.is_open = True
        self.reconnect()

    async def leave(self) -> None:
        await self._opened.aclose()

    def reconnect(self) -> None:
        """Come as another client process."""
        self._clients += 1
        self.me = client(f"no-{self._clients}", cwd=str(self.place), workspace=str(self.place))

    # Working

    async def open(self, title: str, **given: Any) -> str:
        self.session = await self.harness.open(self.me, agent=self.agent, title=title, **given)
        return self.session

    async def begin(self, title: str, text: str = "", **given: Any) -> str:
        return await self.harness.begin(self.session, self.me, query_title=title, query_text=text or title, **given)

    async def update(self, **given: Any) -> None:
        await self.harness.update(self.session, self.me, **given)

    async def say(self, content: str, category: str = "decision", role: str = "model") -> None:
        await self.update(dialog=[{"role": role, "category": category, "content": content}])

    async def act(self, description: str, status: str = "completed", file: str = "", **given: Any) -> None:
        item = {"description": description, "type": given.pop("type", "edit"), "status": status, **given}
        await self.update(actions=[item | ({"file_path": file} if file else {})])

    async def complete(self, response: str, **given: Any) -> None:
        await self.harness.complete(self.session, self.me, response=response, **given)

    async def fail(self, message: str, **given: Any) -> None:
        await self.harness.fail(self.session, self.me, error_message=message, **given)

    async def do(self, title: str, response: str, text: str = "", **given: Any) -> None:
        """Live through one turn that is completed."""
        await self.begin(title, text)
        await self.complete(response, **given)

    # Shell and files

    async def open_shell(self, **given: Any) -> str:
        asked = {"session_id": self.session, "cwd": str(self.place), "workspace": str(self.place), **given}
        self.shell = (await self.harness.app.shells.open_shell(asked, self.me))["shell_id"]
        return self.shell

    async def run(self, command: str, **given: Any) -> Answer:
        asked = {"shell_id": self.shell, "command": command, **given}
        return await self.harness.app.shells.commands.run_command(asked, self.me)

    def write(self, name: str, text: str) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        at = self.now().timestamp()
        os.utime(path, (at, at))

    def now(self) -> datetime:
        """Return the time of the story, before anything happened the day before."""
        return self.harness.now() if self.is_open else NOON - timedelta(days=1)

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Shop", "-c", "user.email=shop@example.org")
        command = ["git", "-C", str(self.place), *identity, *arguments]
        at = self.now().isoformat()
        dated = {**os.environ, "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=dated).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={message}")
        return self.git("rev-parse", "HEAD")

    # Ending, and what comes after

    async def close(self, **given: Any) -> Answer:
        return (await self.harness.call("close_session", {"session_id": self.session, **given}, self.me))["data"]

    async def crash(self, hours: float = 9) -> None:
        """Stop the services without a close, and come back as another process some hours later."""
        self.harness.wait(hours=hours)
        await self._opened.aclose()
        await self.enter()
        await self.harness.app.shells.recover()

    def wait(self, **span: float) -> None:
        self.harness.wait(**span)

    async def undo(self, **given: Any) -> Answer:
        """Undo as a person does at the command line."""
        said = answer(self.harness.app, "undo", {"cwd": str(self.place), **given}, PERSON)
        assert not isinstance(said, AsyncIterator)
        done: Any = await said
        return done

    async def resume(self, **given: Any) -> Answer:
        """Return what the next agent is told."""
        asked = {"agent_id": self.agent, **given}
        return (await self.harness.call("resume_session", asked, self.me))["data"]


@asynccontextmanager
async def acting(folder: Path) -> AsyncGenerator[Actor]:
    """Set up an actor with a small repository."""
    actor = Actor(folder)
    actor.place.mkdir()
    actor.git("init", "--quiet", "--initial-branch=main")
    actor.write("README.md", "# Shop\n")
    actor.write("src/cart.py", "def total(items):\n    return sum(items)\n")
    actor.commit("First")
    await actor.enter()
    try:
        yield actor
    finally:
        await actor.leave()
