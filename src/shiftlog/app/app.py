"""The composition root: one object per state directory that holds the store and the services over it.

Every face works with an App. Here services are only constructed and joined; what they decide is in their packages.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftlog.app.stores import needs_database, store_of
from shiftlog.config.loading import FILE_NAME, Config, load
from shiftlog.guard.secrets.redactor import RULE_IDS, InvalidRule, Redactor, Rule
from shiftlog.journal.clock import Clock
from shiftlog.journal.continuity.service import Continuity, Terms
from shiftlog.journal.history.service import History
from shiftlog.journal.holders import Holders
from shiftlog.journal.journal import Journal
from shiftlog.journal.keeping.holds import Holds
from shiftlog.journal.keeping.retention import Retention, RetentionTerms
from shiftlog.journal.maintenance import Maintenance
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.sessions import Sessions
from shiftlog.journal.shells.client_commands import ClientCommands
from shiftlog.journal.shells.log import ShellLog
from shiftlog.journal.shells.reserve import DiskReserve
from shiftlog.journal.signing.keys import Keys
from shiftlog.journal.usage.limits import Limit, SpendingLimits
from shiftlog.link import processes
from shiftlog.link.wire import POLICY_FILES_VARIABLE
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import ConfigError
from shiftlog.model.limits import CLIENTS_KEPT, KEYS_KEPT, OUTCOMES_KEPT, RETENTION_SWEPT_EVERY, WORKSPACES_SWEPT_EVERY
from shiftlog.model.shell_errors import OutputExpired
from shiftlog.store.protocol import Store, Writer
from shiftlog.text.nearest import nearest

if TYPE_CHECKING:
    from shiftlog.app.hook_answers import HookAnswers
    from shiftlog.app.hooks import Hooks
    from shiftlog.app.workspaces import Workspaces
    from shiftlog.dialects.delx.service import Delx
    from shiftlog.dialects.mcpserver.service import Sessionlog
    from shiftlog.guard.policy.operator import OperatorPolicy
    from shiftlog.ingest.importing.service import Imports
    from shiftlog.shell.engine.holders import ShellHolders
    from shiftlog.shell.service import Shells


# Reads the parameters of a queued call as the client script that queued it writes them.
ReadParams = Callable[[str], Any]
# Returns the ids of the clients that are connected now.
Connected = Callable[[], Collection[str]]

# The folder below the state directory in which shells wait for the next daemon.
HELD = "held"


class App:
    """Everything that one state directory offers. Services that few starts need are imported and built on first use."""

    def __init__(
        self,
        home: Path,
        config: Config,
        store: Store,
        environ: Mapping[str, str],
        *,
        connected: Connected = tuple,
        read_params: ReadParams | None = None,
        read_only: bool = False,
        for_team: bool = False,
        holds_shells: bool = False,
    ) -> None:
        self._holds_shells = holds_shells
        self.home = home
        self.spool_folder = home / "spool"
        self.config = config
        self.store = store
        self.environ = environ
        self.read_params = read_params
        self.is_read_only = read_only
        # A team's server: the files and processes that sessions name are on other machines.
        self.is_for_team = for_team
        self.connected = connected
        # The connected clients whose agents have our tools.
        self.mcp_callers: list[Caller] = []
        self.clock = Clock.from_environ(environ)
        self.policy = _policy(home, config, environ)
        self.redactor = _redactor(home, config, self.policy)
        self.keys = Keys.load(home / "keys", read_only=read_only)
        host = socket.gethostname()
        idle_limit = timedelta(minutes=config.idle_suspend_minutes)
        holders = Holders(processes.started, host, idle_limit, connected)
        self.journal = Journal(store, self.redactor, self.clock, holders, self._turn_moved)
        self.runs = Runs(self.journal, config.runs, config.prices, processes.started, host)
        self.spending_limits = _spending_limits(config)
        self.sessions = Sessions(
            self.journal,
            config.runs,
            processes.started,
            lambda reader, agent_id, now: self.spending_limits.check(reader, self.runs, agent_id, now),
        )
        self.continuity = Continuity(
            self.journal,
            self.keys,
            self.runs,
            Terms(
                token_ttl=timedelta(days=config.token_ttl_days),
                require_token=config.resume.require_token,
                sees_workspaces=not for_team,
            ),
            live_shells=self.live_shells,
        )
        self.history = History(self.journal, self.runs)
        self.maintenance = Maintenance(self.journal, self.keys, self._changed_streams)
        reserve = DiskReserve(home / "reserve")
        self.shell_log = ShellLog(self.journal, self.sessions, self.continuity, self.redactor, reserve)
        self.client_commands = ClientCommands(self.shell_log)
        self.holds = Holds(self.journal)
        terms = RetentionTerms(days=config.retention.days, projects=config.retention.projects)
        self.retention = Retention(self.journal, terms, self.erase)
        self._workspaces_swept_at: datetime | None = None
        self._retention_swept_at: datetime | None = None

    @cached_property
    def delx(self) -> "Delx":
        """Return the service for clients of Delx."""
        from shiftlog.dialects.delx.service import Delx

        return Delx(self.continuity)

    @cached_property
    def sessionlog(self) -> "Sessionlog":
        """Return the service for clients of the session log."""
        from shiftlog.dialects.mcpserver.calls import Calls
        from shiftlog.dialects.mcpserver.service import Sessionlog

        idle_limit = timedelta(minutes=self.config.idle_suspend_minutes)
        calls = Calls(self.journal, self.redactor, self.continuity, idle_limit)
        return Sessionlog(calls, self.continuity, self.runs, lambda: self.imports)

    @cached_property
    def imports(self) -> "Imports":
        """Return the import service."""
        from shiftlog.app.imports import build_imports

        return build_imports(self)

    @cached_property
    def hooks(self) -> "Hooks":
        """Return the service that takes the events of agents' hooks."""
        from shiftlog.app.hooks import Hooks

        return Hooks(self)

    @cached_property
    def hook_answers(self) -> "HookAnswers":
        """Return the service that answers agents' hooks."""
        from shiftlog.app.hook_answers import HookAnswers

        return HookAnswers(self.hooks)

    @cached_property
    def _shell_services(self) -> tuple["Shells", "Workspaces"]:
        from shiftlog.app.shells import build_shells

        return build_shells(self)

    @cached_property
    def shell_holders(self) -> "ShellHolders | None":
        """Return the folder in which shells wait for the next server; None if they end with this one."""
        from shiftlog.shell.engine.holders import ShellHolders

        hold_s = self.config.daemon.hold_shells_minutes * 60
        return ShellHolders(self.home / HELD, hold_s) if self._holds_shells and hold_s else None

    def end_shells(self) -> None:
        """Let the shells end with this server."""
        self._holds_shells = False
        if self._is_built("_shell_services"):
            self.shells.holders = None

    async def take_over_shells(self) -> None:
        """Take over the shells that an earlier server left."""
        if not (self.home / HELD).is_dir() or not any((self.home / HELD).iterdir()):
            return
        if self.shell_holders is None:
            from shiftlog.shell.engine.holders import ShellHolders

            await asyncio.to_thread(ShellHolders(self.home / HELD, 0).end_all)
        else:
            await self.shells.take_over()

    async def answer_waiting(self, patience_s: float) -> None:
        """Answer the callers whose commands go on without this server."""
        if self._is_built("_shell_services"):
            await self.shells.answer_waiting(patience_s)

    @property
    def shells(self) -> "Shells":
        """Return the shells of this state directory."""
        self._refuse_team("Shells and their outputs")
        return self._shell_services[0]

    @property
    def workspaces(self) -> "Workspaces":
        """Return the checkpoints of workspaces."""
        self._refuse_team("Checkpoints")
        return self._shell_services[1]

    def _refuse_team(self, what: str) -> None:
        if self.is_for_team:
            hint = "Ask the machine on which the session ran"
            raise OutputExpired(f"{what} are kept on the machine of the agent, not on a team's server", hint=hint)

    def _is_built(self, name: str) -> bool:
        """Return True if a cached property was used already."""
        return name in self.__dict__

    @property
    def is_importing(self) -> bool:
        """Return True if an import is running."""
        return self._is_built("imports") and self.imports.running > 0

    @property
    def is_taking_hooks(self) -> bool:
        """Return True if hooks or client scripts ever spooled something here; only then their service is loaded."""
        if self.is_for_team:
            return False
        # Unlike `Path.is_dir` this does not raise in a directory that may not be entered.
        return self._is_built("hooks") or (not self.is_read_only and os.path.isdir(self.spool_folder))  # noqa: PTH112

    def _changed_streams(self, command_id: str, recorded: Mapping[str, Any]) -> Sequence[str]:
        """Name the streams of a command whose kept output is not the recorded one."""
        return () if self.is_for_team else self.shells.outputs.changed_streams(command_id, recorded)

    def live_shells(self) -> list[str]:
        """Return the ids of the live shells, without building the shell services."""
        return self.shells.registry.live_ids() if self._is_built("_shell_services") else []

    async def hear_hooks(self, caller: Caller) -> None:
        """Take the events that the caller's client has spooled already, so that its session is known."""
        if self.is_taking_hooks and (caller.signs.processes or caller.signs.vendor_ids):
            await self.hooks.caught_up()

    async def _turn_moved(self, session_id: str, request_id: str, kind: Kind) -> None:
        """Save the workspaces of the session's live shells, if there are any."""
        if self._is_built("_shell_services"):
            moment = "turn" if kind is Kind.TURN_BEGUN else "end"
            await self.workspaces.turn_moved(session_id, request_id, moment)

    async def aclose(self) -> None:
        """End the live shells and the commands of clients."""
        if self._is_built("hooks"):
            await self.hooks.aclose()
        if self._is_built("_shell_services"):
            await self.shells.aclose()
            await self.workspaces.checkpoints.aclose()

    async def sweep(self, present: Iterable[str] = ()) -> None:
        """Suspend sessions that idle or lost their holder, and delete records whose time is over.

        Clients that are `present` keep their leases, even if these expired while the machine slept.
        """
        await self.continuity.renew(list(present))
        await self.continuity.suspend_stale(timedelta(minutes=self.config.idle_suspend_minutes))
        await self.continuity.expire_offers()
        now = self.clock.now()

        def forget(writer: Writer) -> None:
            writer.forget_answers(before=now - KEYS_KEPT)
            writer.forget_outcomes(now - OUTCOMES_KEPT)
            writer.forget_clients(now - CLIENTS_KEPT)

        await self.store.write(forget)
        await self._sweep_retention()
        await self._sweep_workspaces()

    async def erase(self, session_name: str, seqs: list[int], reason: str) -> dict[str, Any]:
        """Erase what entries say, and the kept outputs of their commands; a session on legal hold is refused."""
        # Outputs first: erased entries no longer name them.
        commands = await self.maintenance.commands(session_name, seqs)
        gone = self.shells.forget(commands) if commands else 0
        return {**await self.maintenance.erase(session_name, seqs, reason), "outputs_removed": gone}

    async def _sweep_retention(self) -> None:
        """Once a day, erase sessions that were kept for as long as `[retention]` says."""
        now, last = self.clock.now(), self._retention_swept_at
        if last is None or now - last >= RETENTION_SWEPT_EVERY:
            self._retention_swept_at = now
            await self.retention.sweep()

    async def _sweep_workspaces(self) -> None:
        """Once a day, remove automatic checkpoints beyond their limit, if any workspace was worked in."""
        now, last = self.clock.now(), self._workspaces_swept_at
        if not self._is_built("_shell_services") or (last is not None and now - last < WORKSPACES_SWEPT_EVERY):
            return
        self._workspaces_swept_at = now
        await self.workspaces.gc()


