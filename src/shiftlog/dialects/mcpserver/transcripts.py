"""The session log's own way to an import: `repl.sessionlog.ingestTranscripts` and the tool `sessionlog_ingest_path`.

Parameters and their names live here; who imports is joined in by the app (`Sessionlog.take_transcripts`).
"""

from collections import Counter
from typing import Any

from shiftlog.dialects.mcpserver import requests
from shiftlog.dialects.mcpserver.calls import Result
from shiftlog.dialects.mcpserver.current import Place
from shiftlog.dialects.mcpserver.requests import Params
from shiftlog.model.agents import AGENTS
from shiftlog.params.fields import Boolean, Choice, Field, Record, Text

METHOD = "repl.sessionlog.ingestTranscripts"
SOURCES = ("Auto", *(agent.short for agent in AGENTS.values()))

AGENT = Text(max_chars=64, description="Kind of agent whose transcripts they must be.")
FIELDS: dict[str, Field] = {
    "path": Text(required=True, max_chars=4_096, description="File or folder with transcripts."),
    "agent": AGENT,
    "source": Choice(values=SOURCES, description="Format; default: told by the content."),
    "recursive": Boolean(description="Also the folders below; default true."),
}
INGEST = Params(
    record=Record(
        fields={
            **FIELDS,
            "strict": Boolean(description="Fail where nothing is found or a file fails; default true."),
            "persist": Boolean(description="False counts only; default true."),
        }
    ),
    aliases=requests.ALIASES,
)


def shown_in_camel_case(value: Any) -> Any:
    """Return a report with the session log's spelling of keys; names of agents, classes and files stay."""
    if isinstance(value, list):
        return [shown_in_camel_case(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]
        head, *rest = str(name).split("_")  # pyright: ignore[reportUnknownArgumentType]
        spelled = head + "".join(part.capitalize() for part in rest) if name in _RENAMED else str(name)  # pyright: ignore[reportUnknownArgumentType]
        made[spelled] = shown_in_camel_case(item)
    return made


_RENAMED = frozenset(
    {
        "dry_run",
        "duration_s",
        "bytes_read",
        "mb_per_s",
        "by_agent",
        "sessions_new",
        "child_sessions",
        "tool_calls",
        "unknown_records",
        "bad_lines",
        "partial_tails",
        "copied_records",
        "usage_responses",
        "usage_tokens",
        "files_left_off",
        "not_recognised",
        "other_agent",
        "no_conversation",
    }
)


def completed(report: dict[str, Any]) -> Result:
    """Return a report as the session log shows it."""
    totals = report["totals"]
    shown: Result = shown_in_camel_case(report)
    unknown: Counter[str] = Counter()
    for name, count in report["unknown"].items():
        unknown[name.partition("/")[2]] += count  # agents may have names in common
    return {
        **shown,
        "skippedLines": totals["bad_lines"] + totals["partial_tails"],
        "unknownRecords": dict(unknown),
    }


def values_from(asked: dict[str, Any], place: Place) -> dict[str, Any]:
    """Return a request with its defaults, and who may read what for it."""
    return {
        "path": asked["path"],
        "agent": asked.get("agent") or None,
        "source": asked.get("source") or "Auto",
        "recursive": asked.get("recursive", True),
        "strict": asked.get("strict", True),
        "persist": asked.get("persist", True),
        "workspace": place.workspace,
        "operator": place.caller.operator,
    }
