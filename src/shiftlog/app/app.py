"""The composition root: one object per state directory that holds the store and the services over it.

Faces get an App and nothing else. What the services decide stands in their rooms; here they are only joined.
"""

import os
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftlog import config as configuration
from shiftlog.dialects.delx.service import Delx
from shiftlog.dialects.mcpserver.calls import Calls
from shiftlog.dialects.mcpserver.service import Sessionlog
from shiftlog.guard.secrets.detectors import RULE_IDS
from shiftlog.guard.secrets.redactor import InvalidRule, Redactor, Rule
from shiftlog.journal.clock import Clock
from shiftlog.journal.continuity.service import Continuity, Terms
from shiftlog.journal.history.service import History
from shiftlog.journal.journal import KEYS_KEPT, OUTCOMES_KEPT, Journal
from shiftlog.journal.maintenance import Maintenance
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.sessions import Sessions, unlimited
from shiftlog.journal.signing.keys import Keys
from shiftlog.journal.usage.limits import Budgets, Limit
from shiftlog.link import processes
from shiftlog.link.wire import ASKED_POLICY, DATABASE
from shiftlog.model.errors import ConfigError
from shiftlog.model.moves import UNFINISHED
from shiftlog.store.protocol import Filter, Page, Reader, Store, Writer
from shiftlog.store.sqlite import SqliteStore
from shiftlog.text.nearest import nearest

if TYPE_CHECKING:
    from shiftlog.app.hooks import Hooks
    from shiftlog.app.workspaces import Workspaces
    from shiftlog.guard.policy.operator import OperatorPolicy
    from shiftlog.ingest.importing.service import Imports
    from shiftlog.shell.service import Shells

