"""The demo session: a short example that a new user can read, search and verify.

It is recorded with the same calls that agents make. The agent is fictional, its kind is `DemoAgent`, and the token in
the story is random and worthless.
"""

import secrets
import string
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftlog.link.client import Client

LETTERS = string.ascii_letters + string.digits

Arguments = dict[str, Any]
# One call of the story: the line that is printed about it, the tool and its arguments.
Step = tuple[str, str, Arguments]


def record(client: "Client") -> Iterator[tuple[str, dict[str, Any]]]:
    """Record the story call by call, yielding the line about each call and its answer; the last closes the session."""
    session_id = ""
    for says, tool, given in _story("ghp_" + "".join(secrets.choice(LETTERS) for _ in range(36))):
        arguments = {"session_id": session_id, **given} if session_id else given
        answer: dict[str, Any] = client.call("tool", {"tool": tool, "arguments": arguments})
        session_id = session_id or answer["session_id"]
        yield says, answer


def _step(says: str, tool: str, **arguments: Any) -> Step:
    return says, tool, arguments


def _said(role: str, category: str, content: str) -> Arguments:
    return {"role": role, "category": category, "content": content}


def _did(kind: str, description: str, path: str) -> Arguments:
    return {"type": kind, "description": description, "status": "completed", "file_path": path}


def _story(token: str) -> Iterator[Step]:
    yield _step(
        "The agent opens a session",
        "open_session",
        agent="DemoAgent",
        agent_id="demo",
        title="Some orders are charged twice",
        model="demo-model",
        cwd="/home/demo/webshop",
        tags=["demo"],
    )
    yield from _finding_the_cause()
    yield from _a_first_attempt(token)
    yield from _the_fix()
    yield _step(
        "The agent closes the session and gets a signed receipt",
        "close_session",
        reason="task_completed",
        epitaph="Retries no longer charge twice. The old carts without a key expire on their own.",
    )


def _finding_the_cause() -> Iterator[Step]:
    yield _step(
        "Turn 1: a person asks why orders are charged twice",
        "begin_turn",
        query_title="Why are some orders charged twice?",
        query_text="Three customers were charged twice since Monday. Find out why before you change anything.",
        tags=["checkout", "payments"],
    )
    yield _step(
        "The agent reads the log and finds a pattern",
        "update_turn",
        interpretation="Find the cause of the double charges. No changes to the code yet.",
        dialog=[
            _said("model", "tool_call", "grep -n 'charge accepted' logs/checkout.log | sort -k 4"),
            _said(
                "tool",
                "tool_result",
                "10:02:11 order 8841 charge accepted (attempt 1)\n"
                "10:02:41 order 8841 charge accepted (attempt 2)\n"
                "10:17:03 order 8853 charge accepted (attempt 1)\n"
                "10:17:33 order 8853 charge accepted (attempt 2)",
            ),
            _said(
                "model",
                "reasoning",
                "The second charge always comes 30 seconds after the first. That is the timeout of the "
                "payment client: the first attempt succeeds, but its answer arrives too late.",
            ),
        ],
        context_list=["logs/checkout.log", "src/payments/client.py"],
    )
    yield _step(
        "The agent finishes the turn; from now on it cannot be changed",
        "finish_turn",
        outcome="completed",
        response="A charge that takes longer than 30 seconds is retried, although the first attempt went "
        "through. The retry has no idempotency key, so the provider takes it for a new charge.",
        usage={"input_tokens": 8_200, "output_tokens": 640},
    )


def _a_first_attempt(token: str) -> Iterator[Step]:
    yield _step(
        "Turn 2: the person asks for a fix",
        "begin_turn",
        query_title="Stop the double charges",
        query_text="Please fix it, with a test that fails without the fix.",
        tags=["checkout"],
    )
    yield _step(
        "The agent prints a configuration file with a token in it",
        "update_turn",
        dialog=[
            _said("model", "tool_call", "cat config/payments.env"),
            _said("tool", "tool_result", f"PAYMENTS_TIMEOUT=30\nPAYMENTS_TOKEN={token}\n"),
            _said("model", "reasoning", "A longer timeout would be the smallest change. Trying 120 seconds."),
        ],
        actions=[_did("edit", "Raise PAYMENTS_TIMEOUT to 120", "config/payments.env")],
    )
    yield _step(
        "The attempt does not hold; the turn is recorded as failed",
        "finish_turn",
        outcome="failed",
        error_message="With 120 seconds the double charge is rarer but still there: the test that drops the "
        "first answer fails. A timeout cannot fix a retry that is not idempotent.",
        error_code="wrong_approach",
        actions=[_did("edit", "Take the change of PAYMENTS_TIMEOUT back", "config/payments.env")],
        usage={"input_tokens": 11_900, "output_tokens": 1_150},
    )


def _the_fix() -> Iterator[Step]:
    yield _step(
        "Turn 3: the agent tries another way",
        "begin_turn",
        query_title="Make the retry idempotent",
        query_text="Go on with the other approach that you described.",
        tags=["checkout"],
    )
    yield _step(
        "The agent decides, and says why",
        "update_turn",
        dialog=[
            _said(
                "model",
                "decision",
                "Derive the idempotency key from order and amount, not from the attempt: then a retry is the "
                "same charge for the provider, whoever sends it.",
            ),
            _said("model", "tool_call", "pytest tests/payments -q"),
            _said("tool", "tool_result", "41 passed in 3.2s"),
        ],
        design_decisions=[
            "Idempotency key = hash of order and amount, so that every retry of a charge carries the same key"
        ],
        actions=[
            _did("edit", "Send the idempotency key with each charge", "src/payments/client.py"),
            _did("create", "Test that a lost answer does not charge twice", "tests/payments/test_retry.py"),
        ],
    )
    yield _step(
        "The agent finishes the work",
        "finish_turn",
        outcome="completed",
        response="Each charge now carries a key made from order and amount, so a retry is the same charge. "
        "The new test drops the first answer and fails without the key. All 41 tests pass.",
        files_modified=["src/payments/client.py", "tests/payments/test_retry.py"],
        commits=[{"sha": secrets.token_hex(20), "branch": "main", "message": "Make retries of a charge idempotent"}],
        usage={"input_tokens": 9_400, "output_tokens": 1_720},
    )
