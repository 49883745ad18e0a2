"""File names are bytes: shows them as UTF-8 text with `\\xNN` for other bytes, and reads them back."""

import re
from collections.abc import Iterable

_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|\\\\(?=x[0-9a-fA-F]{2})")


def shown(name: bytes) -> str:
    """Return a name as text that `read` turns back into the same bytes."""
    return _ODD.sub(_escaped, name.decode("utf-8", "surrogateescape"))


def read(text: str) -> bytes:
    """Return the bytes of a name written by `shown`; plain text is unchanged."""
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogateescape"))


def within(name: bytes, roots: tuple[bytes, ...]) -> bool:
    """Return True if a name is one of `roots` or lies below one; no roots means everything."""
    return not roots or any(name == root or name.startswith(root + b"/") for root in roots)


def meet(first: tuple[bytes, ...], second: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """Return the sub-paths that lie in both; an empty tuple means everything, None means nothing."""
    if not first or not second:
        return first or second
    both = [one for one in first if within(one, second)] + [one for one in second if within(one, first)]
    return tuple(dict.fromkeys(both)) or None


def parents(name: bytes) -> list[bytes]:
    """Return the directories above a name, outermost first."""
    parts = name.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def folders(paths: Iterable[bytes]) -> set[bytes]:
    """Return the directories above many files."""
    found = {path.rpartition(b"/")[0] for path in paths} - {b""}
    return found.union(*map(parents, found))


def split(output: bytes) -> list[bytes]:
    """Return the names of NUL-terminated output."""
    return output.split(b"\0")[:-1]


def joined(found: list[bytes]) -> bytes:
    """Return names as NUL-terminated input."""
    return b"\0".join([*found, b""])


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode("utf-8", "surrogateescape"))
