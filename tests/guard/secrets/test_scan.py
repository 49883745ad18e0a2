"""Redacting a text in chunks gives what redacting it whole gives."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.guard.secrets.redactor import Redactor, Rule
from shiftlog.guard.secrets.scan import LINE_BYTES, Scan
from tests.guard.secrets.chunks import MAX_HELD_BYTES, ChunkRedactor
from tests.guard.secrets.corpus import CASES
from tests.guard.secrets.texts import suspicious_texts

redactor = Redactor([Rule(id="acme", pattern="ACME-[0-9]{4,}")])
SECRET = "password: hunter2hunter2"
MASKED = "password: [REDACTED:password]"


def streamed(chunks: list[str], *, by_rule: bool = False) -> str:
    stream = ChunkRedactor(redactor, by_rule=by_rule)
    return "".join(stream.feed(chunk) for chunk in chunks) + stream.finish()


def cut(text: str, sizes: list[int], rng: random.Random) -> list[str]:
    chunks: list[str] = []
    while text:
        size = rng.choice(sizes)
        chunks.append(text[:size])
        text = text[size:]
    return chunks


@given(text=suspicious_texts(), seed=st.integers(), by_rule=st.booleans())
def test_chunks_of_any_size_give_what_the_whole_text_gives(text: str, seed: int, by_rule: bool) -> None:
    chunks = cut(text, [1, 2, 3, 7, 20, 100, 1000], random.Random(seed))
    assert streamed(chunks, by_rule=by_rule) == redactor.text(text, by_rule=by_rule).text


def test_a_secret_split_at_any_boundary_is_caught() -> None:
    for case in CASES:
        expected = redactor.text(case.text).text
        for boundary in range(1, len(case.text), 1 + len(case.text) // 24):
            assert streamed([case.text[:boundary], case.text[boundary:]]) == expected


def test_the_corpus_fed_character_by_character_gives_what_the_whole_gives() -> None:
    text = "\n".join(case.text for case in CASES)
    assert streamed(list(text)) == redactor.text(text).text


@pytest.mark.parametrize("filler", ["x", "word ", "é", '{"a": 1}, '])
def test_a_line_longer_than_the_window_is_masked_wherever_the_secret_stands(filler: str) -> None:
    rng = random.Random(3)
    for offset in (0, LINE_BYTES - 20, LINE_BYTES, 2 * LINE_BYTES + 17, 3 * LINE_BYTES - 30):
        before = (filler * (offset // len(filler.encode()) + 1)) + " "
        text = f"{before}{SECRET} {filler * 40_000}"
        expected = text.replace(SECRET, MASKED)
        assert redactor.text(text).text == expected
        assert streamed(cut(text, [1000, 4096, 50_000], rng)) == expected


def test_a_secret_longer_than_the_window_leaves_nothing_visible() -> None:
    secret = "xY3" * LINE_BYTES
    text = f"{'a ' * 1000}token={secret} end"
    expected = f"{'a ' * 1000}token=[REDACTED:password] end"
    assert redactor.text(text).text == expected
    assert streamed(cut(text, [4096, 9999], random.Random(4))) == expected


@pytest.mark.long
@settings(max_examples=8)
@given(seed=st.integers())
def test_long_lines_cut_anywhere_give_what_the_whole_gives(seed: int) -> None:
    rng = random.Random(seed)
    parts = [case.text.replace("\n", " ") for case in rng.choices(CASES, k=40)]
    text = (" é ".join(parts) + " ") * 40
    assert streamed(cut(text, [1, 999, 4096, 30_000, 70_000], rng)) == redactor.text(text).text


def test_whole_lines_are_released_at_once() -> None:
    stream = ChunkRedactor(redactor)
    assert stream.feed(f"one\ntwo\n{SECRET}\nthr") == f"one\ntwo\n{MASKED}\n"
    assert stream.feed("ee\n") == "three\n"


def test_a_key_is_held_back_no_longer_than_its_second_line() -> None:
    stream = ChunkRedactor(redactor)
    assert stream.feed("-----BEGIN RSA PRIVATE KEY-----\n") == ""
    assert stream.feed("MIIEpAIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL\n") == "[REDACTED:private_key]"
    assert stream.feed("MIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----\nafter\n") == "\nafter\n"


@pytest.mark.long
@pytest.mark.parametrize(
    "chunk",
    [
        "x",
        "x\n",
        "A=1\n",
        "HOOK=" + "xY3" * 10 + "\n",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "password=xY3",
        "é",
        "MIIE",
    ],
)
def test_what_is_held_back_stays_within_its_bound(chunk: str) -> None:
    stream = ChunkRedactor(redactor)
    given_bytes = 0
    repeated = chunk * (5000 // len(chunk))
    for _ in range(200):
        given_bytes += len(repeated.encode())
        stream.feed(repeated)
        assert stream.held_bytes <= MAX_HELD_BYTES
    assert given_bytes > 10 * MAX_HELD_BYTES


def test_releasing_gives_out_an_unfinished_line_masked_so_far() -> None:
    stream = ChunkRedactor(redactor)
    assert stream.feed(f"login: {SECRET}") == ""
    assert stream.release() == f"login: {MASKED}"
    assert stream.feed(" done\n") == " done\n"
    assert stream.finish() == ""


def test_the_stream_counts_as_the_whole_does() -> None:
    text = f"{SECRET}\nplain\nurl amqp://u:hunter2@mq\n{SECRET}"
    stream = ChunkRedactor(redactor)
    for character in text:
        stream.feed(character)
    stream.finish()
    assert (stream.count, stream.classes) == (3, redactor.text(text).classes)


@pytest.mark.parametrize("most", [1, 3, 64])
@given(text=suspicious_texts(), seed=st.integers())
def test_a_scan_that_pauses_gives_what_one_that_does_not_gives(most: int, text: str, seed: int) -> None:
    scan, held, out = Scan(redactor.rules()), b"", list[bytes]()
    pieces = [piece.encode("utf-8", "surrogatepass") for piece in cut(text, [7, 100, 5000], random.Random(seed))]
    for data in [*pieces, b""]:
        held += data
        is_last, exhausted = data == b"", True
        while exhausted or (is_last and held):
            masked, used = scan.push(held, final=is_last, most=most)
            assert used or not scan.is_exhausted
            out.append(masked)
            held, exhausted = held[used:], scan.is_exhausted
    out.append(scan.close())
    assert b"".join(out).decode("utf-8", "surrogatepass") == redactor.text(text).text


def test_a_push_with_a_limit_stops_after_about_so_many_searched_lines() -> None:
    scan = Scan(redactor.rules())
    dense = b"password: hunter2hunter2\n" * 1000
    _, used = scan.push(dense, final=True, most=10)
    assert (used, scan.is_exhausted) == (11 * 25, True)
    plain = b"nothing to see here\n" * 1000
    assert scan.push(plain, final=True, most=10)[1] == len(plain)
    assert not scan.is_exhausted
