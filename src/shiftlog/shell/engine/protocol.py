r"""The texts that the engine and its bash exchange, without any I/O: what every target shares, and reports over a wire.

The shell is an interactive bash without terminal, prompt, history or job control that reads its script from fd 0;
only an interactive bash drops a running command on SIGINT and keeps all its state. A command is a *unit*, a text
that bash sources (which silences its own job notices); the unit evaluates the caller's text with fresh fds 0, 1 and 2.
`words` has the rest for a bash on this machine.

Over ssh and docker, where no kernel tells who reports, the next line proves that `builtin` is still bash's own, then
reports status and cwd with the command's token. If the proof fails there is no report; asked again, the shell says why
and must end. The reserved word `time` writes reports, a nesting limit of one guards the proof (a function in place of
the builtin is one level too deep), and no word in the script can be replaced by a function or an alias.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: Makes a shell drop its foreground command; hardly any program traps a real-time signal.
DROP_SIGNAL = "RTMAX-3"
#: How bash is started; the script comes on fd 0.
BASH_OPTIONS = ("--noediting", "-i")
#: Makes bash a POSIX sh, after the driver.
POSIX_MODE = "\\builtin set -o posix\n"
WITHOUT_PROFILES = ("--norc", "--noprofile")
#: The variables that every shell starts with: no pager and no prompt waits for a person.
ENVIRONMENT = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "HISTFILE": "/dev/null",
}
#: Variables with text that an interactive bash runs before it reads any command.
_AT_PROMPT = frozenset({"PROMPT_COMMAND", "PS0", "PS1", "PS2", "SHELLOPTS"})
#: What a login bash reads.
PROFILES = r"""if [[ -r /etc/profile ]]; then \builtin . /etc/profile; fi
for __shiftlog_profile in ~/.bash_profile ~/.bash_login ~/.profile; do
  if [[ -r $__shiftlog_profile ]]; then \builtin . "$__shiftlog_profile"; break; fi
done; \builtin unset __shiftlog_profile"""

_MAY_TRAP = re.compile(r"\bDEBUG\b", re.IGNORECASE)
_MAY_TRAP_EXIT = re.compile(r"\b(?:trap|source|eval)\b|(?:^|[\s;&|({])\.\s")
_MAY_SET_FORMAT = re.compile(r"\bTIMEFORMAT\b")
_LINE_BY_LINE = re.compile(r"\b(?:shopt|alias|unalias|BASH_ALIASES|posix|POSIXLY_CORRECT)\b")
#: A text of several lines that holds nothing but blanks, comments and continued lines.
_NOTHING = re.compile(r"(?>(?:[ \t]*(?:#.*|\\)?(?:\n|\Z))*)")
#: The form of a token: no shell interprets these characters, wherever they stand in a word.
TOKEN = rb"[A-Za-z0-9._]{22}"
_TOKEN_SIGNS = bytes.maketrans(b"+/", b"._")
_REPORT = re.compile(rb"(%b) (end|pid|bad) (.*?)/\1\n" % TOKEN, re.DOTALL)
_LONGEST_REPORT = 64 * 1024
#: Replaces the first slash of a unit's path if the unit must switch tracing off; the path stays the same.
_TRACED = "/././"

_DRIVER = r"""\builtin set +o history +o histexpand +m
\builtin history -c
\builtin unset PS1 PS2 PROMPT_COMMAND MAILCHECK MAIL TMOUT
__shiftlog_report() { { time; } 2>REPLY; }
__sl_end() { \builtin local TIMEFORMAT="$1 end $? ${WHERE+${WHERE//[%]/%%}}/$1" &&
\builtin eval && \builtin trap ON_DROP DROP && { time; } 2>REPLY; }
__sl_bad() { [[ $? == 0 || $? -ge 128 ]] || { [[ ${__shiftlog_never:?$1 bad /$1} ]]; } 2>REPLY; }
__shiftlog_status() { \builtin return "$1"; }
\builtin readonly -f __shiftlog_report __sl_end __sl_bad __shiftlog_status
"""

ReportKind = Literal["end", "pid", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellReport:
    """One report of the shell: a command's end (status, cwd), a pid, or that `builtin` was replaced."""

    token: str
    kind: ReportKind
    value: bytes

    def end(self) -> tuple[int, bytes]:
        """Read status and cwd out of an `end` report."""
        status, _, cwd = self.value.partition(b" ")
        return int(status), cwd


def draw_token() -> str:
    """Draw the 128 random bits that mark one command's reports, in few characters: each one costs the shell time."""
    return binascii.b2a_base64(secrets.token_bytes(16)).translate(_TOKEN_SIGNS, b"=\n").decode()


