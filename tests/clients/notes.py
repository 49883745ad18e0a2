"""What the table of docs/clients.md cannot say in a word: limits of each client, and what its documentation says."""

NOTES = {
    "claude": """\
The prompt that the guard's `ask` shows at a terminal was not tried: headless, the call is refused with our reason.
Rules for single commands in its own permissions (`Bash(git:*)`) do not match a rewritten command; see [the
guard](guard.md).""",
    "codex": """\
Hooks need the user's trust before they run, and `codex exec` does not say that they were skipped; `shiftlog doctor`
does. It has no prompt that a hook can ask for, so what the policy asks about is refused. `apply_patch` as a tool of
its own was not offered to the scripted model, and input to a running command (`write_stdin`) was not tried; a patch
in a shell command is judged as that command. Tried with `sandbox_mode = "danger-full-access"` and `approval_policy =
"never"`.""",
    "gemini": """\
`shiftlog setup gemini` connects our tools, and a run is recorded when `shiftlog import` reads its chat. Its
documentation describes hooks in `settings.json` (`SessionStart`, `BeforeAgent`, `BeforeTool`, which may refuse a call
or change its arguments, `AfterTool`, `AfterAgent`, `PreCompress`, `SessionEnd`). We install none yet: nothing is
recorded while it runs, its turns cannot be undone, and the guard does not hold.""",
    "opencode": """\
A run is recorded when `shiftlog import` reads its database, and our tools were called after they had been added to
`opencode.json` by hand; `shiftlog setup` does not do that yet. Its documentation describes plugins, modules that it
loads at its start, with `chat.message`, `tool.execute.before`, which may throw or change the arguments,
`tool.execute.after` and session events. We install none yet: nothing is recorded while it runs, its turns cannot be
undone, and the guard does not hold.""",
}
CURSOR = """\
It cannot be installed from npm, so nothing was tried. As others describe it, it has hooks in `hooks.json`
(`beforeShellExecution`, which answers allow, deny or ask, `beforeMCPExecution`, `afterFileEdit`,
`beforeSubmitPrompt`, `stop`). `shiftlog setup cursor` connects our tools, and `shiftlog import` reads its
transcripts."""
