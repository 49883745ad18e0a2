"""The edge of this face: whatever a call ran into, there is one answer. What is foreseen has errors of its own."""

import sys
from collections.abc import Callable
from typing import Any

# Answers a method and its parameters with `{"result": …}` or `{"error": …}`.
Call = Callable[[str, object], dict[str, Any]]


def answer(call: Call, method: str, params: object) -> dict[str, Any]:
    """Return what a call answers; a defect is an answer too, and standard error says where it is."""
    try:
        return call(method, params)
    except Exception as error:  # noqa: BLE001 - the edge of this face
        import traceback

        # Messages can repeat what was sent, so only the places are logged.
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - whoever started us closed it
            sys.stderr.write("".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__name__}\n")
        reason = f"{type(error).__name__}; standard error says where"
        payload = {"code": "internal_error", "message": "Internal error", "retryable": False}
        return {"error": {**payload, "details": {"reason": reason}}}
