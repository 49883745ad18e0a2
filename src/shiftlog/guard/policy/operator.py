"""The operator's policy: its keys, reading it from JSON or TOML, and combining several into the tightest.

No input of an agent changes it. `shell_rules` adds a shell's own lists, which can only tighten it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Literal, cast

from shiftlog.guard.linear import PatternError, compile_linear
from shiftlog.guard.policy.files import DEFAULT_PATH
from shiftlog.guard.policy.lists import DenyPattern, ShellRules, entries
from shiftlog.guard.secrets.redactor import InvalidRule, Rule
from shiftlog.model.errors import ConfigError
from shiftlog.text.nearest import nearest

Sandbox = Literal["read-only", "workspace-write", "full-access"]
SANDBOXES: tuple[Sandbox, ...] = ("read-only", "workspace-write", "full-access")
Unjudged = Literal["allow", "ask", "refuse"]
UNJUDGED: tuple[Unjudged, ...] = ("allow", "ask", "refuse")
TRANSPORTS = ("local", "ssh", "docker")
BUILD_CACHES = ("~/.cache", "~/.npm", "~/.cargo/registry", "~/.cargo/git", "~/go/pkg", "~/.gradle", "~/.m2")
LIMITS = frozenset(
    "timeout_s_max shells session_shells background idle_ttl_s ready_s ssh_connect_s "
    "spool_command_bytes spool_total_bytes spool_days "
    "checkpoint_file_bytes checkpoint_files checkpoint_tree_bytes checkpoints_auto".split()
)
# The limits that apply by default.
USUAL_LIMITS: Mapping[str, int] = {
    "timeout_s_max": 3600,
    "shells": 64,
    "session_shells": 64,
    "background": 16,
    "idle_ttl_s": 1800,
}
UNBOUNDED_AT_ZERO = frozenset({"idle_ttl_s"})
AT_LEAST_ONE = frozenset({"timeout_s_max", "ready_s", "ssh_connect_s"})
MAX_ENTRY_CHARS = 255
ANY = (("*",),)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPolicy:
    """The operator's settings. `allow`, `hosts`, `containers` and `workspaces` hold a list per policy; all must permit.

    None means a default that depends on its use: the user's ssh directory, the face or the sandbox.
    """

    allow: tuple[tuple[str, ...], ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny_patterns: tuple[str, ...] = ()
    dangerous: bool = True
    transports: tuple[str, ...] = TRANSPORTS
    hosts: tuple[tuple[str, ...], ...] = ANY
    containers: tuple[tuple[str, ...], ...] = ANY
    key_dir: str | None = None
    known_hosts: str | None = None
    accept_new_host_keys: bool = False
    require_known_hosts: bool | None = None
    password_auth: bool = True
    ssh_agent: bool = True
    askpass: bool = True
    sandbox_max: Sandbox = "full-access"
    sandbox_default: Sandbox | None = None
    sandbox_network: bool = True
    sandbox_write: tuple[str, ...] = BUILD_CACHES
    require_kernel: bool = False
    unjudged: Unjudged = "allow"
    env_pass: tuple[str, ...] = ()
    redaction_disable: tuple[str, ...] = ()
    redaction_add: tuple[Rule, ...] = ()
    workspaces: tuple[tuple[str, ...], ...] | None = None
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    given: frozenset[str] = frozenset()


def read_policy(mapping: Mapping[str, object], source: str) -> OperatorPolicy:
    """Read a policy from parsed JSON or TOML; raise `ConfigError` with the source and the key at fault."""
    values: dict[str, object] = {}
    for key, value in mapping.items():
        reader = READERS.get(key)
        if reader is None:
            raise ConfigError.unknown(source, key, nearest(key, sorted(READERS)))
        if value is not None:
            values.update(reader(value, key, source))
    return OperatorPolicy(**cast(dict[str, object], {**values, "given": frozenset(values)}))  # pyright: ignore[reportArgumentType]


def combine(*policies: OperatorPolicy) -> OperatorPolicy:
    """Combine policies so that all hold: deny united, allow intersected, the tighter value of every other key."""
    return reduce(_combine_two, policies, OperatorPolicy())


def tightening(policy: OperatorPolicy, other: OperatorPolicy) -> list[str]:
    """Return the keys in which `other` is tighter than `policy`."""
    return [name for name in sorted(other.given) if _tightens(name, getattr(policy, name), getattr(other, name))]


def _tightens(name: str, mine: object, theirs: object) -> bool:
    if name == "limits":
        held = {**USUAL_LIMITS, **cast("Mapping[str, int]", mine)}
        return _lower_limits(held, cast("Mapping[str, int]", theirs)) != held
    if mine is None:
        # The default depends on its use; only a value that permits everything is certainly not tighter.
        return theirs not in (False, SANDBOXES[-1], ANY)
    if name in ("key_dir", "known_hosts"):
        return mine != theirs
    return _TIGHTER[name](mine, theirs) != mine


def shell_rules(
    policy: OperatorPolicy,
    *,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    path: str = DEFAULT_PATH,
    home: str | None = None,
) -> ShellRules:
    """Add a shell's own lists to the operator's; they can only tighten."""
    lists = [*(entries(listed, "operator", "allow") for listed in policy.allow), entries(allow, "shell", "allow")]
    patterns = tuple(
        DenyPattern(number=number, pattern=compile_linear(pattern, text=True))
        for number, pattern in enumerate(policy.deny_patterns, start=1)
    )
    return ShellRules(
        deny=(*entries(policy.deny, "operator", "deny"), *entries(deny, "shell", "deny")),
        allow=tuple(listed for listed in lists if listed),
        ask=entries(policy.ask, "operator", "ask"),
        patterns=patterns,
        dangerous=policy.dangerous,
        path=path,
        home=home,
    )


def _combine_two(one: OperatorPolicy, other: OperatorPolicy) -> OperatorPolicy:
    values: dict[str, object] = {}
    for each in fields(OperatorPolicy):
        name = each.name
        left, right = getattr(one, name), getattr(other, name)
        if name == "given":
            values[name] = one.given | other.given
        elif name not in other.given:
            values[name] = left
        elif name not in one.given:
            values[name] = right
        else:
            values[name] = _TIGHTER[name](left, right)
    return OperatorPolicy(**values)  # pyright: ignore[reportArgumentType]


def _united(left: tuple[object, ...], right: tuple[object, ...]) -> tuple[object, ...]:
    return (*left, *(item for item in right if item not in left))


def _shared(left: tuple[object, ...], right: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(item for item in left if item in right)


def _tighter_sandbox(left: Sandbox, right: Sandbox) -> Sandbox:
    return left if SANDBOXES.index(left) <= SANDBOXES.index(right) else right


def _stricter(left: Unjudged, right: Unjudged) -> Unjudged:
    return UNJUDGED[max(UNJUDGED.index(left), UNJUDGED.index(right))]


def _same_place(left: str, right: str) -> str:
    if left != right:
        raise ConfigError(f"two policies name different places: '{left}' and '{right}'")
    return left


def _lower_limits(left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
    joined = dict(left)
    for name, value in right.items():
        mine = joined.get(name)
        if mine is None or (name in UNBOUNDED_AT_ZERO and mine == 0):
            joined[name] = value
        elif not (name in UNBOUNDED_AT_ZERO and value == 0):
            joined[name] = min(mine, value)
    return joined


_TIGHTER: dict[str, Callable[..., object]] = {
    **dict.fromkeys("allow deny ask deny_patterns hosts containers workspaces redaction_add".split(), _united),
    **dict.fromkeys("transports sandbox_write env_pass redaction_disable".split(), _shared),
    **dict.fromkeys("dangerous require_known_hosts require_kernel".split(), bool.__or__),
    **dict.fromkeys("accept_new_host_keys password_auth ssh_agent askpass sandbox_network".split(), bool.__and__),
    **dict.fromkeys(("key_dir", "known_hosts"), _same_place),
    **dict.fromkeys(("sandbox_max", "sandbox_default"), _tighter_sandbox),
    "unjudged": _stricter,
    "limits": _lower_limits,
}

KeyReader = Callable[[object, str, str], dict[str, object]]


def _fault(key: str, source: str, expected: str) -> ConfigError:
    return ConfigError(f"{source}: policy key '{key}' must be {expected}", details={"key": key, "source": source})


def _texts(value: object, key: str, source: str, *, longest: int | None = None) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _fault(key, source, "a list of strings")
    for item in cast(list[object], value):
        if not isinstance(item, str) or not item.strip():
            raise _fault(key, source, "a list of strings that are not empty")
        if longest is not None and len(item) > longest:
            raise _fault(key, source, f"a list of strings of at most {longest} characters")
    return tuple(cast(list[str], value))


def _read_list(value: object, key: str, source: str) -> dict[str, object]:
    return {key: _texts(value, key, source, longest=MAX_ENTRY_CHARS)}


def _read_nested(value: object, key: str, source: str) -> dict[str, object]:
    listed = _texts(value, key, source, longest=4096 if key == "workspaces" else MAX_ENTRY_CHARS)
    # An empty allow list means no list; an empty list of hosts permits no host.
    return {} if key == "allow" and not listed else {key: (listed,)}


def _read_patterns(value: object, key: str, source: str) -> dict[str, object]:
    patterns = _texts(value, key, source)
    for number, pattern in enumerate(patterns, start=1):
        try:
            compile_linear(pattern, text=True)
        except PatternError as error:
            raise ConfigError(
                f"{source}: policy key '{key}', pattern {number}: {error}", details={"key": key}
            ) from None
    return {key: patterns}


def _read_dangerous(value: object, key: str, source: str) -> dict[str, object]:
    if value in ("on", True):
        return {key: True}
    if value in ("off", False):
        return {key: False}
    raise _fault(key, source, '"on" or "off"')


def _read_transports(value: object, key: str, source: str) -> dict[str, object]:
    listed = _texts(value, key, source)
    if any(item not in TRANSPORTS for item in listed):
        raise _fault(key, source, "a list of " + ", ".join(TRANSPORTS))
    return {key: listed}


def _read_text(value: object, key: str, source: str) -> dict[str, object]:
    if not isinstance(value, str) or not value:
        raise _fault(key, source, "a path")
    return {key: value}


def _read_flag(value: object, key: str, source: str) -> dict[str, object]:
    if not isinstance(value, bool):
        raise _fault(key, source, "true or false")
    return {key: value}


def _read_sandbox(value: object, key: str, source: str) -> dict[str, object]:
    if value not in SANDBOXES:
        raise _fault(key, source, "one of " + ", ".join(SANDBOXES))
    return {key: value}


def _read_unjudged(value: object, key: str, source: str) -> dict[str, object]:
    if value not in UNJUDGED:
        raise _fault(key, source, "one of " + ", ".join(UNJUDGED))
    return {key: value}


def _read_redaction(value: object, key: str, source: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _fault(key, source, "a table with disable and add")
    table = cast(Mapping[str, object], value)
    for name in table:
        if name not in ("disable", "add"):
            raise ConfigError.unknown(source, f"{key}.{name}", "redaction.disable")
    read: dict[str, object] = {}
    if "disable" in table:
        read["redaction_disable"] = _texts(table["disable"], f"{key}.disable", source)
    if "add" in table:
        read["redaction_add"] = _redaction_rules(table["add"], f"{key}.add", source)
    return read


def _redaction_rules(value: object, key: str, source: str) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    if not isinstance(value, list):
        raise _fault(key, source, "a list of tables with id and pattern")
    for item in cast(list[object], value):
        table: Mapping[str, object] = cast(Mapping[str, object], item) if isinstance(item, Mapping) else {}
        name, pattern = table.get("id"), table.get("pattern")
        if set(table) != {"id", "pattern"} or not isinstance(name, str) or not isinstance(pattern, str):
            raise _fault(key, source, "a list of tables with exactly id and pattern, both strings")
        try:
            rules.append(Rule(id=name, pattern=pattern))
        except InvalidRule as error:
            raise _fault(key, source, f"rules that can be used: {error}") from None
    return tuple(rules)


def _read_limits(value: object, key: str, source: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _fault(key, source, "a table of numbers")
    limits: dict[str, int] = {}
    for name, number in cast(Mapping[str, object], value).items():
        if name not in LIMITS:
            raise ConfigError.unknown(source, f"{key}.{name}", f"{key}.{nearest(name, sorted(LIMITS))}")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise _fault(f"{key}.{name}", source, "a whole number that is not negative")
        if not number and name in AT_LEAST_ONE:
            raise _fault(f"{key}.{name}", source, "at least 1")
        limits[name] = number
    return {key: limits}


READERS: dict[str, KeyReader] = {
    **dict.fromkeys("allow hosts containers workspaces".split(), _read_nested),
    **dict.fromkeys("deny ask sandbox_write env_pass".split(), _read_list),
    **dict.fromkeys(("key_dir", "known_hosts"), _read_text),
    **dict.fromkeys(("sandbox_max", "sandbox_default"), _read_sandbox),
    **dict.fromkeys(
        "accept_new_host_keys require_known_hosts password_auth ssh_agent askpass sandbox_network "
        "require_kernel".split(),
        _read_flag,
    ),
    "deny_patterns": _read_patterns,
    "dangerous": _read_dangerous,
    "unjudged": _read_unjudged,
    "transports": _read_transports,
    "redaction": _read_redaction,
    "limits": _read_limits,
}
