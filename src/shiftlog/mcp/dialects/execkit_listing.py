"""The texts of the seven tools of the execkit dialect: parameters and descriptions.

`execkit` has what they do.
"""

from dataclasses import dataclass
from typing import Any

from shiftlog.guard.budgets.spec import MAX_CHARS, MAX_CONTEXT, MAX_LINES
from shiftlog.params.fields import Boolean, Choice, Given, Integer, ListOf, RawText, Record, Schema, Wrapped
from shiftlog.params.wording import SHELL
from shiftlog.shell.requests import NAME


def _count(description: str, most: int = MAX_LINES) -> Schema:
    return {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": f"{description} At most {most:,}; a larger number is lowered to that.",
    }


def _object_or_null(description: str, properties: Schema, *required: str) -> Schema:
    shape: Schema = {"type": "object", "properties": properties}
    if required:
        shape["required"] = list(required)
    return {"anyOf": [{**shape, "additionalProperties": False}, {"type": "null"}], "description": description}


_GREP = _object_or_null(
    "Keep only matching lines.",
    {
        "pattern": {
            "type": "string",
            "description": "Regular expression, searched in each line; (?i) ignores case. No look-around or "
            "back-references. Up to 4,096 bytes.",
            "examples": ["(?i)error|warning"],
        },
        "context": _count("Lines to keep before and after each match. Default 0.", MAX_CONTEXT),
    },
    "pattern",
)
_KEEP = _object_or_null(
    "Keep only the first or last lines, of those that grep kept.",
    {
        "mode": {
            "type": "string",
            "enum": ["all", "tail", "head", "head_tail"],
            "description": "all: every line. tail: the last n. head: the first n. head_tail: the first `head` and the "
            "last `tail` lines.",
        },
        "n": _count("Lines to keep. Required with mode tail or head, else not allowed."),
        "head": _count("First lines to keep. Required with mode head_tail, else not allowed."),
        "tail": _count("Last lines to keep. Required with mode head_tail, else not allowed."),
    },
    "mode",
)
_MAX_CHARS = _count("Then cut the middle of a stream longer than this. Default 100,000.", MAX_CHARS)
_SHAPES = "Applied to stdout and stderr each: grep, then keep, then max_chars; marks show where lines were left out."


def _budget(description: str) -> Given:
    parts = _object_or_null(f"{description} {_SHAPES}", {"grep": _GREP, "keep": _KEEP, "max_chars": _MAX_CHARS})
    return Given(shape=parts, examples=({"keep": {"mode": "tail", "n": 50}},))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nullable(Wrapped):
    """An argument that clients of execkit also send as null."""

    def type_schema(self) -> dict[str, Any]:
        schema = self.inner.type_schema()
        return {**schema, "type": [schema["type"], "null"], "default": None}


def _text(description: str, max_chars: int | None = 255, *examples: str) -> Nullable:
    return Nullable(inner=RawText(max_chars=max_chars, min_chars=0), description=description, examples=examples)


