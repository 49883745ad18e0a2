r"""The protocol of a remote shell: the texts for its standard input, the same over ssh and in containers; no I/O.

A recent bash gets the engine's own protocol on the wire (`BashProtocol`). Other shells get `PortableProtocol`, which
costs a fork per command. The other programs on a target are in `programs.py`.
"""

from __future__ import annotations

from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.protocol import quote, whole
from shiftlog.shell.remote.programs import KeeperReply, filled

#: The shell's own outputs go to /dev/null; the wire is on high descriptors that no command gets. A command holds the
#: writing end of a named pipe, so that a read without waiting shows whether any of its processes is left.
_OUT, _ERR, _HOLDS, _HELD = 198, 199, 197, 196
#: The descriptor of a unit. Not fd 0, so that fd 0 shows whether the shell reads the engine's script or runs a command.
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
#: Replaces the directory in the report of the end of a command's output, which precedes that of the command.
CUT = "="


def holds_token(token: str) -> str:
    """Return the token of the report that says whether a process of the command is left."""
    return token[::-1]


class PortableProtocol:
    """The protocol of any sh; the returned texts are for its standard input.

    No function can replace `:` or `eval`, and an expansion writes the report.
    """

    profiles = "if [ -r /etc/profile ]; then . /etc/profile; fi\nif [ -r ~/.profile ]; then . ~/.profile; fi"
    #: True if every command reports its beginning.
    begins = False

    def prepare(self, token: str, kept: KeeperReply) -> str:
        """Prepare a fresh shell: silence its prompts, and let it report its pid."""
        pid = f'( \\: "${{__shiftlog_never:?{token} pid $$/{token}}}" ) 2>&1\n'
        return "PS1= PS2=\n" + pid + self.closing(token)

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Restore `$?` and evaluate a text in the shell itself."""
        stdin, stdout, stderr = streams
        before = f"( exit {last_status} ) || " if last_status else "\\: && "
        return f"{before}\\eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr}\n"

    def copy(self, text: str, token: str, streams: tuple[str, str, str]) -> str:
        """Evaluate a text in a copy, which reports its pid: a grandchild, below one that stays to report the status."""
        stdin, stdout, stderr = streams
        pid = "read -r __shiftlog_pid __shiftlog_rest </proc/self/stat || __shiftlog_pid=$(exec sh -c 'echo \"$PPID\"')"
        tell = f'( \\: "${{__shiftlog_never:?{token} pid $__shiftlog_pid/{token}}}" ) 2>&1'
        return (
            f"( {{ ( {{ {pid}; }} 2>/dev/null; {tell}; \\eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr} ); "
            f'( \\: "${{__shiftlog_never:?{token} end $? /{token}}}" ) 2>&1; }} & )\n'
        )

    def here(self, unit: str, token: str) -> tuple[str, str]:
        """Return the path at which the shell reads a unit, and the here-document that provides it.

        It is the standard input: not every sh knows descriptors of more than a digit.
        """
        return _heredoc(0, unit, token)

    def source(self, path: str, document: str, *, in_shell: bool) -> str:
        """Run a unit, which evaluates a text in the shell itself or in a copy."""
        return f"\\. {path}{document}\n"

    def learn(self, text: str) -> None:
        """Note an evaluated text; none changes this protocol."""

    def closing(self, token: str) -> str:
        """Let the shell report the command's end: status and cwd."""
        return f'( \\: "${{__shiftlog_never:?{token} end $? ${{PWD-}}/{token}}}" ) 2>&1\n'

    def save_exports(self, path: str) -> str:
        """Write the exported variables to a file, as `export` lines."""
        return f"{{ \\export -p; }} >{path}"


class BashProtocol(PortableProtocol):
    """The engine's protocol, with the reports on the wire itself."""

    profiles = protocol.PROFILES
    begins = True

    def __init__(self) -> None:
        self._traced = False

    def prepare(self, token: str, kept: KeeperReply) -> str:
        """Define the engine's functions; the report that follows proves them. The keeper has the same fd 0."""
        more = filled(
            _BASH_MORE, OUT=str(_OUT), ERR=str(_ERR), HELD=str(_HELD), HOLDS=str(_HOLDS), PLACE=self._holds(kept)
        )
        return (
            f"\\exec {_OUT}>&8 {_ERR}>&9 8>&- 9>&-\n"
            + protocol.driver(f"&{_OUT}", f"/proc/{kept.keeper}/fd/0", where="DIRSTACK")
            + more
            + protocol.hello(token)
            + self.closing(token)
        )

    def direct(self, text: str, token: str, last_status: int, kept: KeeperReply) -> str:
        """Evaluate a text with the wire as its outputs; report their end and the status before any notice of bash."""
        ways = f"</dev/null >&{_OUT} 2>&{_ERR} {_OUT}>&- {_ERR}>&- {_UNIT}<&- {_HELD}<&- {_HOLDS}>{self._holds(kept)}"
        return (
            f"{self._begin(token, last_status)} \\builtin eval {self._quoted(text, last_status)} {ways}\n"
            f'TIMEFORMAT="{token} end $? {CUT}/{token}" \\__shiftlog_begin 0\n'
        )

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Report the beginning, restore `$?` (a failing left side sets it without ending the shell), evaluate."""
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

    def here(self, unit: str, token: str) -> tuple[str, str]:
        return _heredoc(_UNIT, unit, token)

    def source(self, path: str, document: str, *, in_shell: bool) -> str:
        """Source the file, which keeps bash's own notices of jobs silent."""
        return f"{protocol.source(path, traced=self._traced and in_shell)}{document}\n"

    def learn(self, text: str) -> None:
        """Allow for a DEBUG trap from now on if the text may have set one."""
        self._traced = self._traced or protocol.may_trap(text)

    def closing(self, token: str) -> str:
        """Prove the shell sound and report; unlike `PWD`, `DIRSTACK` is where the shell really is.

        Then mark the end on stderr too, and report if any process still holds a command's outputs.
        """
        return (
            f"FUNCNEST=1 \\__sl_end {token}\n"
            f"[[ $? == 0 ]] || \\__sl_bad {token}\n"
            f'TIMEFORMAT="{token}" \\__shiftlog_err\n'
            f"\\__shiftlog_left {holds_token(token)}\n"
        )

    def _begin(self, token: str, last_status: int) -> str:
        first = protocol.untraced() if self._traced else ""
        return f"{first}{_tell(token)} \\__shiftlog_begin {last_status} {'||' if last_status else '&&'}"

    def _quoted(self, text: str, last_status: int) -> str:
        return quote(whole(text, traced_after=last_status if self._traced else None))

    def _holds(self, kept: KeeperReply) -> str:
        return quote(f"{kept.directory}/x")

    def save_exports(self, path: str) -> str:
        # Only in posix mode does bash write `export` lines.
        return f"( \\builtin set -o posix; \\builtin export -p ) >{path}"


def _heredoc(fd: int, unit: str, token: str) -> tuple[str, str]:
    return f"/dev/fd/{fd}", f" {fd}<<'{token}'\n{unit}{token}"


def _tell(token: str) -> str:
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}"'
