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
}
CURSOR_CELL = "no: not on npm"
CURSOR = """\
It cannot be installed from npm, so nothing was tried. Its documentation describes hooks in `hooks.json` of its folder
or the project's: `sessionStart`, `beforeSubmitPrompt`, `preToolUse`, `beforeShellExecution` (which answers allow, deny
or ask), `beforeMCPExecution`, `afterFileEdit`, `stop`, `sessionEnd` and more. We install none that we could not try:
`shiftlog setup cursor` connects our tools, and `shiftlog import` reads its transcripts; its own tools are neither
recorded live nor undone nor guarded."""