def without_prompts(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a shell, without those whose text it would run although no rule has judged that."""
    return {name: value for name, value in env.items() if name not in _AT_PROMPT}


def quote(text: str) -> str:
    """Quote a text so that bash reads it back unchanged."""
    return "'" + text.replace("'", "'\\''") + "'"


def driver(reply: str, script: str, where: str) -> str:
    """Return the lines that prepare a fresh shell; `reply` is the redirection target of its reports.

    `where` is the variable with the shell's directory. The functions hold all text that need not be sent with each
    command, and their names are short: a byte of the script costs the shell a third of a microsecond.

    `script` names the pipe that the shell reads as fd 0: a bash interrupted from a trap while it reads its next line
    crashes, so the trap interrupts only while fd 0 is another file, as inside every command. A command that traps or
    ignores interrupts must end too: its trap runs, is removed, and the command is interrupted again.
    """
    interrupt = "\\builtin kill -INT $$"
    on_drop = quote(f"[[ /dev/stdin -ef {script} ]] || {{ {interrupt}; \\builtin trap - INT; {interrupt}; }}")
    words = _DRIVER.replace("ON_DROP", on_drop).replace("REPLY", reply).replace("DROP", DROP_SIGNAL)
    return words.replace("WHERE", where)


def hello(token: str) -> str:
    """Return the line that makes a prepared shell report its pid."""
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}" \\__shiftlog_report\n'


def whole(text: str, *, traced_after: int | None = None) -> str:
    """Wrap the text so that bash parses all of it before any of it runs; a broken text then does not run at all.

    Bash reads line by line, so only texts of several lines need it. Texts that change how later lines are parsed
    (aliases, extended patterns) stay as they are, and so do texts without any command, because a group must have one.
    The nesting makes a text fail that closes more than it opened.

    A DEBUG trap sees a `case`, but neither an `if` nor a subshell. With `traced_after`, the status that the text must
    find in `$?`, those are used, at the price of a fork.
    """
    if "\n" not in text.rstrip("\n") or _LINE_BY_LINE.search(text) or _NOTHING.fullmatch(text):
        return text
    if traced_after == 0:
        return f"{{ if (\\builtin :); then {{ {text}\n\n}}; fi; }}"
    if traced_after is not None:
        return f"{{ if (\\builtin exit {traced_after}); then (\\builtin :); else {{ {text}\n\n}}; fi; }}"
    return f"{{ case x in x) {{ {text}\n\n}} ;; esac; }}"


def may_trap(text: str) -> bool:
    """Return True if a text may set a DEBUG trap, which must stay active in later units.

    Bash disables such a trap while it sources a file, unless it traces functions; so `source` switches tracing on, and
    `untraced` off again at the start of the file. The trap then fires for the engine's lines too, but its output
    there is discarded.
    """
    return _MAY_TRAP.search(text) is not None


def may_trap_exit(text: str) -> bool:
    """Return True if a text may set an EXIT trap, itself or through a file that it sources.

    Such a trap runs after the command's outputs are closed and writes to the shell's own, as prompts do.
    """
    return _MAY_TRAP_EXIT.search(text) is not None


def may_set_format(text: str) -> bool:
    """Return True if a text names TIMEFORMAT, which the engine then keeps for later commands."""
    return _MAY_SET_FORMAT.search(text) is not None


def exit_output(said: bytes, directory: bytes, token: str) -> bytes:
    """Return the output of an exit trap, without what `set -x`, `set -v` and a DEBUG trap print before it."""
    start = max(said.rfind(directory), said.rfind(token.encode()) if token else -1)
    start = max(start, said.rfind(b"builtin eval ", max(start, 0)))
    return said if start < 0 else said[start:].partition(b"\n")[2]


def source(path: str, *, traced: bool) -> str:
    """Return the command that sources the unit at a quoted path; `traced` keeps a DEBUG trap active."""
    if not traced:
        return f"\\builtin . {path}"
    return (
        f"if [[ $- == *T* ]]; then \\builtin . {path}; "
        f"else \\builtin set -T; \\builtin . {path.replace('/', _TRACED, 1)}; fi"
    )


def untraced() -> str:
    """Return the start of a unit that is sourced with tracing on."""
    return f"[[ $BASH_SOURCE == *{_TRACED}* ]] && \\builtin set +T;"


def traced_unit(text: str, last_status: int, *, stdin: str, stdout: str, stderr: str, mark: str = "") -> str:
    """Return a unit that keeps a DEBUG trap active; its start changes `$?`, so the status is restored.

    A `mark` is written to the shell's own outputs after everything that the trap prints there for the engine's lines,
    so that only an EXIT trap's output follows it. Only an expansion is late enough, and only a subshell whose output
    is discarded adds nothing to its word.
    """
    join = "||" if last_status else "&&"
    start = f"{untraced()}\\__shiftlog_status {last_status} '' {join} \\builtin eval "
    if mark:
        marks = f"\\builtin echo {mark} >&0; \\builtin echo {mark} >&2; \\builtin exit {last_status}"
        stdin = f"&1 </dev/null$( ({marks}) >/dev/null ) <{stdin}"
    return f"{start}{quote(whole(text, traced_after=last_status))} <{stdin} >{stdout} 2>{stderr}\n"


class ReportReader:
    """Extracts reports from the bytes of the reply channel and drops everything else."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[ShellReport]:
        """Take bytes and return all complete reports."""
        self._rest += data
        found: list[ShellReport] = []
        position = 0
        for match in _REPORT.finditer(self._rest):
            kind = match[2].decode()
            assert kind in ("end", "pid", "bad")
            found.append(ShellReport(token=match[1].decode(), kind=kind, value=match[3]))
            position = match.end()
        self._rest = self._rest[position:][-_LONGEST_REPORT:]
        return found
