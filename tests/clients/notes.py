"""What the table of docs/clients.md cannot say in a word: limits of each client, and what its documentation says."""

NOTES = {
    "claude": """\
The prompt that the guard's `ask` shows at a terminal was tried by hand, in `ask` and in `enforce`, answered with yes
and with no; in `enforce` it shows the rewritten command, which begins with the agent's own. Headless, the call is
refused with our reason.
Rules for single commands in its own permissions (`Bash(git:*)`) do not match a rewritten command; see [the
guard](guard.md).""",
    "codex": """\
Hooks need the user's trust before they run, and `codex exec` does not say that they were skipped; `shiftlog doctor`
does. It has no prompt that a hook can ask for, so what the policy asks about is refused. Input to a running command
(`write_stdin`) has no hook: in `enforce` the sandbox of that command holds, in `ask` nothing does. A patch in a shell
command is judged as that command. `codex fork` was tried by hand, at a terminal: the fork is a session of its own that
names the one it came from. Tried with `sandbox_mode = "danger-full-access"` and `approval_policy = "never"`.""",
    "gemini": """\
Its tool calls have no id at the hook, so `--per-call` is not offered: calls are recorded when the turn stops, and an
enforced command is not tied to the transcript's call by id. It refuses command substitution in its shell (`$(…)`)
itself, waits for ever headless when a hook asks, so what the policy asks about is refused, and looks at a file's path
before the hook does. No hook runs in a folder that it does not trust. Its event before a compaction comes before every
request, so it is not used. Subagents, `/clear`, compaction and a session at a terminal were not tried; files and
conversation cannot be rewound together, nor a session restored for it. Tried with `--approval-mode yolo`.""",
    "opencode": """\
It loads our plugin, which starts the hook; what the policy asks about is refused, because a plugin cannot ask. Its own
permissions look at the rewritten command, so rules for single commands in `permission.bash` do not match it. Its
terminal interface, forks, compaction and `opencode serve` were not tried; files and conversation cannot be rewound
together, nor a session restored for it. The brief is added to the system prompt by an event that its release calls
experimental.""",
}
# Why a cell of the table has no test.
_TWO = "made for Claude Code and Codex"
MISSING = {
    ("gemini", "subagents"): "no event tells of its subagents",
    ("gemini", "odd commands"): "it refuses substitutions itself, and its results tell of the rewriting",
    ("gemini", "rewind"): _TWO,
    ("gemini", "export"): _TWO,
    ("opencode", "rewind"): _TWO,
    ("opencode", "export"): _TWO,
    ("cursor", "rewind"): _TWO,
    ("cursor", "export"): _TWO,
}
# Cursor is not on npm, so these tests start our hooks as its documentation says that it does.
_HOOKS, _SETUP = "ingest/hooks/test_cursor.py", "cli/setup"
_REFUSED = f"{_HOOKS}::test_what_the_policy_denies_is_refused_with_the_rule_and_what_it_asks_about_too"
_GONE = f"{_HOOKS}::test_without_a_daemon_or_its_program_an_enforced_call_is_refused_and_another_goes_ahead"
CURSOR_TESTS = {
    "record": f"{_HOOKS}::test_a_conversation_is_one_session_and_its_transcript_adds_nothing",
    "one session": f"{_HOOKS}::test_a_hook_of_claude_code_that_cursor_runs_records_nothing",
    "subagents": f"{_HOOKS}::test_a_subagent_has_a_child_session",
    "brief": f"{_HOOKS}::test_a_new_conversation_is_told_what_the_last_one_left",
    "transcripts": f"{_HOOKS}::test_a_conversation_is_one_session_and_its_transcript_adds_nothing",
    "undo": f"{_HOOKS}::test_a_turn_is_undone_whatever_changed_its_files",
    "refuse commands": _REFUSED,
    "ask about commands": _REFUSED,
    "sandbox": f"{_HOOKS}::test_an_enforced_command_runs_in_the_sandbox_where_the_kernel_holds",
    "refuse files": _REFUSED,
    "watch": f"{_HOOKS}::test_watching_changes_nothing_and_records_what_the_policy_would_say",
    "daemon killed": _GONE,
    "settings changed": f"{_HOOKS}::test_hooks_of_its_file_that_change_are_reported",
    "removal": f"{_SETUP}/test_plugin_files.py::test_cursors_hooks_come_back_as_they_were",
    "doctor": f"{_SETUP}/test_checking.py::test_cursor_is_found_under_either_name_and_its_missing_hooks_are_named",
}
CURSOR = """\
It cannot be installed from npm, so it was never run here. Our hooks were tried against its documentation and against
the code of its SDK (`@cursor/sdk` 1.0.18 from npm, which was read and not run): the tests start the installed hooks
with such events. *By its documentation* means that and no more. What a hook asks about is documented for
`beforeShellExecution` alone, which comes after the command may have been rewritten; so what the policy asks about is
refused. Its MCP servers are not told which conversation calls, so calls of our tools in an editor with several
conversations go to the newest one, and an enforced command is not tied to the transcript's call. Others report that
`agent -p` sends neither prompts nor stops: then the session is recorded when it ends, the guard works, and there is no
turn to undo. Calls have no id in its transcripts, so `--per-call` is not offered. Files and conversation cannot be
rewound together, nor a session restored for it."""
