"""Remembers the operator's policy from one daemon to the next, so that a change of it never goes unseen.

The record is `policy.last` in the state directory, which no confined shell can reach.
"""

import json
import logging
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftlog.link.files import read_regular
from shiftlog.model.times import precise

if TYPE_CHECKING:
    from shiftlog.guard.policy.operator import OperatorPolicy

log = logging.getLogger(__name__)

FILE_NAME = "policy.last"


def note_policy(home: Path, policy: "OperatorPolicy | None", now: datetime) -> dict[str, Any]:
    """Compare the policy with the last daemon's, record a change, and return when and in what it changed last."""
    path = home / FILE_NAME
    given = {} if policy is None else _as_texts(policy)
    last = _read(path)
    if last is not None and last["given"] == given:
        return {"changed_at": last["changed_at"], "changed": last["changed"]}
    if last is None:
        changed, at = list[str](), None
    else:
        before: dict[str, str] = last["given"]
        changed, at = sorted(name for name in before | given if before.get(name) != given.get(name)), precise(now)
        log.warning("The policy differs from that of the last daemon in: %s", ", ".join(changed))
    noted = {"changed_at": at, "changed": changed}
    try:
        written = path.with_suffix(".new")
        written.write_text(json.dumps({"given": given, **noted}), encoding="utf-8")
        written.replace(path)
    except OSError as error:  # a full disk must not keep the daemon from serving
        log.warning("%s cannot be written: %s", path, error.strerror)
    return noted


def _as_texts(policy: "OperatorPolicy") -> dict[str, str]:
    return {field.name: repr(getattr(policy, field.name)) for field in fields(policy) if field.name in policy.given}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(read_regular(path))
    except (OSError, ValueError):
        return None
