"""Resolves words to arguments as bash would: quotes, escapes, braces and the tilde.

A word with a parameter, substitution or glob stays dynamic. Its known parts (literal beginning, parameter name,
pattern) are kept for the rules that can use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from posixpath import basename, normpath

from shiftlog.guard.bash.tree import BashWord, Dyn, Lit, Part

HOLE = "\ue000"  # replaces each unknown part of a text
MAX_BRACES = 256
MAX_BRACED_CHARS = 2000
MAX_HOLES = 4
SPECIAL = re.compile(rf"[{{~*?\[\\{HOLE}]")
GLOB = re.compile(r"[*?\[]")
GLOB_SIGN = re.compile(r"[*?\[\]\\]")
SUBSCRIPT = re.compile(r"\w\[")
SEQUENCE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")

Atom = tuple[str, bool] | Dyn


@dataclass(slots=True)
class Arg:
    """One argument: `value` if it is literal, otherwise `text` with a `HOLE` for each unknown part."""

    value: str | None
    text: str
    at: int
    word: BashWord | None = None
    splits: bool = False
    glob: bool = False
    tilde: bool = False
    parameter: str = ""
    quoted: bool = False

    @property
    def prefix(self) -> str:
        """The literal beginning, which does not depend on the unknown parts."""
        return self.text.split(HOLE, 1)[0]


def literal(value: str, at: int) -> Arg:
    """Make a literal argument."""
    return Arg(value, value, at)


def with_holes(text: str, at: int, word: BashWord | None = None) -> Arg:
    """Make an argument of a text, which is literal unless it has a hole."""
    return Arg(None if HOLE in text else text, text, at, word)


def unknown(at: int) -> Arg:
    """Make a completely unknown argument."""
    return Arg(None, HOLE, at, splits=True)


def resolve_word(word: BashWord) -> list[Arg]:
    """Return the arguments that a word expands to; braces can make several."""
    bare = word.bare
    if bare is not None and not SPECIAL.search(bare):
        return [Arg(bare, bare, word.start, word)]
    parts = word.parts
    if any(isinstance(part, Lit) and not part.quoted and "{" in part.text for part in parts):
        if word.end - word.start > MAX_BRACED_CHARS:
            return [Arg(None, HOLE, word.start, word, splits=True)]
        return [_resolve_atoms(atoms, word) for atoms in _expand_braces(_atoms(parts))]
    return [_resolve_atoms([(part.text, part.quoted) if isinstance(part, Lit) else part for part in parts], word)]


def resolve_words(words: list[BashWord]) -> list[Arg]:
    """Return the arguments of several words; an empty result of braces counts only if it was quoted."""
    arguments: list[Arg] = []
    for word in words:
        resolved = resolve_word(word)
        arguments.extend(resolved if len(resolved) == 1 else (arg for arg in resolved if arg.text or arg.quoted))
    return arguments


def text_of(parts: list[Part]) -> tuple[str, bool]:
    """Return the text of parts as one string, and True if all of it is literal."""
    known = True
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, Lit):
            pieces.append(part.text)
        else:
            known = False
            pieces.append(HOLE)
    return "".join(pieces), known


def show(arg: Arg) -> str:
    """Return an argument for display, with unknown parts as they were written."""
    if arg.word is None or arg.value is not None or arg.text.count(HOLE) < 1:
        return arg.text.replace(HOLE, "…")
    return "".join(_show_part(part) for part in arg.word.parts)


def _show_part(part: Part) -> str:
    if isinstance(part, Lit):
        return part.text.replace(HOLE, "…")
    shown = {"command": "$(…)", "arith": "$((…))", "process": f"{part.name}(…)", "param": f"${part.name}"}
    return shown.get(part.kind, part.name or "…")


def is_process(arg: Arg) -> bool:
    """Return True if an argument is the file of a process substitution."""
    return arg.word is not None and any(isinstance(part, Dyn) and part.kind == "process" for part in arg.word.parts)


def holds_subscript_code(text: str) -> bool:
    """Return True if a text has a substitution in the subscript of a name: arithmetic would run it."""
    for part in text.split("]") if "[" in text else ():
        opened = SUBSCRIPT.search(part)
        if opened and ("$(" in part[opened.end() :] or "`" in part[opened.end() :]):
            return True
    return False


def is_stdin(arg: Arg) -> bool:
    """Return True if an argument is a path of the standard input, such as `/dev/stdin`."""
    path = normpath(arg.value or "")
    return basename(path) == "stdin" or path == "/dev/fd/0" or (path.startswith("/proc/") and path.endswith("/fd/0"))


def may_become(arg: Arg, word: str) -> bool:
    """Return True if a dynamic argument can expand to this word."""
    if arg.glob and HOLE not in arg.text:  # each name that it finds begins and ends like the pattern
        pieces = GLOB_SIGN.split(arg.text.casefold())
        return word.casefold().startswith(pieces[0]) and word.casefold().endswith(pieces[-1])
    if arg.splits or arg.text.count(HOLE) > MAX_HOLES:
        return True
    pattern = ".*".join(re.escape(piece) for piece in arg.text.split(HOLE))
    return re.fullmatch(pattern, word, re.S) is not None


def _atoms(parts: list[Part]) -> list[Atom]:
    atoms: list[Atom] = []
    for part in parts:
        if isinstance(part, Dyn):
            atoms.append(part)
        elif part.quoted:
            atoms.append((part.text, True))
        else:
            atoms.extend((character, False) for character in part.text)
    return atoms


def _resolve_atoms(atoms: list[Atom], word: BashWord) -> Arg:
    pieces: list[str] = []
    dynamic = splits = glob = False
    parameter = ""
    for atom in atoms:
        if isinstance(atom, Dyn):
            dynamic = True
            pieces.append(HOLE)
            if atom.kind not in ("process", "arith"):
                splits = splits or not atom.quoted or (atom.kind == "param" and atom.name in ("@", "*", ""))
            glob = glob or atom.kind == "glob"
            parameter = atom.name if atom.kind == "param" else ""
        else:
            text, quoted = atom
            pieces.append(text)
            if HOLE in text:
                dynamic = True
                splits = splits or not quoted
            glob = glob or (not quoted and GLOB.search(text) is not None)
    text = "".join(pieces)
    first = atoms[0] if atoms else None
    tilde = isinstance(first, tuple) and not first[1] and first[0].startswith("~")
    if text == "[" or (text == "[[" and not dynamic):
        glob = False
    if glob and not dynamic and not ("*" in text or "?" in text or text.rfind("]") > text.find("[") >= 0):
        glob = False
    value = None if dynamic or glob else text
    whole = (
        parameter if len([atom for atom in atoms if atom not in (("", True), ("/", False), ("/", True))]) == 1 else ""
    )
    quoted = any(isinstance(atom, tuple) and atom[1] for atom in atoms)
    return Arg(value, text, word.start, word, splits or glob, glob, tilde, whole, quoted)


def _expand_braces(atoms: list[Atom]) -> list[list[Atom]]:
    """Expand brace expressions from left to right; literal braces stay."""
    results: list[list[Atom]] = []
    waiting: list[tuple[list[Atom], int]] = [(atoms, 0)]
    while waiting:
        current, start = waiting.pop()
        found = _find_braces(current, start)
        if found is None:
            results.append(current)
        else:
            opened, closed, choices = found
            before, after = current[:opened], current[closed + 1 :]
            waiting.extend(([*before, *choice, *after], opened) for choice in reversed(choices))
        if len(results) + len(waiting) > MAX_BRACES:
            return [[Dyn("param", "", False, [])]]
    return results


def _find_braces(atoms: list[Atom], start: int) -> tuple[int, int, list[list[Atom]]] | None:
    for opened in range(start, len(atoms)):
        if atoms[opened] != ("{", False):
            continue
        level = 0
        commas: list[int] = []
        for index in range(opened, len(atoms)):
            atom = atoms[index]
            if atom == ("{", False):
                level += 1
            elif atom == ("}", False):
                level -= 1
                if not level:
                    choices = _choices(atoms, opened, index, commas)
                    if choices is not None:
                        return opened, index, choices
                    break
            elif atom == (",", False) and level == 1:
                commas.append(index)
    return None


def _choices(atoms: list[Atom], opened: int, closed: int, commas: list[int]) -> list[list[Atom]] | None:
    if commas:
        edges = [opened, *commas, closed]
        return [atoms[left + 1 : right] for left, right in pairwise(edges)]
    inside = atoms[opened + 1 : closed]
    if any(isinstance(atom, Dyn) or atom[1] for atom in inside):
        return None
    found = SEQUENCE.fullmatch("".join(atom[0] for atom in inside if not isinstance(atom, Dyn)))
    if found is None:
        return None
    if found.group(1) is not None:
        values = _steps(int(found.group(1)), int(found.group(2)), found.group(3))
        return None if values is None else [[(str(value), False)] for value in values]
    values = _steps(ord(found.group(4)), ord(found.group(5)), found.group(6))
    return None if values is None else [[(chr(value), False)] for value in values]


def _steps(first: int, last: int, step: str | None) -> list[int] | None:
    width = abs(int(step or 1)) or 1
    if abs(last - first) // width > MAX_BRACES:
        return None
    return list(range(first, last + 1, width) if first <= last else range(first, last - 1, -width))
