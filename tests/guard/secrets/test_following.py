"""Secrets that begin on one line and stand, or go on, in another."""

import pytest

from shiftlog.guard.secrets.redactor import Redactor
from tests.guard.secrets.chunks import ChunkRedactor

redactor = Redactor()
KEY = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0sYcJfGk2mQ9bXtUu7LwRzHn4aV"
BODY = "cPq8sT1uVw2xYz3aBc4dEf5gHi6jKl7mNo8pQr9sTu0vWx1yZa2bCd3eFg4hIj5k"
MULTI_LINE = [
    ("machine db\n  login bob\n  password kettle\n", ["kettle"]),
    ("machine db\nlogin bob\npassword kettle7\n", ["kettle7"]),
    ('Content-Disposition: form-data; name="password"\n\nkettle\n--x\n', ["kettle"]),
    ("user,password\nbob,kettle\nalice,teapot\n", ["kettle", "teapot"]),
    ('"name","url","password"\n"a","https://a.io","kettle, big"\n"b","","tea""pot9"\n', ["kettle", "big", "pot9"]),
    ("Access key ID,Secret access key\nAKIA,wJalrXUtnFEMIK7MDENG/bPxRfiCYzzzKEYabcd1\n", ["wJalrXUtnFEMI"]),
    ("| user | password |\n|---|---|\n| bob | k3ttle |\n", ["k3ttle"]),
    ("Recovery codes:\n1a2b3-c4d5e\n9z8y7-x6w5v\n", ["1a2b3", "x6w5v"]),
    ('"cookies": [\n  {\n    "name": "sid",\n    "value": "kettle"\n  }\n]\n', ["kettle"]),
    ("<key>ApiToken</key>\n<string>kettle</string>\n", ["kettle"]),
    ('variable "db_password" {\n  type = string\n  default = "kettle"\n}\n', ["kettle"]),
    ('expect "password:"\nsend "kettle\\r"\n', ["kettle"]),
    ("gh" + "p_k3Jx9k3Jx9k3Jx9k3Jx9\nZq8Wm2Zq8Wm2Zq8W\n", ["k3Jx9", "Zq8Wm2"]),
    ("AKIA2345\nABCDEFGH6712\n", ["AKIA2345", "ABCDEFGH6712"]),
    ("API_TOKEN=k3Jx9Zq8Wm2Lp4Rt7Yb1Nc5Ua8Fo3\nVd6Hs0Gf3Kj8Xw2Qe9\n", ["k3Jx9Zq8", "Vd6Hs0Gf3"]),
    ("user,password\nA=b,k3ttle\nB=c,t3apot\nC=d,sauc3r\n", ["k3ttle", "t3apot", "sauc3r"]),
    (f"{KEY}\n{BODY}\n{BODY}\n", [KEY, BODY]),
    (f"cut here\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----\n", [BODY]),
]


@pytest.mark.parametrize(("text", "secrets"), MULTI_LINE)
def test_a_secret_that_an_earlier_line_announces_is_masked(text: str, secrets: list[str]) -> None:
    masked = redactor.text(text).text
    assert [secret for secret in secrets if secret in masked] == []


@pytest.mark.parametrize(("text", "secrets"), MULTI_LINE)
def test_the_same_holds_for_a_stream_and_for_a_text_with_escaped_line_breaks(text: str, secrets: list[str]) -> None:
    stream = ChunkRedactor(redactor)
    assert "".join(map(stream.feed, text)) + stream.finish() == redactor.text(text).text
    if "PRIVATE" not in text and KEY not in text and "ghp" not in text and "AKIA2345" not in text:
        escaped = redactor.text('{"text":"before\\n' + text.replace('"', '\\"').replace("\n", "\\n") + '"}').text
        assert [secret for secret in secrets if secret in escaped] == []


@pytest.mark.parametrize(
    "text",
    [
        "user,password\nsee below for both\n",
        "name,token,count\nalpha,beta\n",
        "| token | meaning |\n|---|---|\n| ident | a name |\n",
        "login failed\npassword reset requested\n",
        "Recovery codes:\nsee the manual\n",
        f"-----BEGIN CERTIFICATE-----\n{BODY}\n{BODY}\n-----END CERTIFICATE-----\n",
        f"{BODY}\n{BODY}\n{BODY}\n",
        "the token\nconfiguration\n",
    ],
)
def test_lines_that_only_follow_the_name_of_a_secret_are_left_alone(text: str) -> None:
    assert redactor.text(text).text == text


TOKENS = [
    "gh" + "p_k3Jx9Zq8Wm2Lp4Rt7Yb1Nc5Ua8Fo3Vd6Hs0G",
    "gl" + "pat-k3Jx9Zq8Wm2Lp4Rt7Yb1",
    "np" + "m_k3Jx9Zq8Wm2Lp4Rt7Yb1Nc5Ua8Fo3Vd6Hs0G",
]


@pytest.mark.parametrize("token", [*TOKENS, "API_TOKEN=k3Jx9Zq8Wm2Lp4Rt7Yb1Nc5Ua8Fo3"])
@pytest.mark.parametrize(
    "line",
    [
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "3f78685",
        "123e4567-e89b-12d3-a456-426614174000",
        "2026-01-31",
        "192.168.0.17",
        "v1.12.3-rc1",
        "1234567",
    ],
)
def test_what_stands_below_a_token_and_is_no_part_of_it_stays(token: str, line: str) -> None:
    assert redactor.text(f"{token}\n{line}\n").text.splitlines()[1] == line


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_of_its_full_length_has_no_rest(token: str) -> None:
    assert redactor.text(f"{token}\nbuildId77Xq2\n").text.splitlines()[1] == "buildId77Xq2"


def test_a_token_in_hex_goes_on_in_hex() -> None:
    assert "9c0d1e2f" not in redactor.text("dop_v1_" + "3f7868509a1b" * 4 + "\n9c0d1e2f3f786850\n").text
