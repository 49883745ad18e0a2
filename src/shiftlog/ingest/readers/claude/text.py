"""Texts and images in the messages of Claude Code, and the elements that editors add to them."""

from typing import cast

from shiftlog.facts.transcript import Image
from shiftlog.ingest.readers.records import Object, image_from_base64, image_from_url, object_in, text_in

_CONTEXT = ("ide_opened_file", "ide_selection", "system-reminder")


def text_and_images(content: object, *, keep: bool) -> tuple[str, tuple[Image, ...]]:
    """Return the text of a message's content and the digests of its images."""
    if isinstance(content, str):
        return content, ()
    texts: list[str] = []
    images: list[Image] = []
    for block in cast("list[object]", content) if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        part = cast("Object", block)
        if part.get("type") == "text":
            if isinstance(text := part.get("text"), str):
                texts.append(text)
        elif (image := image_of(part, keep=keep)) is not None:
            images.append(image)
    return "\n".join(texts), tuple(images)


def is_attachment(block: Object) -> bool:
    """Return True for an image or a document, also one stored elsewhere."""
    return block.get("type") in ("image", "document")


def image_of(block: Object, *, keep: bool) -> Image | None:
    """Return the digest of an image or document block; None for other blocks."""
    if not is_attachment(block):
        return None
    source = object_in(block, "source")
    media_type = text_in(source, "media_type")
    data = source.get("data")
    if isinstance(data, str):
        if source.get("type") == "text":
            return image_from_url(f"data:{media_type or 'text/plain'},{data}", keep=keep)
        return image_from_base64(data, media_type, keep=keep)
    url = text_in(source, "url")
    return image_from_url(url, keep=keep) if url else None


def without_context(text: str) -> tuple[str, list[str]]:
    """Return a text without the elements an editor put before it, and the contents of those elements."""
    context: list[str] = []
    at = _after_space(text, 0)
    while (tag := next((name for name in _CONTEXT if text.startswith(f"<{name}>", at)), None)) is not None:
        end = text.find(f"</{tag}>", at)
        if end < 0:
            break
        context.append(text[at + len(tag) + 2 : end].strip())
        at = _after_space(text, end + len(tag) + 3)
    return text[at:] if context else text.lstrip(), context


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def element(text: str, name: str) -> str | None:
    """Return the content of the first element of that name; None if there is none."""
    start = text.find(f"<{name}>")
    end = text.find(f"</{name}>", start)
    if start < 0 or end < 0:
        return None
    return text[start + len(name) + 2 : end].strip() or None
