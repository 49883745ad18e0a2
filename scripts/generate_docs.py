"""Writes the generated parts of docs/: command line, MCP tools, settings, policy, spellings, and clients as tried.

`--check` writes nothing and exits with 1 when a file is not what would be written, naming it.
"""

import inspect
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import anyio
import click
from clients_page import clients_page  # also makes `tests` importable
from policy_table import policy_table
from settings_table import reference_table
from spelling_tables import spellings_page, with_summary

from shiftlog.app.app import open_app
from shiftlog.cli.continuity import PlainOption
from shiftlog.cli.program import SECTIONS, program
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Prompt, Registry, Resource, Tool
from tests.exam.tasks import SAMPLES, TASKS, filled

DOCS = Path(__file__).parent.parent / "docs"
NOTE = "<!-- Written by scripts/generate_docs.py; change the source and run `make docs`. -->"
SETTINGS_BEGIN = "<!-- settings: generated from shiftlog.config.settings -->\n"
SETTINGS_END = "<!-- end of settings -->"
POLICY_BEGIN = "<!-- policy: generated from scripts/policy_table.py -->\n"
POLICY_END = "<!-- end of policy -->"

Schema = Mapping[str, Any]


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: generate_docs.py [--check]", file=sys.stderr)
        return 2
    stale = [path for path, text in generated() if not path.exists() or path.read_text("utf-8") != text]
    if check:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is stale; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in generated():
        if path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")
    return 0


def generated() -> Iterator[tuple[Path, str]]:
    """Yield every file with generated parts as it should be."""
    yield DOCS / "reference" / "cli.md", cli_page()
    yield DOCS / "reference" / "tools.md", tools_page(anyio.run(_registry))
    configuration = DOCS / "configuration.md"
    yield configuration, with_table(configuration, SETTINGS_BEGIN, reference_table(), SETTINGS_END)
    policy = DOCS / "policy.md"
    yield policy, with_table(policy, POLICY_BEGIN, policy_table(), POLICY_END)
    yield DOCS / "reference" / "spellings.md", spellings_page(NOTE)
    yield DOCS / "clients.md", clients_page(NOTE)
    security = DOCS / "security.md"
    yield security, with_summary(security.read_text("utf-8"))


def with_table(path: Path, begin: str, table: str, end: str) -> str:
    """Return a page with the part between its marks replaced."""
    head, begun, rest = path.read_text("utf-8").partition(begin)
    _, ended, tail = rest.partition(end)
    if not begun or not ended:
        raise SystemExit(f"docs/{path.name} has lost the marks around its table")
    return f"{head}{begin}{table}{end}{tail}"


# The command line


def cli_page() -> str:
    lines = ["# The command line", "", NOTE, "", *_paragraphs(program.help or ""), ""]
    lines += ["Exit statuses, files and troubleshooting are in [operations](../operations.md).", ""]
    context = click.Context(program, info_name="shiftlog")
    for title, names in SECTIONS.items():
        rows: list[list[str]] = []
        for name in names:
            command = _command(program, context, name)
            rows.append([f"[`shiftlog {name}`](#shiftlog-{name})", command.get_short_help_str(100)])
        lines += [f"**{title}**", "", *_table(["command", "what it does"], rows), ""]
    for names in SECTIONS.values():
        for name in names:
            lines += _command_lines(_command(program, context, name), context, f"shiftlog {name}", "##")
    return "\n".join(lines).rstrip() + "\n"


def _command(group: click.Group, context: click.Context, name: str) -> click.Command:
    command = group.get_command(context, name)
    if command is None:
        raise SystemExit(f"the command '{name}' cannot be found")
    return command


def _command_lines(command: click.Command, parent: click.Context, path: str, level: str) -> list[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"{level} {path}", "", *_paragraphs(command.help or ""), "", "```text", usage, "```", ""]
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    rows = [[f"`{_spelling(option, context)}`", _option_text(option)] for option in options]
    if rows:
        lines += [*_table(["option", "what it does"], rows), ""]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            lines += _command_lines(inner, context, f"{path} {name}", level + "#")
    return lines


