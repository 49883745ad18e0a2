"""The services of the real daemon: one open app behind the connections, and the imports that run beside them.

MCP and HTTP have modules of their own. This one answers the lifecycle and the control connection.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import anyio

from shiftlog.app.app import App, Connected, open_app
from shiftlog.app.policy_record import note_policy
from shiftlog.app.stores import store_place
from shiftlog.control.arguments import checked
from shiftlog.control.questions import answer
from shiftlog.daemon.control import Answer
from shiftlog.daemon.http_service import HttpService
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.mcp_loading import McpLoader
from shiftlog.daemon.secrecy import environment
from shiftlog.daemon.services import ServeMcp
from shiftlog.daemon.tasks import until
from shiftlog.daemon.upkeep import LEASES, Upkeep, UpkeepFault, described
from shiftlog.journal.sessions import workspace_of
from shiftlog.link.import_workers import take_prestarted
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.model.limits import DAEMON_FINISH_S, HOOK_POLL_S, IMPORT_WATCH_RETRY_S

# The parts of a hello that state the policy of its client.
CLIENT_POLICY = frozenset({"policy_files", "policy_variables"})

READING = "reading the record"

# An import that the daemon was started for has begun by then.
IMPORT_WAIT_S = 3.0

# A daemon that stops waits this long for commands whose callers wait for them.
COMMANDS_WAIT_S = 1.0

OPTIONS_HINT = "Correct the options of `shiftlog mcp` where the agent's configuration starts it"


log = logging.getLogger(__name__)


class AppServices:
    """One open app as the daemon's lifecycle sees it; `Services` explains the methods."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._mcp = McpLoader(app)
        self._http = HttpService(app, self._mcp)
        self.upkeep = Upkeep()
        self._policy = {} if app.is_read_only else note_policy(app.home, app.policy, datetime.now(UTC))

    @property
    def idle_stop_s(self) -> float | None:
        return self._app.config.daemon.idle_stop_minutes * 60 or None

    @property
    def must_restart(self) -> str | None:
        return "the log of the database was deleted" if self._app.store.has_lost_log else None

    @property
    def log_level(self) -> str:
        return self._app.config.daemon.log_level

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        # The configuration fills in the options that the client leaves out.
        timeout_s = None
        if not CLIENT_POLICY.isdisjoint(options):
            from shiftlog.app.policy import command_timeout_s, without_policy

            variables = options.get("policy_variables", {})
            options = without_policy(self._app, options)
            timeout_s = command_timeout_s(cast("dict[str, str]", variables))
        servers = await self._mcp.servers()
        from shiftlog.mcp.catalogue import selection_for
        from shiftlog.mcp.transport import serve_lines

        try:
            server = servers.serving(selection_for(self._app, options))
        except InvalidParameter as error:
            error.hint = OPTIONS_HINT
            raise

        async def serve(lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
            # A client that comes back after a restart of the daemon still holds its leases.
            if caller.client_id:
                ids = [caller.client_id]
                await self.upkeep.attempt(LEASES, lambda: self.renew_leases(ids))
            client = replace(_in_workspace(caller), command_timeout_s=timeout_s)
            self._app.mcp_callers.append(client)
            try:
                await serve_lines(server, lines, lines, client, drain=draining, finish_s=DAEMON_FINISH_S)
            finally:
                self._app.mcp_callers.remove(client)

        return serve

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        if method == "page.open":
            return self._http.open_page(checked(params).get("session_id"), caller)
        if method == "story":
            from shiftlog.daemon.story import story

            return story(self._app, checked(params))
        if method == "export":
            from shiftlog.web.views.export import exported

            given = checked(params)
            pieces = exported(self._app, given["session_id"], given.get("format", "md"))
            return ({"text": piece} async for piece in pieces)
        return answer(self._app, method, params, _in_workspace(caller))

    async def client_gone(self, caller: Caller) -> None:
        if caller.client_id is not None:
            await self._app.continuity.client_gone(caller.client_id)

    async def renew_leases(self, client_ids: Iterable[str]) -> None:
        await self._app.continuity.renew(self.present(client_ids))

    async def sweep(self, client_ids: Iterable[str]) -> None:
        await self._app.sweep(self.present(client_ids))

    def present(self, client_ids: Iterable[str]) -> list[str]:
        """Return the connected clients and those that came over HTTP lately."""
        return [*client_ids, *self._http.clients()]

    def busy(self) -> bool:
        """Return True if a shell lives, transcripts are watched, or a request came over HTTP since the last call."""
        return bool(self._app.live_shells() or self._app.config.ingest.watch or self._http.was_used())

    async def status(self) -> dict[str, object]:
        http = await self._http.status()
        counts = await self._counts()
        store = store_place(self._app.home, self._app.config)
        own = {"faults": self._faults(), "policy": self._policy, "store": store, "read_only": self._app.is_read_only}
        return {**counts, **http, **own}

    async def _counts(self) -> dict[str, object]:
        """Return the figures of the record; none if it cannot be read, which the faults name."""
        counts: dict[str, object] = {"home": str(self._app.home)}

        async def read() -> None:
            counts.update(await cast("Awaitable[dict[str, object]]", answer(self._app, "status", {}, LIBRARY)))

        await self.upkeep.attempt(READING, read)
        return counts

    def _faults(self) -> list[dict[str, object]]:
        """Return what does not work at present: the record, maintenance jobs, the spool."""
        found = self.upkeep.faults()
        if (error := self._app.store.fault) is not None:
            found = [fault for fault in found if fault["what"] != READING]  # the same cause
            found.insert(0, UpkeepFault(reason=described(error), hint=error.hint, tries=0).as_dict("the record"))
        if self._app.is_taking_hooks and (reason := self._app.hooks.fault) is not None:
            hint = "Look at the file in spool/; shiftlog spool lists what was set aside"
            found.append(UpkeepFault(reason=reason, hint=hint, tries=0).as_dict("the spool of hooks"))
        return found

    async def run_background(self, draining: anyio.Event) -> None:
        """Load the MCP face, drain the hook spool, watch transcripts and serve HTTP until the daemon drains."""
        app = self._app
        async with anyio.create_task_group() as background:
            keep_up = self.upkeep.keep_up
            background.start_soon(keep_up, "loading the MCP server", self._mcp.load, draining)
            background.start_soon(_end_unused_workers, app, draining)
            background.start_soon(self._recover_shells, draining)
            background.start_soon(self._answer_waiting, draining)
            background.start_soon(self._bring_up_to_date, draining)
            background.start_soon(keep_up, "the events of hooks", self._take_hooks, draining)
            if app.config.ingest.watch:
                background.start_soon(_watch_transcripts, app, draining)
            await keep_up("HTTP", self._http.run, draining)

    async def _take_hooks(self, draining: anyio.Event) -> None:
        app = self._app
        async with until(draining):
            while not app.is_taking_hooks:  # noqa: ASYNC110 - other processes make the folder
                await anyio.sleep(HOOK_POLL_S)
        if not draining.is_set():
            await app.hooks.run(draining)

    async def _answer_waiting(self, draining: anyio.Event) -> None:
        """Answer calls that wait for a command which the next daemon takes over, unless it ends in a moment."""
        await draining.wait()
        await self._app.answer_waiting(COMMANDS_WAIT_S)

    def end_shells(self) -> None:
        self._app.end_shells()

    async def _bring_up_to_date(self, draining: anyio.Event) -> None:
        async with until(draining):
            await self.upkeep.until_done("the tables after an upgrade", self._app.maintenance.bring_up_to_date)

    async def _recover_shells(self, draining: anyio.Event) -> None:
        """Record the end of shells and commands of an earlier daemon; shells are loaded only if it left any."""
        app = self._app

        async def recover() -> None:
            if await app.shell_log.left(app.clock.now()):
                await app.shells.recover()

        async with until(draining):
            await self.upkeep.until_done("the shells of an earlier daemon", recover)
            await self.upkeep.until_done("the commands of an earlier daemon", app.client_commands.end_left)


def _in_workspace(caller: Caller) -> Caller:
    return caller if caller.cwd is None else replace(caller, workspace=workspace_of(caller.cwd))


@asynccontextmanager
async def open_app_services(home: str, connected: Connected) -> AsyncGenerator[AppServices]:
    """Open the app of a state directory for the duration of a with block."""

    def present() -> list[str]:
        return services.present(connected())

    async with open_app(
        Path(home), environment(), connected=present, read_params=_read_params, holds_shells=True
    ) as app:
        services = AppServices(app)
        await services.upkeep.attempt("the shells that were held", app.take_over_shells)
        yield services


def _read_params(text: str) -> Any:
    """Read the parameters of a queued call as the client script's own program, the REPL, does."""
    from shiftlog.repl.one_shot import parsed

    return parsed(text)


async def _watch_transcripts(app: App, draining: anyio.Event) -> None:
    """Import transcripts as they grow, until the daemon drains; a failure is logged and tried again."""
    from shiftlog.ingest.importing.ports import ImportOptions, StopSign

    stop = StopSign()

    async def end() -> None:
        await draining.wait()
        stop.set()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(end)
        while not stop.is_set():
            try:
                async for report in app.imports.watch(ImportOptions(), stop):
                    for error in report.errors:
                        log.warning("import: %s", error["message"])
            except (ShiftlogError, OSError) as error:
                log.warning("import: %s", error)
                await stop.wait(IMPORT_WATCH_RETRY_S)


async def _end_unused_workers(app: App, draining: anyio.Event) -> None:
    """End the prestarted workers of an import that never came."""
    async with until(draining):
        await anyio.sleep(IMPORT_WAIT_S)
    if not app.is_importing:
        take_prestarted(0)
