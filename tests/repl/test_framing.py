"""Where documents begin and end, and which of them nobody can read."""

import time

import pytest

from shiftlog.repl.framing import NOT_UTF8, Document, Framing
from shiftlog.repl.texts.json import ENVELOPE_BYTES, TOO_LARGE

HELLO = '{"type":"hello","payload":{}}'
REQUEST = "type: request\npayload:\n  requestId: c\n  method: m\n"


def framed(data: str | bytes, size: int | None = None) -> list[Document]:
    """Return the documents of some input, fed whole or in pieces."""
    raw = data.encode() if isinstance(data, str) else data
    framing = Framing()
    found: list[Document] = []
    for at in range(0, len(raw), size or max(len(raw), 1)):
        found += framing.feed(raw[at : at + (size or len(raw))])
    return found + framing.end()


def shapes(data: str | bytes) -> list[str]:
    """Return the form of each document, marked where it cannot be read."""
    return [document.form + ("!" if document.problem else "") for document in framed(data)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n\n---\n  \n---\n...\n# only a comment\n  # another\n%YAML 1.2\n---\n", []),
        (HELLO, ["json"]),
        (f"{HELLO}\r\n{HELLO}\n", ["json", "json"]),
        (f"  {HELLO}\n", ["json"]),
        ("\ufeff" + HELLO + "\n", ["json"]),
        ("{a:1}\n[]\n", ["json!", "json"]),
        ('{"a": "open\nnext"}\n---\n', ["json!", "yaml"]),
        (f"{HELLO} {HELLO}\n", ["json!"]),
        ('{"a":\n  [1,\n  2]}\n', ["json"]),
        ('{"a":\n\n[]\n', ["json!", "json"]),
        ('{"a":\n---\n[]\n', ["json!", "json"]),
        ('{"a":', ["json!"]),
        ('{"a":\nx\n', ["json!"]),
        ('{"a":tru\n', ["json!"]),
        ('{"a":[\n' + HELLO + "\n[]\n", ["json!", "json", "json"]),
        ('{"a":NaN}\n{"a":1e999}\n{"a":1e9}\n', ["json!", "json!", "json"]),
        ('{"a":"\\ud800"}\n{"a":"\\ud83d\\ude00"}\n', ["json!", "json"]),
        (REQUEST, ["yaml"]),
        (REQUEST + "---\n" + REQUEST + "...\n", ["yaml", "yaml"]),
        (REQUEST + "\n" + REQUEST, ["yaml", "yaml"]),
        (REQUEST + REQUEST, ["yaml", "yaml"]),
        (REQUEST + HELLO + "\n" + REQUEST, ["yaml", "json", "yaml"]),
        ("type: request\npayload:\n\n  requestId: c\n\n  method: m\n\n[]\n", ["yaml", "json"]),
        ("payload:\n  requestId: c\n  method: m\n\ntype: request\n---\n", ["yaml"]),
        ("hello there\n\nand more\n---\n", ["yaml"]),
        ("a: *b\n---\na: 1\na: 2\n---\na: !x 1\n---\n", ["yaml!", "yaml!", "yaml!"]),
        ("--- " + HELLO + "\n---\n", ["yaml"]),
        ('type: x\npayload: {a: "1\n\n  2"}\n\n[]\n', ["yaml", "json"]),
        ("type: x\npayload: {a: [1,\n\n  2]}\n\n[]\n", ["yaml", "json"]),
    ],
)
def test_documents_end_where_the_contract_says(text: str, expected: list[str]) -> None:
    assert shapes(text) == expected


def test_blank_lines_inside_a_block_scalar_belong_to_it() -> None:
    text = "type: x\npayload:\n  text: |\n    one\n\n    two\n\n  more: |+\n    three\n\n\n---\n"
    (document,) = framed(text)
    assert document.value["payload"] == {"text": "one\n\ntwo\n", "more": "three\n\n\n"}


def test_a_blank_line_after_a_block_scalar_that_is_not_last_ends_the_document() -> None:
    text = "type: x\npayload:\n  text: |\n    one\n\n    two\n  more: 1\n\ntype: y\npayload: {}\n"
    assert [document.value["type"] for document in framed(text)] == ["x", "y"]


def test_a_block_scalar_with_its_own_indentation_is_read_whole() -> None:
    text = "type: x\npayload:\n  - text: |2\n       one\n\n      two\n\n---\n"
    (document,) = framed(text)
    assert document.value["payload"] == [{"text": " one\n\ntwo\n"}]


