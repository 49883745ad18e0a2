"""Text from outside made safe to print: hidden and control characters become visible marks, spaces or nothing.

Each function serves one kind of reader: a terminal, the page, a line of a list, an error message. Escape sequences in
a command's output belong to `shell/outputs` and `sequences`; file names belong to `workspace/names`.
"""

import re

EXCERPT_CHARS = 200

SURROGATES = re.compile(r"[\ud800-\udfff]")
# Characters that break a line or control a device.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

# All controls but tab and line feed, direction marks, line separators, zero-width and tag characters, lone surrogates.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
# Joiners stay: emoji and some scripts are written with them.
OBEYED = re.compile(f"[{_HIDDEN}]")
# On the page joiners stay only between characters beyond ASCII.
_UNSEEN = re.compile(f"[{_HIDDEN}\xad\u206a-\u206f]|[\u200c\u200d](?![^\x00-\x7f])|(?<![^\x00-\x7f])[\u200c\u200d]")
_SPACED = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
_INVISIBLE = (0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_TAGS = range(0xE0000, 0xE0080)
_DROPPED = {**_SPACED, **dict.fromkeys((0xAD, *_INVISIBLE, 0x200C, 0x200D, *_TAGS), None)}
_BLANKED = {**_SPACED, **dict.fromkeys((*_INVISIBLE, *_TAGS), " ")}


def terminal_text(text: str) -> str:
    """Return a text of any number of lines in which a terminal finds nothing to obey: `␛` for an escape."""
    return OBEYED.sub(_marked, text.replace("\r\n", "\n")).expandtabs(8)


def terminal_line(value: object) -> str:
    """Return a value as one line for a terminal."""
    return terminal_text(" ".join(str(value).split()))


def page_text(text: str) -> str:
    """Return a text for the page with every hidden character as a mark: `␛`, or `⟨U+202E⟩` for a turned line."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(_bracketed, text.replace("\r\n", "\n"))


def one_line(text: str, max_chars: int) -> str:
    """Return a text on one line, without hidden characters, cut with an ellipsis."""
    return cut_line(" ".join(text[: max_chars * 8].translate(_DROPPED).split()), max_chars)


def cut_line(line: str, max_chars: int) -> str:
    """Return a line of at most `max_chars`, cut with an ellipsis after a whole word if that keeps half of the room."""
    if len(line) <= max_chars:
        return line
    kept = line[: max_chars - 1]
    return whole_words(kept, follows=line[max_chars - 1]) + "…"


def whole_words(kept: str, *, follows: str) -> str:
    """Return the beginning of a line without its last word if that is cut; a word of more than half of it stays."""
    words = kept if follows.isspace() else kept.rpartition(" ")[0]
    return (words if 2 * len(words) >= len(kept) else kept).rstrip()


def blanked(text: str) -> str:
    """Return a text on one line with a space for each hidden character; joiners stay."""
    return " ".join(text.translate(_BLANKED).split())


def excerpt(text: object) -> str:
    """Return the part of an outside value that an error may repeat: valid Unicode, at most EXCERPT_CHARS long."""
    return str(text).encode("utf-8", "replace").decode("utf-8")[:EXCERPT_CHARS]


def _marked(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def _bracketed(found: re.Match[str]) -> str:
    return _marked(found).replace("<", "⟨").replace(">", "⟩")
