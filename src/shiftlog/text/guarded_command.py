"""The form of a command that the guard rewrote for a client's shell, and the command that it stands for."""

import shlex
from collections.abc import Sequence
from typing import Any, cast

_MARK = ": shiftlog-guard "


def wrapped(text: str, words: Sequence[str], *, keeps_directory: bool = True) -> str:
    """Return a command for the client's shell that runs `words`.

    The first part does nothing; it shows the reader of a prompt or a transcript what runs. Where the client's shell
    keeps its directory from call to call, the command then goes to the directory in which `words` ended.
    """
    if not keeps_directory:
        # Without substitutions, which Gemini CLI refuses.
        return f"{_MARK}{shlex.quote(text)}; {shlex.join(words)} 3>/dev/null"
    return (
        f"{_MARK}{shlex.quote(text)}; {{ __shiftlog=$({shlex.join(words)} 3>&1 >&4 4>&-); }} 4>&1; "
        '__shiftlog_status=$?; test -z "$__shiftlog" || cd -- "$__shiftlog"; (exit $__shiftlog_status)'
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