# An id is only looked up, so any text is accepted and at worst unknown.
SESSION_ID = RawText(
    required=True,
    min_chars=0,
    description="From session_create or session_list.",
    examples=("4c82-1_local",),
)
CREATE = Record(
    fields={
        "transport": Choice(
            required=True,
            values=("local", "ssh", "docker"),
            description="Where the shell runs. local: this machine. ssh: another host. docker: a running container.",
        ),
        "container": _text(
            "docker, required: name or id of a running container. Commands run as the container's default user.",
            255,
            "shop-web-1",
        ),
        "host": _text(
            "ssh, required: host name, address, or an alias of the operator's ssh config.", 255, "build.example.com"
        ),
        "user": _text("ssh, required unless host is an alias that has a user.", 255, "deploy"),
        "password": _text("ssh: login password, never stored or shown. Default: log in with a key.", 4096),
        "key_path": _text(
            "ssh, not with password: private key file inside the operator's key directory; no other key is tried. "
            "Default: ssh-agent, the alias's keys, then id_ed25519, id_ecdsa and id_rsa of that directory.",
            4096,
            "~/.ssh/id_ed25519",
        ),
        "fingerprint": _text(
            "ssh: the host key must be exactly this one; a host that known_hosts lacks is then accepted, unless the "
            "operator forbids it. Default: the key must be in the operator's known_hosts.",
            255,
            "SHA256:uNiVztksCsDhcc0u9e8BrrJXVrDnvJvPWZ4Xqj0a9nQ",
        ),
        "workspace": _text(
            "Absolute path of the project: an existing directory on the machine, host or container of the shell. The "
            "session starts there, and checkpoints cover it, if git (2.22 or newer) is installed there. Default: none; "
            "no checkpoints, and the usual first directory.",
            4096,
            "/srv/shop",
        ),
        "port": Nullable(
            inner=Integer(minimum=0, maximum=65535),
            description="ssh: port. Default, also with 0: the alias's port, else 22.",
        ),
        "allow": ListOf(
            item=NAME,
            max_items=256,
            description="Only these programs may start, each a name or a path; shell builtins such as cd and echo may "
            "always. [] (default): no such list. Up to 256.",
            default=[],
            examples=(["git", "python3", "/opt/tools/lint"],),
        ),
        "deny": ListOf(
            item=NAME,
            max_items=256,
            description="These may not start: a program, or a program with some of its arguments. Wins over allow. [] "
            "(default): none. Up to 256.",
            default=[],
            examples=(["curl", "git push"],),
        ),
        "paths": ListOf(
            item=NAME,
            max_items=64,
            description="With workspace: paths relative to it that checkpoints cover. [] (default): all of it. Up to "
            "64.",
            default=[],
            examples=(["src", "docs"],),
        ),
        "checkpoint_ignores": ListOf(
            item=NAME,
            max_items=256,
            description="With workspace: further gitignore patterns of files that checkpoints leave out. Up to 256.",
            default=[],
            examples=(["*.log", "data/"],),
        ),
        "auto_snapshot": Boolean(
            default=True,
            description="With workspace: save a checkpoint before each command that may change files. false: only "
            "session_checkpoint saves.",
        ),
        "output_budget": _budget(
            "Which part of a command's output session_exec returns if it has no budget. Default: 100,000 characters of "
            "each stream."
        ),
    }
).worded(SHELL)
EXEC = Record(
    fields={
        "session_id": SESSION_ID,
        "command": RawText(
            required=True,
            description="Shell text (bash, or sh where there is none), one or more lines, up to 4 MiB.",
            examples=("cd src && pytest -q",),
        ),
        "budget": _budget(
            "Which part of the output to return. Replaces the session's output_budget as a whole; default: that one, "
            "else 100,000 characters of each stream."
        ),
        "timeout_secs": Nullable(
            inner=Integer(minimum=0, maximum=1 << 53, clamps=True),
            description="Time limit in seconds, 1 to 3600; other numbers are moved into that range. Default 120, "
            "unless the operator set another.",
        ),
    }
).worded(SHELL)
LIST = Record(fields={}).worded(SHELL)
ONE = Record(fields={"session_id": SESSION_ID}).worded(SHELL)
CHECKPOINT = Record(
    fields={
        "session_id": SESSION_ID,
        "label": _text('Name to recognise it by, up to 200 characters. Default: "checkpoint".', 200, "tests green"),
    }
).worded(SHELL)
RESTORE = Record(
    fields={
        "session_id": SESSION_ID,
        "checkpoint_id": _text(
            "The state to go to: checkpoint_id of session_checkpoint, id of session_checkpoints, or "
            "safety_checkpoint_id of an earlier restore, whole or its first 4 or more hex digits. Default: before the "
            "last change.",
            None,
            "9f1c0d2e",
        ),
    }
).worded(SHELL)

