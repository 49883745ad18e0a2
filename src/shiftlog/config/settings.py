"""The declaration of every setting, and the kinds of value that only settings have.

The checks, the values of `Config`, the reference in the docs and the commented default file all come from
`SETTINGS`. `loading` reads files and variables.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, cast

from shiftlog.config.tool_names import DIALECTS, GROUPS, TOOL_NAMES, TOOLSETS
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import AGENT_PATTERN
from shiftlog.model.prices import PROMPT_SIZES
from shiftlog.model.resonance import DEFAULT_TIER, TIERS
from shiftlog.params.fields import Boolean, Choice, Field, Integer, ListOf, Number, Record, Schema, Text
from shiftlog.text.nearest import nearest

PREFIX = "SHIFTLOG_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf(Field):
    """A table whose keys are chosen by the operator, or closed by `names`."""

    item: Field
    placeholder: str
    names: tuple[str, ...] = ()

    def read(self, value: object, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidParameter.invalid(path, "a table is expected", value)
        given = cast("Mapping[str, object]", value)
        for name in given:
            if self.names and name not in self.names:
                raise InvalidParameter.unknown(f"{path}.{name}", nearest(name, self.names))
        return {name: self.item.read(item, f"{path}.{name}") for name, item in given.items()}

    def type_schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.item.schema()}


class Loopback(Text):
    """An address that only this machine can reach."""

    __slots__ = ()

    def read(self, value: object, path: str) -> str:
        host = super().read(value, path)
        try:
            loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise InvalidParameter.invalid(path, "a loopback address (127.0.0.1, ::1 or localhost)", host)
        return host


class StoreUrl(Text):
    """The address of a PostgreSQL database; errors never repeat it, because it may hold a password."""

    __slots__ = ()

    def read(self, value: object, path: str) -> str:
        if not isinstance(value, str) or (value and not value.startswith(("postgresql://", "postgres://"))):
            raise InvalidParameter.invalid(path, "an address that begins with postgresql://")
        if len(value) > self.max_chars or not value.isprintable():
            raise InvalidParameter.invalid(path, f"one line of at most {self.max_chars} characters")
        return value


class Day(Text):
    """A day, as a TOML date or as text."""

    __slots__ = ()

    def read(self, value: object, path: str) -> str:
        text = value.isoformat() if isinstance(value, date) else super().read(value, path)
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            raise InvalidParameter.invalid(path, "a date such as 2026-01-31", text) from None


class Pattern(Text):
    """A regular expression in RE2 syntax that matches something."""

    __slots__ = ()

    def read(self, value: object, path: str) -> str:
        text = super().read(value, path)
        import re2  # imported here: only operators with rules of their own need it

        engine: Any = re2
        options = engine.Options()
        options.log_errors = False
        try:
            matches_empty = engine.compile(text, options).fullmatch("") is not None
        except engine.error as error:
            reason = cast("bytes", error.args[0]).decode("utf-8", "replace")
            raise InvalidParameter.invalid(path, f"RE2 syntax ({reason})", text) from None
        if matches_empty:
            raise InvalidParameter.invalid(path, "a pattern that does not match empty text", text)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key: `field` holds its type, range, default and description; not every key may come by variable."""

    key: str
    field: Field
    environment: bool = True

    @property
    def variable(self) -> str:
        """Return the name of the environment variable."""
        return PREFIX + self.key.replace(".", "_").upper()


_NAME = Text(max_chars=100, pattern=r"[a-z][a-z0-9_]*", pattern_says="lower-case letters, digits and underscores")


def _names(description: str, noun: str = "", known: tuple[str, ...] = ()) -> ListOf:
    """Return the field for a list of names; with `known` it accepts no others."""

    def check(name: str, path: str) -> None:
        if name not in known:
            says = f"the name of a {noun}, such as '{nearest(name, known)}'"
            raise InvalidParameter.invalid(path, says, name, allowed=list(known))

    item = replace(_NAME, required=True, check=check if known else None)
    return ListOf(item=item, default=(), description=description)


