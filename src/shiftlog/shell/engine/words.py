r"""The words that the engine and its bash exchange: sans-I/O, the same for every target.

The shell is an interactive bash without terminal, prompt, history or job control that reads its script from fd 0;
only an interactive bash drops a running command on SIGINT and goes on with all its state. A command is a *unit*, a
text sourced from a private place (which keeps bash's own job notices silent), and the unit evaluates the caller's text
with fresh fds 0, 1 and 2. The next line proves that `builtin` still is bash's own, then reports status and cwd with the
command's token; where the proof fails no report comes, and asked again the shell says why and has to end. Reports are
written by the reserved word `time`, a nesting limit of one guards the proof (a function in place of the builtin is
one too deep), and no word is one that a function or an alias of a command could stand for. A shell whose `eval` someone
disabled reports nothing either. A unit that never opened its outputs never ran (someone disabled `.`); that the engine
sees on the pipes.

An in-band engine (ssh, docker) reuses this as it is: it sends `driver("&N", …)` with N a copy of its channel made by
`exec N>&1`, sends the unit as `\builtin . /dev/stdin <<'TOKEN'` … `TOKEN`, gives `unit` redirections to the channel
(`>&N`), and after the report lets `time` write the token to the stderr channel too, so that both streams are cut there.
"""

from __future__ import annotations

import binascii
import re
import secrets
from dataclasses import dataclass
from typing import Literal

#: Asks a shell to drop its foreground command; hardly anything traps a real-time signal.
DROP_SIGNAL = "RTMAX-3"
#: How bash is started; the script comes on fd 0.
BASH_OPTIONS = ("--noediting", "-i")
#: Makes bash a POSIX sh, after the driver.
POSIX_MODE = "\\builtin set -o posix\n"
WITHOUT_PROFILES = ("--norc", "--noprofile")

_MAY_TRAP = re.compile(r"\bDEBUG\b", re.IGNORECASE)
_MAY_SPEAK_LAST = re.compile(r"\b(?:trap|source|eval)\b|(?:^|[\s;&|({])\.\s")
_LINE_BY_LINE = re.compile(r"\b(?:shopt|alias|unalias|BASH_ALIASES|posix|POSIXLY_CORRECT)\b")
#: A text of several lines that holds nothing but blanks, comments and continued lines.
_NOTHING = re.compile(r"(?>(?:[ \t]*(?:#.*|\\)?(?:\n|\Z))*)")
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+", re.ASCII)
#: What a token looks like: no shell reads anything into these signs, wherever they stand in a word.
TOKEN = rb"[A-Za-z0-9._]{22}"
_TOKEN_SIGNS = bytes.maketrans(b"+/", b"._")
_REPORT = re.compile(rb"(%b) (end|pid|bad) (.*?)/\1\n" % TOKEN, re.DOTALL)
_LONGEST_REPORT = 64 * 1024
#: Stands for the first slash of a unit's place where the unit has to switch tracing off; the place stays the same.
_TRACED = "/././"

_DRIVER = r"""\builtin set +o history +o histexpand +m
\builtin history -c
\builtin unset PS1 PS2 PROMPT_COMMAND MAILCHECK MAIL TMOUT
__shiftlog_report() { { time; } 2>REPLY; }
__sl_end() { \builtin local TIMEFORMAT="$1 end $? ${WHERE+${WHERE//[%]/%%}}/$1" &&
\builtin eval && \builtin trap ON_DROP DROP && { time; } 2>REPLY; }
__sl_bad() { [[ $? == 0 || $? -ge 128 ]] || { [[ ${__shiftlog_never:?$1 bad /$1} ]]; } 2>REPLY; }
__shiftlog_status() { \builtin return "$1"; }
__shiftlog_state() {
\builtin declare -p; \builtin declare -f; \builtin alias -p; \builtin shopt -p; \builtin umask -p; \builtin set +o
}
\builtin readonly -f __shiftlog_report __sl_end __sl_bad __shiftlog_status __shiftlog_state
"""

