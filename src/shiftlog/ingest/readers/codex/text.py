"""Texts in Codex records: message contents, injected text, editor context, outputs and exit codes."""

import re
from typing import Any, NamedTuple, cast

import msgspec

from shiftlog.facts.transcript import Image
from shiftlog.ingest.readers.records import Object, image_from_base64, image_from_url, object_in, text_in, whole_in

INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<recommended_plugins>",
    "<skill>",
    "<turn_aborted>",
)
_IDE = "# Context from my IDE setup:"
_REQUEST = "## My request for Codex:"
_HEADER_CHARS = 2048
_OUTPUT_MARK = re.compile(r"^(?:Output|Total output lines: \d+):?\s*$", re.MULTILINE)
_STATUS = re.compile(
    r"^(?:Exit code: (-?\d{1,9})|Process exited with code (-?\d{1,9})|Process running with session ID (\S{1,64}))\s*$",
    re.MULTILINE,
)
_ERRORS = (
    "error:",
    "execution error",
    "failed to parse",
    "failed in sandbox",
    "apply_patch verification failed",
    "exec_command failed",
    "write_stdin failed",
    "unsupported call",
    "patch rejected",
    "exec command rejected",
    "tool call error",
    "err: ",
)
_DENIED = re.compile(r"rejected by (?:the )?user|denied by (?:the )?(?:user|guardian|policy)|user (?:denied|rejected)")
_ABORTED = re.compile(r"aborted(?: by user[^\n]*)?(?:\n|$)")
_DATA = ("image_url", "audio_url", "file_data")


class Output(NamedTuple):
    """The output of a tool; `session` names a process that is still running."""

    text: str
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    duration_ms: int | None = None
    session: str | None = None
    is_error: bool = False
    denied: bool = False
    interrupted: bool = False


def is_injected(text: str) -> bool:
    """Return True if the client, not the user, wrote a user message."""
    return text.lstrip()[:64].startswith(INJECTED)


def split_prompt(text: str) -> tuple[str, str | None]:
    """Return the user's request and, separately, the editor context before it."""
    if not text.lstrip().startswith(_IDE):
        return text, None
    before, mark, after = text.partition(_REQUEST)
    return (after.strip(), before.strip()) if mark else (text, None)


def content_of(value: object, *, keep: bool, glue: str = "") -> tuple[str, tuple[Image, ...]]:
    """Return text and images of a message: a string, a part, or a list of parts."""
    if isinstance(value, str):
        return value, ()
    if isinstance(value, dict):
        return content_of([cast(Object, value)], keep=keep, glue=glue)
    if not isinstance(value, list):
        return "", ()
    texts: list[str] = []
    images: list[Image] = []
    for part in cast(list[object], value):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            _read_part(cast(Object, part), texts, images, keep=keep)
    return glue.join(texts), tuple(images)


def images_of(values: object, *, keep: bool) -> tuple[Image, ...]:
    """Return the digests of image addresses; local files have none."""
    found: list[Image] = []
    for value in cast(list[object], values) if isinstance(values, list) else []:
        address = text_in(cast(Object, value), *_DATA, "url", "path") if isinstance(value, dict) else value
        if isinstance(address, str) and (image := image_from_url(address, keep=keep)) is not None:
            found.append(image)
    return tuple(found)


def _read_part(part: Object, texts: list[str], images: list[Image], *, keep: bool) -> None:
    text = part.get("text")
    if isinstance(text, str):
        # Tags that stand for an attached image are not text.
        if not (text.startswith(("<image", "</image")) and text.rstrip().endswith(">") and len(text) < 200):
            texts.append(text)
        return
    for name in _DATA:
        given = part.get(name)
        address = text_in(cast(Object, given), "url") if isinstance(given, dict) else given
        if isinstance(address, str) and (image := image_from_url(address, keep=keep)) is not None:
            images.append(image)
            return
    data = part.get("data")
    if isinstance(data, str) and data:
        images.append(image_from_base64(data, text_in(part, "mimeType", "mime_type", "media_type"), keep=keep))


def output_of(value: object, *, keep: bool) -> Output:
    """Return an output of any form."""
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, list):
        text, images = content_of(cast(object, value), keep=keep, glue="\n")
        return _from_text(text)._replace(images=images)
    if isinstance(value, dict):
        return _from_object(cast(Object, value), keep=keep)
    return Output("") if value is None else Output(text_of(value))


def _from_text(text: str) -> Output:
    if text[:1] == "{" and '"metadata"' in text[-512:] + text[:256] and (wrapped := _unwrapped(text)) is not None:
        return wrapped
    header = text[:_HEADER_CHARS]
    mark = _OUTPUT_MARK.search(header)
    exit_code = session = None
    if (status := _STATUS.search(header, 0, mark.start() if mark else len(header))) is not None:
        code = status[1] or status[2]
        exit_code, session = (int(code), None) if code else (None, status[3])
    return _judged(Output(text, exit_code=exit_code, session=session))


def _judged(output: Output) -> Output:
    if output.exit_code == 0:
        return output
    lowered = output.text[:300].lower()
    interrupted = bool(_ABORTED.match(lowered))
    denied = bool(_DENIED.search(lowered)) and (output.exit_code is None or lowered.startswith(_ERRORS))
    if output.exit_code is None and not (interrupted or denied or lowered.startswith(_ERRORS)):
        return output
    return output._replace(is_error=True, interrupted=interrupted, denied=denied)


def _unwrapped(text: str) -> Output | None:
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    given = cast(Object, value) if isinstance(value, dict) else {}
    inner = given.get("output")
    if not isinstance(inner, str) or not isinstance(given.get("metadata"), dict):
        return None
    metadata = object_in(given, "metadata")
    seconds = metadata.get("duration_seconds")
    duration = round(seconds * 1000) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None
    return _judged(Output(inner, exit_code=whole_in(metadata, "exit_code"), duration_ms=duration))


def _from_object(value: Object, *, keep: bool) -> Output:
    inner = value.get("content", value.get("output", value.get("content_items")))
    if isinstance(value.get("stdout"), str) or isinstance(value.get("stderr"), str):
        texts = [text for name in ("stdout", "stderr") if (text := text_in(value, name))]
        code = next((n for name in ("exitCode", "exit_code") if (n := whole_in(value, name)) is not None), None)
        return _judged(Output("\n".join(texts), exit_code=code))
    text, images = content_of(inner, keep=keep, glue="\n") if inner is not None else content_of(value, keep=keep)
    output = _from_text(text or ("" if images else text_of(value)))._replace(images=images)
    if value.get("success") is False or value.get("isError") is True or value.get("is_error") is True:
        return output._replace(is_error=True)
    return output


def text_of(value: Any) -> str:
    """Return a text as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode("utf-8", "replace")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def milliseconds(value: object) -> int | None:
    """Return a duration: `{secs, nanos}`, seconds, or a text such as `1.5s` or `20ms`."""
    if isinstance(value, dict):
        given = cast(Object, value)
        seconds, nanos = whole_in(given, "secs"), whole_in(given, "nanos")
        return None if seconds is None else seconds * 1000 + (nanos or 0) // 1_000_000
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return round(value * 1000)
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s)", value)) is not None:
        return round(float(match[1]) * (1 if match[2] == "ms" else 1000))
    return None
