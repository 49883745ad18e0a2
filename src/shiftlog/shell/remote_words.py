r"""The words that the in-band engine and its shell exchange: sans-I/O, the same over ssh and into containers.

Four small programs run on the target, each sent to a plain `sh` over its standard input so that no argument list shows
them. The *keeper* makes a private directory, starts the shell below itself and tidies up after it, also when the
connection is gone. A *line* carries one command's streams: named pipes in that directory, copied to the line's own
stdout and stderr, with a mark after each end of file; so a child left behind keeps its own line and never writes into
another command. The *aside* answers questions while the shell is busy. The shell itself is spoken to in `framing`'s
words where it is a bash that knows them, else in portable ones (`PortableWords`), which cost a fork per command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from shiftlog.shell import framing
from shiftlog.shell.framing import quote, whole

BASE_ENVIRONMENT: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "HISTFILE": "/dev/null",
}
PROFILES = (
    "if [ -r /etc/profile ]; then . /etc/profile; fi\n"
    "for __shiftlog_profile in {files}; do\n"
    '  if [ -r "$__shiftlog_profile" ]; then . "$__shiftlog_profile"; break; fi\n'
    "done; unset __shiftlog_profile"
)
BASH_PROFILES = PROFILES.format(files="~/.bash_profile ~/.bash_login ~/.profile")
SH_PROFILES = PROFILES.format(files="~/.profile")
ASIDE_TABLE = (
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
_LINE_START = r"""{
trap '' INT QUIT HUP
__dir=DIR
mkfifo -m 600 "$__dir/oNAME" "$__dir/eNAME" FEED || exit 1
__gone() { rm -f "$__dir/oNAME" "$__dir/eNAME" "$__dir/iNAME"; }
"""
#: A line that is used again and again; the end of its input without a word means that the connection is gone.
_LINE = (
    _LINE_START
    + r"""
__copy() {
  trap 'kill "$__cat"; exit' TERM
  while [ -p "$1" ]; do cat "$1" 2>/dev/null & __cat=$!; wait "$__cat"; printf MARK; done
}
__copy "$__dir/oNAME" </dev/null 2>/dev/null & __out=$!
__copy "$__dir/eNAME" </dev/null >&2 & __err=$!
printf '%s line %s/%s\n' TOKEN "$$" TOKEN
read -r __word; __read=$?
exec 2>/dev/null
kill "$__out" "$__err"
__gone
[ "$__read" != 0 ] || exit 0
__each() {
  for __proc in /proc/[0-9]*; do
    read -r __stat <"$__proc/stat" && set -- ${__stat##*) } && [ "$4" = SESSION ] || continue
    kill "-$__signal" "${__proc#/proc/}"
  done
  [ -r /proc/self/stat ] || kill "-$__signal" -SESSION
}
for __signal in HUP TERM CONT; do __each; done
sleep 2
__signal=KILL; __each
rm -rf "$__dir"
}
"""
)
#: A line for one command that reads input or outlives the foreground: it ends with its streams.
_ONCE = (
    _LINE_START
    + r"""
{ cat "$__dir/oNAME" 2>/dev/null; printf MARK; } </dev/null &
{ cat "$__dir/eNAME" 2>/dev/null; printf MARK; } </dev/null >&2 &
printf '%s line %s/%s\n' TOKEN "$$" TOKEN
INPUT
wait
__gone
}
"""
)
_TERMINAL = r"""rm -f -- "$0"
echo "$$" >PIDFILE
cd -- CWD
[ "${TERM-dumb}" != dumb ] || { TERM=xterm-256color; export TERM; }
"""
#: The shell's own outputs lead nowhere; the wire is on high descriptors that no command is given. A command holds the
#: writing end of a named pipe, so that a read of no wait tells whether anything that it started is left.
_OUT, _ERR, _HOLDS, _HELD = 198, 199, 197, 196
_BASH_MORE = r"""\exec HELD<>PLACE
\exec HOLDS<PLACE
\exec HELD<&HOLDS HOLDS<&-
__shiftlog_begin() { { time; } 2>&OUT; { time; } 2>&ERR; \builtin return "$1"; }
__shiftlog_err() { { time; } 2>&ERR; }
\builtin readonly -f __shiftlog_begin __shiftlog_err
"""
_KEPT = re.compile(rb"([0-9a-f]{32}) kept (\w+) (\w+) (\d+) (.*?)\n(.*?)/\1\n", re.DOTALL)
_FAIL = re.compile(rb"([0-9a-f]{32}) fail (\w+)/\1\n")
_FAILURES: Final = {
    "directory": "no directory for its pipes could be made",
    "mkfifo": "the target has no mkfifo",
    "cat": "the target has no cat",
    "bash": "the target has no bash",
}

#: Stands in place of the directory where the end of a command's output is told, before that of the command.
CUT = "="

WordsName = Literal["bash", "portable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the keeper told: what shell it starts, its own pid and session, and where the pipes are."""

    kind: Literal["bash", "sh"]
    words: WordsName
    keeper: int
    session: int
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why the keeper started nothing."""

    why: str


def keeper(token: str, *, name: str, wanted: str, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the program that starts the shell and tidies up after it."""
    exports = "\n".join(f"export {key}={quote(value)}" for key, value in (BASE_ENVIRONMENT | dict(env)).items())
    return _filled(
        _KEEPER,
        TOKEN=token,
        NAME=name,
        WANTED=wanted,
        CD=f"cd -- {quote(cwd)} 2>/dev/null" if cwd else ":",
        ENVIRONMENT=exports,
    )


