"""The session log without a daemon: this process opens the app of the state directory itself."""

import asyncio
import os
import socket
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from shiftlog.app.app import App, open_app
from shiftlog.control.questions import answer
from shiftlog.link import processes
from shiftlog.model.caller import Caller
from shiftlog.repl.one_shot import parsed


class InProcessAnswers:
    """Answers calls of the session log from its own store; a daemon may use the same file."""

    def __init__(self, home: str) -> None:
        os.umask(0o077)
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._caller = Caller(
            face="repl",
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_started=processes.started(),
            cwd=processes.working_directory(),
        )
        try:
            self._app: App = self._runner.run(self._stack.enter_async_context(open_app(Path(home), read_params=parsed)))
            self._runner.run(self._drained(Path(home)))
        except BaseException:
            self._runner.close()
            raise

    async def _drained(self, home: Path) -> None:
        """Import the events that wait in the spool, as the daemon does at its start."""
        spool = home / "spool"
        if spool.is_dir() and any(path.suffix == ".jsonl" for path in spool.iterdir()):
            await self._app.hooks.drain()

    def call(
        self, method: str, params: dict[str, object] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Answer one call; the app itself bounds its time."""

        async def work() -> Any:
            return await cast(Awaitable[Any], answer(self._app, method, params or {}, self._caller))

        return self._runner.run(work())

    def close(self) -> None:
        """Close the store."""
        self._runner.run(self._stack.aclose())
        self._runner.close()
