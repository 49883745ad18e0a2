"""The torture cases as data: what a shell must survive, whatever target it runs on.

A case is a list of steps in one fresh shell; each step says what its command must print and return. `ENDS` marks a
step whose command may end the shell, `MAY_END` one after which the shell is either right or reported as ended.
"""

from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["stays", "ends", "may_end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command and what must come of it; None means that anything will do."""

    text: str
    out: bytes | None = b""
    err: bytes | None = b""
    err_has: bytes = b""
    code: int | None = 0
    ending: Ending = "stays"
    cwd: str | None = None
    input: bytes | None = None
    background: bool = False
    terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A named list of steps; `local` for what only a local shell promises."""

    name: str
    steps: tuple[Step, ...]
    local: bool = False
    env: dict[str, str] = field(default_factory=dict[str, str])


def _case(name: str, *steps: Step, local: bool = False, env: dict[str, str] | None = None) -> Case:
    return Case(name=name, steps=steps, local=local, env=env or {})


def _run(text: str, out: bytes | None = b"", code: int | None = 0, **more: object) -> Step:
    return Step(text=text, out=out, code=code, **more)  # pyright: ignore[reportArgumentType]


#: After any mischief a shell must still tell the truth about this one, or be over.
SOUND = Step(text="echo sound; echo bad >&2; (exit 7)", out=b"sound\n", err=b"bad\n", code=7, ending="may_end")


def _mischief(name: str, text: str, code: int | None = 0, out: bytes | None = b"") -> Case:
    """Something that tampers with the shell: it may end it, but nothing may be told wrong afterwards."""
    return _case(name, Step(text=text, out=out, err=None, code=code, ending="may_end"), SOUND, SOUND)


CASES: tuple[Case, ...] = (
    _case(
        "state persists (case 1)",
        _run("cd /tmp; export A=1; f(){ echo $A; }", cwd="/tmp"),
        _run("f; pwd", b"1\n/tmp\n", cwd="/tmp"),
    ),
    _case("streams are split (case 2)", Step(text="echo out; echo err >&2; false", out=b"out\n", err=b"err\n", code=1)),
    _case("an open quote runs nothing (case 4)", _run('echo "abc', b"", 2, err=None), _run("echo ok", b"ok\n")),
    _case(
        "an open here-document runs nothing (case 5)",
        _run("cd $(mktemp -d)"),
        _run("cat > f <<X\none line", b"", 2, err=None),
        _run("ls", b""),
    ),
    _case(
        "a late syntax error stops the lines before it",
        _run("echo one\necho two\nif true; then", b"", 2, err=None),
        _run("echo ok", b"ok\n"),
    ),
    _case("a closing brace too many runs nothing", _run("echo a\n}\necho b\n{", b"", 2, err=None), SOUND),
    _case("exit ends the shell with its code (case 6)", _run("echo bye; exit 3", b"bye\n", 3, ending="ends")),
    _case("set -e ends the shell (case 7)", _run("set -e; false", b"", 1, ending="ends")),
    _case("set -e keeps the shell while nothing fails", _run("set -e"), _run("echo on", b"on\n"), _run("true")),
    _case("exec replaces the shell (case 7)", _run("exec printf x", b"x", 0, ending="ends")),
    _case(
        "exec of a missing program leaves the shell",
        _run("exec /nonexistent/program", b"", None, err=None, ending="may_end"),
        SOUND,
    ),
    _case(
        "an exit trap's words are shown", _run("trap 'echo bye' EXIT; exit 4", b"bye\n", 4, ending="ends"), local=True
    ),
    _case(
        "the words of an exit trap from a file are shown",
        _run("echo \"trap 'echo bye' EXIT\" >setup.sh"),
        _run(". ./setup.sh"),
        _run("exit 4", b"bye\n", 4, ending="ends"),
        local=True,
    ),
    _case(
        "nothing of the engine is shown when a traced shell ends",
        _run("PS0='zero '; PS1='one '; PROMPT_COMMAND='echo two'; set -v"),
        _run("exit 3", b"", 3, err=b"exit 3\n", ending="ends"),
        local=True,
    ),
    _case(
        "an exit trap's words are shown without the engine's lines",
        _run("PS4='+'; trap 'echo bye' EXIT; set -x"),
        _run("exit 3", b"bye\n", 3, err=b"+++exit 3\n+echo bye\n", ending="ends"),
        local=True,
    ),
    _case("killed by itself", _run("kill -9 $$", b"", 137, ending="ends")),
    _case("input is empty by default (case 16)", _run("cat", b"")),
    _case("input can be given", _run("cat; echo end", b"abcend\n", input=b"abc")),
    _case("much input is fed to the end", _run("wc -c", b"1000000\n", input=b"x" * 1_000_000)),
    _case("input nobody reads does no harm", _run("true", input=b"x" * 1_000_000), _run("cat", b"")),
    _case("input ends with its command", _run("read a; echo $a", b"one\n", input=b"one\ntwo\n"), _run("cat", b"")),
    _case("no terminal unless asked (case 18)", _run("test -t 1", b"", 1), _run("test -t 0", b"", 1)),
    _case("a terminal when asked (case 18)", _run("test -t 0 && test -t 1 && test -t 2", b"", 0, terminal=True)),
    _case("no new line at the end", _run("printf abc", b"abc")),
    _case("bytes come through unchanged", _run(r"printf '\0\1\377\r\n\033[1m'", b"\0\1\xff\r\n\x1b[1m")),
    _case("the last status is kept", _run("false", b"", 1), _run("echo $?", b"1\n"), _run("echo $?", b"0\n")),
    _case("the last status is kept under set -e", _run("set -e"), _run("! true || :"), _run("echo $?", b"0\n")),
    _case("a signal's status", _run("sh -c 'kill -TERM $$'", b"", 143, err=None), SOUND),
    _case("not found", _run("no_such_program_here", b"", 127, err=None, err_has=b"not found"), SOUND),
    _case("not executable", _run("/etc/passwd", b"", 126, err=None), SOUND),
    _case("output redirected for good ends with the command", _run("exec >/dev/null; echo no", b""), SOUND),
    _case("errors redirected for good end with the command", _run("exec 2>/dev/null; echo no >&2"), SOUND),
    _case("input redirected for good ends with the command", _run("exec </etc/passwd"), _run("cat", b"")),
    _case("closed outputs come back", _run("exec >&- 2>&-; echo no", b"", None, err=None), SOUND),
    _case("closed input comes back", _run("exec <&-"), _run("cat", b""), SOUND),
    _case("other descriptors persist", _run("exec 7>&1; exec 7>/dev/null"), _run("echo x >&7"), SOUND),
    _case(
        "the last word of the command before is no word of the engine",
        _run("echo a b; echo $_", b"a b\nb\n"),
        _run('echo "<$_>"', b"<>\n"),
        _run("(exit 3)", b"", 3),
        _run('echo "<$_>"', b"<>\n"),
        _run("trap : EXIT"),
        _run('echo "<$_>"', b"<>\n"),
        local=True,
    ),
    _case(
        "traces show only the command's lines",
        Step(text="set -x; echo hi", out=b"hi\n", err=b"+++ echo hi\n"),
        local=True,
    ),
    _case(
        "traces of engine lines never show",
        _run("set -x; :", b"", err=None),
        Step(text="echo hi", out=b"hi\n", err=None, err_has=b"+ echo hi\n"),
        _run("set +x", b"", err=None),
        SOUND,
    ),
    _case("verbose mode", _run("set -v", err=None), _run("set +v", b"", err=None), SOUND),
    _case("set -u", _run("set -u"), _run("echo $not_set; echo no\necho no", b"", 1, err=None), SOUND),
    _case("set -f and IFS", _run("set -f; IFS=abcdefghijklmnopqrstuvwxyz0123456789/"), SOUND, SOUND),
    _case("IFS unset or empty", _run("unset IFS"), SOUND, _run("IFS="), SOUND),
    _case("noclobber", _run("set -C"), SOUND, SOUND),
    _case("allexport", _run("set -a"), SOUND, _run("env | grep -c -i shiftlog_unit", b"0\n", 1), SOUND),
    _case("PATH empty", _run("PATH="), SOUND, _run("ls", b"", 127, err=None)),
    _case("PATH unset", _run("unset PATH HOME PWD OLDPWD"), SOUND),
    _case("TMPDIR nowhere", _run("export TMPDIR=/nonexistent"), _run("cat <<X\nfine\nX", b"fine\n"), SOUND),
    _case("LC_ALL odd", _run("export LC_ALL=xx_YY.nonsense LANG=C", err=None), SOUND),
    _case("a long variable", _run("x=$(printf %0100000d 1)"), _run("echo ${#x}", b"100000\n"), SOUND),
    _case("TIMEFORMAT is the user's", _run("TIMEFORMAT=mine"), _run("echo $TIMEFORMAT", b"mine\n"), SOUND),
    _case("FUNCNEST is the user's", _run("FUNCNEST=9"), _run("f() { g; }; g() { echo $FUNCNEST; }; f", b"9\n"), SOUND),
    _case("PROMPT_COMMAND never shows", _run("PROMPT_COMMAND='echo prompt; echo prompt >&2'"), SOUND, SOUND),
    _case("PS1 never shows", _run("PS1='$ ' PS2='> ' PS4='# '"), SOUND, SOUND),
    _case(
        "a DEBUG trap fires for later commands and never shows for the engine's",
        _run("f() { echo f; }; trap 'echo debug' DEBUG"),
        _run("echo hi; f; (echo sub)", b"debug\nhi\ndebug\nf\nsub\n"),
        _run("echo a\necho b", b"debug\na\ndebug\nb\n"),
        _run("(exit 3)", b"", 3),
        _run("echo $?\n[[ $- == *T* ]]", b"debug\n3\ndebug\n", 1),
        _run("trap - DEBUG; echo off", b"debug\noff\n"),
        SOUND,
    ),
    _case(
        "a DEBUG trap beside an EXIT trap shows nothing of the engine's at the end",
        _run("trap 'echo bye; echo err >&2' EXIT; trap 'echo debug; echo seen >&2' DEBUG"),
        _run("echo hi", b"debug\nhi\n", err=b"seen\n"),
        _run(
            "echo last; exit 3",
            b"debug\nlast\ndebug\ndebug\nbye\ndebug\n",
            3,
            err=b"seen\nseen\nseen\nseen\nerr\n",
            ending="ends",
        ),
        local=True,
    ),
    _case(
        "so does one that is inherited, after a failure too",
        _run("set -T; trap 'echo bye' EXIT; trap 'echo debug' DEBUG"),
        _run("(exit 2)", b"debug\n", 2),
        _run("echo $?; exit 3", b"debug\n2\ndebug\ndebug\nbye\n", 3, ending="ends"),
        local=True,
    ),
    _case(
        "a DEBUG trap is inherited where the user asks for it",
        _run("set -T; f() { echo f; }; trap 'echo debug' DEBUG"),
        _run("(echo sub)", b"debug\nsub\n"),
        _run("[[ $- == *T* ]]; trap - DEBUG; set +T; [[ $- == *T* ]]", b"debug\ndebug\n", 1),
        SOUND,
    ),
    _case(
        "a DEBUG trap that a file set fires for that command alone",
        _run("f=$(mktemp); echo \"trap 'echo seen' DE\"BUG >$f; . $f; echo hi", None),
        SOUND,
    ),
    _case("a RETURN trap never shows", _run("trap 'echo return' RETURN"), SOUND, SOUND),
    _case(
        "an ERR trap shows once for each failure",
        _run("trap 'echo failed' ERR"),
        _run("false", b"failed\n", 1),
        _run("trap - ERR"),
        SOUND,
    ),
    _case("traps persist", _run("trap 'echo usr1' USR1"), _run("kill -USR1 $$; :", b"usr1\n"), SOUND),
    _case("aliases persist and expand", _run("alias hi='echo hello'"), _run("hi", b"hello\n")),
    _case("options persist", _run("shopt -s nullglob; set -o pipefail"), _run("echo /nope*; false | true", b"\n", 1)),
    _case("extended patterns on the line after", _run("shopt -s extglob\ncase ab in a+(b)) echo yes;; esac", b"yes\n")),
    _case("umask persists", _run("umask 077"), _run("umask", b"0077\n")),
    _case("arrays and functions persist", _run("a=(1 2 '3 4'); g() { echo \"${a[2]}\"; }"), _run("g", b"3 4\n")),
    _case(
        "declared variables are global",
        _run("declare -i n=4; declare -A m=([k]=v)"),
        _run("n+=1; echo $n${m[k]}", b"5v\n"),
    ),
    _case("positional parameters persist", _run("set -- a 'b c'"), _run('echo $# "$2"', b"2 b c\n")),
    _case(
        "the directory stack persists",
        _run("pushd /tmp >/dev/null", cwd="/tmp"),
        _run("popd >/dev/null; dirs | wc -l", b"1\n"),
    ),
    _case(
        "a directory with odd names",
        _run("d=$(mktemp -d)/$'new\\nline 100% \\'quoted\\''; mkdir \"$d\"; cd \"$d\""),
        _run('[[ $PWD == "$d" ]]; echo $?; cd /', b"0\n", cwd="/"),
    ),
    _case(
        "a deleted directory",
        _run("d=$(mktemp -d); cd $d; rmdir $d; echo gone", b"gone\n", err=None),
        SOUND,
        _run("cd /", cwd="/"),
    ),
    _case("PWD set by hand is not believed", _run("cd /usr; PWD=/etc", cwd="/usr"), SOUND, local=True),
    _case("a link in the path is kept", _run("cd $(mktemp -d); mkdir a; ln -s a b; cd b; basename $PWD", b"b\n")),
    _case(
        "left-over children write to their own command (case 33)",
        _run("sleep .2 && echo late &"),
        SOUND,
        _run("wait; echo x", b"x\n"),
    ),
    _case(
        "the shell says nothing of jobs", _run("sleep .01 & wait"), _run("(kill -9 $BASHPID) & wait", b"", None), SOUND
    ),
    _case("a text of a megabyte (case 20)", _run(": '" + "x" * 1_048_576 + "'\necho ok", b"ok\n"), SOUND),
    _case("a long line of words", _run("echo " + "w " * 50_000 + "| wc -w", b"50000\n")),
    _case("a million lines", _run("seq 1 100000 | tail -1; seq 1 1000000 >/dev/null", b"100000\n")),
    _case("a comment at the end", _run("echo a # comment", b"a\n"), _run("echo a\necho b # comment", b"a\nb\n")),
    _case("a backslash at the end", _run("echo a\necho b \\", b"a\nb\n"), SOUND),
    _case("an empty text", _run("", b""), _run("  \n\n", b""), _run("# only", b""), SOUND),
    _case("a here-document", _run("cat <<'X'\na $b 'c'\nX", b"a $b 'c'\n"), _run("cat <<X | tr a b\naaa\nX", b"bbb\n")),
    _case("carriage returns and tabs", _run("printf 'a\tb\r\n'", b"a\tb\r\n")),
    _case("unicode", _run("echo ünïcödé 你好 🎉", "ünïcödé 你好 🎉\n".encode())),
    _case("return outside of a function", _run("return 3; echo no", b"", None, err=None), SOUND),
    _case("break outside of a loop", _run("break; continue; echo on", b"on\n", 0, err=None), SOUND),
    _case("readonly variables", _run("readonly PATH IFS HOME PWD TERM", err=None), SOUND, SOUND),
    _case("posix mode", _run("set -o posix"), SOUND, SOUND, _run("set +o posix"), SOUND),
    _case(
        "background copies (case 14)",
        _run("A=5; f() { echo f$A; }"),
        _run("f; exit 6", b"f5\n", 6, background=True),
        SOUND,
    ),
    _case("a copy changes nothing", _run("A=9; cd /usr", background=True), _run("echo [$A]", b"[]\n")),
    _case("a copy keeps $! alone", _run(": & x=$!; wait"), _run(":", background=True), _run("[[ $x == $! ]]")),
    _case(
        "a terminal gets functions and variables",
        _run("A=5; f() { echo f$A; }"),
        _run("f", b"f5\r\n", terminal=True),
        SOUND,
    ),
    _case(
        "stty does no harm",
        _run("stty -echo", b"", None, err=None),
        _run("stty raw; exit 3", None, 3, terminal=True),
        SOUND,
    ),
    _case("the environment asked for", _run("echo $GIVEN", b"given $x 'y'\n"), env={"GIVEN": "given $x 'y'"}),
    _case(
        "pagers and terminals are plain",
        _run("echo $TERM $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT", b"dumb cat cat 0\n"),
        local=True,
    ),
    _case("no history is kept", _run("history", b""), _run("echo !!; echo a!b", b"!!\na!b\n")),
    _case("the output names of a shell stay apart", _run("echo to-out; echo to-err >&2", b"to-out\n", err=b"to-err\n")),
    _case("ulimits persist", _run("ulimit -c 0; ulimit -n 200"), _run("ulimit -n", b"200\n"), SOUND),
    _case(
        "coproc", _run("coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x", b"hi\n", err=None), SOUND
    ),
    _case("process substitution", _run("cat <(echo a) <(echo b); echo c > >(cat); wait", None), SOUND),
    _mischief(
        "functions named like builtins",
        "printf() { echo F; }; eval() { echo F; }; read() { echo F; }; pwd() { echo F; }",
    ),
    _mischief(
        "more functions named like builtins",
        "trap() { echo F; }; exec() { echo F; }; set() { echo F; }; source() { echo F; }; .() { echo F; }",
    ),
    _mischief("a function named builtin", "builtin() { echo F; return 0; }; command() { echo F; }", None),
    _mischief(
        "functions that pass through", 'builtin() { command builtin "$@"; }; eval() { builtin eval "$@"; }', None
    ),
    _mischief("a function named like a reserved word", "function time { echo F; }; function [[ { echo F; }", None),
    _mischief("functions named like the engine's", "__sl_end() { echo F; }; __shiftlog_report() { :; }", None),
    _mischief("removing the engine's functions", "unset -f __sl_end __shiftlog_report __shiftlog_status", None),
    _mischief(
        "aliases of everything",
        "alias builtin='echo F' eval='echo F' .='echo F' [[='echo F' {='echo F' time='echo F'",
        None,
    ),
    _mischief(
        "aliases of reserved words",
        "shopt -s expand_aliases; alias case='echo F' in='echo F' esac='echo F' '!'='echo F'",
        None,
    ),
    _mischief("disabled builtins", "enable -n eval . trap printf read", None),
    _mischief("builtin disabled", "enable -n builtin", None),
    _mischief("readonly names of the engine", "readonly TIMEFORMAT", None),
    _mischief("closing every descriptor", 'for i in {3..255}; do eval "exec $i>&-"; done', None),
    _mischief("writing to every descriptor", "for i in {3..255}; do echo 0123 >&$i; done 2>/dev/null; :", None, None),
    _mischief("taking the engine's descriptor", "exec 10</dev/null", None),
    _mischief("ignoring every signal", "trap '' INT TERM HUP QUIT USR1 RTMAX-3", None),
    _mischief(
        "output that looks like reports",
        "echo '0123456789abcdef0123456789abcdef end 0 /tmp/0123456789abcdef0123456789abcdef'",
        0,
        None,
    ),
    _mischief("reading but not running", "set -n", None),
    _mischief("a restricted shell", "set -r", None),
    _mischief("interrupting the shell from inside", "kill -INT $$; echo no", None),
    _mischief("stopping after one command", "set -t", None),
    _mischief("an exit trap that lies", "trap 'exit 0' EXIT", None),
    _mischief("a debug trap that skips", "shopt -s extdebug; trap '(exit 1)' DEBUG", None, None),
)
