"""The `shiftlog` program: `mcp` goes straight to the bridge, `repl` to the REPL, everything else to the command line.

Only the bridge's own flags are parsed here. Other arguments of `mcp` (help, `--in-process`, errors) are left to the
command line.
"""

import sys

LISTS = {
    "--toolsets": "toolsets",
    "--tools": "tools",
    "--exclude-tools": "exclude_tools",
    "--dialect": "dialects",
}
# File names, which may contain commas.
FILES = {"--policy-file": "policy_files"}
SWITCHES = {"--read-only": "read_only"}


INTERRUPTED = 130


def main() -> int:
    """Run the program that the arguments name and return its exit status."""
    try:
        return _program(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules are imported
        return INTERRUPTED


def _program(arguments: list[str]) -> int:
    options = bridge_options(arguments[1:]) if arguments[:1] == ["mcp"] else None
    if options is not None:
        from shiftlog.link.bridge import run

        return run(options)
    if arguments[:1] == ["repl"] and not {"-h", "--help"} & set(arguments):
        from shiftlog.repl.options import main as repl

        return repl(arguments[1:], "shiftlog repl")
    from shiftlog.cli.program import main as command_line

    return command_line()


def bridge_options(arguments: list[str]) -> dict[str, object] | None:
    """Return the options of a bridge, None if other arguments are present.

    A list may be given as `--tools a,b`, as `--tools=a,b`, and more than once.
    """
    options: dict[str, object] = {}
    lists: dict[str, list[str]] = {}
    waiting = iter(arguments)
    for argument in waiting:
        flag, given, value = argument.partition("=")
        if flag in SWITCHES and not given:
            options[SWITCHES[flag]] = True
        elif flag in LISTS or flag in FILES:
            value = value if given else next(waiting, "-")
            if not given and value.startswith("-"):
                return None
            if flag in FILES:
                lists.setdefault(FILES[flag], []).append(value)
                continue
            lists.setdefault(LISTS[flag], []).extend(part.strip() for part in value.split(",") if part.strip())
        else:
            return None
    return {**options, **lists}