_RULE = Record(
    fields={
        "name": replace(_NAME, required=True, description="Rule id, shown in command text and output"),
        "pattern": Pattern(required=True, max_chars=2000, description="RE2 syntax; what matches is masked"),
        "class": replace(_NAME, description="Class, shown in every other text; the name where left out"),
    }
)
_BACKEND = Record(
    fields={
        "agent": Text(max_chars=64, pattern=AGENT_PATTERN, description="Agent kind, such as `ClaudeCode`"),
        "provider": Text(max_chars=100, description="Who provides the models"),
        "cached_in_input": Boolean(description="Its input tokens include those read from a cache"),
    }
)
_CALLER = Record(fields={"tier": Choice(values=TIERS, description="The caller's tier, else the default one")})
_LEVEL = Record(
    fields={
        "model": Text(max_chars=200, description="Model of this tier on this backend"),
        "effort": Text(max_chars=40, description="Reasoning effort; empty for none"),
    }
)
_LIMIT = Record(
    fields={
        "day_usd": Number(description="US dollars a day (UTC); 0 for no limit"),
        "day_tokens": Integer(minimum=0, maximum=2**53, description="Tokens a day, all classes; 0 for no limit"),
    }
)
_SERVICES = {"fast": "in fast mode", "priority": "with priority", "batch": "in a batch", "flex": "with flex processing"}
_PRICES: dict[str, Field] = {
    "input": Number(description="US dollars for a million input tokens"),
    "cached_input": Number(description="Input read from a cache; the price of input where left out"),
    "cache_creation": Number(description="Input written to a cache; the price of input where left out"),
    "cache_creation_1h": Number(description="Input written to a cache for an hour; unknown if left out"),
    "output": Number(description="Output, reasoning included"),
    **{
        name: Number(description=f"How many times these prices a response {told} costs; unknown if left out")
        for name, told in _SERVICES.items()
    },
    "long_over": Integer(
        minimum=min(PROMPT_SIZES), maximum=max(PROMPT_SIZES), description="Tokens beyond which a prompt is a long one"
    ),
    "long_input": Number(description="How many times the price of input, cached or not, a long prompt costs"),
    "long_output": Number(description="How many times the price of output the answer to a long prompt costs"),
}
_EARLIER = Record(fields={"until": Day(required=True, description="The first day (UTC) without it"), **_PRICES})
_PRICE = Record(
    fields={
        **_PRICES,
        "earlier": ListOf(
            item=_EARLIER,
            max_items=100,
            description="What it cost before, each row with `until`, its first day without",
        ),
    }
)

