"""The parameters of close_session and resume_session: the journal's own and the three that choose a presentation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shiftlog.dialects.delx.names import RESERVED
from shiftlog.journal.continuity import requests
from shiftlog.params.fields import Boolean, Choice, Field, Record, unlisted

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfileChoice(Choice):
    """A profile; the name of a mode is accepted in its place."""

    def read(self, value: object, path: str) -> str:
        return MODEL_SAFE if value in SAFE_WORDS else Choice.read(self, value, path)


PRESENTATION: dict[str, Field] = {
    **unlisted(
        {
            "response_profile": _ProfileChoice(
                values=PROFILES,
                default="full",
                description="minimal: ids and token. compact: a short capsule too. machine: all. full: all and prose.",
            ),
            "response_mode": Choice(
                values=(STANDARD, MODEL_SAFE),
                aliases=dict.fromkeys(SAFE_WORDS, MODEL_SAFE),
                description="Heading of the note in the prose.",
            ),
            "ritual_strip": Boolean(description="true leaves the prose out."),
        }
    ),
}


def _presentable(record: Record, after: str) -> Record:
    """Return a tool's parameters with those of the presentation, which are listed after `after`."""
    fields: dict[str, Field] = {}
    for name, field in record.fields.items():
        fields[name] = field
        if name == after:
            fields |= PRESENTATION
    return replace(record, fields=fields)


CLOSE_SESSION = _presentable(requests.CLOSE_SESSION, after="succession_policy")
RESUME_SESSION = _presentable(requests.RESUME_SESSION, after="lookback_days")


def unreserved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without those that Delx clients send without effect."""
    return {name: value for name, value in arguments.items() if name not in RESERVED}
