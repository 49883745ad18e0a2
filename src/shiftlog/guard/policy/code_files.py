"""The files that a command runs as code, as far as its text names them: scripts, makefiles, programs by a path.

Only needed where nothing but text is checked. `code_content` judges what is in them; reading them is the shell's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from posixpath import join, normpath
from typing import Literal

from shiftlog.guard.policy.doubts.open_arguments import subcommand
from shiftlog.guard.policy.filters import awk_runs, filter_files, sed_runs
from shiftlog.guard.policy.found import Start
from shiftlog.guard.policy.tables import (
    BUILDERS,
    FILTERS,
    INTERPRETERS,
    MAKES,
    READS_CODE,
    RUNNERS,
    SEDS,
    SUBCOMMANDS,
)
from shiftlog.guard.policy.tools import option_values

Language = Literal["shell", "code", "make", "npm", "any"]

MAX_FILES = 24
SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?s?bin/[^/]+")
CODE_RUNNERS = re.compile(
    READS_CODE.pattern
    + r"|(?:Rscript|julia|groovy|deno|bun|elixir|octave|wish|ocaml|ansible-playbook|pytest|py\.test)[0-9.]*"
)
CONNECTORS = frozenset(("nc", "ncat", "socat"))  # they start only what an option names
INLINE = {"perl": "eE", "python": "c", "ruby": "e", "node": "ep", "php": "r", "lua": "e"}
# Options with a value in the next word; of some the value is code.
VALUED: dict[str, frozenset[str]] = {
    "python": frozenset(("-W", "-X", "--check-hash-based-pycs")),
    "perl": frozenset(("-I",)),
    "ruby": frozenset(("-I", "-C", "-E", "-r")),
    "node": frozenset(("-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions")),
    "php": frozenset(("-d", "-c", "-z")),
    "lua": frozenset(("-l",)),
    "gdb": frozenset(("-x",)),
}
LOADED = frozenset(("-r", "--require", "--import", "--loader", "--experimental-loader", "-l", "-x"))
COMPILERS = re.compile(r"(?:.*-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-[0-9.]+)?")
COMPILER_PLUGINS = ("-B", "-specs", "--specs", "-fplugin", "-fpass-plugin", "-wrapper", "-Xclang", "-ld-path", "@")
# Subcommands of git beside those in the tables; all others may be aliases or programs of their own.
GIT_OTHERS = frozenset(
    "bisect bugreport bundle checkout-index column commit-graph credential diagnose diff-files difftool fast-export "
    "fast-import fetch-pack filter-branch fmt-merge-msg help index-pack interpret-trailers mailinfo mailsplit "
    "maintenance merge-file merge-index merge-tree mergetool mktag mktree pack-objects pack-redundant pack-refs "
    "patch-id prune prune-packed rebase receive-pack repack replace request-pull rerere send-email send-pack shell "
    "show-branch show-index stage stripspace submodule unpack-file unpack-objects upload-archive upload-pack var "
    "verify-pack verify-tag version whatchanged".split()
)
ENDINGS = ("rb", "js", "lua")
OWN_FILES: dict[str, tuple[str, ...]] = {
    "just": ("justfile", ".justfile", "Justfile"),
    "rake": ("Rakefile", "rakefile"),
    "ninja": ("build.ninja",),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
}
NPM_FOLDERS = ("--prefix", "--dir", "--cwd", "-C")
NPMS = frozenset(("npm", "yarn", "pnpm"))
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
GIT_HOOKS: dict[str, tuple[str, ...]] = {
    "commit": ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    "merge": ("pre-merge-commit", "post-merge"),
    "pull": ("pre-merge-commit", "post-merge", "post-rewrite"),
    "push": ("pre-push",),
    "checkout": ("post-checkout",),
    "switch": ("post-checkout",),
    "rebase": ("pre-rebase", "post-checkout", "post-rewrite"),
    "am": ("applypatch-msg", "pre-applypatch", "post-applypatch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """A file that a program runs; `paths` are tried in order, `goals` are what `make` or `npm` is asked for."""

    name: str
    paths: tuple[str, ...]
    runner: str
    language: Language
    at: int
    via: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    expected: bool = True
    """True if the program does not work without it; a git hook need not be there."""


def code_files(starts: Iterable[Start], cwd: str) -> tuple[CodeFile, ...]:
    """Return the files that these starts run as code, in text order; a `cd` before one of them counts."""
    found: list[CodeFile] = []
    here = cwd
    for start in sorted(starts, key=lambda one: one.at):
        if start.name in ("cd", "pushd") and start.args and start.args[-1].value:
            here = normpath(join(here, start.args[-1].value))
        found += _files_of(start, tuple(dict.fromkeys((here, cwd))))
    return tuple(found[:MAX_FILES])


def runs_code(start: Start) -> bool:
    """Return True if a program runs code that no reading of its files decides."""
    base = start.name.rsplit("/", 1)[-1]
    if start.kind != "program" or base in CONNECTORS:
        return start.unjudged
    if start.unjudged:
        return True
    if base in FILTERS:
        return sed_runs(start.args) if base in SEDS else awk_runs(start.args)
    if base == "git":
        return _may_be_alias(start)
    if COMPILERS.fullmatch(base):
        return any(arg.text.startswith(COMPILER_PLUGINS) for arg in start.args)
    return base in RUNNERS or base in BUILDERS or any(each.fullmatch(base) for each in (CODE_RUNNERS, INTERPRETERS))


def _may_be_alias(start: Start) -> bool:
    """Return True if `git` reads settings that the command names, or its subcommand is none of git's own."""
    if any(arg.text.lower().startswith(("include.", "includeif.")) for arg in start.args):
        return True
    said = subcommand(start)
    return said is not None and said not in SUBCOMMANDS["git"] | GIT_OTHERS


