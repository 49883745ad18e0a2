"""Profiles of close and resume answers: a profile selects from the whole answer and adds nothing to it.

The prose is for people who read a terminal: one `key=value` line per scalar, so that stored text cannot forge a line.
"""

import json
from collections.abc import Mapping
from typing import Any

from shiftlog.dialects.delx.requests import MODEL_SAFE, PRESENTATION, STANDARD

Presented = tuple[dict[str, Any], str | None]

_MINIMAL = {
    "close_session": (
        "session_id",
        "status",
        "state",
        "recovery_token",
        "recovery_token_expires_at",
        "next_action",
    ),
    "resume_session": (
        "resumed_session_id",
        "resume_mode",
        "state",
        "recovery_token",
        "recovery_token_expires_at",
        "lease",
        "how_to_reattach",
    ),
}
_COMPACT = {
    "close_session": ("reason", "reason_class", "succession_policy", "closed_at", "summary", "successor_deadline"),
    "resume_session": ("attested", "last_activity", "capsule"),
}
_COMPACT_CAPSULE = ("goal", "next", "blockers", "open_turn")
_HEADINGS = {"close_session": "SESSION CLOSED", "resume_session": "SESSION RESUMED"}


def present(answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> Presented:
    """Return the part of an answer that the request asks for, and the prose; None if it asks for none."""
    given = {
        name: field.read(arguments[name], name)
        for name, field in PRESENTATION.items()
        if arguments.get(name) is not None
    }
    profile, mode = given.get("response_profile", "full"), given.get("response_mode", STANDARD)
    warnings = list(answer["warnings"])
    if profile == MODEL_SAFE:
        profile, mode = "full", MODEL_SAFE
        message = "response_profile holds a mode; it was taken as response_mode"
        warnings.insert(0, {"code": "profile_taken_as_mode", "message": message})
    is_stripped = given.get("ritual_strip", False) or profile == "machine"
    shown = {
        "ok": answer["ok"],
        "tool_name": answer["tool_name"],
        "response_profile": profile,
        "ritual_stripped": is_stripped,
        **answer,
        "data": _selected(answer["tool_name"], answer["data"], profile),
        "warnings": warnings,
    }
    return shown, None if profile != "full" or is_stripped else _prose(shown, mode)


def _selected(tool: str, data: Mapping[str, Any], profile: str) -> dict[str, Any]:
    if profile in ("full", "machine"):
        return dict(data)
    names = _MINIMAL[tool] + (_COMPACT[tool] if profile == "compact" else ())
    chosen = {name: data[name] for name in names if name in data}
    if "capsule" in chosen:
        chosen["capsule"] = {name: chosen["capsule"][name] for name in _COMPACT_CAPSULE if name in chosen["capsule"]}
    return chosen


def _prose(answer: Mapping[str, Any], mode: str) -> str:
    """Return the text for people: a heading, one line per scalar, the closing note under a heading of its own."""
    lines = _headed(_HEADINGS[answer["tool_name"]])
    scalars = {
        name: value
        for name, value in [*answer.items(), *answer["data"].items()]
        if not isinstance(value, dict | list | tuple)
    }
    lines += [f"{name}={_one_line(value)}" for name, value in scalars.items()]
    note = answer["data"].get("closing_note")
    if note:
        lines += ["", *_headed("CLOSING NOTE" if mode == MODEL_SAFE else "EPITAPH"), json.dumps(note)]
    return "\n".join(lines)


def _headed(heading: str) -> list[str]:
    return [heading, "=" * len(heading)]


def _one_line(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
