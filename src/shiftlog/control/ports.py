"""The types that every group of questions shares."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from shiftlog.app.app import App
from shiftlog.model.caller import Caller

Params = Mapping[str, Any]
# One result, or a stream of items.
Answer = Awaitable[object] | AsyncGenerator[object]
Question = Callable[[App, Params, Caller], Answer]
