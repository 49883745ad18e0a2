"""Programs named by variables, arrays and a function's arguments, where only the text is checked."""

import pytest

from shiftlog.guard.policy.files import NoFiles
from shiftlog.guard.policy.found import Definitions
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules

DENYING = Judge(shell_rules(OperatorPolicy(), deny=["ls"]), kernel=False, files=NoFiles())
ALLOWING = Judge(shell_rules(OperatorPolicy(), allow=["echo", "make"]), kernel=False, files=NoFiles())

HIDING = r"""
x=ls; $x
x=echo & $x ls
x=echo; bash -c '$x ls'
x=echo | true; $x ls
(x=echo); $x ls
x=echo true; $x ls
export x=echo & $x ls
export x=echo | true; $x ls
(export x=echo); $x ls
false && export x=echo; $x ls
export x=echo >/nonexistent/f; $x ls
export() { :; }; export x=echo; $x ls
if true; then export x=echo; fi; $x ls
export x=echo; export x=l''s; $x
export x=$y; $x ls
f() { export x=echo; }; $x ls
declare -u x=echo; $x ls
false && x=echo; $x ls
x=echo >/nonexistent/f; $x ls
x=echo; unset x; $x ls
x=echo; x=; $x ls
x=; $x ls
x=echo; y=x; printf -v $y %s l""s; $x
x=echo; read x <<< l''s; $x
REPLY=echo; read <<< "l"s; $REPLY
select x in echo; do $x ls; done <<< 9
for x in echo l; do $x''s; done
for x in ls; do $x; done
for x in l; do ${x}s; done
IFS=x; p=lsxy; $p
x=l; x+=s; $x
x=l; y=s; $x$y
a=eval; $a 'b=l''s'; b=echo; $b
b=echo; f() { b=ls; }; f; $b
b=echo; trap 'b=l""s' DEBUG; $b
declare -l x; x=LS; $x
declare -A c; c=(echo ls); "${c[@]}"
c=(echo); c[0]=ls; "${c[@]}"
c=(echo); c=ls; "${c[@]}"
c=(nice); c+=(ls); "${c[@]}"
c=(env ls); "${c[@]}"
c=(bash -c "$z"); "${c[@]}"
run() { "$@"; }; run ls
run() { shift; "$@"; }; run a ls
run() { "$@"; }; run env ls
a() { run "$@"; }; run() { "$@"; }; a ls
run() { "$@"; }; export -f run; bash -c 'run ls'
run() { set -- ls; "$@"; }; run echo
run() { eval 'set -- ls'; "$@"; }; run echo
run() { "$@"; }; run $z
run() { "$@"; }; x=l; run ${x}s
run() { "$@"; }; alias q=run; q ls
run() { "$@"; }; eval run ls
run() { "$@"; }; trap 'run ls' EXIT
run() { "$@"; }; r=run; $r ls
command_not_found_handle() { shift; "$@"; }; nosuch ls
run() { "$@"; }; mapfile -C run -c1 <<< x
run() { "$@"; }; echo ls | xargs -I{} bash -c 'run {}'
f() { "$@"; }; f f f ls
f() { g() { "$@"; }; g "$@"; }; f ls
f() { bash -c "$1"; }; f ls
f() { "$1"; }; f ls
f() { $*; }; f ls
f() { "${@}"; }; f ls
f() { "${@:1}"; }; f ls
f() { local c=("$@"); "${c[@]}"; }; f ls
f() { c=("$@"); }; f ls; "${c[@]}"
env 'BASH_FUNC_f%%=() { "$@"; }' bash -c 'f ls'
eval "$(ssh-agent -a '/tmp/x;ls;')"
ssh-agent() { echo l"s"; }; eval "$(ssh-agent)"
export TMPDIR='/tmp;l''s;'; eval "$(ssh-agent)"
eval "$(ssh-agent ls)"
eval "$(pwd; echo ls)"
eval "$(TMPDIR=x ssh-agent)"
eval "$(brew shellenv | sed s/a/b/)"
source <(kubectl completion bash; echo l"s")
touch 'x;l''s'; find . -exec sh -c 'echo {}' \;
find . -exec sh -c '{}' \;
find . -exec sh -c 'sh -c {}' \;
find . -exec sh -c "$z {}" \;
find . -printf 'x\073l\163\n' | xargs -I{} sh -c 'echo {}'
echo 'x;l''s' | xargs -I{} sh -c 'echo {}'
find . | sed 's/.*/x;l\s/' | xargs -I{} sh -c 'echo {}'
ls() { :; }; find . -exec sh -c 'ls {}' \;
find . -exec sh -c 'echo {}; ls' \;
for i in 1 2; do find . -exec sh -c 'echo {}' \; ; touch "x;l$(printf s)"; done
x='. -exec l''s ;'; find $x
x=-exec; find . $x ls \;
x=". -exec l"; find ${x}s \;
read x <<< '. -exec ls ;'; find $x
export x='. -exec ls ;'; bash -c 'find $x'
x='. -exec ls ;' bash -c 'find $x'
set -- . -exec l"s" \;; find $1 $2 $3 $4
f() { find $1; }; f '. -exec ls ;'
f() { find $*; }; f . -exec l's' ';'
bash -c 'find $1' _ '. -exec ls ;'
IFS=b; x=.b-execblsb; find $x
for x in '. -exec ls ;'; do find $x; done
: ${x:=. -exec ls ;}; find $x
pwd() { echo . -exec ls ';'; }; find $(pwd)
find $(git rev-parse --show-toplevel -exec ls)
x=1; trap "kill $x; ls" EXIT
x='1; ls'; trap "kill $x" EXIT
x=$!; x='1;l''s'; trap "kill $x" EXIT
read x <<< '1;ls'; trap "kill $x" EXIT
sh -c "echo $x"
x=l; bash -c "${x}s"
x=ls; eval $x
x=ls; eval "env $x"
x=ls; eval "bash -c $x"
x=a; eval "y=$x; l${y}s"
x=echo; $x $(ls)
x=nice; $x ls
x=env; $x -S 'ls'
x=./s.sh; cp /bin/ls s.sh; $x
x=command; $x ls
x=ls; "$x"
x=/bin/l; "${x}s"
x=echo; . ./f; $x ls
x=echo; source <(echo x=ls); $x
export $(cat f); x=echo; $x
shopt -s extdebug; trap 'false' DEBUG; x=echo; $x
x=echo; while read y; do x=$y; done < f; $x
x=sh; $x -c ls
x=sh; $x -c "$z"
x=bash; echo ls | $x
x=bash; $x <<< ls
x=echo; let 'x=1'; $x
x=exec; $x ls
x=time; $x ls
x=eval; $x ls
x=builtin; $x eval ls
x=.; $x ./file <<< ls
coproc x=echo; $x ls
x=a if true; then x=echo; fi; $x ls
x=echo; local_x=1; unset -v x; $x ls
x=echo; declare x=ls; $x
x=echo; export x=ls; $x
x=echo; f() { local x=ls; $x; }; f
x=echo; : $((x=1)); : ${x/1/ls}; ${x/1/ls}
x=lsa; ${x%a}
x=LS; ${x,,}
x=y; y=ls; ${!x}
"$HOME/bin/ls" x
"$d/../bin/l""s"
"$x/env" ls
"$x/busybox" ls
"$x/sh" -c ls
"$HOME"/bin/xargs ls
"${a[@]}/uv"
"$@/uv"
"${!x}/uv"
x='ls /'; $x/uv
x=$(cat f); $x/uv
set -- ls; $1/uv
IFS=x; $HOME/uv
$(npm bin)/uv
cp /bin/ls uv; "$PWD/uv"
echo ls > uv; "$PWD/uv"
tee uv <<< ls; "$PWD/uv"
$(which ls)
$(command -v nosuch) ls
x=$(command -v nosuch); $x ls
x=$(which ls); $x /
which() { echo l"s"; }; $(which x)
command() { echo l"s"; }; x=$(command -v y); $x
for i in 1 2; do x=$(which y); $x; which() { echo l"s"; }; done
bash -c 'for i in 1 2; do $(which y); which() { echo l"s"; }; done'
$(which python3; echo ls)
$(which python3 | sed s/python3/l"s"/)
$(which $x) ls
x=$(which y); bash -c '$x ls'
"""


