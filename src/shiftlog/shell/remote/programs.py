r"""The small sh programs that run on a target, as text without any I/O; the same over ssh and in containers.

Each is sent to a plain `sh` over its standard input, so that no process list shows it. The *keeper* makes a private
directory, starts the shell below itself and tidies up after it. A *pipe channel* carries one command's streams: named
pipes in that directory, copied to its own stdout and stderr, with a mark after each end of file. The *control shell*
answers queries while the shell is busy, and ends the shell's processes if the connection breaks without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from shiftlog.shell.engine.protocol import ENVIRONMENT, TOKEN, quote, without_prompts

CONTROL_TABLE = (
    "if [ -r /proc/uptime ]; then cat /proc/uptime /proc/[0-9]*/stat 2>/dev/null; "
    "else ps -A -o pid= -o ppid= -o pgid= -o stat=; fi"
)

_KEEPER = r"""{
trap : INT TERM HUP QUIT USR1 USR2
unset ENV BASH_ENV CDPATH PROMPT_COMMAND MAIL
__token=TOKEN
__fail() { printf '%s fail %s/%s\n' "$__token" "$1" "$__token"; exit 1; }
for __place in "${TMPDIR:-/tmp}" /tmp /dev/shm "$HOME"; do
  __dir="$__place/.shiftlog-NAME"
  (umask 077; mkdir "$__dir") 2>/dev/null && break
  __dir=
done
[ -n "$__dir" ] || __fail directory
__tidy() { rm -rf "$__dir"; }
mkfifo -m 600 "$__dir/x" 2>/dev/null || { __tidy; __fail mkfifo; }
cat /dev/null 2>/dev/null || { __tidy; __fail cat; }
cd ./ && CD || { __tidy; __fail cwd; }
ENVIRONMENT
__kind=sh __words=portable
if [ WANTED != sh ] && command -v bash >/dev/null 2>&1; then
  __kind=bash
  bash --norc --noprofile -c 'trap : RTMAX-3 && [[ $BASHPID && $BASH_VERSION > 4.3 ]]' 2>/dev/null && __words=bash
fi
[ WANTED != bash ] || [ "$__kind" = bash ] || { __tidy; __fail bash; }
__line=
[ -r /proc/$$/stat ] && read -r __line </proc/$$/stat
printf '%s kept %s %s %s %s\n%s/%s\n' "$__token" "$__kind" "$__words" "$$" "$__dir" "$__line" "$__token"
if [ "$__words" = bash ]; then
  bash --norc --noprofile --noediting -i 8>&1 9>&2 >/dev/null 2>&1
elif [ "$__kind" = bash ]; then bash --norc --noprofile --noediting -i
else PS1= PS2= sh -i
fi
__status=$?
__tidy
printf '%s end %s /%s\n' "$__token" "$__status" "$__token"
printf %s "$__token" >&2
exit "$__status"
}
"""
_PIPES_START = r"""{
trap '' INT QUIT HUP
__dir=DIR
mkfifo -m 600 "$__dir/o-NAME" "$__dir/e-NAME" FEED || exit 1
__gone() { rm -f "$__dir/o-NAME" "$__dir/e-NAME" "$__dir/i-NAME"; }
"""
#: Pipes for one command after another, until the program's input ends.
_PIPES = (
    _PIPES_START
    + r"""
__copy() {
  trap 'kill "$__cat"; exit' TERM
  while [ -p "$1" ]; do cat "$1" 2>/dev/null & __cat=$!; wait "$__cat"; printf MARK; done
}
__copy "$__dir/o-NAME" </dev/null 2>/dev/null & __out=$!
__copy "$__dir/e-NAME" </dev/null >&2 & __err=$!
printf '%s line %s/%s\n' TOKEN "$$" TOKEN
read -r __word
exec 2>/dev/null
kill "$__out" "$__err"
__gone
}
"""
)
#: Pipes for one command that reads input or runs in the background: the program ends with its streams.
_ONCE = (
    _PIPES_START
    + r"""
{ cat "$__dir/o-NAME" 2>/dev/null; printf MARK; } </dev/null &
{ cat "$__dir/e-NAME" 2>/dev/null; printf MARK; } </dev/null >&2 &
printf '%s line %s/%s\n' TOKEN "$$" TOKEN
INPUT
wait
__gone
}
"""
)
#: If its input ends without notice, the server is gone: then this program ends the shell's processes, unless another
#: control shell has started meanwhile. Queries follow it on its input, line by line.
_CONTROL = r"""trap '' INT HUP
__dir=DIR
echo TOKEN >"$__dir/a"
__each() {
  for __proc in /proc/[0-9]*; do
    read -r __stat <"$__proc/stat" && set -- ${__stat##*) } || continue
    case "$__sessions" in *" $4 "*) kill "-$__signal" "${__proc#/proc/}";; esac
  done
}
__end() {
  trap '' TERM PIPE
  exec </dev/null >/dev/null 2>&1
  sleep GRACE
  read -r __name <"$__dir/a" && [ "$__name" = TOKEN ] || exit 0
  __sessions=" SESSION "
  for __file in "$__dir"/p*; do read -r __pid <"$__file" && __sessions="$__sessions$__pid "; done
  for __signal in HUP TERM CONT; do __each; done
  sleep 2
  __signal=KILL; __each
  for __pid in $__sessions; do kill -9 "-$__pid"; done
  rm -rf "$__dir"
}
trap __end EXIT
printf '%s %s %s' TOKEN "$$" TOKEN
"""
CONTROL_BYE = "\ntrap - EXIT; exit 0\n"
_GRACE_S = 1
_TERMINAL = r"""printf %s MARK
rm -f -- "$0"
echo "$$" >PIDFILE
stty cols COLS rows ROWS 2>/dev/null
cd -- CWD
[ "${TERM-dumb}" != dumb ] || { TERM=xterm-256color; export TERM; }
"""
_KEPT = re.compile(rb"(%b) kept (\w+) (\w+) (\d+) (.*?)\n(.*?)/\1\n" % TOKEN, re.DOTALL)
_FAIL = re.compile(rb"(%b) fail (\w+)/\1\n" % TOKEN)
_FAILURES: Final = {
    "directory": "no directory for its pipes could be made",
    "mkfifo": "the target has no mkfifo",
    "cat": "the target has no cat",
    "bash": "the target has no bash",
}

ProtocolName = Literal["bash", "portable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperReply:
    """The keeper's reply: the shell it starts, its own pid and session, and the directory of the pipes."""

    kind: Literal["bash", "sh"]
    words: ProtocolName
    keeper: int
    session: int
    directory: str