ReportKind = Literal["end", "pid", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report of the shell: a command's end (status, cwd), a pid, or that a command took `builtin` away."""

    token: str
    kind: ReportKind
    value: bytes

    def end(self) -> tuple[int, bytes]:
        """Read status and cwd out of an `end` report."""
        status, _, cwd = self.value.partition(b" ")
        return int(status), cwd


def draw_token() -> str:
    """Draw the 128 random bits that mark one command's reports; every sign costs the shell, so they are few."""
    return binascii.b2a_base64(secrets.token_bytes(16)).translate(_TOKEN_SIGNS, b"=\n").decode()


def quote(text: str) -> str:
    """Quote a text so that bash reads it back unchanged."""
    return "'" + text.replace("'", "'\\''") + "'"


def word(text: str) -> str:
    """Return a text as a word that bash reads back unchanged, quoted only where it has to be."""
    return text if _PLAIN.fullmatch(text) else quote(text)


def driver(reply: str, script: str, where: str = "PWD") -> str:
    """Return the lines that prepare a fresh shell; `reply` is where its reports go, as a redirection target.

    `where` is the variable that says where the shell is. The functions hold every word that need not be sent with each
    command, and those that are have short names: a byte of the script costs the shell a third of a microsecond.

    `script` names the pipe that the shell reads as fd 0: a bash interrupted from a trap while it reads its next line
    crashes, so the trap interrupts only when fd 0 is another file, which it is inside of every command. A command that
    traps or ignores interrupts must not go on either once it is dropped: its trap runs, is taken away, and it ends.
    """
    interrupt = "\\builtin kill -INT $$"
    on_drop = quote(f"[[ /dev/stdin -ef {script} ]] || {{ {interrupt}; \\builtin trap - INT; {interrupt}; }}")
    words = _DRIVER.replace("ON_DROP", on_drop).replace("REPLY", reply).replace("DROP", DROP_SIGNAL)
    return words.replace("WHERE", where)


def hello(token: str) -> str:
    """Return the line by which a prepared shell tells its pid."""
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}" \\__shiftlog_report\n'


def whole(text: str, *, traced_after: int | None = None) -> str:
    """Return the text so that bash parses it whole before any of it runs; a broken one then runs not at all.

    Bash reads line by line, so only texts of several lines need it. Texts that change how later lines are parsed
    (aliases, extended patterns) keep bash's own way, and so do texts without any command, which no group may be. The
    nesting makes a text that closes more than it opened fail.

    A DEBUG trap sees a `case`, but neither an `if` nor what runs in a subshell. With `traced_after`, the status that
    the text is to find, those are used, at the price of a fork.
    """
    if "\n" not in text.rstrip("\n") or _LINE_BY_LINE.search(text) or _NOTHING.fullmatch(text):
        return text
    if traced_after == 0:
        return f"{{ if (\\builtin :); then {{ {text}\n\n}}; fi; }}"
    if traced_after is not None:
        return f"{{ if (\\builtin exit {traced_after}); then (\\builtin :); else {{ {text}\n\n}}; fi; }}"
    return f"{{ case x in x) {{ {text}\n\n}} ;; esac; }}"


def may_trap(text: str) -> bool:
    """Say whether a text may set a DEBUG trap, which the units after it are to let through.

    Bash takes such a trap away while it sources a file, unless it traces functions; so `source` switches that on, and
    `untraced` off again as the first thing in the file. The trap then sees the engine's words too, but what it prints
    there leads nowhere.
    """
    return _MAY_TRAP.search(text) is not None


def may_speak_last(text: str) -> bool:
    """Say whether a text may set an EXIT trap, itself or by a file that it reads.

    Such a trap runs when the command's outputs are closed, on the shell's own, where prompts are shown too.
    """
    return _MAY_SPEAK_LAST.search(text) is not None


def last_words(said: bytes, directory: bytes, token: str) -> bytes:
    """Return what an exit trap said, without what `set -x`, `set -v` and a DEBUG trap show of the lines before it."""
    start = max(said.rfind(directory), said.rfind(token.encode()))
    start = max(start, said.rfind(b"builtin eval ", max(start, 0)))
    return said if start < 0 else said[start:].partition(b"\n")[2]


def source(place: str, *, traced: bool) -> str:
    """Return what makes the shell run the unit at a quoted place; `traced` lets a DEBUG trap through."""
    if not traced:
        return f"\\builtin . {place}"
    return (
        f"if [[ $- == *T* ]]; then \\builtin . {place}; "
        f"else \\builtin set -T; \\builtin . {place.replace('/', _TRACED, 1)}; fi"
    )


