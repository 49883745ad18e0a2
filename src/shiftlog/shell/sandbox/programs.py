"""Finds the files of the programs named in rules: those denied, those that may run, those to recognise.

Reads the directories of the search path; the judge decides about each start.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shiftlog.guard.policy.files import SHEBANG_BYTES, interpreter_of
from shiftlog.link.files import open_regular
from shiftlog.shell.sandbox.identity import MULTI_CALL, find_loaders

_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOXES = ("busybox", "toybox", "coreutils")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRules:
    """The lists of a shell, as entries; `allow` None means no list. `search_path` is its initial PATH.

    Entries of several words are argument rules: their program is recognised, its file stays usable.
    """

    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    ask: tuple[str, ...] = ()
    search_path: str = _USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFiles:
    """The files that rules name, as real paths."""

    denied: tuple[str, ...]
    executable: tuple[str, ...] | None
    interpreters: tuple[str, ...]
    named: tuple[str, ...]


def find_files(rules: ExecRules, shell: str) -> RuleFiles:
    """Find the files of every program in the rules; `shell` itself can always start."""
    denied: set[str] = set()
    named: set[str] = set()
    for entry in (*rules.deny, *rules.ask):
        words = entry.split()
        if not words:
            continue
        files = set(_files(words[0], rules.search_path))
        named |= files
        if len(words) == 1 and entry in rules.deny:
            denied |= {path for path in files if Path(path).name not in MULTI_CALL}
    named |= {path for box in _BOXES for path in _files(box, rules.search_path)}
    denied.discard(shell)
    if rules.allow is None:
        return RuleFiles(denied=_sorted(denied), executable=None, interpreters=(), named=_sorted(named))
    listed = {path for entry in rules.allow for path in _files(entry, rules.search_path)} - denied
    interpreters = {path for script in listed for path in _interpreters(script, rules.search_path)} - denied
    executable = listed | interpreters | {shell, *find_loaders()}
    return RuleFiles(
        denied=_sorted(denied),
        executable=_sorted(executable),
        interpreters=_sorted(interpreters),
        named=_sorted(named),
    )


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths))


def _files(name: str, search_path: str) -> Iterator[str]:
    """Yield the real path of every file that a name or path means on the search path and in usual directories."""
    if "/" in name:
        candidates = [os.path.expanduser(name)]
    else:
        # The server's own PATH counts too, because the caller may choose another PATH for the shell.
        places = dict.fromkeys(":".join((search_path, os.environ.get("PATH", ""), _USUAL)).split(":"))
        candidates = [f"{place}/{name}" for place in places if place.startswith("/")]
    for candidate in candidates:
        if os.path.isfile(candidate):  # unlike pathlib's, false for a directory that may not be searched
            yield os.path.realpath(candidate)


def _interpreters(script: str, search_path: str, depth: int = 4) -> Iterator[str]:
    """Yield the interpreters of a script, including those that `env` would find."""
    try:
        with os.fdopen(open_regular(script), "rb") as file:
            words = interpreter_of(file.read(SHEBANG_BYTES))
    except OSError:
        return
    if not words or not depth:
        return
    names = [words[0]]
    if Path(words[0]).name == "env" and len(words) > 1:
        names += [word for word in words[1].split() if not word.startswith("-") and "=" not in word][:1]
    for name in names:
        for path in _files(name, search_path):
            yield path
            yield from _interpreters(path, search_path, depth - 1)