def test_only_the_core_schema_types_a_plain_value() -> None:
    text = (
        "a: [true, False, null, ~, 12, -3, 0x1F, 0o17, 1.5, 1e3, .5]\n"
        "b: [No, on, yes, 2026-07-01, 2026-07-01T08:00:00Z, 1_000, 12:30, .inf, .nan, 1e999, 0b1]\n"
        "c: ['12', \"true\", !!str 5]\n"
    )
    value = framed(text + "---\n")[0].value
    assert value["a"] == [True, False, None, None, 12, -3, 31, 15, 1.5, 1000.0, 0.5]
    assert all(isinstance(item, str) for item in value["b"] + value["c"])


@pytest.mark.parametrize("text", ["a:\n\tb: c\n", "a: one\n\ttwo\n", "-\ta: b\n", "a:\n  b: c\n\td: e\n"])
def test_tabs_are_no_indentation(text: str) -> None:
    assert framed(text + "---\n")[0].problem is not None


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_what_older_yaml_took_for_line_ends_is_text(end: str) -> None:
    text = f'a: |\n  one{end}two\n  three\nb: one{end}two\nc: "{end}\\ue000\\uE001"\n---\n'
    assert framed(text)[0].value == {"a": f"one{end}two\nthree\n", "b": f"one{end}two", "c": f"{end}\ue000\ue001"}


def test_a_document_may_be_as_large_as_the_limit_and_no_larger() -> None:
    empty = '{"a":""}'
    fits = '{"a":"' + "x" * (ENVELOPE_BYTES - len(empty)) + '"}'
    assert framed(fits + "\n")[0].problem is None
    refused, after = framed(fits.replace("x", "xx", 1) + "\n" + HELLO + "\n")
    assert (refused.problem, after.problem) == (TOO_LARGE, None)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_document_of_many_lines_that_is_too_large_is_one_refusal(form: str) -> None:
    line = "x" * 99_990
    if form == "json":
        text = '{"a": [\n' + ",\n".join(f'"{line}"' for _ in range(100)) + "\n]}\n"
    else:
        text = "type: x\npayload:\n" + "".join(f"  k{n}: {line}\n" for n in range(100)) + "---\n"
    refused, after = framed(text + HELLO + "\n")
    assert (refused.form, refused.problem, after.problem) == (form, TOO_LARGE, None)


def test_bytes_that_are_no_text_are_one_refusal_in_the_form_they_began_with() -> None:
    first, second, third = framed(b'{"a":"\xff"}\ntype: \xff\n---\n' + HELLO.encode() + b"\n")
    assert [(d.form, d.problem) for d in (first, second)] == [("json", NOT_UTF8), ("yaml", NOT_UTF8)]
    assert third.problem is None


def test_a_control_character_in_yaml_is_named_as_the_reason() -> None:
    assert framed("a: \x1b[0m\n---\n")[0].problem == "not valid YAML: special characters are not allowed"


def test_deep_nesting_is_refused_and_not_fatal() -> None:
    deep = "[" * 200 + "]" * 200
    deeper = "[" * 50_000 + "]" * 50_000
    flow = "a: " + "{b: " * 150 + "1" + "}" * 150
    assert shapes(f"{deep}\n{deeper}\n{flow}\n---\n") == ["json!", "json!", "yaml!"]


@pytest.mark.parametrize(
    "text",
    [
        "type: x\npayload:\n  text: |\n" + "    line\n\n" * 20_000 + "---\n",
        "type: x\npayload:\n  text: |2\n" + "    line\n\n" * 20_000 + "---\n",
        'type: x\npayload:\n  text: "' + "line\n\n" * 20_000 + '"\n---\n',
        "type: x\npayload: [\n" + "  line,\n\n" * 5_000 + "]\n---\n",
        "payload:\n" + "".join(f"  k{n}: 1\n\n" for n in range(3_000)) + "type: x\n---\n",
        "type: request\npayload:\n" + "".join(f"  k{n}: 1\n\n" for n in range(3_000)) + "  method: m\n---\n",
        "plain text\n\n" * 20_000 + "---\n",
        "type: x\n" * 20_000 + "---\n",
        '{"a":[\n' + "1,\n" * 100_000 + "1]}\n",
    ],
)
def test_a_long_document_with_many_blank_lines_is_not_parsed_again_at_each(text: str) -> None:
    started = time.monotonic()
    assert len(framed(text)) == 1
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("text", ["[" * 8000, "a: " + "[" * 8000, "- " * 8000 + "x", "{a: " * 8000, "[\n" * 8000])
def test_a_document_that_is_nested_too_deeply_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    framing = Framing()
    documents = [*framing.feed(text.encode() + b"\n---\n"), *framing.end()]
    assert documents
    assert time.process_time() - started < 5
