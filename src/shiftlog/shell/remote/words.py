r"""The words that a remote shell is spoken to in: sans-I/O, the same over ssh and into containers.

Where it is a bash that knows them they are `framing`'s, else portable ones (`PortableWords`), which cost a fork per
command. What else runs on a target is `remote_programs.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shiftlog.shell.engine import words as framing
from shiftlog.shell.engine.words import quote, whole
from shiftlog.shell.remote.programs import Kept, WordsName, filled

PROFILES = (
    "if [ -r /etc/profile ]; then . /etc/profile; fi\n"
    "for __shiftlog_profile in {files}; do\n"
    '  if [ -r "$__shiftlog_profile" ]; then . "$__shiftlog_profile"; break; fi\n'
    "done; unset __shiftlog_profile"
)
BASH_PROFILES = PROFILES.format(files="~/.bash_profile ~/.bash_login ~/.profile")
SH_PROFILES = PROFILES.format(files="~/.profile")
#: The shell's own outputs lead nowhere; the wire is on high descriptors that no command is given. A command holds the
#: writing end of a named pipe, so that a read of no wait tells whether anything that it started is left.
_OUT, _ERR, _HOLDS, _HELD = 198, 199, 197, 196
#: Where a bash finds a unit. Not its fd 0, so that one look tells whether it is at the engine's words or the command's.
_UNIT = 195
_BASH_MORE = r"""\exec HELD<>PLACE
\exec HOLDS<PLACE
\exec HELD<&HOLDS HOLDS<&-
__shiftlog_begin() { { time; } 2>&OUT; { time; } 2>&ERR; \builtin return "$1"; }
__shiftlog_err() { { time; } 2>&ERR; }
__shiftlog_left() {
\builtin local TIMEFORMAT="$1 pid 0/$1"; \builtin read -t 0 -u HELD || TIMEFORMAT="$1 pid 1/$1"; { time; } 2>&OUT
}
\builtin readonly -f __shiftlog_begin __shiftlog_err __shiftlog_left
"""
#: Stands in place of the directory where the end of a command's output is told, before that of the command.
CUT = "="


def holds_token(token: str) -> str:
    """Return the token under which a shell tells, after a command, whether something of it is left."""
    return token[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlace:
    """Where a shell finds a unit: a quoted path, and the here-document that makes it be there, if one does."""

    path: str
    document: str = ""


class Words(Protocol):
    """How a shell is spoken to; what its methods return as text is for the shell's standard input."""

    profiles: str
    #: Whether a command that ran at all says so before it begins.
    begins: bool

    def prepare(self, token: str, kept: Kept) -> str:
        """Prepare a fresh shell and let it tell its pid."""
        ...

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Evaluate a text in the shell itself."""
        ...

    def copy(self, text: str, token: str, streams: tuple[str, str, str]) -> str:
        """Evaluate a text in a copy of the shell, which tells its pid and in the end its status."""
        ...

    def here(self, unit: str, token: str) -> UnitPlace:
        """Return a place where a unit can be sourced: a here-document on the line itself."""
        ...

    def source(self, place: UnitPlace, *, in_shell: bool) -> str:
        """Run a unit, which evaluates a text in the shell itself or in a copy."""
        ...

    def learn(self, text: str) -> None:
        """Learn what was evaluated in the shell, which may change how it is spoken to."""
        ...

    def closing(self, token: str) -> str:
        """Let the shell report the command's end."""
        ...

    def save_exports(self, path: str) -> str:
        """Write the exported variables to a file, as text that a shell reads."""
        ...