CREATE_TEXT = """\
Create a stateful shell session on this machine (local), on a host (ssh) or in a running container (docker).
Call it once, then session_exec for every command: directory, variables and functions stay. Do not create one per \
command: each call creates another, and session_list finds yours again.
- Lifetime: until session_destroy, `exit` in it, or 30 minutes without a running session_exec (the operator may set \
another time), even if your client goes away; a job started with `&` does not count.
- Shared: other clients of this server can see, use and end it.
- Undo: with workspace a first checkpoint ("shell opened") is saved, and session_restore undoes file changes in that \
directory, except in files that checkpoints leave out (see session_checkpoint).
- Policy: allow and deny can only tighten what the operator permits.
- Record: all commands and their output are recorded, secrets masked.
Returns {session_id, journal_session_id (the record, for a person or a journal client), ignored (arguments without \
effect here)}. Next: session_exec.
Errors, as text:
- session_create failed: <reason>. Host, user or container missing: give it. Workspace does not exist: correct it. No \
connection, login refused or container not running: check the target. Host key unknown: give fingerprint if the user \
told you it, else ask the operator. Not permitted: ask the operator.
- session limit reached …: session_destroy one of yours.
- invalid output budget: … or unknown keep mode: …: correct that part."""
EXEC_TEXT = """\
Run a command in a shell session and wait for its end.
Use it for every command; session_create makes the session. stdin is empty: give programs that ask questions a flag \
such as -y, or a pipe. If it takes more than 2 minutes raise timeout_secs; if more than an hour start it with `&`, its \
output in a file, and call session_exec at least every 30 minutes, or the session ends and the program with it. One \
command runs at a time: a second call waits up to its timeout_secs for the first to end, then gets its full limit.
The command may change or delete whatever the operator permits. With workspace and auto_snapshot the files that \
checkpoints cover are saved before every command that may change files, and session_restore brings them back. A repeat \
runs it again. Cancelling the call ends the command, not the session.
Returns {command, stdout, stderr, exit_code, duration_ms, cwd, truncated (true: output was left out), timed_out}. Only \
where they apply: budget: {stdout, stderr: {mode, lines_total, lines_kept}}; hint, a sentence on what to do about the \
result; session_closed: true if the command ended the session (`exit`). Secrets are masked.
A non-zero exit_code is a normal result. 124: the time limit was reached; the command was ended, the output so far is \
returned, the session stays. 126: policy stopped a program while the command ran; what came before it has run. 2 may \
be a syntax error (see stderr): nothing ran then.
Errors, as text:
- unknown session_id …: it ended or never was; session_list, session_create.
- blocked by policy: … or blocked by operator policy: …: refused before anything ran; rewrite the command without it \
or ask the operator.
- shell … is running …: the wait was over, nothing ran; call again later or use another session.
- invalid output budget: … or unknown keep mode: …: nothing ran; correct that part.
- pty/transport error: …: connection lost; check whether the command finished before you repeat it."""
LIST_TEXT = """\
List the live shell sessions of this server, newest first: id, transport and idle time.
Use it to find a session_id again instead of calling session_create. It shows the sessions of all clients and does not \
say whose they are: use only those that you created. For states of files use session_checkpoints. Read-only.
Returns [{session_id, transport, idle_secs (seconds since the last command ended, 0 while one runs)}]. The end of \
session_id names the target (4c82-2_ssh_deploy@web1); to tell two local ones of your own apart, run pwd in them with \
session_exec. If you cannot tell which is yours, create a new one. [] if there is none; no errors of its own."""
DESTROY_TEXT = """\
End a shell session and every process that it started, also a running command and background ones.
Use it when the work in the session is done; to stop only a command, let its time limit end or cancel the call. It \
also ends sessions of other clients, so destroy only those that session_create gave you. It cannot be undone. Files \
stay as they are, and so do checkpoints: session_checkpoints and session_restore of a new session with the same \
workspace still reach them.
Returns {destroyed: true}; false if the session has ended already or is unknown, which is no error, so a repeat is \
harmless."""
CHECKPOINT_TEXT = """\
Save the present files of the session's workspace as a named checkpoint.
Use it to mark a good state; session_restore goes back to it, session_checkpoints lists them. Not needed before a \
command: with auto_snapshot (the default) one is saved automatically.
It changes neither files nor your git repository. It leaves out .git, what .gitignore excludes, folders such as \
node_modules, .venv, dist and build, secrets such as .env and *.key, files over 50 MiB and empty folders. A named \
checkpoint is permanent; each call makes another.
Returns {checkpoint_id} (40 hex digits), for session_restore.
Errors, as text:
- unsupported: checkpoints require an explicit workspace: session_create with workspace.
- unsupported: checkpoints need git on the remote host: install it there.
- workspace exceeds … (200,000 files or 4 GiB, unless the operator set other limits): session_create with paths or \
checkpoint_ignores.
- unknown session_id …: session_list."""
CHECKPOINTS_TEXT = """\
List the checkpoints of the session's workspace, newest first.
Use it to choose one for session_restore (session_checkpoint, without s, saves one). It shows those of earlier \
sessions in this workspace too, and automatic ones by their label: "shell opened", "before command", "before restore". \
Automatic ones do not name their command: compare created with the time at which you ran it. All are returned: the 500 \
newest automatic ones and every named one are kept. Read-only.
Returns [{id, label, created}]: id is the checkpoint_id for session_restore, created the time in Unix seconds as text. \
[] if the session has no workspace.
Errors, as text: unknown session_id … (session_list)."""
RESTORE_TEXT = """\
Restore the files of the session's workspace to a checkpoint, by default to the state before the last change.
Use it when a command damaged or deleted files. session_checkpoints lists the states; to undo git commits use git, \
because .git is not touched.
Every file that changed since is overwritten, whoever changed it, and files that were created after the checkpoint are \
deleted. The present state is saved first as safety_checkpoint_id; restore that to undo the restore. Files \
that no checkpoint holds (see session_checkpoint), running processes and files outside the workspace stay as they are. \
A repeat without checkpoint_id goes one change further back, but not past a named checkpoint.
Returns {restored_to, files_changed (number of files written and deleted), safety_checkpoint_id, left_in_place: \
{count, paths} (newer files that were kept, because checkpoints left them out then or now)}. Next: session_exec to \
check, such as git \
status.
Errors, as text:
- no checkpoint to restore: there is no earlier state.
- invalid checkpoint id: give 4 to 40 hex digits.
- restore failed: <reason>. Not found or ambiguous: take the whole id from session_checkpoints. A command runs in this \
workspace: wait for it. Some files could not be restored: the rest were; to go back, restore the newest "before \
restore" of session_checkpoints. Not permitted: ask the operator.
- unsupported: …: session_create with workspace; install git on the remote host.
- unknown session_id …: session_list."""
