"""Tolerant reading of untrusted records: lines, times, texts, images and paths.

Shared by all readers; nothing here knows a vendor's record types.
"""

import base64
import binascii
import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from shiftlog.facts.transcript import Image
from shiftlog.model.ids import slug
from shiftlog.text.printable import cut_line

MAX_DEPTH = 128
NO_TIME = "19700101T000000Z"
RAW_LIMIT_BYTES = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_decode: Callable[[bytes], object] = msgspec.json.Decoder().decode
_SAFE_INTEGER = 2**53 - 1
_DRAWN = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12}")
_MASKED = re.compile(r"(?i)redact|masked|hidden|\*\*\*|\.\.\.|…|([a-z0-9])\1{7}")

_CONTAINERS = (dict, list)
_TEXTS = frozenset({str, bool, type(None)})

Object = dict[str, Any]


class RecordLine(msgspec.Struct, frozen=True, gc=False):
    """The object of a line, None if the line is bad; `replaced` marks invalid UTF-8."""

    record: Object | None
    replaced: bool = False


BAD = RecordLine(None)


def read_line(line: bytes) -> RecordLine | None:
    """Return the record of a line; None for a blank line."""
    try:
        value = _decode(line)
        replaced = False
    except (msgspec.MsgspecError, ValueError, RecursionError):
        stripped = line.strip().removeprefix(_BOM).strip()
        if not stripped:
            return None
        value, replaced = _read_odd(stripped)
    if not isinstance(value, dict):
        return BAD
    # Replacing jumps between brackets and takes less than half the time of counting each byte.
    opened = len(line) - len(line.replace(b"{", b"").replace(b"[", b""))
    if opened > MAX_DEPTH and _is_too_deep(cast("object", value)):
        return BAD
    return RecordLine(value, replaced)  # pyright: ignore[reportUnknownArgumentType] - a cast is a call, one for each line


def _read_odd(line: bytes) -> tuple[object, bool]:
    # Invalid UTF-8, cut surrogate pairs (emoji) and numbers out of range are read more slowly.
    text = line.decode("utf-8", "replace")
    replaced = "\ufffd" in text and b"\xef\xbf\xbd" not in line
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(value, dict) or _is_too_deep(cast("object", value)):
        return None, False
    return _without_surrogates(cast("object", value)), replaced


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item) if isinstance(inner, _CONTAINERS)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    return cast("Object", value).values() if isinstance(value, dict) else cast("list[object]", value)


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {_without_surrogates(name): _without_surrogates(item) for name, item in pairs}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in cast("list[object]", value)]
    return value


def is_drawn(name: str) -> bool:
    """Return True if an id was drawn at random and is therefore unique; some hosts only count their calls.

    Keys of origins depend on it, and so does what an import of a file takes for known: an id that changes sides here
    must be found under its former key, which the import looks for (`was_drawn`).
    """
    return _DRAWN.search(name) is not None and not is_masked(name)


def is_masked(name: str) -> bool:
    """Return True if an id was masked before the file came here; then many calls may share it."""
    return _MASKED.search(name) is not None


def was_drawn(name: str) -> bool:
    """Return True if an earlier release took a masked id for one that is unique."""
    return _DRAWN.search(name) is not None and is_masked(name)


def bounded(value: Any) -> Any:
    """Return JSON with integers beyond 53 bits as text, because other programs cannot hold them exactly."""
    if type(value) is int:
        if -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
            return value
        return str(value) if value.bit_length() < 4096 else hex(value)  # a very long decimal would be slow
    if isinstance(value, dict):
        pairs = cast("Object", value)
        if _TEXTS.issuperset(map(type, pairs.values())):
            return pairs
        kept = [
            item if type(item) in _TEXTS or (type(item) is int and 0 <= item <= _SAFE_INTEGER) else bounded(item)
            for item in pairs.values()
        ]
        if all(map(operator.is_, kept, pairs.values())):
            return pairs
        return dict(zip(pairs, kept, strict=True))
    if isinstance(value, list):
        items = cast("list[Any]", value)
        kept = [item if isinstance(item, str) else bounded(item) for item in items]
        return items if all(map(operator.is_, kept, items)) else kept
    return value


# -- values ------------------------------------------------------------------------------------------------------------


def text_in(record: Mapping[str, Any], name: str, *others: str) -> str | None:
    """Return the first of the named values that is a non-empty string."""
    value = record.get(name)
    if isinstance(value, str) and value:
        return value
    for other in others:
        value = record.get(other)
        if isinstance(value, str) and value:
            return value
    return None


def object_in(record: Mapping[str, Any], name: str) -> Object:
    """Return the named object; an empty one if it is missing."""
    # A cast is a call, and these run a dozen times per record.
    value = record.get(name)
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def list_in(record: Mapping[str, Any], name: str) -> list[Any]:
    """Return the named list; an empty one if it is missing."""
    value = record.get(name)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def objects_in(record: Mapping[str, Any], name: str) -> list[Object]:
    """Return the objects of the named list."""
    return [cast("Object", item) for item in list_in(record, name) if isinstance(item, dict)]


def whole_in(record: Mapping[str, Any], name: str) -> int | None:
    """Return the named whole number, also from a float or a string."""
    value = record.get(name)
    if isinstance(value, str):
        if not value.isascii() or not value.strip().lstrip("+-").isdigit() or len(value) > 18:
            return None
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and abs(value) <= _SAFE_INTEGER else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _SAFE_INTEGER:
        return value
    return None


def tokens_in(record: Mapping[str, Any], name: str) -> int:
    """Return a token counter: numeric strings count as numbers, negative or other values as 0."""
    value = record.get(name)
    if type(value) is int:
        return value if 0 <= value <= _SAFE_INTEGER else 0
    return max(whole_in(record, name) or 0, 0)


