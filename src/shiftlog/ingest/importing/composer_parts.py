"""Parts of what facts become: usage, times, images, texts of a length that is stored; none of it masks."""

import base64
import hashlib
import operator
from typing import Any, cast

from shiftlog.facts import transcript as f
from shiftlog.facts.batch import COUNTERS
from shiftlog.guard.secrets.blobs import fold_blobs, may_hold_blob

Body = dict[str, Any]

MAX_TEXT_CHARS = 1_048_576
NO_TIME = "1970-01-01T00:00:00.000Z"

_REPORTED = ("model", *COUNTERS, "message_id", "copied", "cost_usd")
_reported = operator.attrgetter(*_REPORTED)


def reported_usage(fact: f.Usage) -> Body:
    """Return what a record reports of the tokens of a response."""
    body: Body = {name: value for name, value in zip(_REPORTED, _reported(fact), strict=True) if value}
    body["rule"] = fact.rule
    if fact.vendor:
        body["vendor"] = fact.vendor
    if fact.rule == "first" and len(fact.key) == 3:
        body |= {"family": str(fact.key[1]), "total": str(fact.key[2])}
    elif fact.rule == "maximum" and not fact.joins and fact.message_id:
        body["request_id"] = ":".join(map(str, fact.key[1:])).removeprefix(fact.message_id).lstrip("/:") or "-"
    return body


def is_digest(value: Any) -> bool:
    """Tell whether a value is a number or stands for a text by its length and digest, so that nothing is to mask."""
    if not isinstance(value, dict):
        return isinstance(value, bool | int | float)
    return {"bytes", "sha256"}.issuperset(cast(Body, value))


def second_of(fact: f.AnyFact) -> str:
    """Return the time of a fact as dialog shows it."""
    return (fact.at or NO_TIME)[:19] + "Z"


def shown_images(images: tuple[f.Image, ...]) -> list[dict[str, int | str]] | None:
    """Return images as bodies tell of them, None where there is none."""
    return [_image(image) for image in images] if images else None


def _image(image: f.Image) -> dict[str, int | str]:
    shown: dict[str, int | str] = {"media_type": image.media_type, "bytes": image.size, "sha256": image.sha256}
    if image.data is not None:
        shown["data"] = base64.b64encode(image.data).decode()
    return shown


def cut(text: str) -> tuple[str, dict[str, int | str] | None]:
    """Return the part of a text that is stored and, where that is not all, the length and digest of the whole."""
    if len(text) <= MAX_TEXT_CHARS:
        return text, None
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text[:MAX_TEXT_CHARS], {"chars": len(text), "sha256": digest}


def cut_value(value: Any) -> tuple[Any, dict[str, int | str] | None]:
    """Return a JSON value with every string cut to what is stored, and the length and digest of the longest one cut."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        items: Any = cast(Body, value).items()
    elif isinstance(value, list):
        items = enumerate(cast(list[Any], value))
    else:
        return value, None
    changed: dict[Any, Any] = {}
    full = None
    for name, item in items:
        if isinstance(item, str) and len(item) <= MAX_TEXT_CHARS:
            continue
        kept, whole = cut_value(item)
        if whole is not None:
            changed[name] = kept
            full = max(filter(None, (full, whole)), key=operator.itemgetter("chars"))
    if not changed:
        return cast(Any, value), None
    if isinstance(value, dict):
        return {**cast(Body, value), **changed}, full
    return [changed.get(at, item) for at, item in enumerate(cast(list[Any], value))], full


def folded(value: Any) -> Any:
    """Fold encoded data in the strings of a JSON value."""
    if isinstance(value, str):
        return fold_blobs(value)[0] if may_hold_blob(value) else value
    if isinstance(value, dict):
        items = cast(Body, value).items()
        return {name: item if type(item) is str and not may_hold_blob(item) else folded(item) for name, item in items}
    if isinstance(value, list):
        return [folded(item) for item in cast(list[Any], value)]
    return value
