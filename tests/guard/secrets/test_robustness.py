"""Redaction survives any input: no crash, no blow-up, and twice is once."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shiftlog.guard.secrets.detectors.lines import find_in_line, is_suspicious
from shiftlog.guard.secrets.redactor import Redactor
from tests.guard.secrets.texts import suspicious_texts

redactor = Redactor()


@given(text=st.text())
@example(text="\ud800password: hunter2\udfff")
@example(text="password: \ud800\ud800\ud800\ud800")
@example(text="\x00" * 100)
@example(text="PRIVATE KEY")
def test_any_text_is_accepted(text: str) -> None:
    redacted = redactor.text(text)
    if not redacted.count:
        assert redacted.text == text


def test_lone_surrogates_survive_beside_a_secret() -> None:
    assert redactor.text("\ud800 password: hunter2 \udfff").text == "\ud800 password: [REDACTED:password] \udfff"


@given(text=suspicious_texts())
@example(text="password: hunter2hunter2")
@example(text="x" * 70_000)
def test_what_is_clean_at_a_glance_has_nothing_to_mask(text: str) -> None:
    if redactor.has_nothing_in(text):
        assert redactor.text(text).count == 0
    else:
        assert is_suspicious(text.encode("utf-8", "surrogatepass")) or len(text) > 16_384


@given(text=suspicious_texts(), by_rule=st.booleans())
def test_redacting_twice_is_redacting_once(text: str, by_rule: bool) -> None:
    once = redactor.text(text, by_rule=by_rule).text
    again = redactor.text(once, by_rule=by_rule)
    assert again.text == once
    assert again.count == 0


@given(text=suspicious_texts())
def test_what_one_form_has_masked_the_other_leaves(text: str) -> None:
    once = redactor.text(text, by_rule=True).text
    assert redactor.text(once).text == once


@given(line=suspicious_texts(6).map(lambda text: text.replace("\n", " ")))
def test_the_trigger_finds_every_line_that_a_detector_would(line: str) -> None:
    data = line.encode("utf-8", "surrogatepass")
    if any(find_in_line(data.decode("latin-1"))):
        assert is_suspicious(data)


@pytest.mark.parametrize(
    "piece",
    [
        "password=",
        'password="',
        "password='x ",
        "token=token=",
        "password: $(",
        "password=%A%",
        "Authorization: ",
        "Cookie: ",
        "Cookie: a=b; ",
        "authorization=[",
        "curl -u a:",
        " -px",
        "://a:",
        "eyJaaaaaaaaaaaa.",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "name: X_TOKEN\n",
        "HOOK=xY3xY3xY3xY3xY3xY3xY3xY3xY3\n",
        "password: /a/b",
        "secret: 'Aa1Aa1AAaa",
        "\\",
        '\\"',
        "sk-",
        "[REDACTED:password]",
        "token Ab1Ab1Ab1Ab1Ab1 ",
        "password \xbb ",
        '"token", "',
        "token </b><b>",
        "auth_pass x\\n",
    ],
)
def test_time_grows_with_length_not_with_its_square(piece: str) -> None:
    small, large = (piece * (size // len(piece)) for size in (8_000, 64_000))
    redactor.text(small)
    short = _processor_seconds(small)
    long = _processor_seconds(large)
    assert long <= 30 * short + 0.5, (short, long)


def _processor_seconds(text: str) -> float:
    start = time.process_time()
    redactor.text(text)
    return time.process_time() - start
