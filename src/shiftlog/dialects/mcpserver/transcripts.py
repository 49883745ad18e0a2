"""The session log's own way to an import: `repl.sessionlog.ingestTranscripts` and the tool `sessionlog_ingest_path`.

Parameters, defaults and the shown report are here; the import itself is `ingest.importing`, loaded with the first call.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shiftlog.dialects.mcpserver.calls import Result
from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.naming import dialect_name, params
from shiftlog.model.agents import AGENTS, agent_named, find_kind
from shiftlog.model.errors import InvalidParameter, TranscriptNotFound, TranscriptUnreadable
from shiftlog.params.fields import Boolean, Choice, Field, Text

if TYPE_CHECKING:
    from shiftlog.ingest.importing.service import Imports

METHOD = "repl.sessionlog.ingestTranscripts"
AUTO = "Auto"
SOURCES = (AUTO, *(agent.short for agent in AGENTS.values()))

AGENT = Text(
    max_chars=64,
    description="A check only: the call is refused if path has no transcript of this agent kind (ClaudeCode, Codex, "
    "GeminiCli, CopilotCli, OpenCode or Cursor). To import only this kind set source too.",
    examples=("Codex",),
)
FIELDS: dict[str, Field] = {
    "path": Text(
        required=True,
        max_chars=4_096,
        description="File or folder with transcripts: absolute, from ~, or relative to workspacePath.",
        examples=("~/.codex/sessions/2026/07",),
    ),
    "agent": AGENT,
    "source": Choice(
        values=SOURCES,
        default=AUTO,
        description="Import only this program's transcripts: Claude is ClaudeCode, Gemini is GeminiCli, Copilot is "
        "CopilotCli, the others have one name. Auto: all that are recognised.",
    ),
    "recursive": Boolean(default=True, description="Also read the folders below path."),
}
INGEST = params(
    {
        **FIELDS,
        "strict": Boolean(description="Fail where nothing is found or a file fails; default true."),
        "persist": Boolean(description="False counts only; default true."),
    }
)
_RENAMED = frozenset(
    "dry_run duration_s bytes_read mb_per_s by_agent sessions_new child_sessions tool_calls unknown_records bad_lines "
    "partial_tails copied_records usage_responses usage_tokens files_left_off not_recognised other_agent "
    "no_conversation".split()
)


def _in_camel_case(value: Any) -> Any:
    """Return a report with the session log's spelling of keys; names of agents, classes and files stay."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {dialect_name(name) if name in _RENAMED else name: _in_camel_case(item) for name, item in items}
    return [_in_camel_case(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _shown(report: dict[str, Any]) -> Result:
    totals = report["totals"]
    unknown: Counter[str] = Counter()
    for name, count in report["unknown"].items():
        unknown[name.partition("/")[2]] += count  # agents may have names in common
    return {
        **_in_camel_case(report),
        "skippedLines": totals["bad_lines"] + totals["partial_tails"],
        "unknownRecords": dict(unknown),
    }


async def take(imports: "Imports", values: Mapping[str, Any], context: CallContext) -> Result:
    """Import the transcripts that a call names and return the report; a strict call raises for missing or bad ones."""
    from shiftlog.ingest.importing.ports import ImportOptions

    given = os.path.expanduser(str(values["path"]))  # noqa: PTH111 - does not raise for an unknown user
    path, agent = str(Path(context.workspace or "/", given)), values.get("agent")
    wanted = find_kind(values.get("source") or AUTO)
    strict = values.get("strict", True)
    # No argument of a call opens a folder, so a workspace that it names does not count.
    own = context.workspace if context.own_workspace is None else context.own_workspace
    options = ImportOptions(
        paths=[path],
        agents=[wanted] if wanted else (),
        recursive=bool(values.get("recursive", True)),
        dry_run=True,
        allowed=None if context.caller.operator else [own] if own else [],
        argument="path",
    )
    if agent or strict:
        kinds = await imports.kinds(options)
        if strict and not (kinds & {wanted} if wanted else kinds):
            raise TranscriptNotFound(f"Transcript not found: {path}", details={"searched": [path]})
        if agent and kinds and agent_named(agent) not in kinds:
            says = "the agent whose transcripts are there"
            raise InvalidParameter.invalid("agent", says, agent, allowed=sorted(kinds))
    report = await imports.run(replace(options, dry_run=not values.get("persist", True)))
    shown = _shown(report.shown())
    if strict and not report.ok:
        raise TranscriptUnreadable(f"Transcript unreadable: {report.errors[0]['path']}", details=shown)
    return shown