def keeper(token: str, *, name: str, wanted: str, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the program that starts the shell and tidies up after it."""
    exports = "\n".join(f"export {key}={quote(value)}" for key, value in (ENVIRONMENT | without_prompts(env)).items())
    return filled(
        _KEEPER,
        TOKEN=token,
        NAME=name,
        WANTED=wanted,
        CD=f"cd -- {quote(cwd)} 2>/dev/null" if cwd else ":",
        ENVIRONMENT=exports,
    )


def read_kept(data: bytes, token: str, cwd: str | None) -> KeeperReply | str | None:
    """Find the keeper's reply in the target's output so far, or why it started nothing."""
    failed = _FAIL.search(data)
    if failed and failed[1].decode() == token:
        return _FAILURES.get(failed[2].decode(), f"cwd {cwd} is not a directory there")
    kept = _KEPT.search(data)
    if not kept or kept[1].decode() != token:
        return None
    fields = kept[6].rpartition(b")")[2].split()
    return KeeperReply(
        kind="bash" if kept[2] == b"bash" else "sh",
        words="bash" if kept[3] == b"bash" else "portable",
        keeper=int(kept[4]),
        session=int(fields[3]) if len(fields) > 3 else int(kept[4]),
        directory=kept[5].decode("utf-8", "surrogateescape"),
    )


def control(token: str, kept: KeeperReply) -> str:
    """Return the first part of the control program; it prints its token, its pid and the token again."""
    values = {"DIR": quote(kept.directory), "SESSION": str(kept.session), "GRACE": str(_GRACE_S)}
    return filled(_CONTROL, TOKEN=token, **values)


def pipes(token: str, mark: str, *, directory: str, name: str, reusable: bool, feeds: bool) -> str:
    """Return the program of a pipe channel: for one command after another, or for one that may read its input."""
    return filled(
        _PIPES if reusable else _ONCE,
        TOKEN=token,
        MARK=mark,
        DIR=quote(directory),
        NAME=name,
        FEED=f'"$__dir/i-{name}"' if feeds else "",
        INPUT=f'cat >"$__dir/i-{name}" 2>/dev/null' if feeds else "",
    )


def waiting(keeper: int, shell: int) -> str:
    """Return the query whether a shell sleeps with the script as its input, which it has only between commands."""
    return (
        f"if [ /proc/{shell}/fd/0 -ef /proc/{keeper}/fd/0 ] && read -r __stat </proc/{shell}/stat; then "
        '__stat=${__stat##*) }; if [ "${__stat%% *}" = S ]; then echo waiting; fi; fi 2>/dev/null'
    )


def writers(keeper: int) -> str:
    """Return the query for the processes that have the wire of a shell as output."""
    return (
        f"__wire=/proc/{keeper}/fd; for __fd in /proc/[0-9]*/fd/[12]; do "
        "if [ $__fd -ef $__wire/1 ] || [ $__fd -ef $__wire/2 ]; "
        "then __pid=${__fd#/proc/}; echo ${__pid%%/*}; fi; done 2>/dev/null"
    )


def terminal_script(text: str, mark: str, *, kind: str, cwd: str, exports: str, pid: str, cols: int, rows: int) -> str:
    """Return the program that runs a text on a terminal with the shell's directory and exported variables.

    The mark comes first, to show when the program has the terminal. Docker sets the size only after that.
    """
    size = {"COLS": str(cols), "ROWS": str(rows)}
    start = filled(_TERMINAL, MARK=mark, CWD=quote(cwd), PIDFILE=pid, **size)
    return f"{start}. {exports}; rm -f {exports}\nexec {kind} -c {quote(text)}\n"


def filled(template: str, **values: str) -> str:
    """Return a program with values in place of its capitalised words."""
    return re.sub(r"\b[A-Z]{2,}\b", lambda found: values.get(found[0], found[0]), template)