@pytest.mark.parametrize("text", HIDING.strip().split("\n"))
def test_what_may_start_a_denied_program_is_refused(text: str) -> None:
    found = DENYING.judge(text)
    assert found.violations or found.syntax_error


@pytest.mark.parametrize(
    "texts",
    [
        ("x='. -exec ls ;'", "find $x"),
        ('run() { "$@"; }', "run ls"),
        ('run() { shift; "$@"; }', "run a ls"),
        ("x=echo", "unset x", "$x ls"),
        ("trap 'x=l\"\"s' DEBUG", "x=echo; $x"),
        ("readonly x=ls", "x=echo; $x"),
        ("declare -l x", "x=LS; $x"),
        ("export TMPDIR='/tmp;ls'", 'eval "$(ssh-agent)"'),
        ("IFS=x", "p=lsxy; $p"),
        ("pwd() { echo . -exec ls ';'; }", "find $(pwd)"),
    ],
)
@pytest.mark.parametrize("stopped", [False, True])
def test_what_earlier_commands_set_is_remembered(texts: tuple[str, ...], stopped: bool) -> None:
    known = Definitions()
    refused = False
    for text in texts:
        found = DENYING.judge(text, known)
        refused = refused or bool(found.violations)
        known = found.definitions_if_stopped if stopped else found.definitions
    assert refused


