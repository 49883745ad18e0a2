"""Masking a long text keeps no other task of the event loop waiting."""

import threading
import time

import anyio
import pytest

from shiftlog.guard.secrets.off_loop import ON_LOOP_CHARS, run_off_loop
from shiftlog.guard.secrets.redactor import Redactor

pytestmark = pytest.mark.anyio
redactor = Redactor()


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"title": "short"}, True),
        ({"texts": ["x" * (ON_LOOP_CHARS // 2)]}, True),
        ({"texts": ["x" * ON_LOOP_CHARS, "y"]}, False),
        ({"x" * (ON_LOOP_CHARS + 1): 1}, False),
        ([{"a": [i]} for i in range(ON_LOOP_CHARS + 1)], False),
    ],
)
async def test_long_values_are_masked_in_a_thread_and_short_ones_at_once(given: object, here: bool) -> None:
    thread = await run_off_loop(given, threading.get_ident)
    assert (thread == threading.get_ident()) is here


@pytest.mark.long
async def test_a_megabyte_of_repeated_headers_stalls_no_other_task() -> None:
    text = "Cookie: " * 125_000
    longest, done = 0.0, anyio.Event()

    async def mask() -> None:
        await run_off_loop(text, redactor.text, text)
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(mask)
        while not done.is_set():
            before = time.monotonic()
            await anyio.sleep(0.005)
            longest = max(longest, time.monotonic() - before)
    assert longest < 1
