"""The table of `[policy]` keys in docs/policy.md. Used by `generate_docs.py`.

A test holds this table against the readers, so that no key is missing here and none is made up.
"""

import json
from dataclasses import fields
from typing import NamedTuple

from shiftlog.guard.policy.operator import OperatorPolicy


class PolicyRow(NamedTuple):
    """One key: `default` is shown instead of the declared one where that depends on something."""

    key: str
    type: str
    description: str
    default: str = ""


ROWS = (
    PolicyRow("allow", "list of programs", "If set, only these may be started; wrappers such as `env` count too"),
    PolicyRow("deny", "list of entries", "Programs that are never started; `git push --force` names arguments as well"),
    PolicyRow("ask", "list of entries", "A person must approve these first; checked after `deny`"),
    PolicyRow("deny_patterns", "list of RE2 patterns", "Commands whose text matches are refused"),
    PolicyRow("dangerous", '`"on"` or `"off"`', "Built-in rules against wiping a system and piped installers", '"on"'),
    PolicyRow("transports", "list of `local`, `ssh`, `docker`", "Where shells may be opened"),
    PolicyRow("hosts", "list of globs", "Hosts that ssh may reach, as `[user@]host[:port]`", '["*"]'),
    PolicyRow("containers", "list of globs", "Containers that shells may be opened in, by name or full id", '["*"]'),
    PolicyRow("workspaces", "list of globs", "Directories that may be named as a workspace; under "
              "`workspace-write` none that contains the state directory or a policy file",
              '`["*"]`; below `full-access` the git top level where the client started'),
    PolicyRow("key_dir", "path", "Where ssh keys are taken from", "`~/.ssh`"),
    PolicyRow("known_hosts", "path", "The file of known host keys", "`known_hosts` in `key_dir`"),
    PolicyRow("accept_new_host_keys", "true or false", "Record the key of a host that is met for the first time"),
    PolicyRow("require_known_hosts", "true or false", "A pinned fingerprint alone is not enough",
              "`true`; `false` for servers started with `--dialect execkit`"),
    PolicyRow("password_auth", "true or false", "Passwords may be used for ssh"),
    PolicyRow("ssh_agent", "true or false", "The operator's ssh agent may be used"),
    PolicyRow("askpass", "true or false", "Password prompts of `sudo -A` and ssh in local shells wait for a person"),
    PolicyRow("sandbox_max", "sandbox mode", "The loosest sandbox that a shell may have"),
    PolicyRow("sandbox_default", "sandbox mode", "The sandbox of a shell that asks for none",
              "`workspace-write` for local shells with a workspace, where enforceable, else `full-access`"),
    PolicyRow("sandbox_network", "true or false", "Sandboxed shells may use the network"),
    PolicyRow("sandbox_write", "list of paths", "Further places that `workspace-write` may write to"),
    PolicyRow("require_kernel", "true or false", "Refuse to open a shell that only its commands' text would hold"),
    PolicyRow("unjudged", '`"allow"`, `"ask"` or `"refuse"`',
              "What happens, where only text is checked, to a command that runs code which cannot be judged"),
    PolicyRow("env_pass", "list of names", "Variables that shells get although they look secret"),
    PolicyRow("redaction.disable", "list of rule ids", "Redaction rules that are switched off", "[]"),
    PolicyRow("redaction.add", "list of tables with `id` and `pattern`", "Further redaction rules", "[]"),
    PolicyRow("limits.timeout_s_max", "seconds", "The longest time limit of a command", "3600"),
    PolicyRow("limits.shells", "number", "Live shells at a time", "64"),
    PolicyRow("limits.session_shells", "number", "Live shells of one session at a time", "64"),
    PolicyRow("limits.background", "number", "Background commands of one shell at a time", "16"),
    PolicyRow("limits.idle_ttl_s", "seconds", "Idle time until a shell is closed; 0 never", "1800"),
    PolicyRow("limits.spool_command_bytes", "bytes", "Output kept of one command", "2 GiB"),
    PolicyRow("limits.spool_total_bytes", "bytes", "Output kept of all commands; the oldest goes first", "20 GiB"),
    PolicyRow("limits.spool_days", "days", "How long output is kept after a command's end", "14"),
    PolicyRow("limits.ready_s", "seconds", "Until a shell must be ready", "8"),
    PolicyRow("limits.ssh_connect_s", "seconds", "For connecting and authenticating over ssh", "15"),
    PolicyRow("limits.checkpoint_file_bytes", "bytes", "Larger files are not in checkpoints", "50 MiB"),
    PolicyRow("limits.checkpoint_files", "number", "Workspaces of more files get no checkpoints", "200000"),
    PolicyRow("limits.checkpoint_tree_bytes", "bytes", "Larger workspaces get no checkpoints", "4 GiB"),
    PolicyRow("limits.checkpoints_auto", "number", "Automatic checkpoints kept for a workspace", "500"),
)  # fmt: skip


def policy_table() -> str:
    """Render the keys as the Markdown table of docs/policy.md, with the defaults that the policy declares."""
    declared = {one.name: one.default for one in fields(OperatorPolicy)}
    lines = ["| key | type | default | what it does |", "|---|---|---|---|"]
    for row in ROWS:
        default = row.default or json.dumps(declared[row.key], ensure_ascii=False)
        shown = default if "`" in default else f"`{default}`"
        lines.append(f"| `{row.key}` | {row.type} | {shown} | {row.description} |")
    return "\n".join(lines) + "\n"
