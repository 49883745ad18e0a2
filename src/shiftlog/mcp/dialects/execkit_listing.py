"""The texts of the seven tools of the execkit dialect: parameters and descriptions.

`execkit` has what they do.
"""

from dataclasses import dataclass
from typing import Any

from shiftlog.params.fields import Boolean, Choice, Given, Integer, ListOf, RawText, Record, Schema, Wrapped
from shiftlog.params.wording import SHELL
from shiftlog.shell.requests import NAME

_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}


def _object_or_null(properties: Schema, *required: str) -> Schema:
    shape: Schema = {"type": "object", "properties": properties}
    if required:
        shape["required"] = list(required)
    return {"anyOf": [{**shape, "additionalProperties": False}, {"type": "null"}]}


_BUDGET = Given(
    shape=_object_or_null(
        {
            "grep": _object_or_null({"pattern": {"type": "string"}, "context": _COUNT}, "pattern"),
            "keep": _object_or_null(
                {
                    "mode": {"type": "string", "enum": ["all", "tail", "head", "head_tail"]},
                    "n": _COUNT,
                    "head": _COUNT,
                    "tail": _COUNT,
                },
                "mode",
            ),
            "max_chars": _COUNT,
        }
    ),
    description="Part of stdout and stderr to return: grep keeps matching lines, then keep the first or last (head and "
    "tail need n, head_tail needs head and tail), then max_chars cuts the middle. Default: 100,000 characters.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nullable(Wrapped):
    """An argument that clients of execkit also send as null."""

    def type_schema(self) -> dict[str, Any]:
        schema = self.inner.type_schema()
        return {**schema, "type": [schema["type"], "null"], "default": None}


def _text(description: str, max_chars: int | None = 255) -> Nullable:
    return Nullable(inner=RawText(max_chars=max_chars, min_chars=0), description=description)


# An id is only looked up, so any text is accepted and at worst unknown.
SESSION_ID = RawText(required=True, min_chars=0, description="The session_id that session_create gave.")
CREATE = Record(
    fields={
        "transport": Choice(
            required=True,
            values=("local", "ssh", "docker"),
            description="Where the shell runs: this machine, a host, or a running container.",
        ),
        "container": _text("docker only, required: name or id of a running container."),
        "host": _text("ssh only, required: name, address or alias of the ssh config."),
        "user": _text("ssh only, required unless the alias has it."),
        "password": _text("ssh only: password, never stored. Default: keys are tried.", 4096),
        "key_path": _text("ssh only: private key inside the operator's key directory.", 4096),
        "fingerprint": _text("ssh only: the host key must be this one, SHA256:…"),
        "workspace": _text("Absolute path of the project; enables checkpoints and is the first directory.", 4096),
        "port": Nullable(
            inner=Integer(minimum=0, maximum=65535), description="ssh only. 0 or null: the alias's port, else 22."
        ),
        "allow": ListOf(item=NAME, max_items=256, description="Only these programs may run."),
        "deny": ListOf(item=NAME, max_items=256, description="These programs may not run; wins over allow."),
        "paths": ListOf(
            item=NAME, max_items=64, description="Sub-paths of the workspace to checkpoint. Default: all of it."
        ),
        "checkpoint_ignores": ListOf(
            item=NAME, max_items=256, description="More gitignore patterns to leave out of checkpoints."
        ),
        "auto_snapshot": Boolean(
            description="Save a checkpoint before commands that may change the workspace. Default true."
        ),
        "output_budget": _BUDGET,
    }
).worded(SHELL)
EXEC = Record(
    fields={
        "session_id": SESSION_ID,
        "command": RawText(required=True, description="Shell text, one or more lines."),
        "budget": _BUDGET,
        "timeout_secs": Nullable(
            inner=Integer(minimum=0, maximum=1 << 53, clamps=True),
            description="Time limit in seconds. Default 120; lowered or raised to 1..3600.",
        ),
    }
).worded(SHELL)
LIST = Record(fields={}).worded(SHELL)
ONE = Record(fields={"session_id": SESSION_ID}).worded(SHELL)
CHECKPOINT = Record(
    fields={"session_id": SESSION_ID, "label": _text("A name for it. Default: checkpoint.", 200)}
).worded(SHELL)
RESTORE = Record(
    fields={
        "session_id": SESSION_ID,
        "checkpoint_id": _text(
            "Id from session_checkpoints, or its first 4 or more digits. Default: undo the last change.", None
        ),
    }
).worded(SHELL)

CREATE_TEXT = """\
Create a stateful shell session on this machine (local), on a host (ssh) or in a running container (docker).
Call it once, then session_exec as often as needed: directory, variables and functions stay. session_list shows the \
live sessions; each call creates another one.
It lives until session_destroy, `exit` or 30 minutes without use. With workspace, session_restore can undo what \
commands change. allow and deny only tighten the operator's policy. Arguments of another transport are accepted and \
listed in `ignored`.
Returns {session_id}.
Errors, as text: session_create failed: … (the reason follows; ssh needs host and user, docker needs container), \
session limit reached (destroy one)."""
EXEC_TEXT = """\
Run a command in a session and wait for its end.
session_create gives the session_id. The command may change whatever policy and operator permit; with a workspace a \
checkpoint is taken first, and session_restore undoes. A repeat runs it again.
A non-zero exit_code is a normal result; 124 means that the time limit ended the command, the session stays. `exit` \
ends the session (session_closed: true). budget shapes stdout and stderr; without one the middle of more than 100,000 \
characters is cut. Secrets are masked.
Returns {command, stdout, stderr, exit_code, duration_ms, cwd, truncated, timed_out}, with budget and hint where they \
apply.
Errors, as text: unknown session_id (see session_list), blocked by policy: … (use another program), invalid output \
budget: …"""
LIST_TEXT = """\
List the live sessions with their transport and idle time.
Use it to find a session_id again instead of calling session_create. Read-only.
Returns [{session_id, transport, idle_secs}]."""
DESTROY_TEXT = """\
End a session and every process that it started.
Use it when the work in the session is done. It cannot be undone; checkpoints and the record stay.
Returns {destroyed: true}; false if the session has ended or is unknown, which is no error."""
CHECKPOINT_TEXT = """\
Save the present files of the session's workspace as a named checkpoint.
Use it before something risky; before commands that may change files one is saved anyway. session_restore goes back \
to it. Changes no file and not your git repository. Each call makes another.
Returns {checkpoint_id}.
Errors, as text: unsupported: checkpoints require an explicit workspace (give workspace to session_create), unknown \
session_id."""
CHECKPOINTS_TEXT = """\
List the checkpoints of the session's workspace, newest first.
Use it to choose a checkpoint_id for session_restore; session_checkpoint makes one. Read-only.
Returns [{id, label, created}], created in Unix seconds as text; [] without a workspace.
Errors, as text: unknown session_id."""
RESTORE_TEXT = """\
Restore the files of the session's workspace to a checkpoint, by default to before the last change.
Use it to undo; session_checkpoints lists the states. Files that are newer than the checkpoint are deleted. All that \
it overwrites or deletes is saved first: restoring safety_checkpoint_id brings it back. Files that no checkpoint \
holds (ignored, secret, very large) are not touched. A repeat without checkpoint_id goes further back.
Returns {restored_to, files_changed, safety_checkpoint_id, left_in_place}.
Errors, as text: no checkpoint to restore, invalid checkpoint id (4 to 40 hex digits), restore failed: …"""