@pytest.mark.parametrize(
    "text",
    [
        "PYTHON=.venv/bin/python\n$PYTHON -m pytest -q",
        'V=.venv; "$V/bin/python" -V; ${V}/bin/pip list',
        'cmd=(pytest -q -x); cmd+=("$f"); "${cmd[@]}" tests/',
        "for t in gcc clang; do $t --version; done",
        'run() { echo "+ $*"; "$@"; }; run make test && run git status',
        'retry() { n=$1; shift; for i in 1 2; do "$@" && break; done; }; retry 3 make test',
        'sleep 9 & PID=$!; trap "kill $PID" EXIT; wait $PID',
        'trap "kill $! $$" EXIT',
        'port=8080; bash -c "curl localhost:$port"',
        'eval "$(ssh-agent -s)" && ssh-add; eval "$(pyenv init -)"; source <(kubectl completion bash)',
        "find . | sort | xargs -I{} sh -c 'echo {}'",
        "find . -name '*.zip' -exec sh -c 'unzip -d \"${1%.zip}\" {}' _ {} \\;",
        "find $HOME -mtime -2; find $DIR -name x -exec cat {} +;",
        "find `pwd` -type f; find $(git rev-parse --show-toplevel)",
        "x=src; find $x -name y",
        '"$HOME/.local/bin/uv" pip list; $HOME/.cargo/bin/rg x; "$(npm bin)/mocha" test/',
        'PY=$(command -v python3.12 || command -v python3); "$PY" -m venv env; $(which node) -v',
        "seq 1 10 | xargs -P 4 -I{} sh -c 'curl -s localhost/?n={} > /dev/null'",
    ],
)
def test_plain_uses_of_variables_and_functions_pass(text: str) -> None:
    assert DENYING.judge(text).verdict == "allowed"


@pytest.mark.parametrize("text", ["x=echo; $x a", 'c=(echo); "${c[@]}" a', 'run() { "$@"; }; run make'])
def test_an_allow_list_still_needs_the_name_itself(text: str) -> None:
    assert ALLOWING.judge(text).verdict == "undecidable"