# -- times and ids -----------------------------------------------------------------------------------------------------


def utc(value: object) -> str | None:
    """Return a record's time as the journal writes it: UTC, milliseconds, `Z`; None if it is not a time.

    A time without zone counts as UTC; a number is seconds or milliseconds since the epoch.
    """
    if isinstance(value, str):
        if value[:10] in _seen_days and _REST_OF_TIME.fullmatch(value, 10):
            return value
        return _parsed(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        at = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


# Days parsed before: most records of a file share one, and a pattern checks the rest of the time.
_seen_days: set[str] = set()
_REST_OF_TIME = re.compile(r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII)


def _parsed(text: str) -> str | None:
    if len(text) > 64:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    shown = at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if len(text) == 24 and shown == text:
        if len(_seen_days) > 4096:
            _seen_days.clear()
        _seen_days.add(text[:10])
    return shown


def turn_id(at: str | None, vendor_turn_id: str | None, ordinal: int) -> str:
    """Return the request id of a turn, equal on every machine that reads the same records."""
    time = f"{at[0:4]}{at[5:7]}{at[8:10]}T{at[11:13]}{at[14:16]}{at[17:19]}Z" if at is not None else NO_TIME
    return f"req-{time}-{slug(vendor_turn_id or '', f't{ordinal}')}"


# -- texts -------------------------------------------------------------------------------------------------------------


TITLE_CHARS = 80
WHOLE_LINE = 65536


def first_line(text: str, limit: int = TITLE_CHARS) -> str:
    """Return the first non-empty line, cut; with WHOLE_LINE uncut, for text that is masked first."""
    for line in text[:65536].splitlines():
        if stripped := line.strip():
            return cut_line(stripped, limit)
    return ""


def size_and_digest(text: str) -> Object:
    """Return size and digest of a value that is not stored."""
    data = text.encode("utf-8", "replace")
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def digest_of(text: str) -> str:
    """Return a short digest that distinguishes texts within a turn."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=9).hexdigest()


def raw_or_digest(line: bytes) -> Object:
    """Return an unknown record's raw text, or size and digest of a large one."""
    if len(line) <= RAW_LIMIT_BYTES:
        return {"raw": line.decode("utf-8", "replace").strip()}
    return {"raw_bytes": len(line), "raw_sha256": hashlib.sha256(line).hexdigest()}


_MAIN_ARGUMENTS = (
    "command", "cmd", "file_path", "notebook_path", "path", "pattern", "query", "url", "description", "prompt", "skill",
    "subject", "message", "task_id", "taskId", "question",
)  # fmt: skip


def main_argument(value: object) -> str:
    """Return the most telling argument of a tool call."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return "" if value is None else _compact(value)
    arguments = cast("Object", value)
    for name in _MAIN_ARGUMENTS:
        item = arguments.get(name)
        if isinstance(item, str) and item:
            return item
        if isinstance(item, list) and item:
            return " ".join(str(part) for part in cast("list[object]", item)[:64])
    for item in arguments.values():
        if isinstance(item, str) and item:
            return item
    return _compact(arguments) if arguments else ""


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")[:400]


CALL_CHARS = 200


def call_line(tool: str, value: object) -> str:
    """Return the short line of a tool call: `<tool>: <main argument cut to 200>`."""
    return f"{tool}: {main_argument(value)[:CALL_CHARS]}"


def parsed_arguments(arguments: object) -> Any:
    """Return the arguments of a call, decoded if they are a JSON object."""
    if isinstance(arguments, str) and arguments[:1] == "{":
        try:
            return msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return arguments
    return arguments


# -- images ------------------------------------------------------------------------------------------------------------


def image_from_base64(data: str, media_type: str | None, *, keep: bool) -> Image:
    """Return the digest of base64 data, or of the text if it is not base64."""
    try:
        raw = binascii.a2b_base64(data)
    except (binascii.Error, ValueError):
        raw = data.encode("utf-8", "replace")
    digest = hashlib.sha256(raw).hexdigest()
    kind = media_type if media_type and len(media_type) <= 100 else "application/octet-stream"
    return Image(media_type=kind, size=len(raw), sha256=digest, data=raw if keep else None)


def image_from_url(url: str, *, keep: bool) -> Image | None:
    """Return the digest of a data URL; None for any other address."""
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    media_type, _, encoding = head.partition(";")
    if "base64" in encoding:
        return image_from_base64(data, media_type, keep=keep)
    raw = data.encode("utf-8", "replace")
    digest = hashlib.sha256(raw).hexdigest()
    return Image(media_type=media_type[:100] or "text/plain", size=len(raw), sha256=digest, data=raw if keep else None)


def shown_images(images: tuple[Image, ...]) -> list[dict[str, int | str]] | None:
    """Return images as bodies show them; None if there are none."""
    shown: list[dict[str, int | str]] = []
    for image in images:
        shown.append({"media_type": image.media_type, "bytes": image.size, "sha256": image.sha256})
        if image.data is not None:
            shown[-1]["data"] = base64.b64encode(image.data).decode()
    return shown or None


# -- paths -------------------------------------------------------------------------------------------------------------


def relative_path(path: str, cwd: str | None) -> str:
    """Return a path with `/`, relative to the session's first directory if it is below it, without `./`."""
    made = path.replace("\\", "/")
    if cwd:
        root = cwd.replace("\\", "/").rstrip("/")
        # A drive letter comes in either case.
        named = made[:1].swapcase() + made[1:] if made[1:2] == ":" else made
        if root and (made.startswith(root + "/") or named.startswith(root + "/")):
            made = made[len(root) + 1 :]
    while made.startswith("./"):
        made = made[2:].lstrip("/")
    return made or path
