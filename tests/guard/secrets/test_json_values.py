"""Redacting JSON values, where keys decide too."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.guard.secrets.redactor import PATH_FIELDS, Redactor
from tests.guard.secrets.texts import suspicious_texts

GITHUB = "gh" + "p_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c"
OTHER_GITHUB = GITHUB.replace("Ab3", "Zy9")

redactor = Redactor()


def masked(value: Any) -> Any:
    return redactor.value(value)[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"api_key": "abcd"}, {"api_key": "[REDACTED]"}),
        ({"apiKey": "three plain words"}, {"apiKey": "[REDACTED]"}),
        ({"password": "letmein"}, {"password": "[REDACTED:password]"}),
        ({"password": 12345678}, {"password": "[REDACTED:password]"}),
        ({"token": ["abcd1234", "efgh5678"]}, {"token": ["[REDACTED:password]", "[REDACTED:password]"]}),
        ({"secret": {"value": "xY3xY3xY3xY3"}}, {"secret": {"value": "[REDACTED:password]"}}),
        ({"authorization": "Bearer abcd"}, {"authorization": "Bearer [REDACTED]"}),
        ({"Authorization": "abcd1234"}, {"Authorization": "[REDACTED]"}),
        ({"cookie": "sid=abcd"}, {"cookie": "[REDACTED:cookie]"}),
        ({"GITHUB_TOKEN": GITHUB}, {"GITHUB_TOKEN": "[REDACTED:provider_key]"}),
        ({"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "DB_PASSWORD", "value": "[REDACTED:password]"}),
        (["Authorization", "Basic abcd"], ["Authorization", "Basic [REDACTED]"]),
        (["app", "--token", "abcd1234"], ["app", "--token", "[REDACTED:password]"]),
        (["mysql", "-phunter2", "app"], ["mysql", "-p[REDACTED:password]", "app"]),
        (["sshpass", "-p", "hunter2", "ssh"], ["sshpass", "-p", "[REDACTED:password]", "ssh"]),
        ({GITHUB: 1}, {"[REDACTED:provider_key]": 1}),
        ("postgres://u:hunter2@db", "postgres://u:[REDACTED:url_password]@db"),
        ({"a": [{"b": ("x", f"see {GITHUB}")}]}, {"a": [{"b": ("x", "see [REDACTED:provider_key]")}]}),
        ({"text": '{"password": "hunter2"}'}, {"text": '{"password": "[REDACTED:password]"}'}),
        ({"cookie": {"sid": "abcdef12345"}}, {"cookie": {"sid": "[REDACTED:cookie]"}}),
        ({"cookies": {"sid": "abcdef12345"}}, {"cookies": {"sid": "[REDACTED:cookie]"}}),
        (
            {"cookies": [{"name": "session", "value": "kettle", "domain": "example.com"}]},
            {"cookies": [{"name": "session", "value": "[REDACTED:cookie]", "domain": "example.com"}]},
        ),
    ],
)
def test_secrets_are_masked_by_key_by_neighbour_and_by_text(value: Any, expected: Any) -> None:
    assert masked(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"password": None, "token": "", "secret": False},
        {"token_count": 1250, "max_tokens": 4096, "total_tokens": 18250},
        {"password": "${DB_PASSWORD}", "token": "<token>", "secret": "***"},
        {"password": {"type": "string", "description": "The password of the account"}},
        {"pwd": "/srv/app"},
        {"dependencies": {"cookie": "^0.6.0"}},
        {"cookies": "enabled"},
        {"cookies": ["session", "theme"]},
        {"name": "GIT_SHA", "value": "3f786850e387550fdab836ed7e6dc881de23001b"},
        ["docker", "run", "-p", "8080:80", "nginx"],
        ["token", "password"],
        [1, 2.5, None, True, {"a": []}, {}],
        "plain",
        12,
        None,
    ],
)
def test_what_is_no_secret_is_returned_as_it_is(value: Any) -> None:
    result, count, classes = redactor.value(value)
    assert result is value
    assert (count, classes) == (0, {})


def test_the_value_given_is_not_changed() -> None:
    value = {"a": [{"password": "hunter2"}]}
    redactor.value(value)
    assert value == {"a": [{"password": "hunter2"}]}


def test_secrets_are_counted_by_class() -> None:
    value = {"api_key": "abcd", "log": f"{GITHUB} password: hunter2x", "pin": {"password": 123456}}
    _, count, classes = redactor.value(value)
    assert count == 4
    assert classes == {"api_key": 1, "password": 2, "provider_key": 1}


def test_the_rule_is_shown_where_it_is_asked_for() -> None:
    assert redactor.value({"api_key": "abcd", "t": GITHUB}, by_rule=True)[0] == {
        "api_key": "[REDACTED:assignment]",
        "t": "[REDACTED:github]",
    }


def test_two_keys_that_mask_alike_keep_both_values() -> None:
    assert masked({GITHUB: 1, OTHER_GITHUB: 2}) == {"[REDACTED:provider_key]": 1, "[REDACTED:provider_key] (2)": 2}


def test_in_fields_that_hold_paths_only_shapes_count() -> None:
    value = {"file_path": "/srv/password=hunter2/a", "cwd": f"/srv/{GITHUB}", "changes": {"/a/token=abcd1234x": "y"}}
    assert redactor.value(value, path_fields=PATH_FIELDS)[0] == {
        "file_path": "/srv/password=hunter2/a",
        "cwd": "/srv/[REDACTED:provider_key]",
        "changes": {"/a/token=abcd1234x": "y"},
    }


def test_a_silenced_rule_holds_for_keys_too() -> None:
    silenced = Redactor(silenced=frozenset({"assignment"}))
    assert silenced.value({"password": "hunter2"})[0] == {"password": "hunter2"}


def test_no_nesting_is_too_deep() -> None:
    value: Any = {"password": "hunter2"}
    for _ in range(20_000):
        value = [value]
    result, count, _ = redactor.value(value)
    assert count == 1
    for _ in range(20_000):
        result = result[0]
    assert result == {"password": "[REDACTED:password]"}


_NAMES = st.sampled_from(["password", "token", "authorization", "cookie", "name", "value", "text", "signature"])
_KEYS = st.one_of(_NAMES, suspicious_texts(2))
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), suspicious_texts(4))
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(value=_JSON)
def test_any_value_is_masked_without_loss_of_shape_and_twice_is_once(value: Any) -> None:
    once, _, _ = redactor.value(value)
    assert _shape(once) == _shape(value)
    assert redactor.value(once)[0] == once


def _shape(value: Any) -> object:
    if isinstance(value, dict):
        return [_shape(item) for item in cast(dict[str, Any], value).values()]
    return [_shape(item) for item in cast(list[Any], value)] if isinstance(value, list) else None
