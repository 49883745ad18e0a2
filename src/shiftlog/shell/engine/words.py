r"""The lines that a bash on this machine is sent, without any I/O; `protocol` has what every target shares.

Bash reads its script from a socket as fd 0, and reports on the same socket: no path leads to it, no program inherits
it, and the kernel names the process that wrote. A command is one line. It proves that `builtin` is still bash's own (a
function in its place is one level too deep for a nesting limit of one), assigns the text, sources a constant file of
`units/`, which evaluates the text with fresh descriptors (sourcing silences bash's notices of jobs), and reports.

The report is the reserved word `time`, whose format an arithmetic expansion sets to a number: a random one of the
line's own times 256, plus `$?`. No simple command is in it, so no function or DEBUG trap comes between the end of the
text and its report, and none can skip it.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.protocol import quote

_UNITS = Path(__file__).with_name("units").resolve()
#: A file for texts that set their own descriptors.
ANY_UNIT = quote(str(_UNITS / "any.sh"))
STATUSES = 256
_NUMBER_BITS = 48
#: A report of a copy: a random number of the line's own, and the pid of the copy in the lower bits.
_REPORT_COPY = '{ time for __sl in;do time;done; } 2>&"$((TIMEFORMAT=@key+$!,0))"'
_COPY_KEY_BITS = 36
_PID_BITS = 22
_DEFAULT_TIMEFORMAT = r"$'\nreal\t%3lR\nuser\t%3lU\nsys\t%3lS'"
_REDIRECTED = '<"$__sl_w" >"${__sl_w[1]}" 2>"${__sl_w[2]}"'
_INTERRUPT = "\\builtin kill -INT $$"
#: A bash interrupted from a trap while it reads its next line crashes, so this interrupts only while fd 0 is no socket,
#: as inside every command. A command that traps or ignores interrupts must end too: its trap runs, is removed, and the
#: command is interrupted again.
_ON_DROP = f"[[ -S /dev/stdin ]] || {{ {_INTERRUPT}; \\builtin trap - INT; {_INTERRUPT}; }}"
_DRIVER = r"""\builtin set +o history +o histexpand +m
\builtin history -c
\builtin unset PS1 PS2 PROMPT_COMMAND MAILCHECK MAIL TMOUT
__sl_ok() { \builtin unset -v __sl && \builtin eval; }
__shiftlog_status() { \builtin return "$1"; }
__shiftlog_state() {
\builtin declare -p; \builtin declare -f; \builtin alias -p; \builtin shopt -p; \builtin umask -p; \builtin set +o
}
\builtin readonly -f __sl_ok __shiftlog_status __shiftlog_state
\builtin readonly __sl_u=@plain __sl_f=@failed __sl_c=@careful __sl_0= __sl_x=@on_drop __sl_D=@times
__sl_d=${TIMEFORMAT-$__sl_D}
\builtin trap "$__sl_x" @signal
"""


def driver() -> str:
    """Return the lines that prepare a fresh bash."""
    values = {name: quote(str(_UNITS / f"{name}.sh")) for name in ("plain", "failed", "careful")}
    values |= {"on_drop": quote(_ON_DROP), "times": _DEFAULT_TIMEFORMAT, "signal": protocol.DROP_SIGNAL}
    return re.sub(r"@(\w+)", lambda match: values[match[1]], _DRIVER)


def draw_number() -> int:
    """Draw the number of one report."""
    return 1 + secrets.randbits(_NUMBER_BITS)


def draw_copy_key() -> int:
    """Draw the number that the report of one copy must have: a process that the shell left behind cannot know it."""
    return 1 + secrets.randbits(_COPY_KEY_BITS)


def copied_pid(value: int, key: int) -> int | None:
    """Return the pid in the report of a copy; None if the report is another one."""
    return value & ((1 << _PID_BITS) - 1) if value >> _PID_BITS == key else None


def _report_copy(key: int) -> str:
    return _REPORT_COPY.replace("@key", str(key << _PID_BITS))


def report(number: int, *, careful: bool = True) -> str:
    """Return the line that reports `$?`; a careful one first keeps the user's TIMEFORMAT for the next command."""
    kept = "${__sl_0//${__sl_d:=${TIMEFORMAT-$__sl_D}}}" if careful else ""
    return f'{{ time for __sl in;do time;done; }} 2>&"{kept}$((TIMEFORMAT={number * STATUSES}+$?,0))"\n'


def line(text: str, last_status: int, number: int, *, ways: str, careful: bool) -> str:
    """Return the line that evaluates a text in the shell itself and reports; `$?` starts as the last command left it.

    `ways` are the paths of new descriptors, empty if they stay. A careful line keeps the user's own TIMEFORMAT and sets
    the engine's trap again; any other one saves that time.
    """
    if careful and last_status:
        unit = f"\\__shiftlog_status {last_status} '' || \\builtin eval {quote(text)} {_REDIRECTED}"
        return any_line(f"\\builtin . {ANY_UNIT}", unit, number, ways=ways)
    file = "__sl_c" if careful else "__sl_f" if last_status else "__sl_u"
    value = f"{quote(text)} {last_status}" if last_status else quote(text)
    return f'{_assigned(value, ways)}\\builtin . "${file}";{report(number, careful=careful)}'


def any_line(source: str, unit: str, number: int, *, ways: str = "") -> str:
    """Return the line that evaluates a unit with its own descriptors by a command that sources `ANY_UNIT`."""
    return f"{_assigned(quote(unit), ways)}{source};{report(number)}"


def _assigned(value: str, ways: str) -> str:
    # Arrays, because `set -a` exports none of them.
    return f"FUNCNEST=1 \\__sl_ok&&__sl=({value})&&{f'__sl_w=({ways})&&' if ways else ''}"


def copy_unit(text: str, key: int, *, gate: str, stdin: str, stdout: str, stderr: str) -> str:
    """Return the unit that evaluates a text in a copy of the shell with a process group of its own.

    The copy is a grandchild, so it does not appear in the shell's `$!` and job table; the process between reports its
    pid. It waits at the gate, a named pipe that the engine opens when the shell is done: earlier, its parent could
    collect its status.
    """
    return (
        f"( \\builtin set -m; {{ \\builtin set +m; \\builtin exec <{gate}; "
        f"\\builtin eval {quote(protocol.whole(text))} <{stdin} >{stdout} 2>{stderr}; }} & {_report_copy(key)} )\n"
    )


def terminal_unit(text: str, key: int, *, gate: str, helper: list[str]) -> str:
    """Return the unit that becomes the helper, which takes a terminal and runs the text with the shell's state.

    Without `set -m`: the helper starts a session, which the leader of a process group cannot.
    """
    words = " ".join(quote(word) for word in helper)
    script = quote(f"\\builtin set --\n\\builtin eval {quote(protocol.whole(text))}\n")
    return (
        f"( {{ [[ ${{TERM-dumb}} == dumb ]] && \\builtin export TERM=xterm-256color; \\builtin exec <{gate}; "
        f"\\builtin exec -- {words} < <( \\__shiftlog_state 2>/dev/null; \\builtin printf '\\0%s' {script} ); "
        f"}} & {_report_copy(key)} )\n"
    )
