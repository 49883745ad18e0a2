"""The control connection of the command line, the REPL and hooks: numbered requests, answers in any order.

This module handles lines, streams and errors. The daemon and its app decide what a method means.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import anyio
import msgspec
from anyio.abc import TaskGroup

from shiftlog.daemon.lines import GONE, LineStream, LineTooLong
from shiftlog.daemon.tasks import until
from shiftlog.model.errors import InternalError, InvalidParameter, ShiftlogError, StorageError, trouble

LINE_BYTES = 32 << 20
AT_ONCE = 64

Answer = Awaitable[object] | AsyncGenerator[object]
Respond = Callable[[str, dict[str, object]], Answer]

log = logging.getLogger(__name__)


class Question(msgspec.Struct, frozen=True):
    """One line of a control client: a request, or the cancellation of one."""

    id: int | None = None
    method: str = ""
    params: dict[str, object] = {}
    cancel: int | None = None


class Control:
    """The requests of one connection; `draining` ends reading, but never a request that was read."""

    def __init__(self, lines: LineStream, respond: Respond) -> None:
        self._lines = lines
        self._respond = respond
        self._running: dict[int, anyio.CancelScope] = {}
        self._streaming: set[int] = set()
        # Bounds the running requests of one client; the rest waits in its socket.
        self._room = anyio.Semaphore(AT_ONCE)

    async def serve(self, draining: anyio.Event) -> None:
        """Answer until the client closes, or until `draining` and every request is answered."""
        async with anyio.create_task_group() as questions:
            async with until(draining):
                await self._read(questions)
            if not draining.is_set():
                # The client is gone.
                questions.cancel_scope.cancel()
            for number in self._streaming:
                self._running[number].cancel()  # a stream may have no end of its own

    async def _read(self, questions: TaskGroup) -> None:
        while True:
            try:
                line = await self._lines.read(LINE_BYTES)
            except LineTooLong:
                await self._refuse(None, InvalidParameter.invalid("line", f"at most {LINE_BYTES >> 20} MiB"))
                return
            if line is None:
                return
            try:
                question = msgspec.json.decode(line, type=Question)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                says = "one JSON object with id, method and params"
                await self._refuse(None, InvalidParameter.invalid("line", says))
                continue
            if question.cancel is not None:
                if (scope := self._running.get(question.cancel)) is not None:
                    scope.cancel()
            elif question.id is None or question.id in self._running:
                says = "a number that no running question has"
                await self._refuse(question.id, InvalidParameter.invalid("id", says))
            else:
                await self._room.acquire()
                scope = self._running[question.id] = anyio.CancelScope()
                questions.start_soon(self._answer, question.id, question, scope)

    async def _answer(self, number: int, question: Question, scope: anyio.CancelScope) -> None:
        last = _line({"id": number, "result": None})
        try:
            with scope:
                last = _line({"id": number, "result": await self._result(number, question)})
        except ShiftlogError as error:
            last = _line({"id": number, "error": error.as_dict()})
        except GONE:
            return
        except Exception as error:
            told = trouble(error) or _of_file(error)
            log.log(logging.WARNING if told else logging.ERROR, "A control request failed", exc_info=error)
            told = told or InternalError("The daemon failed to answer; daemon.log has the details")
            last = _line({"id": number, "error": told.as_dict()})
        finally:
            del self._running[number]
            self._streaming.discard(number)
            self._room.release()
        await self._send(last)

    async def _result(self, number: int, question: Question) -> object:
        answer = self._respond(question.method, question.params)
        if not isinstance(answer, AsyncGenerator):
            return await answer
        self._streaming.add(number)
        async with aclosing(answer):
            async for item in answer:
                await self._lines.send(_line({"id": number, "item": item}))
        return None

    async def _refuse(self, number: int | None, error: ShiftlogError) -> None:
        await self._send(_line({"id": number, "error": error.as_dict()}))

    async def _send(self, line: bytes) -> None:
        try:
            await self._lines.send(line)
        except GONE:
            pass


def _of_file(error: Exception) -> StorageError | None:
    """Return the error for a file that cannot be used as it is; None for any other."""
    if not isinstance(error, OSError) or not isinstance(error.filename, str):
        return None
    return StorageError(f"{error.filename}: {error.strerror}", hint="Run shiftlog doctor")


def _line(message: dict[str, object]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
