"""Views of what close and resume answer: one object is built first, a profile only selects from it.

Prose is for people who read a terminal: one `key=value` line per scalar, so nothing stored can forge a line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.params.fields import Boolean, Choice, Field

PROFILES = ("full", "compact", "minimal", "machine")
STANDARD, MODEL_SAFE = "standard", "model_safe"
SAFE_WORDS = (
    MODEL_SAFE,
    "model-safe",
    "guardrail_safe",
    "guardrail-safe",
    "policy_safe",
    "policy-safe",
    "safe",
    "operational_safe",
    "operational-safe",
)

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
class _Profile(Choice):
    """A profile; the word for a mode is accepted in its place."""

    def read(self, value: object, path: str) -> str:
        return MODEL_SAFE if value in SAFE_WORDS else Choice.read(self, value, path)


VIEW_FIELDS: dict[str, Field] = {
    "response_profile": _Profile(values=PROFILES, description="Default full."),
    "response_mode": Choice(
        values=(STANDARD, MODEL_SAFE),
        aliases=dict.fromkeys(SAFE_WORDS, MODEL_SAFE),
        description="Of the prose.",
    ),
    "ritual_strip": Boolean(description="True: no prose."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How an answer is to be shown; it changes nothing that is stored."""

    profile: str = "full"
    mode: str = STANDARD
    strip: bool = False

    @property
    def is_stripped(self) -> bool:
        """Tell whether the prose is left out on request."""
        return self.strip or self.profile == "machine"


def view_of(arguments: Mapping[str, Any]) -> View:
    """Read the three parameters of a request that was accepted; a mode given as profile counts as the mode."""
    given = {name: field.read(arguments[name], name) for name, field in VIEW_FIELDS.items() if _given(arguments, name)}
    profile, mode = given.get("response_profile", "full"), given.get("response_mode", STANDARD)
    if profile == MODEL_SAFE:
        profile, mode = "full", MODEL_SAFE
    return View(profile=profile, mode=mode, strip=given.get("ritual_strip", False))


def _given(arguments: Mapping[str, Any], name: str) -> bool:
    return arguments.get(name) is not None


def view_warnings(arguments: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the warnings that the three parameters deserve."""
    if arguments.get("response_profile") not in SAFE_WORDS:
        return []
    message = "response_profile holds a mode; it was taken as response_mode"
    return [{"code": "profile_taken_as_mode", "message": message}]


def presented(answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return an answer as the request wants to see it, and the prose, None where it wants none."""
    view = view_of(arguments)
    shown = {
        **answer,
        "response_profile": view.profile,
        "ritual_stripped": view.is_stripped,
        "data": _selected(answer["tool_name"], answer["data"], view.profile),
    }
    return shown, None if view.profile != "full" or view.is_stripped else prose(shown, view)


def _selected(tool: str, data: Mapping[str, Any], profile: str) -> dict[str, Any]:
    if profile in ("full", "machine"):
        return dict(data)
    names = _MINIMAL[tool] + (_COMPACT[tool] if profile == "compact" else ())
    chosen = {name: data[name] for name in names if name in data}
    if "capsule" in chosen:
        chosen["capsule"] = {name: chosen["capsule"][name] for name in _COMPACT_CAPSULE if name in chosen["capsule"]}
    return chosen


def prose(answer: Mapping[str, Any], view: View) -> str:
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
        lines += ["", *_headed("CLOSING NOTE" if view.mode == MODEL_SAFE else "EPITAPH"), json.dumps(note)]
    return "\n".join(lines)


def _headed(heading: str) -> list[str]:
    return [heading, "=" * len(heading)]


def _one_line(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
