"""Replaces encoded data in a text (images, archives, certificates) by a short line that identifies it.

This saves space and hides no secrets. Private keys are left to the redactor, which runs first.
"""

import base64
import binascii
import hashlib
import re

from shiftlog.guard.linear import compile_linear

MIN_RUN_CHARS = 256

MARKS = r"data:[\w.+/-]+;base64,|-----BEGIN "
_RUNS = compile_linear(rf"[A-Za-z0-9+/_-]{{{MIN_RUN_CHARS}}}|{MARKS}")
_STEP = 7  # not a common line width
_RUN_CHARS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_IN_RUN = bytes(ord("x") if byte in _RUN_CHARS else ord(" ") for byte in range(256))
_SAMPLED_RUN = b"x" * (MIN_RUN_CHARS // _STEP)
_BLOB = re.compile(
    r"data:(?P<media>[\w.+/-]{1,80});base64,(?P<data>[A-Za-z0-9+/]{4,}={0,2})"
    r"|-----BEGIN (?P<label>(?:[A-Z0-9]{1,12} ){0,4}[A-Z0-9]{1,12})-----(?P<pem>(?:\s+[A-Za-z0-9+/]{1,128}={0,2})+)\s+"
    r"-----END (?P=label)-----"
    rf"|(?<![A-Za-z0-9+/_-])(?P<run>[A-Za-z0-9+/]{{{MIN_RUN_CHARS},}}={{0,2}}|[A-Za-z0-9_-]{{{MIN_RUN_CHARS},}}={{0,2}})"
    r"(?![A-Za-z0-9+/_=-])",
    re.ASCII,
)
_HEX = re.compile(r"[0-9a-fA-F]+")


def may_hold_run(data: bytes) -> bool:
    """Return True if UTF-8 data may hold a run as long as a blob; sampling every seventh byte suffices."""
    return len(data) >= MIN_RUN_CHARS and _SAMPLED_RUN in data[::_STEP].translate(_IN_RUN)


def may_hold_blob(text: str) -> bool:
    """Return True if a text may hold a blob; data URLs and certificates may also be short."""
    return len(text) >= MIN_RUN_CHARS or "data:" in text or "-----BEGIN " in text


def fold_blobs(text: str) -> tuple[str, int]:
    """Replace each blob by `[BLOB:<media or base64>:<bytes>:<first 12 of sha256>]` of its decoded bytes.

    Return the text and the number of blobs.
    """
    if _RUNS.search(text.encode("utf-8", "surrogatepass")) is None:
        return text, 0
    count = 0

    def fold(match: re.Match[str]) -> str:
        nonlocal count
        encoded = match["data"] or match["run"] or "".join(match["pem"].split())
        data = _decode(encoded)
        run = match["run"]
        # A long run of few letters, digits or hex is a drawn line, a number or a digest.
        plain = run is not None and (_HEX.fullmatch(run) is not None or len(set(run)) < 16)
        if data is None or "PRIVATE" in (match["label"] or "") or plain:
            return match[0]
        count += 1
        return f"[BLOB:{match['media'] or 'base64'}:{len(data)}:{hashlib.sha256(data).hexdigest()[:12]}]"

    folded = _BLOB.sub(fold, text)
    return folded, count


def _decode(encoded: str) -> bytes | None:
    plain = encoded.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None
