"""The form of a command that the guard rewrote for a client's shell, and the command that it stands for."""

import shlex
from collections.abc import Sequence

_MARK = ": shiftlog-guard "


def wrapped(text: str, words: Sequence[str]) -> str:
    """Return a command for the client's shell that runs `words` and then goes to the directory in which they ended.

    The first part does nothing; it shows the reader of a prompt or a transcript what runs.
    """
    return (
        f"{_MARK}{shlex.quote(text)}; {{ __shiftlog=$({shlex.join(words)} 3>&1 >&4 4>&-); }} 4>&1; "
        '__shiftlog_status=$?; test -z "$__shiftlog" || cd -- "$__shiftlog"; (exit $__shiftlog_status)'
    )


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
