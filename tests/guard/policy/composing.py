"""Composes spellings of a denied program: a way to write the word, inside ways to run a text, inside each other.

Unlike the table, which grows with every finding, this makes new ones from the same parts. Each part works in plain
bash, so most of what it composes does.
"""

import random
import shlex
from collections.abc import Callable

Wrap = Callable[[str], str]

# Ways to write the name of the program.
WORDS = (
    "mark",
    '"mark"',
    "'mark'",
    r"\mark",
    'm""ark',
    "ma'r'k",
    r"$'\x6d\x61\x72\x6b'",
    r"$'\155ark'",
    "@D@/mark",
    "@D@//./mark",
    "{mark,}",
    "m{ark,}",
    "mar[k]x 2>/dev/null || mark",
    "$(echo mark)",
    "`echo mark`",
    "${x:-mark}",
    "${x-ma}rk",
    "$(printf ma; printf rk)",
    "@D@/mar?",
    "@D@/[m]ark",
)


def _quoted(template: str) -> Wrap:
    return lambda text: template.replace("%", shlex.quote(text))


def _inline(template: str) -> Wrap:
    return lambda text: template.replace("%", text)


# Ways to run a text: some take it as it is, some as one quoted word.
CARRIERS: tuple[Wrap, ...] = (
    *map(
        _inline,
        (
            "% # and a comment",
            "true && %",
            "false || %",
            "true; %",
            "! %",
            "( % )",
            "{ %; }",
            "$( % )",
            'echo "$( % )"',
            "cat <( % )",
            "if true; then %; fi",
            "while %; do break; done",
            "for i in 1; do %; done",
            "case x in x) %;; esac",
            "f() { %; }; f",
            "function g { %; }; g",
            "time %",
            "% | cat",
            "true | %",
            "% & wait",
            "coproc { %; }; wait",
            "[[ -n $( % ) ]]",
            "echo $((1+$( %; echo 1 )))",
            "x=$( % )",
            "select i in 1; do %; done <<< 1",
            "cat <<E\n$( % )\nE",
            "trap '' INT; %",
            "A=1; %",
            "exec 3>&1; %",
        ),
    ),
    *map(
        _quoted,
        (
            "eval %",
            "bash -c %",
            "sh -c %",
            "bash -c 'eval \"$1\"' _ %",
            "bash <<< %",
            "echo % | bash",
            "echo % | bash -s a",
            'SHELL=bash; "$SHELL" -c %',
            'export y=%; sh -c "$y"',
            'find . -maxdepth 0 -exec bash -c % "$z" {} \\;',
            "env bash -c %",
            "nice bash -c %",
            "timeout 9 sh -c %",
            "command bash -c %",
            "exec bash -c %",
            "builtin eval %",
            "trap % EXIT",
            "trap % DEBUG; :",
            "bash -o pipefail -ec %",
            "find . -maxdepth 0 -exec sh -c % \\;",
            "echo | xargs -I{} bash -c %",
            "source /dev/stdin <<< %",
            ". <(echo %)",
            "setsid sh -c %",
            "nohup sh -c % 2>/dev/null",
            'env -i PATH="$PATH" sh -c %',
            "git -c alias.x='!'% x",
            "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=% /dev/null 2>/dev/null",
            "sed '1e '% <<< x",
            "script -qc % /dev/null",
            "flock lock -c %",
            "env -S 'bash -c' %",
            "xargs -0 bash -c <<< %",
            "echo % > s; bash s",
            "alias a=%; shopt -s expand_aliases; eval a",
            'declare -x y=%; bash -c "$y"',
            "y=%; ${y}",
            'mapfile -t y <<< %; eval "${y[@]}"',
            'read -r y <<< %; eval "$y"',
            "PROMPT_COMMAND=% bash -i <<< :",
            "BASH_ENV=<(echo %) bash -c :",
        ),
    ),
)


def compose(draw: random.Random) -> str:
    """Return one spelling of up to four layers."""
    text = draw.choice(WORDS)
    for _ in range(draw.randint(1, 4)):
        text = draw.choice(CARRIERS)(text)
    return text
