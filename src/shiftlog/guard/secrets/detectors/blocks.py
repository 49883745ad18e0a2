"""Recognises the lines of secrets that span several lines: private keys, environment dumps, marker files.

Each function looks at a single line; `scan` follows them from line to line.
"""

import re

from shiftlog.guard.secrets.detectors.values import is_random, is_reference, is_worded

ENV_RUN_LINES = 4
BLOCK_LINE_CHARS = 4096  # a longer line belongs neither to a key nor to a dump
CONTEXT_CHARS = 256
FULL_BODY_CHARS = 40

KEY_BEGIN = re.compile(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d: [\w-]{1,40}"
)
KEY_END = re.compile(r"-{4,5} ?END (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-MAC: ?[0-9a-f]{0,64}")
BLOCK_PATTERN = (
    r"----[- ]BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File-"
    r"|(?m:^)(?:(?:export |declare -x |set )?[A-Za-z_]\w*=|[ \t-]*(?:export )?[A-Z_][A-Z0-9_]*(?:=|: ))"
    r"[\"']?[^\s\"']{6}"
    r"|(?m:^)[ \t>+|]*[A-Za-z0-9+/]{60,80}\s*(?m:$)"
    r"|(?m:^)\s*value:\s*[\"']?[0-9a-fA-F]{6}"
)
# Line numbers, diff signs, comment signs and quotes that tools put before the lines of a file.
_BODY = re.compile(
    r"[\s\d>|+#/*:\"'\xe2\x86\x92\x82-]{0,24}(?P<base64>[A-Za-z0-9+/]{1,}={0,3}|=[A-Za-z0-9+/]{4})(?:\\[nr])*[\s\"'+,;.\\)]{0,12}$"
)
_KEY_HEADER = re.compile(
    r"[\s\d>|+#/*:\"'-]{0,24}(?:Proc-Type|DEK-Info|Comment|Version|Encryption|Public-Lines|Private-Lines|Subject|Hash)\s?:"
)
_BARE_BODY = re.compile(r"[ \t>+|]{0,12}[A-Za-z0-9+/]{60,80}\s*$")
_SECTION = re.compile(r"\s*\[{1,2}[\w .:\"'/-]{1,64}\]{1,2}\s*$")
_BLANK = re.compile(r"[\s>|+#/*\"'\\nr-]{0,24}$")
_INLINE_BODY = re.compile(r"(?>(?:\\{1,4}[nr]|[A-Za-z0-9+/=:,. \t-]|\"\s?\+\s?\"|[\"'] [\"'])*)")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/]{16,}")
_SHORT_INLINE_BODY = re.compile(r"(?:\\{1,4}[nr])+(?:[A-Za-z0-9+/=]{4,}(?:\\{1,4}[nr])+)+")

# Indented or before a colon, only capitals are a variable; anything else is code.
_ENV_NAME = r"(?:export |declare -x |set )?[A-Za-z_]\w{0,100}=|[ \t-]{0,16}(?:export )?[A-Z_][A-Z0-9_]{0,100}(?:=|: )"
_ENV_LINE = re.compile(_ENV_NAME, re.ASCII)
_ENV_VALUE = re.compile(rf"(?:{_ENV_NAME})(?P<quote>[\"']?)(?P<value>[^\s\"']{{24,4096}})(?P=quote)\s*$", re.ASCII)
_SOMETHING_ELSE = re.compile(
    r"(?:~|\.{0,2}|[A-Za-z]:)[/\\]|[a-z][a-z0-9+.-]*://|(?:sha\d+|md5)[:-]|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
    r"|[0-9a-fA-F]+$|v?\d+\.\d+|[a-z]{2}_[A-Z]{2}|[\w.-]++(?>(?:[:,;][/\w.*=-]++)+)$"
)
_LIST = re.compile(r":/|=[0-9;]{1,32}:")
_CODE = re.compile(r"[A-Za-z_]\w*+(?>(?:\.\w++)*)(?:[(\[].*)?$", re.ASCII)

_MARKER_VALUE = re.compile(r"\s*value:\s*[\"']?(?P<value>[0-9a-fA-F]{40,1024})[\"']?\s*$", re.ASCII)
_NAMED_BEFORE = re.compile(r"\s*(?:-\s+)?[\"']?(?:name|key)[\"']?\s*[:=]", re.I)


def find_inline_key(line: str, start: int, limit: int) -> int | None:
    """Return the end of a key that follows its begin mark on the same line; None if there is none."""
    end = KEY_END.search(line, start, limit)
    if end and (_BASE64_RUN.search(line, start, end.start()) or _SHORT_INLINE_BODY.fullmatch(line, start, end.start())):
        return end.end()
    run = _INLINE_BODY.match(line, start, limit)
    return run.end() if run and _BASE64_RUN.search(run[0]) else None


def ends_key(line: str, end: int) -> bool:
    """Return True if the text up to `end` closes with a key's end mark."""
    return any(mark.end() == end for mark in KEY_END.finditer(line, max(0, end - 128)))


def is_blank(text: str) -> bool:
    """Return True if a text holds only what tools and string literals put around lines."""
    return _BLANK.match(text) is not None


def is_key_header(line: str, *, blank: bool) -> bool:
    """Return True if a line may stand between a key's begin mark and its body."""
    return _KEY_HEADER.match(line) is not None or (blank and is_blank(line))


def opens_key(mark: str, following: str) -> bool:
    """Return True if the line after a begin mark shows that a key follows, not a sentence about one."""
    if key_body_chars(following) >= 16 or _KEY_HEADER.match(following):
        return True
    return "PGP" in mark and is_blank(following)


def key_body_chars(line: str) -> int:
    """Count the characters of key material in a line; 0 if the line is not part of a key."""
    body = _BODY.match(line)
    return len(body["base64"]) if body else 0


def is_section(line: str) -> bool:
    """Return True for the heading of a section in an INI or TOML file."""
    return _SECTION.match(line) is not None


def is_bare_body(line: str) -> bool:
    """Return True if a line may belong to a key whose first lines are missing."""
    return _BARE_BODY.match(line) is not None


def is_env_line(line: str) -> bool:
    """Return True if a line, or its beginning, belongs to an environment dump."""
    return _ENV_LINE.match(line) is not None


def env_candidate(line: str) -> tuple[int, int] | None:
    """Find a value in an environment dump that is a secret because it looks random."""
    match = _ENV_VALUE.match(line)
    if match is None:
        return None
    value = match["value"]
    if is_reference(value) or _SOMETHING_ELSE.match(value) or _LIST.search(value) or value[-1] in "([{,":
        return None
    if _CODE.match(value) and not is_random(value):
        return None
    classes = sum(
        (
            any(map(str.islower, value)),
            any(map(str.isupper, value)),
            any(map(str.isdigit, value)),
            any(not character.isalnum() for character in value),
        )
    )
    return match.span("value") if classes >= 3 and not is_worded(value) else None


def marker_value(previous: str, line: str) -> tuple[int, int] | None:
    """Find the signature in a line of a marker file; a name on the line before means another value."""
    match = _MARKER_VALUE.match(line)
    return None if match is None or _NAMED_BEFORE.match(previous) else match.span("value")