def _spending_limits(config: Config) -> SpendingLimits:
    given = config.budgets
    return SpendingLimits(
        total=Limit(day_usd=given.day_usd, day_tokens=given.day_tokens),
        agents={
            name: Limit(day_usd=own.get("day_usd", 0.0), day_tokens=int(own.get("day_tokens", 0)))
            for name, own in given.agents.items()
        },
        refuse=given.on_exceeded == "refuse",
    )


def check_settings(home: Path, environ: Mapping[str, str]) -> None:
    """Raise ConfigError if a server cannot start with the present settings."""
    operator_redactor(home, environ)


def operator_redactor(home: Path, environ: Mapping[str, str]) -> Redactor:
    """Build the redactor that a daemon of this state directory uses; raises `ConfigError`."""
    config = load(home, environ)
    return _redactor(home, config, _policy(home, config, environ))


def _policy(home: Path, config: Config, environ: Mapping[str, str]) -> "OperatorPolicy | None":
    """Read the operator's policy, if there is one; a fault in it keeps the server from starting."""
    prefixes = ("EXECKIT_MCP_", POLICY_FILES_VARIABLE)
    if not config.policy and not config.policy_file and not any(name.startswith(prefixes) for name in environ):
        return None
    from shiftlog.app.policy import operator_policy

    return operator_policy(home, config, environ)


