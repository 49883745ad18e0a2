"""The family of errors: five keys on every face, one class for each code, and values that are safe to show."""

import json
import math
from types import ModuleType
from typing import Any

import pytest

from shiftlog.model import errors, shell_errors
from shiftlog.model.errors import InvalidParameter, ShiftlogError, leaves, shown_value


def test_every_error_shows_the_same_five_keys() -> None:
    for leaf in leaves():
        shown = leaf("what happened", details={"a": 1}).as_dict()
        assert list(shown) == ["code", "message", "details", "hint", "retryable"]
        assert shown["message"] == "what happened"


def test_codes_are_unique_and_each_error_is_also_the_builtin_a_caller_expects() -> None:
    found = leaves()
    assert len({leaf.code for leaf in found}) == len(found) > 20
    for leaf in found:
        builtin = [base for base in leaf.__bases__ if base is not ShiftlogError]
        assert len(builtin) == 1
        assert builtin[0].__module__ == "builtins"


@pytest.mark.parametrize("module", [errors, shell_errors])
def test_the_tree_in_the_docstring_is_the_tree_of_the_code(module: ModuleType) -> None:
    drawn = {tuple(line.split()[1:4]) for line in (module.__doc__ or "").splitlines() if line.startswith(("├", "└"))}
    assert drawn == {
        (leaf.__name__, leaf.code, next(base.__name__ for base in leaf.__bases__ if base is not ShiftlogError))
        for leaf in leaves()
        if leaf.__module__ == module.__name__
    }


def test_only_what_may_work_later_is_retryable() -> None:
    retryable = {leaf.code for leaf in leaves() if leaf.retryable}
    assert retryable == {
        "approval_required",
        "budget_exceeded",
        "command_timeout",
        "container_not_running",
        "docker_unavailable",
        "journal_unavailable",
        "session_held",
        "shell_busy",
        "shell_limit",
        "ssh_connect_failed",
        "storage_error",
        "too_many_connections",
    }


def test_a_missing_parameter_is_named_in_the_exact_words() -> None:
    error = InvalidParameter.missing("actions[0].type")
    assert error.message == "Parameter 'actions[0].type' cannot be null or empty"
    assert error.details == {
        "parameter": "actions[0].type",
        "value": None,
        "constraint": "required",
        "problem": "missing",
    }


def test_an_invalid_parameter_names_rule_value_and_what_is_allowed() -> None:
    error = InvalidParameter.invalid("role", "one of a, b", "c", allowed=["a", "b"])
    assert error.message == "Parameter 'role' is invalid: one of a, b"
    assert error.details == {
        "parameter": "role",
        "value": "c",
        "constraint": "one of a, b",
        "problem": "invalid",
        "allowed": ["a", "b"],
    }


def test_an_unknown_parameter_names_the_nearest_one() -> None:
    error = InvalidParameter.unknown("titel", "title")
    assert error.message == "Parameter 'titel' is invalid: unknown parameter; did you mean 'title'?"
    assert error.details["nearest"] == "title"
    assert error.details["problem"] == "unknown"
    assert "nearest" not in InvalidParameter.unknown("titel", None).details


def _deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        -(2**70),
        10**6_000,
        0.5,
        math.nan,
        math.inf,
        "short",
        "x" * 10_000,
        "\ud800 half a pair",
        _deep(100_000),
        {"a": _deep(5_000)},
        b"bytes",
        object(),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_any_refused_value_can_be_shown_as_short_json(value: object) -> None:
    shown = shown_value(value)
    text = json.dumps(shown, allow_nan=False).encode()
    assert len(text) < 2_000
    assert shown is None or not isinstance(shown, str) or len(shown) <= 200


def test_a_long_value_is_cut_between_words_so_that_no_half_of_a_secret_shows() -> None:
    secret = "ghp_" + "a1B2" * 9
    shown = shown_value("word " * 38 + secret + " and more" * 20)
    assert isinstance(shown, str)
    assert shown.endswith("word…")
    assert "ghp_" not in shown
    assert shown_value("x" * 201) == "…"
    assert shown_value("x" * 200) == "x" * 200