def read_kept(data: bytes, token: str, cwd: str | None) -> Kept | Refused | None:
    """Find the keeper's answer in what the target has said so far."""
    failed = _FAIL.search(data)
    if failed and failed[1].decode() == token:
        word = failed[2].decode()
        return Refused(why=_FAILURES.get(word, f"cwd {cwd} is not a directory there"))
    kept = _KEPT.search(data)
    if not kept or kept[1].decode() != token:
        return None
    fields = kept[6].rpartition(b")")[2].split()
    return Kept(
        kind="bash" if kept[2] == b"bash" else "sh",
        words="bash" if kept[3] == b"bash" else "portable",
        keeper=int(kept[4]),
        session=int(fields[3]) if len(fields) > 3 else int(kept[4]),
        directory=kept[5].decode("utf-8", "surrogateescape"),
    )


def line(token: str, mark: str, *, directory: str, name: str, session: int) -> str:
    """Return the program of a line that serves one command after the other."""
    return _filled(_LINE, TOKEN=token, MARK=mark, DIR=quote(directory), NAME=name, FEED="", SESSION=str(session))


def line_once(token: str, mark: str, *, directory: str, name: str, feeds: bool) -> str:
    """Return the program of a line that serves one command, which may read the line's own input."""
    return _filled(
        _ONCE,
        TOKEN=token,
        MARK=mark,
        DIR=quote(directory),
        NAME=name,
        FEED='"$__dir/iNAME"'.replace("NAME", name) if feeds else "",
        INPUT='cat >"$__dir/iNAME" 2>/dev/null'.replace("NAME", name) if feeds else "",
    )


def holds_token(token: str) -> str:
    """Return the token under which a shell tells, after a command, whether something of it is left."""
    return token[::-1]


def waiting(keeper: int, shell: int) -> str:
    """Return the question whether a shell sleeps with the script as its input, which it has only between commands."""
    return (
        f"if [ /proc/{shell}/fd/0 -ef /proc/{keeper}/fd/0 ] && read -r __stat </proc/{shell}/stat; then "
        '__stat=${__stat##*) }; if [ "${__stat%% *}" = S ]; then echo waiting; fi; fi 2>/dev/null'
    )


def writers(keeper: int) -> str:
    """Return the question which processes have the wire of a shell as their output."""
    return (
        f"__wire=/proc/{keeper}/fd; for __fd in /proc/[0-9]*/fd/[12]; do "
        "if [ $__fd -ef $__wire/1 ] || [ $__fd -ef $__wire/2 ]; "
        "then __pid=${__fd#/proc/}; echo ${__pid%%/*}; fi; done 2>/dev/null"
    )