def _redactor(home: Path, config: Config, policy: "OperatorPolicy | None") -> Redactor:
    """Build the redactor from the operator's rules; an error names the key of an unusable rule."""
    source = str(home / FILE_NAME)
    try:
        rules = [Rule(id=rule.name, pattern=rule.pattern, klass=rule.kind) for rule in config.redaction.rules]
        rules += policy.redaction_add if policy else ()
    except InvalidRule as error:
        raise ConfigError.invalid(source, "redaction.rules", str(error)) from None
    known = RULE_IDS | {rule.id for rule in rules}
    silenced = frozenset((*config.redaction.silenced, *(policy.redaction_disable if policy else ())))
    for name in sorted(silenced):
        if name not in known:
            says = f"no rule '{name}'; the nearest is '{nearest(name, sorted(known))}'"
            raise ConfigError.invalid(source, "redaction.silenced", says)
    return Redactor(rules, silenced)


@asynccontextmanager
async def open_app(
    home: Path,
    environ: Mapping[str, str] = os.environ,
    *,
    connected: Connected = tuple,
    read_params: ReadParams | None = None,
    read_only: bool = False,
    for_team: bool = False,
    holds_shells: bool = False,
) -> AsyncGenerator[App]:
    """Open a state directory with its store for the time of a with block.

    `connected` names the clients whose leases outlast a sleep of the machine. Without `read_params`, calls that client
    scripts queued stay queued. With `read_only` nothing in the state directory is changed. An app `for_team` has no
    shells and hooks, and looks at no workspace. With `holds_shells` local shells outlive this process.
    """
    config = load(home, environ)
    if for_team and not config.store.url:
        raise needs_database(home)
    async with store_of(home, config, read_only=read_only) as store:
        app = App(
            home,
            config,
            store,
            environ,
            connected=connected,
            read_params=read_params,
            read_only=read_only,
            for_team=for_team,
            holds_shells=holds_shells,
        )
        try:
            yield app
        finally:
            await app.aclose()
