"""Source text with its syntax marked: Pygments tokens become a few classes, which the style sheet colours.

Recorded text may be made to slow a lexer down. So only common languages are read, long lines and long texts stay plain,
and one page spends at most `PAGE_S` on colours.
"""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

CODE_CHARS = 16_000
LINE_CHARS = 600
PAGE_S = 0.35

# Name of a lexer by the ending of a file and by what people write behind a fence.
LANGUAGES = {
    "py": "python", "pyi": "python", "python": "python", "python3": "python", "js": "javascript", "mjs":
    "javascript", "cjs": "javascript", "javascript": "javascript", "jsx": "jsx", "ts": "typescript", "tsx": "tsx",
    "typescript": "typescript", "json": "json", "jsonc": "json", "jsonl": "json", "sh": "bash", "bash": "bash",
    "zsh": "bash", "shell": "bash", "console": "bash", "html": "html", "htm": "html", "css": "css", "scss": "scss",
    "c": "c", "h": "c", "cpp": "cpp", "cc": "cpp", "hpp": "cpp", "cxx": "cpp", "c++": "cpp", "cs": "csharp",
    "csharp": "csharp", "go": "go", "rs": "rust", "rust": "rust", "java": "java", "kt": "kotlin", "kotlin":
    "kotlin", "swift": "swift", "rb": "ruby", "ruby": "ruby", "php": "php", "lua": "lua", "sql": "sql", "yaml":
    "yaml", "yml": "yaml", "toml": "toml", "ini": "ini", "cfg": "ini", "xml": "xml", "svg": "xml", "dockerfile":
    "docker", "docker": "docker", "makefile": "make", "mk": "make", "make": "make", "diff": "diff", "patch": "diff",
}  # fmt: skip
# The first part of a token's type that has a class decides.
_CLASSES = (
    ("Token.Comment", "c"),
    ("Token.Keyword", "k"),
    ("Token.Operator.Word", "k"),
    ("Token.Name.Tag", "k"),
    ("Token.Literal.String", "s"),
    ("Token.Literal.Number", "n"),
    ("Token.Name.Function", "f"),
    ("Token.Name.Class", "f"),
    ("Token.Name.Decorator", "f"),
    ("Token.Name.Builtin", "b"),
    ("Token.Name.Attribute", "b"),
    ("Token.Name.Variable", "b"),
)
# A piece of a line: its class, or an empty one, and its text.
Piece = tuple[str, str]
_deadline: ContextVar[float | None] = ContextVar("colour_deadline", default=None)


@contextmanager
def colour_budget(seconds: float = PAGE_S) -> Generator[None]:
    """Bound the processor time that the page rendered inside spends on colours; what comes later stays plain."""
    token = _deadline.set(time.thread_time() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def language_of(name: str | None) -> str | None:
    """Return the lexer's name for a language or a path; None if it is not a common one."""
    if not name:
        return None
    word = PurePosixPath(name).name.casefold()
    return LANGUAGES.get(word) or LANGUAGES.get(word.rpartition(".")[2])


def coloured_lines(text: str, language: str | None) -> list[list[Piece]]:
    """Return each line of a text as pieces; all plain where colours cost too much or mean nothing."""
    lines = text.split("\n")
    plain: list[list[Piece]] = [[("", line)] for line in lines]
    until = _deadline.get()
    too_much = len(text) > CODE_CHARS or any(len(line) > LINE_CHARS for line in lines)
    if language is None or too_much or (until is not None and time.thread_time() > until):
        return plain
    found: list[list[Piece]] = [[]]
    for kind, value in _lexer(language).get_tokens(text):
        if until is not None and time.thread_time() > until:
            return plain
        name = _class_of(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                found.append([])
            if part:
                found[-1].append((name, part))
    del found[len(lines) :]  # lexers end every text with a line end
    same = ["".join(part for _, part in pieces) for pieces in found] == lines
    return found if same else plain


def code(text: object, name: str | None = None) -> Markup:
    """Return a text as HTML with its syntax marked; `name` is a language or a path."""
    shown = page_text(text if isinstance(text, str) else str(text or ""))
    return Markup("\n").join(spans(line) for line in coloured_lines(shown, language_of(name)))


def spans(pieces: Iterable[Piece]) -> Markup:
    """Return pieces as HTML."""
    return Markup("").join(
        Markup('<span class="h-{}">{}</span>').format(name, text) if name else escape(text) for name, text in pieces
    )


@lru_cache(maxsize=64)
def _lexer(language: str) -> "Lexer":
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=512)
def _class_of(kind: Any) -> str:
    said = str(kind)
    return next((name for beginning, name in _CLASSES if said.startswith(beginning)), "")
