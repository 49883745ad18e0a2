"""The `shiftlog` program: `mcp` goes straight to the bridge, `repl` to the REPL, all else to the command line.

Only the bridge's own flags are read here. Anything else about `mcp` (help, `--in-process`, a mistake) is left
to the command line, which explains itself.
"""

import sys

LISTS = {
    "--toolsets": "toolsets",
    "--tools": "tools",
    "--exclude-tools": "exclude_tools",
    "--dialect": "dialects",
}
# Names of files, taken as they are.
FILES = {"--policy-file": "policy_files"}
SWITCHES = {"--read-only": "read_only"}


INTERRUPTED = 130


def main() -> int:
    """Run the program that the arguments name and return its exit status."""
    try:
        return _program(sys.argv[1:])
    except KeyboardInterrupt:  # before the program is there to answer it, while its modules are read
        return INTERRUPTED


def _program(arguments: list[str]) -> int:
    options = bridge_options(arguments[1:]) if arguments[:1] == ["mcp"] else None
    if options is not None:
        from shiftlog.link.bridge import run

        return run(options)
    if arguments[:1] == ["repl"] and not {"-h", "--help"} & set(arguments):
        from shiftlog.repl.options import main as repl

        return repl(arguments[1:], "shiftlog repl")
    from shiftlog.cli import main as command_line

    return command_line()


def bridge_options(arguments: list[str]) -> dict[str, object] | None:
    """Return the options of a bridge, or None when the arguments are not a bridge's alone.

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
