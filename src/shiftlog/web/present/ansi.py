"""Output of commands as HTML: colours become classes, for which the style sheet has shades; addresses become links."""

import re

from markupsafe import Markup, escape

from shiftlog.text.printable import page_text
from shiftlog.text.sequences import pieces_of

ADDRESS = re.compile(r"https?://[^\s<>\"'`⟨⟩\\^{}|]{1,2000}")


def terminal(text: object) -> Markup:
    """Return an output as HTML."""
    return Markup("").join(_span(piece, names) for piece, names in pieces_of(str(text or "")))


def linked(text: str) -> Markup:
    """Return a plain text as HTML, its web addresses as links."""
    parts: list[Markup] = []
    at = 0
    for found in ADDRESS.finditer(text):
        address = trimmed_address(found[0])
        parts.append(escape(text[at : found.start()]))
        parts.append(Markup('<a rel="noreferrer noopener" href="{}">{}</a>').format(address, address))
        at = found.start() + len(address)
    return Markup("").join([*parts, escape(text[at:])])


def trimmed_address(address: str) -> str:
    """Return an address without what ends the sentence around it."""
    while address and (address[-1] in ".,;:!?*_" or _closes_outside(address)):
        address = address[:-1]
    return address


def _closes_outside(address: str) -> bool:
    """Return True if an address ends with a bracket that was opened before it."""
    opening = {")": "(", "]": "["}.get(address[-1])
    return opening is not None and address.count(address[-1]) > address.count(opening)


def _span(text: str, names: tuple[str, ...]) -> Markup:
    inner = linked(page_text(text))
    classes = " ".join(f"t-{name}" for name in names)
    return Markup('<span class="{}">{}</span>').format(classes, inner) if names else inner
