"""How answers of close and resume are shown: a profile selects from the whole answer and adds nothing to it.

The prose is for people who read a terminal: one `key=value` line per scalar, so that stored text cannot forge a line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.dialects.delx.requests import MODEL_SAFE, PRESENTATION, SAFE_WORDS, STANDARD

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Presentation:
    """How an answer is shown; it changes nothing that is stored."""

    profile: str = "full"
    mode: str = STANDARD
    strip: bool = False

    @property
    def is_stripped(self) -> bool:
        """Return True if the request wants no prose."""
        return self.strip or self.profile == "machine"


def _presentation(arguments: Mapping[str, Any]) -> _Presentation:
    """Read the three parameters of an accepted request; a mode given as profile counts as the mode."""
    given = {
        name: field.read(arguments[name], name)
        for name, field in PRESENTATION.items()
        if arguments.get(name) is not None
    }
    profile, mode = given.get("response_profile", "full"), given.get("response_mode", STANDARD)
    if profile == MODEL_SAFE:
        profile, mode = "full", MODEL_SAFE
    return _Presentation(profile=profile, mode=mode, strip=given.get("ritual_strip", False))


def _warnings(arguments: Mapping[str, Any]) -> list[dict[str, object]]:
    if arguments.get("response_profile") not in SAFE_WORDS:
        return []
    message = "response_profile holds a mode; it was taken as response_mode"
    return [{"code": "profile_taken_as_mode", "message": message}]


def present(answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> Presented:
    """Return an answer as the request wants to see it, and the prose, None if it wants none."""
    how = _presentation(arguments)
    shown = {
        "ok": answer["ok"],
        "tool_name": answer["tool_name"],
        "response_profile": how.profile,
        "ritual_stripped": how.is_stripped,
        **answer,
        "data": _selected(answer["tool_name"], answer["data"], how.profile),
        "warnings": [*_warnings(arguments), *answer["warnings"]],
    }
    return shown, None if how.profile != "full" or how.is_stripped else _prose(shown, how)


def _selected(tool: str, data: Mapping[str, Any], profile: str) -> dict[str, Any]:
    if profile in ("full", "machine"):
        return dict(data)
    names = _MINIMAL[tool] + (_COMPACT[tool] if profile == "compact" else ())
    chosen = {name: data[name] for name in names if name in data}
    if "capsule" in chosen:
        chosen["capsule"] = {name: chosen["capsule"][name] for name in _COMPACT_CAPSULE if name in chosen["capsule"]}
    return chosen


def _prose(answer: Mapping[str, Any], how: _Presentation) -> str:
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
        lines += ["", *_headed("CLOSING NOTE" if how.mode == MODEL_SAFE else "EPITAPH"), json.dumps(note)]
    return "\n".join(lines)


def _headed(heading: str) -> list[str]:
    return [heading, "=" * len(heading)]


def _one_line(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
