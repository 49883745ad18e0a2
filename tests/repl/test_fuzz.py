"""Whatever comes in: no crash, no hang, one answer for each document, wherever the pieces are cut."""

import json
import os
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shiftlog.repl import envelopes
from shiftlog.repl.framing import Document, Framing
from shiftlog.repl.loop import answered, serve
from shiftlog.repl.texts import json as json_text
from shiftlog.repl.texts.json import Outline, UnreadableText
from shiftlog.repl.texts.yaml import load, write

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
# Pieces that mean something to the framing, so that their meetings are tried out.
PIECES = st.sampled_from(
    [
        "\n",
        "\n\n",
        "---\n",
        "...\n",
        "--- x\n",
        "\r\n",
        "\ufeff",
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        ": ",
        ", ",
        "- ",
        "  ",
        "    ",
        "\t",
        "|\n",
        ">-\n",
        "|2+\n",
        "# c\n",
        "&a ",
        "*a",
        "!!str ",
        "? ",
        "%YAML 1.2\n",
        "type: request\n",
        "type: ",
        "payload:\n",
        "  requestId: r1\n",
        "  method: m\n",
        "  params:\n    a: |\n      text\n\n      more\n",
        '{"type":"hello","payload":{}}\n',
        '{"type":"request","payload":{"requestId":"r2","method":"m"}}\n',
        '{"a":\n',
        "\\u",
        "\x00",
        "\x85",
        "null",
        "1e5",
    ]
)
STREAMS = st.lists(PIECES | TEXT, max_size=30).map("".join).map(str.encode) | st.binary(max_size=200)


def whole(data: bytes) -> list[Document]:
    framing = Framing()
    return framing.feed(data) + framing.end()


def echo(method: str, params: object) -> dict[str, Any]:
    return {"result": {"method": method, "params": params}}


@given(STREAMS, st.lists(st.integers(0, 300), max_size=6))
def test_where_the_input_is_cut_does_not_matter(data: bytes, cuts: list[int]) -> None:
    framing = Framing()
    found: list[Document] = []
    bounds = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in pairwise(bounds):
        found += framing.feed(data[start:end])
    assert found + framing.end() == whole(data)


@given(STREAMS)
def test_each_document_has_one_answer_that_can_be_read_in_its_form(data: bytes) -> None:
    for document in whole(data):
        answer = answered(echo, document)
        raw = envelopes.written(answer, document.form).decode()
        if document.form == "json":
            assert raw.count("\n") == 1
            assert json.loads(raw) == answer
        else:
            assert raw.endswith("\n\n---\n")
            assert "\n\n" not in raw.removesuffix("\n\n---\n")
            assert load(raw.removesuffix("---\n")).value == answer
        assert answer["type"] in ("result", "error", "hello")
        if answer["type"] != "hello":
            assert answer["payload"]["requestId"].strip()


@given(STREAMS)
def test_the_loop_answers_what_the_framing_finds_and_ends_well(data: bytes) -> None:
    stdin, into = os.pipe()
    out_of, stdout = os.pipe()
    try:
        os.write(into, data)
        os.close(into)
        assert serve(echo, stdin=stdin, stdout=stdout) == 0
        os.close(stdout)
        with os.fdopen(os.dup(out_of), "rb") as answers:
            expected = b"".join(envelopes.written(answered(echo, d), d.form) for d in whole(data))
            assert answers.read() == expected
    finally:
        os.close(stdin)
        os.close(out_of)


@given(st.lists(VALUES, min_size=1, max_size=5), st.booleans())
def test_requests_between_garbage_are_each_answered(params: list[Any], as_yaml: bool) -> None:
    garbage = b"{nonsense\n" if not as_yaml else b"]\n---\n"
    sent = b""
    for n, value in enumerate(params):
        request = {"type": "request", "payload": {"requestId": f"r{n}", "method": "m", "params": {"v": value}}}
        sent += garbage + (f"{write(request)}---\n".encode() if as_yaml else json.dumps(request).encode() + b"\n")
    answers = [answered(echo, document) for document in whole(sent)]
    results = [answer["payload"] for answer in answers if answer["type"] == "result"]
    assert [result["requestId"] for result in results] == [f"r{n}" for n in range(len(params))]
    assert [result["result"]["params"]["v"] for result in results] == params
    assert len(answers) == 2 * len(params)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_written_as_yaml_is_read_back_equal(value: dict[str, Any]) -> None:
    text = write(value) if value else "{}\n"
    assert "\n\n" not in text
    assert load(text).value == value


@given(VALUES.map(json.dumps) | PIECES | st.text('{}[]",:0 1.eE+-trufalsn\\\t\n', max_size=30))
def test_the_outline_agrees_with_the_parser_about_what_is_whole(text: str) -> None:
    lines = text.split("\n")
    outline = Outline()
    states = [outline.feed(line) for line in lines]
    try:
        value = json_text.load(text)
    except UnreadableText:
        value = None
    collection = isinstance(value, dict | list)
    assert (states[-1] == json_text.WHOLE and json_text.BROKEN not in states) == collection


@given(VALUES.filter(lambda value: isinstance(value, dict | list)), st.data())
def test_a_prefix_of_lines_of_valid_json_is_open_and_never_broken(value: Any, data: st.DataObject) -> None:
    lines = json.dumps(value, indent=1, ensure_ascii=data.draw(st.booleans())).split("\n")
    outline = Outline()
    states = [outline.feed(line) for line in lines]
    assert states[:-1] == [json_text.OPEN] * (len(lines) - 1)
    assert states[-1] == json_text.WHOLE
