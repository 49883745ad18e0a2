"""The control questions as the page asks them: for the person in front of the browser."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from shiftlog.app.app import App
from shiftlog.control.questions import answer
from shiftlog.model.caller import Caller

PERSON = Caller(face="page", operator=True, client_name="person")


async def ask(app: App, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question that has one result."""
    answering = answer(app, method, params, PERSON)
    if isinstance(answering, AsyncGenerator):
        raise TypeError(f"{method} answers with a stream")
    return cast(dict[str, Any], await answering)