def _files_of(start: Start, places: tuple[str, ...]) -> Iterator[CodeFile]:
    base = start.name.rsplit("/", 1)[-1]
    if start.kind == "script":
        yield _file(start, places, (start.name,), "shell")
    elif start.kind != "program":
        return
    elif "/" in start.name and not SYSTEM.fullmatch(start.name):
        yield _file(start, places, (start.name,), "any")
    elif base in MAKES:
        yield _makefile(start, places)
    elif base in NPMS:
        folders = [value.value for value in option_values(start.args, NPM_FOLDERS) if value.value]
        given = tuple(arg.value for arg in start.args if arg.value and not arg.value.startswith("-"))
        yield replace(_file(start, _inside(places, folders), ("package.json",), "npm"), goals=given)
    elif base in OWN_FILES:
        yield _file(start, places, OWN_FILES[base], "code")
    elif base in ("at", "batch"):
        values = [value.value for value in option_values(start.args, ("-f",))]
        yield from (_file(start, places, (value,), "shell") for value in values if value is not None)
    elif base in FILTERS:
        yield from (_file(start, places, (name,), "code") for name in filter_files(base, start.args))
    elif start.code is not None and start.code.value is not None:
        yield _file(start, places, (start.code.value,), "code")
    elif CODE_RUNNERS.fullmatch(base):
        yield from _interpreted(start, base, places)
    elif base == "git":
        yield from _hooks(start, places)


def _interpreted(start: Start, base: str, places: tuple[str, ...]) -> Iterator[CodeFile]:
    """Yield the program file of an interpreter: its first operand, or the module after `-m`."""
    family = next((name for name in INLINE if base.startswith(name)), "")
    words = iter([arg.value for arg in start.args])
    for word in words:
        if word is None:
            return
        if word == "-m" and family == "python":
            module = (next(words, None) or "").replace(".", "/")
            for names in ((f"{module}.py", f"{module}/__main__.py"), (f"{module}/__init__.py",)):
                yield _file(start, places, names, "code", expected=False)
            return
        if word in VALUED.get(family or base, ()):
            value = next(words, None)
            if value and word in LOADED:
                yield _file(start, places, (value, *(f"{value}.{end}" for end in ENDINGS)), "code", expected=False)
        elif not word.startswith("-"):
            if word != "run":
                yield _file(start, places, (f"{word}/__main__.py", word), "code")
                return
        elif family and not word.startswith("--") and set(word[1:]) & set(INLINE[family]):
            return  # the code itself is an argument, and was judged with the text


def _makefile(start: Start, places: tuple[str, ...]) -> CodeFile:
    folders = [value.value for value in option_values(start.args, ("-C", "--directory")) if value.value]
    named = [value.value for value in option_values(start.args, ("-f", "--file", "--makefile")) if value.value]
    given = [arg.value for arg in start.args if arg.value and not arg.value.startswith("-") and "=" not in arg.value]
    file = _file(start, _inside(places, folders), tuple(named[:1]) or MAKEFILES, "make")
    return replace(
        file,
        name=named[0] if named else MAKEFILES[-1],
        goals=tuple(goal for goal in given if goal not in (*folders, *named)),
    )


def _hooks(start: Start, places: tuple[str, ...]) -> Iterator[CodeFile]:
    words = [arg.value or "" for arg in start.args]
    subcommand = next((word for word in words if word in GIT_HOOKS), None)
    folders = [word.partition("=")[2] for word in words if word.lower().startswith("core.hookspath=")]
    elsewhere = [following for word, following in pairwise(words) if word == "-C" and following]
    for hook in GIT_HOOKS[subcommand] if subcommand else ():
        path = f"{(folders or ['.git/hooks'])[-1]}/{hook}"
        yield _file(start, _inside(places, elsewhere), (path,), "any", expected=False)


def _inside(places: tuple[str, ...], folders: list[str]) -> tuple[str, ...]:
    return tuple(normpath(join(place, *folders)) for place in places)


def _file(
    start: Start, places: tuple[str, ...], names: tuple[str, ...], language: Language, *, expected: bool = True
) -> CodeFile:
    found = (name if name.startswith("~/") else normpath(join(place, name)) for name in names for place in places)
    runner = start.name.rsplit("/", 1)[-1] if start.kind == "program" else ("source", *start.via)[-1]
    return CodeFile(
        name=names[0],
        paths=tuple(dict.fromkeys(found)),
        runner=runner,
        language=language,
        at=start.at,
        via=start.via,
        expected=expected,
    )
