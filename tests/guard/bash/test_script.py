"""Reading bash text: what is broken is named with its place, and nothing that bash reads is called broken."""

import subprocess

import pytest

from shiftlog.guard.bash.script import read_script
from shiftlog.guard.bash.tree import Unclosed
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from tests.guard.policy.innocent import INNOCENT
from tests.guard.policy.spellings import SPELLINGS

judge = Judge(shell_rules(OperatorPolicy()), kernel=False)

BROKEN = [
    ('echo "abc', 1, 6, 'double quote (")'),
    ("echo 'abc\nx", 1, 6, "single quote (')"),
    ("echo ok\necho $'abc", 2, 7, "single quote (')"),
    ("echo `date", 1, 6, "backquote (`)"),
    ("echo $(date", 1, 7, "parenthesis (()"),
    ("(echo a", 1, 1, "parenthesis (()"),
    ("{ echo a", 1, 1, "brace ({)"),
    ("echo ${x", 1, 7, "brace ({)"),
    ("[[ -n x", 1, 1, "brackets ([[)"),
    ("a=(1 2", 1, 3, "parenthesis (()"),
    ("if true; then echo", 1, 1, "'if'"),
    ("while true; do echo", 1, 1, "'while'"),
    ("for i in 1; do echo", 1, 1, "'for'"),
    ("case x in a) echo;;", 1, 1, "'case'"),
    ("cat > f <<X\none line\n", 1, 9, "here-document (<<X)"),
    ("cat <<-'END'\n\tx\nEND x\n", 1, 5, "here-document (<<-END)"),
    ('echo "a $(echo "b) c"', 1, 10, "parenthesis (()"),
    ('echo \\\n"x', 2, 1, 'double quote (")'),
    ("echo a |", 1, 8, "'|'"),
    ("touch f\necho a &&\n# more\n", 2, 8, "'&&'"),
    ("true || ", 1, 6, "'||'"),
    ("ls |& ", 1, 4, "'|&'"),
]
ODD_BUT_FINE = [
    "exec 3<>f",
    "{fd}>f ls",
    "cat <<A <<B\na\nA\nb\nB\nls",
    "cat <<E; ls\nx\nE",
    "case $x in *) ;& b) ls;;& c) esac",
    "for i do ls; done",
    "for x in a b;{ ls;}",
    "echo ${x//\\//_} ${x%%[a-z]*} ${x:$((1+1)):2} ${#x[@]} ${!x@} ${x@Q}",
    "echo $((1 << 2)) $(( (1+2) * 3 )) $((x[1]))",
    "echo $(( $(echo 1) + 1 ))",
    "echo $( (echo a) | cat ) $((echo a) | cat)",
    "[[ $a =~ ^(a|b)+$ && ! -e b || ( c < d ) ]]",
    "[[ a =~ [[:space:]]*(x) ]]",
    'x="$(cat <<\'E\'\nit\'s "quoted" (here\nE\n)"',
    'echo "${x:-"a b"}" "${x:+\'a\'}" "${x#\'}\'}"',
    "echo a\\\n b\\\n c",
    "f() { :; }; function g { :; }; function h () ( : )",
    "! true; ! ! true; time; time -p ls; !",
    "time { ls; }; coproc X { ls; }; coproc ls",
    "if a; then b; elif c; then d; else e; fi > f 2>&1 < g",
    "select x in a b; do break; done",
    "echo `echo \\`echo a\\``",
    "a=(1 [5]=2 'x y' $(ls) # comment\n 3)",
    "a[1 + 2]=3 b+=(x)",
    "echo $\"hello $x\" $'it\\'s'",
    "ls |& cat; ls &> f; ls &>> f; ls >| f; ls 2>&-; ls <&3",
    "echo {a,b}{1..3} ~ ~root {a",
    "# only a comment",
    "",
    "  \n\n  ",
    "echo a # it's a \"comment\n",
    "case x in (a|b) ;; x) echo esac;; esac",
    "while read -r x; do :; done < <(ls) 3<<< y",
    "echo foo#bar '#' \\#",
    'echo $ $% "$" "$ x" $',
    "((i++)); ((a=1,b=2)) && echo x; for ((;;)) do break; done",
    "let 'x = 1'; declare -A m=([a b]=1 [\"c\"]=2)",
    "until false; do break; done & wait",
    'echo "a`echo "b"`c"',
    "echo ${x:-`echo }`} ${y:-$(echo })}",
    "ls;\\\nls",
]


def bash_accepts(text: str) -> bool:
    """Say whether bash reads a text; a complaint without a failing status counts, too."""
    done = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


@pytest.mark.parametrize(("text", "line", "column", "what"), BROKEN)
def test_what_is_never_closed_is_a_syntax_error_with_its_place(text: str, line: int, column: int, what: str) -> None:
    """Cases 4 and 5."""
    judgement = judge.judge(text)
    assert judgement.syntax_error is not None
    assert (judgement.syntax_error.line, judgement.syntax_error.column) == (line, column)
    assert judgement.syntax_error.message == f"the {what} opened on line {line} is never closed"
    assert judgement.syntax_error.stderr.startswith(f"syntax error: line {line}, column {column}: the ")
    assert not bash_accepts(text)


@pytest.mark.parametrize("text", ODD_BUT_FINE)
def test_odd_text_that_bash_reads_is_read_whole(text: str) -> None:
    assert bash_accepts(text)
    assert read_script(text)[1] is None


def test_nothing_of_the_corpora_is_called_broken() -> None:
    texts = [*INNOCENT, *(spelling.text for spelling in SPELLINGS)]
    assert [text for text in texts if read_script(text)[1] is not None] == []


def test_every_cut_of_a_command_that_bash_accepts_is_not_called_broken() -> None:
    texts = [text for text in [*INNOCENT[::9], *ODD_BUT_FINE] if len(text) < 60]
    cuts = {text[:length] for text in texts for length in range(1, len(text), 5)}
    broken = sorted(text for text in cuts if isinstance(read_script(text)[1], Unclosed))
    assert len(broken) > 20
    assert [text for text in broken if bash_accepts(text)] == []


def test_text_that_only_the_grammar_refuses_goes_to_bash_when_nothing_is_listed() -> None:
    assert judge.judge("echo a; fi").verdict == "not_checked"
    listed = shell_rules(OperatorPolicy(), deny=["nc"])
    assert Judge(listed, kernel=False).judge("echo a; fi").verdict == "undecidable"
    assert Judge(listed, kernel=True).judge("echo a; fi").verdict == "deferred"
