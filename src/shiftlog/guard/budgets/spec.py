"""The budget: how much of an output is shown, and which part; read from JSON with precise errors.

Native tools reject counts out of range, dialects clamp them. `shape` applies a budget, `patterns` compiles its pattern.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from shiftlog.guard.budgets.patterns import LinePattern, PatternRefused
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.shell_errors import BudgetInvalid
from shiftlog.text.nearest import nearest

KeepMode = Literal["all", "tail", "head", "head_tail"]
Problem = Literal["unknown", "missing", "type", "range", "conflict", "format"]

KEEP_MODES: tuple[KeepMode, ...] = ("all", "tail", "head", "head_tail")
MAX_LINES = 1_000_000
MAX_CHARS = 1_000_000
MAX_CONTEXT = 1_000

_COUNTS: dict[KeepMode, tuple[str, ...]] = {"all": (), "tail": ("n",), "head": ("n",), "head_tail": ("head", "tail")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grep:
    """A pattern, and the number of context lines around each match."""

    pattern: LinePattern
    context: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The number of first and last lines to keep; None keeps all."""

    mode: KeepMode
    head: int | None = None
    tail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The lines that are kept, and how many characters of them; without `max_chars` the caller's cap applies."""

    grep: Grep | None = None
    keep: Keep | None = None
    max_chars: int | None = None

    @property
    def keeps_everything(self) -> bool:
        """True if it is the default, which gives no report."""
        return self.mode == "all" and self.max_chars is None

    @property
    def mode(self) -> str:
        """The name for the report: `all`, the keep mode, `grep` or `grep+<keep mode>`."""
        keep = self.keep.mode if self.keep is not None else "all"
        if self.grep is None:
            return keep
        return "grep" if keep == "all" else f"grep+{keep}"


WHOLE = Budget()


def read_budget(value: object, path: str = "budget", *, clamp: bool = False) -> Budget | None:
    """Read a budget argument; None for null.

    `path` names the argument in errors. With `clamp`, as in dialects, large counts are lowered, and negative ones are
    invalid parameters. Raises `BudgetInvalid` for a broken rule of budgets, `InvalidParameter` for unknown, missing or
    mistyped members.
    """
    if value is None:
        return None
    members = _read_members(value, path, ("grep", "keep", "max_chars"))
    grep, keep = members.get("grep"), members.get("keep")
    return Budget(
        grep=_read_grep(grep, f"{path}.grep", clamp=clamp) if grep is not None else None,
        keep=_read_keep(keep, f"{path}.keep", clamp=clamp) if keep is not None else None,
        max_chars=_read_count(members, "max_chars", path, MAX_CHARS, clamp=clamp),
    )


def _read_grep(value: object, path: str, *, clamp: bool) -> Grep:
    members = _read_members(value, path, ("pattern", "context"))
    pattern = _required(members, "pattern", path)
    if not isinstance(pattern, str):
        raise _mistyped(f"{path}.pattern", "a string")
    context = _read_count(members, "context", path, MAX_CONTEXT, clamp=clamp) or 0
    try:
        return Grep(pattern=LinePattern(pattern), context=context)
    except PatternRefused as refused:
        problem: Problem = "range" if refused.too_long else "format"
        says = f"{path}.pattern is not valid: {refused.reason}"
        raise _faulty(f"{path}.pattern", problem, says, offset=refused.offset) from None


def _read_keep(value: object, path: str, *, clamp: bool) -> Keep:
    members = _read_members(value, path, ("mode", "n", "head", "tail"))
    mode = _required(members, "mode", path)
    if not isinstance(mode, str):
        raise _mistyped(f"{path}.mode", "a string")
    if mode not in KEEP_MODES:
        raise _faulty(f"{path}.mode", "range", f"{path}.mode must be one of {', '.join(KEEP_MODES)}")
    counts = {name: _read_count(members, name, path, MAX_LINES, clamp=clamp) for name in ("n", "head", "tail")}
    for name, count in counts.items():
        used = name in _COUNTS[mode]
        if used and count is None:
            raise _faulty(f"{path}.{name}", "missing", f'{path}.{name} is required when mode is "{mode}"')
        if not used and count is not None:
            raise _faulty(f"{path}.{name}", "conflict", f'{path}.{name} cannot be used when mode is "{mode}"')
    match mode:
        case "head":
            return Keep(mode=mode, head=counts["n"], tail=0)
        case "tail":
            return Keep(mode=mode, head=0, tail=counts["n"])
        case _:
            return Keep(mode=mode, head=counts["head"], tail=counts["tail"])


def _read_members(value: object, path: str, known: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _mistyped(path, "an object")
    members = cast(Mapping[object, object], value)
    for name in members:
        if name not in known:
            raise InvalidParameter(
                f'unknown argument "{path}.{name}"',
                details={"parameter": f"{path}.{name}", "problem": "unknown", "expected": ", ".join(known)},
                hint=f"The nearest known name is {path}.{nearest(str(name), known)}",
            )
    return cast(Mapping[str, object], members)


def _required(members: Mapping[str, object], name: str, path: str) -> object:
    value = members.get(name)
    if value is None:
        details = {"parameter": f"{path}.{name}", "problem": "missing", "expected": "a string"}
        raise InvalidParameter(f'missing argument "{path}.{name}"', details=details)
    return value


def _read_count(members: Mapping[str, object], name: str, path: str, most: int, *, clamp: bool) -> int | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise _mistyped(f"{path}.{name}", "an integer")
    if value < 0 and clamp:
        raise _mistyped(f"{path}.{name}", f"an integer of 0 to {most}", problem="range")
    if not 0 <= value <= most and not clamp:
        raise _faulty(f"{path}.{name}", "range", f"{path}.{name} must be an integer of 0 to {most}")
    return int(min(value, most))


def _mistyped(path: str, expected: str, *, problem: Problem = "type") -> InvalidParameter:
    details = {"parameter": path, "problem": problem, "expected": expected}
    return InvalidParameter(f'argument "{path}" must be {expected}', details=details)


def _faulty(path: str, problem: Problem, message: str, *, offset: int | None = None) -> BudgetInvalid:
    return BudgetInvalid(message, details={"parameter": path, "problem": problem, "offset": offset})


def _count(most: int, description: str) -> dict[str, object]:
    return {"type": "integer", "minimum": 0, "maximum": most, "description": description}


def types_of(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema with the types alone, for the tools that refer to another tool's description."""
    kept = {name: part for name, part in schema.items() if name not in ("description", "minimum", "maximum", "default")}
    return {
        name: {
            key: types_of(cast(Mapping[str, object], item)) for key, item in cast(Mapping[str, object], part).items()
        }
        if name == "properties"
        else part
        for name, part in kept.items()
    }


# What the native tools list. Mode all, which is the default, and head_tail, which the cut in the middle comes near, are
# accepted as well; dialects list them.
BUDGET_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "grep": {
            "type": "object",
            "description": "First: only lines that match.",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "Regular expression (RE2).",
                },
                "context": {**_count(MAX_CONTEXT, "Lines before and after each match."), "default": 0},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        "keep": {
            "type": "object",
            "description": "Then: only these lines.",
            "properties": {
                "mode": {
                    "type": "string",
                    "enum": ["head", "tail"],
                    "description": "head: the first n; tail: the last n.",
                },
                "n": {"type": "integer", "minimum": 0, "description": "How many lines."},
            },
            "required": ["mode", "n"],
            "additionalProperties": False,
        },
        "max_chars": _count(MAX_CHARS, "Last: longer text loses its middle. Default 30000."),
    },
    "additionalProperties": False,
}