WORKSPACES_EVERY = timedelta(days=1)
CLIENTS_KEPT = timedelta(days=100)  # longer than any recovery token lives


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything that one state directory offers."""

    home: Path
    config: configuration.Config
    clock: Clock
    store: Store
    keys: Keys
    redactor: Redactor
    budgets: Budgets
    sessions: Sessions
    continuity: Continuity
    delx: Delx
    runs: Runs
    history: History
    maintenance: Maintenance
    sessionlog: Sessionlog
    journal: Journal
    policy: "OperatorPolicy | None"
    environ: Mapping[str, str]
    _swept: list[datetime] = field(default_factory=list[datetime])
    _shells: list[tuple["Shells", "Workspaces"]] = field(default_factory=list[tuple["Shells", "Workspaces"]])
    _imports: list["Imports"] = field(default_factory=list["Imports"])
    _hooks: list["Hooks"] = field(default_factory=list["Hooks"])

    @property
    def imports(self) -> "Imports":
        """Return the import service, made when it is first asked for."""
        if not self._imports:
            from shiftlog.app.imports import build_imports

            self._imports.append(build_imports(self, self.environ))
        return self._imports[0]

    @property
    def is_importing(self) -> bool:
        """Tell whether an import is under way."""
        return any(imports.running for imports in self._imports)

    @property
    def hooks(self) -> "Hooks":
        """Return what takes the events of agents' hooks, made when it is first asked for."""
        if not self._hooks:
            from shiftlog.app.hooks import build_hooks

            self._hooks.append(build_hooks(self))
        return self._hooks[0]

    @property
    def shells(self) -> "Shells":
        """Return the shells of this state directory, made when they are first asked for."""
        return self._shell_rooms()[0]

    @property
    def workspaces(self) -> "Workspaces":
        """Return the checkpoints of workspaces, made when they are first asked for."""
        return self._shell_rooms()[1]

    def _shell_rooms(self) -> tuple["Shells", "Workspaces"]:
        if not self._shells:
            from shiftlog.app.shells import build_shells

            self._shells.append(build_shells(self))
        return self._shells[0]

    def has_live_shells(self) -> bool:
        """Tell whether a shell lives, without making anything."""
        return bool(self._shells and self._shells[0][0].live_ids())

    async def aclose(self) -> None:
        """End what lives: the shells of this server."""
        for shells, workspaces in self._shells:
            await shells.aclose()
            await workspaces.aclose()

    async def sweep(self, present: Iterable[str] = ()) -> None:
        """Do what is due now and then: suspend what idles or lost its holder, forget old answers.

        The clients that are present keep their leases, which ran out if the machine slept.
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
        await self._sweep_workspaces()

    async def _sweep_workspaces(self) -> None:
        """Once a day, remove automatic checkpoints beyond their limit, if any workspace was worked in."""
        now = self.clock.now()
        if not self._shells or (self._swept and now - self._swept[-1] < WORKSPACES_EVERY):
            return
        self._swept[:] = [now]
        where = Filter(states=frozenset(map(str, UNFINISHED)))
        rows = await self.store.read(lambda reader: reader.find_sessions(where, Page(limit=10_000), by_activity=True))
        await self.workspaces.gc([row.session.id for row in rows])


def build_app(home: Path, config: configuration.Config, store: Store, environ: Mapping[str, str]) -> App:
    """Join the services over an open store."""
    clock = Clock.from_environ(environ)
    policy = _policy(home, config, environ)
    redactor = _redactor(home, config, policy)
    keys = Keys.load(home / "keys")
    journal = Journal(store, redactor, clock)
    host = socket.gethostname()
    runs = Runs(journal, config.runs, config.prices, processes.started, host)
    budgets = Budgets(
        total=Limit(day_usd=config.budgets.day_usd, day_tokens=config.budgets.day_tokens),
        agents={
            name: Limit(day_usd=given.get("day_usd", 0.0), day_tokens=int(given.get("day_tokens", 0)))
            for name, given in config.budgets.agents.items()
        },
        refuse=config.budgets.on_exceeded == "refuse",
    )

    def spending(reader: Reader, agent_id: str, now: datetime) -> list[dict[str, Any]]:
        return budgets.check(reader, runs, agent_id, now)

    terms = Terms(
        token_ttl=timedelta(days=config.token_ttl_days),
        require_token=config.resume.require_token,
        idle_limit=timedelta(minutes=config.idle_suspend_minutes),
    )
    continuity = Continuity(journal, keys, runs, processes.started, host, terms)
    calls = Calls(journal, redactor, continuity, timedelta(minutes=config.idle_suspend_minutes))
    sessionlog = Sessionlog(calls, continuity, runs)
    app = App(
        home=home,
        config=config,
        clock=clock,
        store=store,
        keys=keys,
        redactor=redactor,
        budgets=budgets,
        sessions=Sessions(journal, config.runs, processes.started, spending if budgets.are_set else unlimited),
        continuity=continuity,
        delx=Delx(continuity),
        runs=runs,
        history=History(journal, runs),
        maintenance=Maintenance(journal, keys),
        sessionlog=sessionlog,
        journal=journal,
        policy=policy,
        environ=environ,
    )

    async def take_transcripts(values: Mapping[str, Any]) -> dict[str, Any]:
        from shiftlog.app.imports import take_transcripts as take

        return await take(app.imports, values)

    sessionlog.take_transcripts = take_transcripts
    return app


def check_settings(home: Path, environ: Mapping[str, str]) -> None:
    """Raise ConfigError for whatever would keep a server from starting with the settings as they are now."""
    config = configuration.load(home, environ)
    _redactor(home, config, _policy(home, config, environ))


def _policy(home: Path, config: configuration.Config, environ: Mapping[str, str]) -> "OperatorPolicy | None":
    """Read the operator's policy if there is one: what is wrong with it keeps the server from starting."""
    told = ("EXECKIT_MCP_", ASKED_POLICY)
    if not config.policy and not config.policy_file and not any(name.startswith(told) for name in environ):
        return None
    from shiftlog.app.policy import operator_policy

    return operator_policy(home, config, environ)


def _redactor(home: Path, config: configuration.Config, policy: "OperatorPolicy | None") -> Redactor:
    """Build the redactor of the operator's rules; what cannot be used is an error that names the key."""
    source = str(home / configuration.FILE_NAME)
    try:
        rules = [Rule(id=rule.name, pattern=rule.pattern, klass=rule.kind) for rule in config.redaction.rules]
        rules += [Rule(id=rule.id, pattern=rule.pattern) for rule in (policy.redaction_add if policy else ())]
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
async def open_app(home: Path, environ: Mapping[str, str] = os.environ) -> AsyncGenerator[App]:
    """Open the state directory with its embedded store for the time of a with block."""
    config = configuration.load(home, environ)
    async with SqliteStore(home / DATABASE, durability=config.durability) as store:
        app = build_app(home, config, store, environ)
        try:
            yield app
        finally:
            await app.aclose()
