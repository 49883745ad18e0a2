"""The form of a command that the guard rewrote for a client's shell, and the command that it stands for."""

import shlex
from collections.abc import Sequence
from typing import Any, cast

_MARK = ": shiftlog-guard "


# Tells what the user's own start files gave the client's shell, in any shell's words: only bash has an answer. With a
# here-document instead of this, Claude Code would leave its own standard input to the command.
_DEFINITIONS = '{ test -z "$BASH_VERSION" || { set +o; shopt -p; alias -p; declare -f; }; }'


def wrapped(text: str, words: Sequence[str], *, keeps_directory: bool = True, has_definitions: bool = False) -> str:
    """Return a command for the client's shell that runs `words`.

    The first part does nothing; it shows the reader of a prompt or a transcript what runs. Where the client's shell
    keeps its directory from call to call, the command then goes to the directory in which `words` ended. Where it has
    the aliases and functions of the user, `words` get them at a descriptor, whose number is then the last word.
    """
    if not keeps_directory:
        # Without substitutions, which Gemini CLI refuses.
        return f"{_MARK}{shlex.quote(text)}; {shlex.join(words)} 3>/dev/null"
    runs, keeps = f"{shlex.join(words)} 3>&1 >&4 4>&-", "4>&1"
    if has_definitions:
        runs, keeps = f"{_DEFINITIONS} | {shlex.join(words)} 5 5<&0 0<&6 6<&- 3>&1 >&4 4>&-", "4>&1 6<&0"
    return (
        f"{_MARK}{shlex.quote(text)}; {{ __shiftlog=$({runs}); }} {keeps}; "
        '__shiftlog_status=$?; test -z "$__shiftlog" || command cd -- "$__shiftlog"; (exit $__shiftlog_status)'
    )


def with_own_command(given: Any) -> Any:
    """Return the input of a shell tool with the command that the agent called, where the guard rewrote it."""
    if not isinstance(given, dict):
        return given
    arguments = cast("dict[str, Any]", given)
    command = arguments.get("command")
    if not isinstance(command, str) or not command.startswith(_MARK):
        return arguments
    return {**arguments, "command": unwrapped(command)}


def unwrapped(text: str) -> str:
    """Return the command that a rewritten one stands for; any other command as it is."""
    if not text.startswith(_MARK):
        return text
    words = shlex.shlex(text.removeprefix(_MARK), posix=True, punctuation_chars=";")
    words.whitespace_split = True
    words.commenters = ""
    try:
        token = words.get_token()
    except ValueError:
        return text
    return text if token is None else token