class BashWords:
    """`framing`'s words, with the reports on the wire itself."""

    profiles = BASH_PROFILES
    begins = True

    def __init__(self) -> None:
        self._traced = False

    def prepare(self, token: str, kept: Kept) -> str:
        """Define the engine's functions; the report that follows proves them. The keeper has the same fd 0."""
        more = filled(
            _BASH_MORE, OUT=str(_OUT), ERR=str(_ERR), HELD=str(_HELD), HOLDS=str(_HOLDS), PLACE=self._holds(kept)
        )
        return (
            f"\\exec {_OUT}>&8 {_ERR}>&9 8>&- 9>&-\n"
            + framing.driver(f"&{_OUT}", f"/proc/{kept.keeper}/fd/0", where="DIRSTACK")
            + more
            + framing.hello(token)
            + self.closing(token)
        )

    def direct(self, text: str, token: str, last_status: int, kept: Kept) -> str:
        """Evaluate a text with the wire itself as its outputs, and cut it there, with its status, before any notice."""
        ways = f"</dev/null >&{_OUT} 2>&{_ERR} {_OUT}>&- {_ERR}>&- {_UNIT}<&- {_HELD}<&- {_HOLDS}>{self._holds(kept)}"
        return (
            f"{self._begin(token, last_status)} \\builtin eval {self._quoted(text, last_status)} {ways}\n"
            f'TIMEFORMAT="{token} end $? {CUT}/{token}" \\__shiftlog_begin 0\n'
        )

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Say that the unit runs, restore `$?` (a failing left side sets it and never ends the shell), evaluate."""
        stdin, stdout, stderr = streams
        ways = f"<{stdin} >{stdout} 2>{stderr}"
        return f"{self._begin(token, last_status)} \\builtin eval {self._quoted(text, last_status)} {ways}\n"

    def copy(self, text: str, token: str, streams: tuple[str, str, str]) -> str:
        """Evaluate in a grandchild with a group of its own, below one that stays to report the status."""
        stdin, stdout, stderr = streams
        return (
            f"( \\builtin set -m; {{ \\builtin set +m; ( {_tell(token)} \\__shiftlog_report; "
            f"\\builtin eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr} ); "
            f'TIMEFORMAT="{token} end $? /{token}" \\__shiftlog_report; }} & )\n'
        )

    def here(self, unit: str, token: str) -> UnitPlace:
        """Put the here-document on a descriptor of its own."""
        return _heredoc(_UNIT, unit, token)

    def source(self, place: UnitPlace, *, in_shell: bool) -> str:
        """Source the file, which keeps bash's own notices of jobs silent."""
        return f"{framing.source(place.path, traced=self._traced and in_shell)}{place.document}\n"

    def learn(self, text: str) -> None:
        """Let DEBUG traps through from now on, where the text may have set one."""
        self._traced = self._traced or framing.may_trap(text)

    def closing(self, token: str) -> str:
        """Prove the shell sound and report; unlike `PWD`, `DIRSTACK` is where the shell really is.

        Then mark the end on stderr too, and tell whether anything is left that holds a command's outputs.
        """
        return (
            f"FUNCNEST=1 \\__sl_end {token}\n"
            f"[[ $? == 0 ]] || \\__sl_bad {token}\n"
            f'TIMEFORMAT="{token}" \\__shiftlog_err\n'
            f"\\__shiftlog_left {holds_token(token)}\n"
        )

    def _begin(self, token: str, last_status: int) -> str:
        first = framing.untraced() if self._traced else ""
        return f"{first}{_tell(token)} \\__shiftlog_begin {last_status} {'||' if last_status else '&&'}"

    def _quoted(self, text: str, last_status: int) -> str:
        return quote(whole(text, traced_after=last_status if self._traced else None))

    def _holds(self, kept: Kept) -> str:
        return quote(f"{kept.directory}/x")

    def save_exports(self, path: str) -> str:
        """Write them as `export` lines, which only bash's posix mode does."""
        return f"( \\builtin set -o posix; \\builtin export -p ) >{path}"


class PortableWords:
    """Words that any sh understands. No function can stand for `:` or `eval`, and the report is an expansion's."""

    profiles = SH_PROFILES
    begins = False

    def prepare(self, token: str, kept: Kept) -> str:
        """Silence the prompts and report the pid."""
        pid = f'( \\: "${{__shiftlog_never:?{token} pid $$/{token}}}" ) 2>&1\n'
        return "PS1= PS2=\n" + pid + self.closing(token)

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Restore `$?` and evaluate."""
        stdin, stdout, stderr = streams
        before = f"( exit {last_status} ) || " if last_status else "\\: && "
        return f"{before}\\eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr}\n"

    def copy(self, text: str, token: str, streams: tuple[str, str, str]) -> str:
        """Evaluate in a grandchild, below one that stays to report the status."""
        stdin, stdout, stderr = streams
        pid = "read -r __shiftlog_pid __shiftlog_rest </proc/self/stat || __shiftlog_pid=$(exec sh -c 'echo \"$PPID\"')"
        tell = f'( \\: "${{__shiftlog_never:?{token} pid $__shiftlog_pid/{token}}}" ) 2>&1'
        return (
            f"( {{ ( {{ {pid}; }} 2>/dev/null; {tell}; \\eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr} ); "
            f'( \\: "${{__shiftlog_never:?{token} end $? /{token}}}" ) 2>&1; }} & )\n'
        )

    def here(self, unit: str, token: str) -> UnitPlace:
        """Put the here-document on the standard input: not every sh knows descriptors of more than a digit."""
        return _heredoc(0, unit, token)

    def source(self, place: UnitPlace, *, in_shell: bool) -> str:
        """Source the file."""
        return f"\\. {place.path}{place.document}\n"

    def learn(self, text: str) -> None:
        """Nothing changes these words."""

    def closing(self, token: str) -> str:
        """Report status and cwd."""
        return f'( \\: "${{__shiftlog_never:?{token} end $? ${{PWD-}}/{token}}}" ) 2>&1\n'

    def save_exports(self, path: str) -> str:
        """Write them as `export` lines."""
        return f"{{ \\export -p; }} >{path}"


def words_named(name: WordsName) -> Words:
    """Return the words by their name."""
    return BashWords() if name == "bash" else PortableWords()


def _heredoc(fd: int, unit: str, token: str) -> UnitPlace:
    return UnitPlace(path=f"/dev/fd/{fd}", document=f" {fd}<<'{token}'\n{unit}{token}")


def _tell(token: str) -> str:
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}"'