_FIELDS: dict[str, Field] = {
    "durability": Choice(
        values=("full", "process"),
        default="full",
        description="What an acknowledged write survives: power loss, or the end of the process only",
    ),
    "idle_suspend_minutes": Integer(
        minimum=0,
        maximum=10_080,
        default=90,
        description="Idle time until a session is suspended; 0 never",
    ),
    "token_ttl_days": Integer(minimum=1, maximum=90, default=30, description="Days until a recovery token expires"),
    "agent": Text(
        max_chars=64,
        pattern=AGENT_PATTERN,
        default="",
        description="Agent kind where a request names none",
    ),
    "policy_file": Text(max_chars=4096, default="", description="JSON file with a command policy that also holds"),
    "budgets.day_usd": Number(
        default=0, description="US dollars that all agents may use in a day (UTC); 0 for no limit"
    ),
    "budgets.day_tokens": Integer(
        minimum=0,
        maximum=2**53,
        default=0,
        description="Tokens of all classes that all agents may use in a day (UTC); 0 for no limit",
    ),
    "budgets.on_exceeded": Choice(
        values=("warn", "refuse"),
        default="warn",
        description="What opening a session does beyond a budget: warn, or refuse",
    ),
    "budgets.agents": TableOf(placeholder="AGENT_ID", item=_LIMIT, default={}, description="Budgets of single agents"),
    "daemon.idle_stop_minutes": Number(default=30, description="Idle time until the daemon stops by itself; 0 never"),
    "daemon.hold_shells_minutes": Number(
        default=15, description="How long local shells wait for the next daemon; 0 ends them with their own"
    ),
    "daemon.log_level": Choice(
        values=("debug", "info", "warning", "error"), default="info", description="How much is logged"
    ),
    "http.enabled": Boolean(default=False, description="Serve MCP over HTTP on loopback"),
    "http.host": Loopback(default="127.0.0.1", max_chars=100, description="Address to listen on; loopback only"),
    "http.port": Integer(
        minimum=0, maximum=65_535, default=7437, description="Port to listen on; 0 takes any free one"
    ),
    "mcp.toolsets": _names("Toolsets to list; empty lists the default ones", "toolset", (*TOOLSETS, *GROUPS)),
    "mcp.tools": _names("Single tools to list, beside toolsets or alone", "tool", TOOL_NAMES),
    "mcp.exclude_tools": _names("Tools never to list", "tool", TOOL_NAMES),
    "mcp.dialect": _names("Dialects to serve: `nexo`, `mcpserver`, `execkit`", "dialect", DIALECTS),
    "mcp.read_only": Boolean(default=False, description="List only tools that change nothing"),
    "redaction.silenced": _names("Ids of redaction rules that are switched off"),
    "redaction.rules": ListOf(item=_RULE, default=(), description="Further redaction rules"),
    "ingest.roots": ListOf(
        item=Text(max_chars=4096), default=(), description="Further folders to import transcripts from"
    ),
    "ingest.watch": Boolean(default=False, description="The daemon imports transcripts as they grow"),
    "ingest.max_line_mb": Integer(
        minimum=1, maximum=1024, default=128, description="Longest line of a transcript that is read"
    ),
    "ingest.project_aliases": TableOf(
        placeholder="PATH",
        item=Text(max_chars=4096),
        default={},
        description="Paths that belong to the project of another path",
    ),
    "hooks.brief": Boolean(
        default=True, description="A session that starts is told what its unfinished predecessor left"
    ),
    "hooks.checkpoints": Choice(
        values=("turn", "call", "off"),
        default="turn",
        description="When the workspace of an agent with hooks is saved: with every turn, also before every tool call"
        " that may change files, or never",
    ),
    "store.url": StoreUrl(
        max_chars=2000,
        default="",
        description="PostgreSQL database to use instead of the file `shiftlog.db`, as `postgresql://…`",
    ),
    "store.migrate": Boolean(
        default=True, description="Bring the schema of that database up to date at start, instead of refusing it"
    ),
    "store.connections": Integer(
        minimum=2, maximum=100, default=5, description="Connections to that database, at most; one of them writes"
    ),
    "store.statement_timeout_s": Integer(
        minimum=1,
        maximum=3_600,
        default=60,
        description="Time that a statement there may take, waiting for locks included",
    ),
    "store.direct_url": StoreUrl(
        max_chars=2000,
        default="",
        description="The same database past a pooler, to hear of changes; empty takes `store.url`",
    ),
    "retention.days": Integer(
        minimum=0,
        maximum=36_500,
        default=0,
        description="Days after its last activity until what a session said is erased; 0 keeps it for ever",
    ),
    "retention.projects": TableOf(
        placeholder="PROJECT",
        item=Integer(minimum=0, maximum=36_500),
        default={},
        description="The same for projects, by name or path; a path counts before a name",
    ),
    "server.host": Text(max_chars=100, default="127.0.0.1", description="Address that `shiftlog server` listens on"),
    "server.port": Integer(minimum=0, maximum=65_535, default=7438, description="Its port; 0 takes any free one"),
    "server.drain_s": Number(
        default=5, description="Time that a stopping server still answers, not ready, so that a proxy leaves it"
    ),
    "server.max_connections": Integer(
        minimum=1, maximum=100_000, default=1000, description="Connections at once; further ones get status 503"
    ),
    "resume.require_token": Boolean(default=False, description="Resuming always needs the recovery token"),
    "runs.default_tier": Choice(values=TIERS, default=DEFAULT_TIER, description="Tier of a run whose caller has none"),
    "runs.backends": TableOf(placeholder="NAME", item=_BACKEND, default={}, description="Further backends of runs"),
    "runs.callers": TableOf(placeholder="NAME", item=_CALLER, default={}, description="Further callers of runs"),
    "runs.resonance": TableOf(
        placeholder="BACKEND",
        item=TableOf(placeholder="TIER", item=_LEVEL, names=TIERS),
        default={},
        description="Model and effort per backend and tier",
    ),
    "runs.prices": TableOf(
        placeholder="MODEL", item=_PRICE, default={}, description="Prices of models, by their names"
    ),
}
# Only the operator's file has these: a variable can come from any program that starts the daemon, and must not mask
# less or let more be read.
_FILE_ONLY = frozenset(
    "budgets.day_usd budgets.day_tokens budgets.on_exceeded budgets.agents redaction.silenced redaction.rules "
    "retention.days retention.projects ingest.roots ingest.project_aliases runs.backends runs.callers runs.resonance "
    "runs.prices".split()
)
SETTINGS = tuple(Setting(key=key, field=field, environment=key not in _FILE_ONLY) for key, field in _FIELDS.items())
BY_KEY = {setting.key: setting for setting in SETTINGS}
SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in BY_KEY if "." in key))
