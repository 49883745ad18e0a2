"""Read `config.toml` of the state directory and the `SHIFTLOG_*` variables, which win over it.

`load` returns a checked `Config` or raises ConfigError. The keys are declared in `settings`; what a setting does is
decided where it is used.
"""

import errno
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, cast

from shiftlog.config.settings import BY_KEY, PREFIX, SECTIONS, SETTINGS, Setting
from shiftlog.link.files import open_regular
from shiftlog.model.errors import ConfigError, InvalidParameter
from shiftlog.model.prices import PROMPT_SIZES, Price, Prices
from shiftlog.model.resonance import Backend, Level, Resonance
from shiftlog.params.fields import Boolean, Field, Integer, ListOf, Number
from shiftlog.text.nearest import nearest

FILE_NAME = "config.toml"
POLICY = "policy"
# Files of settings and policies are shorter than this.
OWN_BYTES = 1 << 20
# Variables of ours that are not settings: where state lives, what scripts run, and the clock of the tests.
NOT_SETTINGS = frozenset(
    {
        "SHIFTLOG_HOME",
        "SHIFTLOG_PAGER",
        "SHIFTLOG_REPL",
        "SHIFTLOG_TEST",
        "SHIFTLOG_NOW",
        "SHIFTLOG_ASKED_POLICY_FILES",
    }
)
_SHIPPED = Path(__file__).parent.parent / "defaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSection:
    """The settings for stopping by itself and for the log."""

    idle_stop_minutes: float
    hold_shells_minutes: float
    log_level: Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsSection:
    """Daily spending limits: one for all agents together, and one for each named agent (`day_usd`, `day_tokens`)."""

    day_usd: float
    day_tokens: int
    on_exceeded: Literal["warn", "refuse"]
    agents: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSection:
    """The MCP endpoint on loopback."""

    enabled: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSection:
    """The tools to list if the command line does not choose."""

    toolsets: tuple[str, ...]
    tools: tuple[str, ...]
    exclude_tools: tuple[str, ...]
    dialect: tuple[str, ...]
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRule:
    """A rule of the operator's own; `kind` is its class."""

    name: str
    pattern: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionSection:
    """The operator's own redaction rules, and the built-in rules that are switched off."""

    silenced: tuple[str, ...]
    rules: tuple[ConfiguredRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSection:
    """Settings of imports: further folders, watching, line limit, project aliases."""

    roots: tuple[str, ...]
    watch: bool
    max_line_mb: int
    project_aliases: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksSection:
    """Settings of hooks: a new session may get the brief of its unfinished predecessor, and turns checkpoints."""

    brief: bool
    checkpoints: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSection:
    """A database for a team in place of the embedded one; without a `url` there is none."""

    url: str
    migrate: bool
    connections: int
    statement_timeout_s: int
    direct_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSection:
    """The days that sessions are kept, in general and by project; 0 keeps them for ever."""

    days: int
    projects: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSection:
    """The team's server: where it listens, how long it drains, and how many connections it takes."""

    host: str
    port: int
    drain_s: float
    max_connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSection:
    """Settings of resuming: the recovery token may be required always."""

    require_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, checked; one attribute per section and per key without one."""

    durability: Literal["full", "process"]
    idle_suspend_minutes: int
    token_ttl_days: int
    agent: str
    policy_file: str
    policy: Mapping[str, Any]
    budgets: BudgetsSection
    daemon: DaemonSection
    http: HttpSection
    mcp: McpSection
    redaction: RedactionSection
    ingest: IngestSection
    hooks: HooksSection
    store: StoreSection
    retention: RetentionSection
    server: ServerSection
    resume: ResumeSection
    runs: Resonance
    prices: Prices


def load(home: Path, environ: Mapping[str, str]) -> Config:
    """Read the settings of a state directory; a variable wins over the file, the file over the defaults.

    Raises ConfigError that names the file or variable, the key, and what is wrong with it.
    """
    path = home / FILE_NAME
    values = {setting.key: setting.field.read(setting.field.default, setting.key) for setting in SETTINGS}
    values[POLICY] = {}
    values |= _read_document(_parse(path), str(path))
    values |= _read_environment(environ)
    return _build(values, str(path))


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_own(path))
    except FileNotFoundError as error:
        if not path.is_symlink():
            return {}
        # Going on without the settings would also be without the operator's policy.
        raise ConfigError(f"{path}: {error.strerror}: {path.readlink()}", details={"source": str(path)}) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
        raise ConfigError(f"{path}: not valid TOML: {reason}", details={"source": str(path)}) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", details={"source": str(path)}) from None


def read_own(path: Path) -> str:
    """Read a file of the operator; raises ConfigError if another user could have written it."""
    with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor has no path
        facts = os.fstat(file.fileno())
        if facts.st_size > OWN_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        why = _changeable(facts)
        if why is not None:
            hint = f"Check its content, then run `chown $(id -u) {path}` and `chmod go-w {path}`"
            raise ConfigError(f"{path}: {why}, so it is not read", details={"source": str(path)}, hint=hint)
        return file.read().decode("utf-8-sig")


def _changeable(facts: os.stat_result) -> str | None:
    """Return the reason why another user could have changed a file; None if none could."""
    user = os.geteuid()
    if user and facts.st_uid not in (0, user):
        return "it belongs to another user"
    if facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP and facts.st_gid != os.getegid()):
        return "other users may write to it"
    return None


def _read_document(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, item in document.items():
        if name == POLICY:
            # The keys of a policy are declared with the policy, because its JSON form has them too.
            if not isinstance(item, dict):
                raise ConfigError.invalid(source, name, "a table is expected", item)
            values[POLICY] = cast("dict[str, Any]", item)
        elif name not in SECTIONS:
            if isinstance(item, dict) and name not in BY_KEY:
                raise ConfigError.unknown(source, name, nearest(name, (*SECTIONS, POLICY)))
            values[name] = _read_typed(name, item, source)
        elif isinstance(item, dict):
            section = cast("dict[str, Any]", item)
            values |= {f"{name}.{key}": _read_typed(f"{name}.{key}", section[key], source) for key in section}
        else:
            raise ConfigError.invalid(source, name, "a table is expected", item)
    return values


# A file has types of its own, so "90" is no integer there; only a variable is text that has to be read.
_TOML_TYPES: dict[type[Field], tuple[str, tuple[type, ...]]] = {
    Boolean: ("true or false", (bool,)),
    Integer: ("an integer", (int,)),
    Number: ("a number", (int, float)),
    ListOf: ("a list", (list,)),
}


def _read_typed(key: str, value: Any, source: str) -> Any:
    setting = BY_KEY.get(key)
    if setting is None:
        raise ConfigError.unknown(source, key, nearest(key, BY_KEY))
    says, types = _TOML_TYPES.get(type(setting.field), ("", ()))
    if types and type(value) not in types:
        raise ConfigError.invalid(source, key, f"{says} is expected", value)
    return _checked(setting, value, source)


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        setting = by_variable.get(variable)
        if setting is None:
            usable = [name for name, known in by_variable.items() if known.environment]
            raise ConfigError.unknown(variable, variable, nearest(variable, usable))
        if not setting.environment:
            says = f"'{setting.key}' can only be set in {FILE_NAME}"
            raise ConfigError.invalid(variable, variable, says)
        if text.strip():
            is_list = isinstance(setting.field, ListOf)
            value = [part for item in text.split(",") if (part := item.strip())] if is_list else text.strip()
            values[setting.key] = _checked(setting, value, variable)
    return values


def _checked(setting: Setting, value: object, source: str) -> Any:
    try:
        return setting.field.read(value, setting.key)
    except InvalidParameter as error:
        details = error.details
        key = source if source == setting.variable else str(details["parameter"])
        if details["problem"] == "unknown":
            known = f"{key.rpartition('.')[0]}.{details['nearest']}" if "nearest" in details else setting.key
            raise ConfigError.unknown(source, key, known) from None
        if details["problem"] == "missing":
            raise ConfigError.invalid(source, key, "a value is required") from None
        raise ConfigError.invalid(source, key, str(details["constraint"]), details["value"]) from None


def _build(values: Mapping[str, Any], source: str) -> Config:
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        frozen = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        sections.setdefault(section, {})[name] = frozen
    return Config(
        **sections[""],
        budgets=BudgetsSection(**sections["budgets"]),
        daemon=DaemonSection(**sections["daemon"]),
        http=HttpSection(**sections["http"]),
        mcp=McpSection(**sections["mcp"]),
        redaction=_redaction(sections["redaction"], source),
        ingest=IngestSection(**sections["ingest"]),
        hooks=HooksSection(**sections["hooks"]),
        store=StoreSection(**sections["store"]),
        retention=RetentionSection(**sections["retention"]),
        server=ServerSection(**sections["server"]),
        resume=ResumeSection(**sections["resume"]),
        runs=_resonance(sections["runs"], source),
        prices=_prices(sections["runs"], source),
    )


def _redaction(section: Mapping[str, Any], source: str) -> RedactionSection:
    rules: dict[str, ConfiguredRule] = {}
    for rule in section["rules"]:
        name = rule["name"]
        if name in rules:
            raise ConfigError.invalid(source, "redaction.rules", f"two rules are named '{name}'")
        rules[name] = ConfiguredRule(name=name, pattern=rule["pattern"], kind=rule.get("class") or name)
    return RedactionSection(silenced=section["silenced"], rules=tuple(rules.values()))


@cache
def _shipped(name: str) -> dict[str, Any]:
    return tomllib.loads((_SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))


def _resonance(section: Mapping[str, Any], source: str) -> Resonance:
    """Lay the operator's entries over the shipped ones, value by value."""
    shipped = _shipped("resonance")
    backends: dict[str, Backend] = {}
    for name, given in _overlaid(shipped["backends"], section["backends"]):
        if not given.get("agent"):
            raise ConfigError.invalid(source, f"runs.backends.{name}.agent", "a value is required")
        backends[name] = Backend(
            agent=given["agent"],
            provider=given.get("provider") or None,
            cached_in_input=given.get("cached_in_input", False),
        )
    levels: dict[str, dict[str, Level]] = {}
    for backend in dict.fromkeys([*shipped["resonance"], *section["resonance"]]):
        if backend not in backends:
            key = f"runs.resonance.{backend}"
            raise ConfigError.unknown(source, key, f"runs.resonance.{nearest(backend, backends)}")
        rows = _overlaid(shipped["resonance"].get(backend, {}), section["resonance"].get(backend, {}))
        levels[backend] = {
            tier: Level(model=row.get("model") or None, effort=row.get("effort") or None) for tier, row in rows
        }
    callers = {name: row.get("tier") for name, row in _overlaid(shipped["callers"], section["callers"])}
    return Resonance(default_tier=section["default_tier"], backends=backends, callers=callers, levels=levels)


def _prices(section: Mapping[str, Any], source: str) -> Prices:
    """Lay the operator's prices over the shipped ones, value by value."""
    models: dict[str, Price] = {}
    earlier: dict[str, tuple[tuple[datetime, Price], ...]] = {}
    for model, row in _overlaid(_shipped("prices")["models"], section["prices"]):
        before: list[dict[str, Any]] = row.pop("earlier", None) or []
        models[model] = _price(row, f"runs.prices.{model}", source)
        ended = [
            (_midnight(old["until"]), _price({**row, **old}, f"runs.prices.{model}.earlier[{number}]", source))
            for number, old in enumerate(before)
        ]
        if ended:
            earlier[model] = tuple(sorted(ended, key=itemgetter(0)))
    return Prices(models=models, earlier=earlier)


def _price(row: Mapping[str, Any], key: str, source: str) -> Price:
    for name in ("input", "output"):
        if row.get(name) is None:
            raise ConfigError.invalid(source, f"{key}.{name}", "a value is required")
    if row.get("long_over") not in (None, *PROMPT_SIZES):
        sizes = ", ".join(map(str, PROMPT_SIZES))
        raise ConfigError.invalid(source, f"{key}.long_over", f"one of the lengths that are told apart: {sizes}")
    return Price(**{name: value for name, value in row.items() if name != "until"})


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)


def _overlaid(shipped: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in dict.fromkeys([*shipped, *given]):
        yield name, {**shipped.get(name, {}), **given.get(name, {})}
