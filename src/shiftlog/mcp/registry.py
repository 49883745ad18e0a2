"""Declarations of tools, resources and prompts, and the selection of those that one connection sees.

`tools` and `dialects` declare them, `face` answers calls, `server` speaks the protocol.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mcp_types as types

from shiftlog.config.tool_names import DEFAULT_TOOLSETS, DIALECTS, GROUPS, TOOLSETS
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.params.fields import Boolean, ListOf, Record, Schema, Text
from shiftlog.text.nearest import suggestion

# A client of execkit expects its seven tools and no others.
LONE_DIALECTS = frozenset({"execkit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a tool: the data, shown as structured content and as JSON text, then further texts.

    A list has no structured form in every revision, so it is shown as text alone.
    """

    data: dict[str, Any] | list[Any]
    extra_texts: tuple[str, ...] = ()


# A tool with images, sound or questions to the client answers in the SDK's own words.
Answer = Reply | types.CallToolResult | types.InputRequiredResult
Run = Callable[[Caller, dict[str, Any]], Awaitable[Answer]]
# A dictionary is shown in both blocks, a string as text alone.
RenderError = Callable[[ShiftlogError], dict[str, Any] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool; `toolset` is also the name of the dialect that it belongs to.

    `run` gets the arguments unchecked, because services check their own requests; with `validates` they are read
    through `params` first. `aliases` can be called but are not listed. A tool that covers a part of another one names
    it in `part_of` and is served and excluded with it.
    """

    name: str
    toolset: str
    title: str
    description: str
    params: Record
    run: Run
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    output: Schema | None = None
    render_error: RenderError | None = None
    aliases: tuple[str, ...] = ()
    part_of: str | None = None
    validates: bool = False
    listed: bool = True
    annotated: bool = True

    def as_listed(self) -> types.Tool:
        """Return the tool as `tools/list` shows it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.params.type_schema(),
            output_schema=self.output,
            annotations=types.ToolAnnotations(
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=self.open_world,
            )
            if self.annotated
            else None,
        )


# Text is shown as it is, bytes as a blob, and anything else as JSON.
Content = str | bytes | dict[str, Any] | list[Any]
ReadResource = Callable[[Caller, dict[str, str]], Awaitable[Content]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something to read by URI; a `uri` with `{variables}` (RFC 6570) is a template."""

    uri: str
    toolset: str
    name: str
    title: str
    description: str
    mime_type: str
    read: ReadResource

    def about(self) -> dict[str, Any]:
        """Return its description for lists, without the URI."""
        names = ("name", "title", "description", "mime_type")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """One argument of a prompt; prompts take text only."""

    name: str
    description: str
    required: bool = False


# Text becomes one message of the user.
RenderPrompt = Callable[[Caller, dict[str, str]], Awaitable[str | types.GetPromptResult | types.InputRequiredResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text that a person asks for by name, filled from the journal."""

    name: str
    toolset: str
    title: str
    description: str
    render: RenderPrompt
    arguments: tuple[PromptArgument, ...] = ()


_NAMES = ListOf(item=Text(max_chars=200), max_items=200)
_LISTS = ("toolsets", "tools", "exclude_tools", "dialects")
_FLAGS = Record(fields={**dict.fromkeys(_LISTS, _NAMES), "read_only": Boolean()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of the registry that a connection requested; `Registry.select` checks the names.

    Without toolsets and tools the default toolsets are served; tools alone replace them, tools beside
    toolsets are added. Excluded names and `read_only` then take away, and dialects always add.
    """

    toolsets: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    read_only: bool = False
    dialects: tuple[str, ...] = ()

    @classmethod
    def read(cls, flags: Mapping[str, object]) -> "Selection":
        """Read command line flags or a handshake; each list may also be one text with commas."""
        values = _FLAGS.read(flags)
        values |= {name: _split(values[name]) for name in _LISTS if name in values}
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return the selection in the form that `read` takes, without absent parts."""
        return {name: value if value is True else list(value) for name, value in asdict(self).items() if value}


def _split(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for word in words for part in word.split(",") if part.strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Tools, resources and prompts in the order in which they are listed; no name stands for two tools."""

    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    def __post_init__(self) -> None:
        for kind, names in (
            ("tool", [name for tool in self.tools for name in (tool.name, *tool.aliases)]),
            ("resource", [resource.uri for resource in self.resources]),
            ("prompt", [prompt.name for prompt in self.prompts]),
        ):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{kind} registered twice: {', '.join(sorted(twice))}")

    def __add__(self, other: "Registry") -> "Registry":
        return Registry(
            tools=self.tools + other.tools,
            resources=self.resources + other.resources,
            prompts=self.prompts + other.prompts,
        )

    def toolsets(self) -> tuple[str, ...]:
        """List the names that `--toolsets` knows, dialects apart."""
        known = dict.fromkeys(TOOLSETS)
        known |= dict.fromkeys(tool.toolset for tool in self.tools if tool.toolset not in DIALECTS)
        return tuple(known)

    def select(self, selection: Selection) -> "Registry":
        """Return the selected part; raise InvalidParameter for a name that does not exist."""
        names = [tool.name for tool in self.tools]
        _check("toolsets", "toolset", selection.toolsets, [*self.toolsets(), *GROUPS])
        _check("tools", "tool", selection.tools, names)
        _check("exclude_tools", "tool", selection.exclude_tools, names)
        _check("dialects", "dialect", selection.dialects, DIALECTS)
        alone = not LONE_DIALECTS.isdisjoint(selection.dialects)
        toolsets = {*selection.dialects, *(() if alone else self._active(selection))}
        named = set[str | None]() if alone else set[str | None](selection.tools)
        tools = tuple(
            tool
            for tool in self.tools
            if (tool.toolset in toolsets or not named.isdisjoint((tool.name, tool.part_of)))
            and tool.name not in selection.exclude_tools
            and tool.part_of not in selection.exclude_tools
            and (tool.read_only or not selection.read_only)
        )
        toolsets |= {tool.toolset for tool in tools}
        return Registry(
            tools=tools,
            resources=tuple(item for item in self.resources if item.toolset in toolsets),
            prompts=tuple(item for item in self.prompts if item.toolset in toolsets),
        )

    def _active(self, selection: Selection) -> set[str]:
        if not selection.toolsets:
            return set() if selection.tools else set(DEFAULT_TOOLSETS)
        active = set(selection.toolsets)
        if "all" in active:
            active |= set(self.toolsets())
        if "default" in active:
            active |= set(DEFAULT_TOOLSETS)
        return active


def _check(parameter: str, noun: str, given: Sequence[str], allowed: Sequence[str]) -> None:
    for name in given:
        if name not in allowed:
            near = suggestion(name, allowed)
            says = f"there is no {noun} '{name}'" + (f"; did you mean '{near}'?" if near else "")
            raise InvalidParameter.invalid(parameter, says, name, allowed=sorted(allowed))