def untraced() -> str:
    """Return the first line of a unit whose `source` lets a DEBUG trap through."""
    return f"[[ $BASH_SOURCE == *{_TRACED}* ]] && \\builtin set +T\n"


def unit(text: str, *, stdin: str, stdout: str, stderr: str) -> str:
    """Return the unit that evaluates a text in the shell itself with fresh descriptors."""
    return f"\\builtin eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr}\n"


def traced_unit(text: str, last_status: int, *, stdin: str, stdout: str, stderr: str, mark: str = "") -> str:
    """Return such a unit that lets a DEBUG trap through; the first line has changed `$?`, so it is restored here.

    A `mark` is written to the shell's own outputs after all that the trap says there of the engine's words, so that
    what follows it is an EXIT trap's. Only an expansion comes late enough, and only a subshell whose output leads
    nowhere adds nothing to its word.
    """
    join = "||" if last_status else "&&"
    start = f"{untraced()}\\__shiftlog_status {last_status} {join} \\builtin eval "
    if mark:
        marks = f"\\builtin echo {mark} >&0; \\builtin echo {mark} >&2; \\builtin exit {last_status}"
        stdin = f"&1 </dev/null$( ({marks}) >/dev/null ) <{stdin}"
    return f"{start}{quote(whole(text, traced_after=last_status))} <{stdin} >{stdout} 2>{stderr}\n"


def copy_unit(text: str, token: str, *, gate: str, stdin: str, stdout: str, stderr: str) -> str:
    """Return the unit that evaluates a text in a copy of the shell with a process group of its own.

    The copy is a grandchild, so the shell's own `$!` and job table know nothing of it. It waits at the gate, a named
    pipe that the engine opens when the shell is done: before that the parent in between could take its status away.
    """
    return (
        f"( \\builtin set -m; {{ \\builtin set +m; {_tell_pid(token)}; "
        f"\\builtin eval {quote(whole(text))} <{gate} <{stdin} >{stdout} 2>{stderr}; }} & )\n"
    )


def terminal_unit(token: str, *, gate: str, state: str, helper: list[str]) -> str:
    """Return the unit that saves the shell's state to a file and becomes the helper that takes a terminal.

    Without `set -m`: the helper leads a session of its own, which no leader of a process group could begin.
    """
    words = " ".join(quote(word) for word in helper)
    return (
        f"( {{ {_tell_pid(token)}; [[ ${{TERM-dumb}} == dumb ]] && \\builtin export TERM=xterm-256color; "
        f"\\__shiftlog_state >{state} 2>/dev/null; "
        f"\\builtin exec -- {words} <{gate}; }} & )\n"
    )


def lines(place: str, token: str, last_status: int, *, traced: bool = False) -> str:
    """Return what makes the shell run the unit at `place` and report; `$?` starts as the last command left it."""
    start = source(place, traced=traced) + "\n"
    if last_status and not traced:
        start = f"\\__shiftlog_status {last_status} || {start}"
    return start + _closing_line(token)


def closing_lines(token: str) -> str:
    """Return the lines that ask again for a command's end, and report a shell that cannot prove itself sound.

    A status from 128 on proves nothing: a late interrupt dropped the first line, and whoever sent it asks again.
    """
    return f"{_closing_line(token)}\\__sl_bad {token}\n"


def _closing_line(token: str) -> str:
    return f"FUNCNEST=1 \\__sl_end {token}\n"


class ReportReader:
    """Cuts reports out of the bytes of the reply channel and drops everything else."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Report]:
        """Take bytes and return the reports that are complete."""
        self._rest += data
        found: list[Report] = []
        position = 0
        for match in _REPORT.finditer(self._rest):
            kind = match[2].decode()
            assert kind in ("end", "pid", "bad")
            found.append(Report(token=match[1].decode(), kind=kind, value=match[3]))
            position = match.end()
        self._rest = self._rest[position:][-_LONGEST_REPORT:]
        return found


def _tell_pid(token: str) -> str:
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}" \\__shiftlog_report'
