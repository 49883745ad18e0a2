"""A test rig: a real app, a real bash in an empty directory, and short calls to run commands in it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftlog.app.app import App, open_app
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.shell.service import Shells
from tests.postgres_server import store_environ

CLIENT = Caller(client_id="client-one", face="mcp", holds_leases=True, client_name="claude-code")


@dataclass(slots=True, kw_only=True)
class ShellRig:
    """One app, and the shell that most tests use."""

    home: Path
    place: Path
    app: App
    shell_id: str = ""
    session_id: str = ""

    @property
    def shells(self) -> Shells:
        """Return the service."""
        return self.app.shells

    async def open(self, **arguments: Any) -> dict[str, Any]:
        """Open a shell in the rig's directory and make it the rig's."""
        opened = await self.shells.open_shell({"cwd": str(self.place), **arguments}, CLIENT)
        self.shell_id, self.session_id = opened["shell_id"], opened["session_id"]
        return opened

    async def run(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command in the rig's shell."""
        return await self.shells.commands.run_command(
            {"shell_id": self.shell_id, "command": command, **arguments}, CLIENT
        )

    async def out(self, command: str, **arguments: Any) -> str:
        """Run a command and return what it wrote to stdout."""
        return (await self.run(command, **arguments))["stdout"]

    async def read(self, command_id: str, **arguments: Any) -> dict[str, Any]:
        """Read a page of output."""
        return await self.shells.commands.read_output({"command_id": command_id, **arguments}, CLIENT)

    async def send(self, command_id: str, **arguments: Any) -> dict[str, Any]:
        """Send input."""
        return await self.shells.commands.send_input({"command_id": command_id, **arguments}, CLIENT)

    async def close(self, shell_id: str | None = None) -> dict[str, Any]:
        """Close a shell."""
        return await self.shells.close_shell({"shell_id": shell_id or self.shell_id}, CLIENT)

    async def entries(self, *kinds: Kind) -> list[Entry]:
        """Return the entries of the rig's session of some kinds."""
        return await self.app.store.read(lambda reader: reader.entries(self.session_id, kinds=kinds or None))


@asynccontextmanager
async def shell_rig(
    folder: Path, *, settings: str = "", environ: Mapping[str, str] | None = None, **opening: Any
) -> AsyncGenerator[ShellRig]:
    """Open an app with an empty directory beside it, and a shell unless `opening` says `shell=False`."""
    home, place = folder / "home", folder / "place"
    home.mkdir(mode=0o700, exist_ok=True)
    place.mkdir(exist_ok=True)
    if settings:
        (home / "config.toml").write_text(settings, encoding="utf-8")
    usual = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    given = {**usual, "SHIFTLOG_DURABILITY": "process", **store_environ(home), **(environ or {})}
    async with open_app(home, given) as app:
        rig = ShellRig(home=home, place=place, app=app)
        if opening.get("shell") is not False:
            await rig.open(**opening)
        yield rig


async def until(met: Any, seconds: float = 10.0) -> None:
    """Wait until something is so, and fail when that takes too long."""
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)
