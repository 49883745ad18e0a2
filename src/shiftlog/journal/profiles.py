"""Views of what close and resume answer: one object is built first, a profile only selects from it.

Prose is for people who read a terminal: one `key=value` line per scalar, so nothing stored can forge a line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROFILES = ("full", "compact", "minimal", "machine")
STANDARD, MODEL_SAFE = "standard", "model_safe"
MODE_ALIASES = {
    name: MODEL_SAFE
    for name in (
        "model-safe",
        "guardrail_safe",
        "guardrail-safe",
        "policy_safe",
        "policy-safe",
        "safe",
        "operational_safe",
        "operational-safe",
    )
}

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
class View:
    """How an answer is to be shown; it changes nothing that is stored."""

    profile: str = "full"
    mode: str = STANDARD
    strip: bool = False

    @property
    def is_stripped(self) -> bool:
        """Tell whether the prose is left out on request."""
        return self.strip or self.profile == "machine"


def view_of(values: Mapping[str, Any], warn: Any) -> View:
    """Read the three parameters; a mode given as profile counts as the mode."""
    profile, mode = values.get("response_profile") or "full", values.get("response_mode") or STANDARD
    if profile not in PROFILES:
        mode, profile = MODEL_SAFE, "full"
        warn("profile_taken_as_mode", "response_profile holds a mode; it was taken as response_mode")
    return View(profile=profile, mode=mode, strip=bool(values.get("ritual_strip")))


def shown_answer(full: Mapping[str, Any], view: View) -> dict[str, Any]:
    """Return the shell with the part of its data that the profile shows."""
    tool = full["tool_name"]
    return {
        **full,
        "response_profile": view.profile,
        "ritual_stripped": view.is_stripped,
        "data": _selected(tool, full["data"], view.profile),
    }


def _selected(tool: str, data: Mapping[str, Any], profile: str) -> dict[str, Any]:
    if profile in ("full", "machine"):
        return dict(data)
    names = _MINIMAL[tool] + (_COMPACT[tool] if profile == "compact" else ())
    chosen = {name: data[name] for name in names if name in data}
    if "capsule" in chosen:
        chosen["capsule"] = {name: chosen["capsule"][name] for name in _COMPACT_CAPSULE if name in chosen["capsule"]}
    return chosen


def prose(full: Mapping[str, Any], view: View) -> str | None:
    """Return the text for people, None where the profile or the caller wants none."""
    if view.profile != "full" or view.is_stripped:
        return None
    heading = _HEADINGS[full["tool_name"]]
    lines = [heading, "=" * len(heading)]
    seen: set[str] = set()
    note = "CLOSING NOTE" if view.mode == MODEL_SAFE else "EPITAPH"
    for name, value in [*full.items(), *full["data"].items()]:
        if name in seen or isinstance(value, dict | list | tuple):
            continue
        seen.add(name)
        lines.append(f"{note if name == 'closing_note' and value else name}={_one_line(value)}")
    return "\n".join(lines)


def _one_line(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    plain = text.isprintable()
    return text if plain else json.dumps(text)