def _paragraphs(text: str) -> list[str]:
    """Return a help text as Markdown; a paragraph that click leaves as it is becomes a code block."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            heading, *code = paragraph.removeprefix("\b\n").splitlines()
            lines += ["", heading, "", "```console", *(line.strip() for line in code), "```"]
        else:
            lines += ["", " ".join(paragraph.split())]
    return lines[1:]


def _spelling(option: click.Option, context: click.Context) -> str:
    names = ", ".join(option.opts[:1] if isinstance(option, PlainOption) else option.opts)
    if option.secondary_opts:
        names += f" / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {option.make_metavar(context)}"


def _option_text(option: click.Option) -> str:
    notes: list[str] = []
    if option.required:
        notes.append("Required.")
    if option.show_default and option.default is not None:
        notes.append(f"Default: `{option.default}`.")
    return " ".join([option.help or "", *notes])


# The MCP tools


async def _registry() -> Registry:
    with tempfile.TemporaryDirectory() as home:
        async with open_app(Path(home), {}) as app:
            return registry_for(app)


def tools_page(registry: Registry) -> str:
    lines = ["# The MCP tools", "", NOTE, ""]
    lines += [
        "What an agent sees after `shiftlog setup`. Every tool refuses unknown arguments by name, answers with",
        "structured content and the same JSON as text, and fails with `code`, `message`, `details`, `hint` and",
        "`retryable`. `shiftlog mcp --toolsets`, `--tools`, `--exclude-tools` and `--read-only` choose among them.",
        "Answers leave out what is empty, default or was just sent; `detail: full` brings it. An error's",
        "`details.next_call`, where there is one, is a call that helps. The examples are the forty tasks of",
        "`tests/exam/tasks.py`, and a test runs them.",
        "",
    ]
    listed = [tool for tool in registry.tools if tool.listed]
    rows = [[f"[`{tool.name}`](#{tool.name})", tool.toolset, tool.title] for tool in listed]
    lines += [*_table(["tool", "toolset", "title"], rows), ""]
    for tool in listed:
        lines += _tool_lines(tool)
    lines += _resource_lines(registry.resources)
    lines += _prompt_lines(registry.prompts)
    return "\n".join(lines).rstrip() + "\n"


def _tool_lines(tool: Tool) -> list[str]:
    traits = {
        "changes nothing": tool.read_only,
        "may destroy": tool.destructive,
        "repeating changes nothing more": tool.idempotent,
        "reaches outside": tool.open_world,
    }
    lines = [f"## {tool.name}", ""]
    for line in tool.description.splitlines():
        lines += [line, ""]
    held = ", ".join(words for words, holds in traits.items() if holds)
    if held:
        lines += [f"Annotations: {held}.", ""]
    schema: Schema = tool.params.type_schema()
    required = set(schema.get("required", ()))
    properties: dict[str, Schema] = schema.get("properties", {})
    rows = [
        [f"`{name}`" + (" (required)" if name in required else ""), _type(field), _described(field)]
        for name, field in properties.items()
    ]
    lines += [*_table(["argument", "type", "meaning"], rows), ""]
    lines += _unlisted_lines(tool)
    if tool.output is not None:
        results: dict[str, Schema] = tool.output.get("properties", {})
        lines += ["Result: " + ", ".join(f"`{name}`" for name in results) + ".", ""]
    return lines + _example_lines(tool.name)


def _unlisted_lines(tool: Tool) -> list[str]:
    """Return the arguments that are accepted but not in `tools/list`, because few callers need them."""
    rows = [
        [f"`{name}`", _type(spec.schema()), _described(spec.schema())]
        for name, spec in tool.params.fields.items()
        if not spec.listed
    ]
    return ["Accepted as well:", "", *_table(["argument", "type", "meaning"], rows), ""] if rows else []


def _example_lines(name: str) -> list[str]:
    """Return the tasks of the exam that this tool has a part in, with their calls."""
    lines: list[str] = []
    for task in TASKS:
        if any(call.tool == name for call in task.calls):
            lines.append(f"- {task.ask}")
            for call in task.calls:
                arguments = json.dumps(filled(call.arguments, SAMPLES), ensure_ascii=False)
                lines.append(f"  - `{call.tool}` `{arguments}`")
    return ["Examples:", "", *lines, ""] if lines else []


def _type(field: Schema) -> str:
    if "enum" in field:
        return "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    kind: object = field.get("type", "any")
    if isinstance(kind, list):
        kind = " or ".join(map(str, cast("list[object]", kind)))
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(kind)


def _described(field: Schema) -> str:
    bounds = [
        says.format(field[key])
        for key, says in (
            ("minimum", "at least {:,}"),
            ("maximum", "at most {:,}"),
            ("maxLength", "at most {:,} characters"),
            ("maxItems", "at most {:,} items"),
        )
        if key in field and abs(field[key]) < 2**31 - 1
    ]
    text = str(field.get("description", ""))
    inner: dict[str, Schema] = field.get("items", field).get("properties", {})
    if inner:
        text += " Keys: " + ", ".join(f"`{name}`" for name in inner) + "."
    return text + (f" ({', '.join(bounds)})" if bounds else "")


def _resource_lines(resources: tuple[Resource, ...]) -> list[str]:
    rows = [[f"`{item.uri}`", item.mime_type, item.description] for item in resources]
    return ["## Resources", "", *_table(["address", "type", "what it holds"], rows), ""] if rows else []


def _prompt_lines(prompts: tuple[Prompt, ...]) -> list[str]:
    rows = [
        [f"`{prompt.name}`", ", ".join(f"`{one.name}`" for one in prompt.arguments), prompt.description]
        for prompt in prompts
    ]
    return ["## Prompts", "", *_table(["prompt", "arguments", "what it gives"], rows), ""] if rows else []


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
