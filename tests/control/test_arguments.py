"""Questions with missing, wrong or odd arguments: the error names the argument and is never a defect."""

from collections import deque
from collections.abc import Generator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from shiftlog.control import questions
from shiftlog.control.arguments import ARGUMENTS
from shiftlog.control.questions import MODULE_OF
from shiftlog.link.client import Client
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from tests.daemon.support import REAL, control, end_daemon, start_daemon

ODD: list[Any] = [7, 2**70, -1, 1.5, True, "", "no such thing", "x" * 5_000, "\0", [], ["x"], [1], [{}], {}, {"x": 1}]
INNER: list[Any] = [{"command": 1}, {"env": 1}, {"env": {"a": 1}}, {"paths": 1}, {"before_turn": 1}]
QUESTIONS = [*MODULE_OF, "story", "export"]
# These answer for as long as the client listens.
ENDLESS = frozenset({("tail", "follow"), ("import", "watch")})
PLACES = {"cwd": "/", "workspace": "/", "local": "a", "remote": "b", "method": "currentSession", "as": "claude"}
NAMES = "session_id shell_id approval_id request_id checkpoint_id client_id call_id name command reason"
WHOLE: dict[str, Any] = PLACES | dict.fromkeys(NAMES.split(), "x")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    home = tmp_path_factory.mktemp("h")
    start_daemon(home, program=REAL, HOME=str(tmp_path_factory.mktemp("user")))
    with control(home) as client:
        yield client
    end_daemon(home)


def asked(client: Client, question: str, params: dict[str, Any]) -> ShiftlogError | None:
    """Ask, read the whole answer, and return the error if it is one."""
    try:
        deque(client.stream(question, params), maxlen=0)
    except ShiftlogError as error:
        return error
    return None


def mentioned(question: str) -> list[str]:
    """Return the arguments that the module of a question reads."""
    module = Path(questions.__file__).with_name(f"{MODULE_OF.get(question, 'journal')}.py").read_text()
    return [name for name in ARGUMENTS if f'"{name}"' in module]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_argument_of_another_type_is_refused_and_named(client: Client, question: str) -> None:
    odd = cycle(ODD)
    for name in mentioned(question):
        wrong = next(value for value in odd if not ARGUMENTS[name][1](value))
        error = asked(client, question, {name: wrong})
        assert isinstance(error, InvalidParameter), (name, wrong)
        assert error.details["parameter"] == name


@pytest.mark.parametrize("question", [name for name in QUESTIONS if name != "watch"])
def test_missing_and_odd_arguments_never_meet_a_defect(client: Client, question: str) -> None:
    tried: list[dict[str, Any]] = [{}, WHOLE]
    for name in mentioned(question):
        fitting = [value for value in (*ODD, *INNER) if ARGUMENTS[name][1](value) and (question, name) not in ENDLESS]
        tried += [some | {name: value} for value in fitting for some in ({}, WHOLE)]
    for params in tried:
        error = asked(client, question, params)
        assert error is None or error.code not in ("internal_error", "storage_error"), (params, error)


def test_an_approval_without_an_id_names_the_argument(client: Client) -> None:
    error = asked(client, "approve", {})
    assert error is not None
    assert error.details["parameter"] == "approval_id"