class Words(Protocol):
    """How a shell is spoken to; every method returns text for its standard input."""

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

    def source(self, place: str) -> str:
        """Run a unit that stands in a file."""
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

    def prepare(self, token: str, kept: Kept) -> str:
        """Define the engine's functions; the report that follows proves them. The keeper has the same fd 0."""
        more = _filled(
            _BASH_MORE, OUT=str(_OUT), ERR=str(_ERR), HELD=str(_HELD), HOLDS=str(_HOLDS), PLACE=self._holds(kept)
        )
        return (
            f"\\exec {_OUT}>&8 {_ERR}>&9 8>&- 9>&-\n"
            + framing.driver(f"&{_OUT}", f"/proc/{kept.keeper}/fd/0")
            + more
            + framing.hello(token)
            + self.closing(token)
        )

    def direct(self, text: str, token: str, last_status: int, kept: Kept) -> str:
        """Evaluate a text with the wire itself as its outputs, and cut it there, with its status, before any notice."""
        join = "||" if last_status else "&&"
        ways = f"</dev/null >&{_OUT} 2>&{_ERR} {_OUT}>&- {_ERR}>&- {_HELD}<&- {_HOLDS}>{self._holds(kept)}"
        return (
            f"{_tell(token)} \\__shiftlog_begin {last_status} {join} \\builtin eval {quote(whole(text))} {ways}\n"
            f'TIMEFORMAT="{token} end $? {CUT}/{token}" \\__shiftlog_begin 0\n'
        )

    def unit(self, text: str, token: str, last_status: int, streams: tuple[str, str, str]) -> str:
        """Say that the unit runs, restore `$?` (a failing left side sets it and never ends the shell), evaluate."""
        join = "||" if last_status else "&&"
        stdin, stdout, stderr = streams
        return f"{_tell(token)} \\__shiftlog_begin {last_status} {join} " + framing.unit(
            text, stdin=stdin, stdout=stdout, stderr=stderr
        )

    def copy(self, text: str, token: str, streams: tuple[str, str, str]) -> str:
        """Evaluate in a grandchild with a group of its own, below one that stays to report the status."""
        stdin, stdout, stderr = streams
        return (
            f"( \\builtin set -m; {{ \\builtin set +m; ( {_tell(token)} \\__shiftlog_report; "
            f"\\builtin eval {quote(whole(text))} <{stdin} >{stdout} 2>{stderr} ); "
            f'TIMEFORMAT="{token} end $? /{token}" \\__shiftlog_report; }} & )\n'
        )

    def source(self, place: str) -> str:
        """Source the file, which keeps bash's own notices of jobs silent."""
        return f"\\builtin . {place}\n"

    def closing(self, token: str) -> str:
        """Prove the shell sound and report; unlike `PWD`, `DIRSTACK` is where the shell really is.

        Then mark the end on stderr too, and tell whether anything is left that holds a command's outputs.
        """
        holds = holds_token(token)
        return (
            f'FUNCNEST=1 TIMEFORMAT="{token} end $? ${{DIRSTACK+${{DIRSTACK//[%]/%%}}}}/{token}" \\__shiftlog_done\n'
            f"[[ $? == 0 ]] || \\__shiftlog_bad {token}\n"
            f'TIMEFORMAT="{token}" \\__shiftlog_err\n'
            f'\\builtin read -t 0 -u {_HELD} && TIMEFORMAT="{holds} pid 0/{holds}" \\__shiftlog_report || '
            f'TIMEFORMAT="{holds} pid 1/{holds}" \\__shiftlog_report\n'
        )

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

    def source(self, place: str) -> str:
        """Source the file."""
        return f"\\. {place}\n"

    def closing(self, token: str) -> str:
        """Report status and cwd."""
        return f'( \\: "${{__shiftlog_never:?{token} end $? ${{PWD-}}/{token}}}" ) 2>&1\n'

    def save_exports(self, path: str) -> str:
        """Write them as `export` lines."""
        return f"{{ \\export -p; }} >{path}"


def words_named(name: WordsName) -> Words:
    """Return the words by their name."""
    return BashWords() if name == "bash" else PortableWords()


def terminal_script(text: str, *, kind: str, cwd: str, exports: str, pid: str) -> str:
    """Return the program that runs a text on a terminal with the shell's directory and exported variables."""
    start = _filled(_TERMINAL, CWD=quote(cwd), PIDFILE=pid)
    return f"{start}. {exports}; rm -f {exports}\nexec {kind} -c {quote(text)}\n"


def heredoc(unit: str, token: str) -> str:
    """Return a unit as a place that can be sourced: a here-document on the line itself."""
    return f"/dev/stdin <<'{token}'\n{unit}{token}"


def _tell(token: str) -> str:
    return f'TIMEFORMAT="{token} pid $BASHPID/{token}"'


def _filled(template: str, **values: str) -> str:
    return re.sub(r"\b([A-Z]{2,}|oNAME|eNAME|iNAME)\b", lambda found: _value(found[1], values), template)


def _value(word: str, values: Mapping[str, str]) -> str:
    if word.endswith("NAME") and word not in values and "NAME" in values:
        return word[0] + values["NAME"]
    return values.get(word, word)
