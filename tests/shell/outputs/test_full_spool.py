"""A spool that is full: what is not stored any more is counted and shaped as if it were, as far as memory holds it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shiftlog.guard.budgets.shape import shape
from shiftlog.guard.budgets.spec import WHOLE, read_budget
from shiftlog.guard.budgets.text import TextLines
from shiftlog.shell.outputs.spool import ENDING_BYTES, OutputSpool
from tests.shell.rig import shell_rig

TEXTS = {
    "lines": "".join(f"{number}\n" for number in range(1, 1001)),
    "no final newline": "".join(f"{number}\n" for number in range(1, 500)) + "the end",
    "one line": "x" * 3000,
    "a line across the limit": "a\n" + "é" * 1500 + "\nb\nc\n",
    "blank lines": "\n" * 2500,
}
BUDGETS: list[dict[str, Any] | None] = [
    None,
    {"max_chars": 100},
    {"max_chars": 2500},
    {"max_chars": 1_000_000},
    {"keep": {"mode": "head", "n": 400}},
    {"keep": {"mode": "tail", "n": 400}},
    {"keep": {"mode": "head_tail", "head": 300, "tail": 3}},
    {"grep": {"pattern": "7|b|é|end", "context": 2}},
    {"grep": {"pattern": "7$"}, "keep": {"mode": "tail", "n": 60}, "max_chars": 300},
]


def room_for(limit: int) -> Callable[[int], int]:
    left = limit

    def claim(size: int) -> int:
        nonlocal left
        granted = min(size, left)
        left -= granted
        return granted

    return claim


def full_spool(folder: Path, text: str, limit: int) -> OutputSpool:
    spool = OutputSpool(str(folder / "spool"), room_for(limit))
    data = text.encode()
    for start in range(0, len(data), 700):
        spool.append(data[start : start + 700])
    assert spool.full
    return spool


@pytest.mark.parametrize("limit", [0, 1, 999, 1000, 1001])
@pytest.mark.parametrize("name", TEXTS)
def test_a_full_spool_is_shaped_as_the_whole_text(tmp_path: Path, name: str, limit: int) -> None:
    spool = full_spool(tmp_path, TEXTS[name], limit)
    for given in BUDGETS:
        budget = read_budget(given, "budget", clamp=False) or WHOLE
        wanted = shape(TextLines(TEXTS[name]), budget, 30_000)
        shown = shape(spool, budget, 30_000)
        assert (shown.text, shown.report, shown.truncated) == (wanted.text, wanted.report, wanted.truncated), given


def test_the_missing_end_of_a_line_is_never_silent(tmp_path: Path) -> None:
    spool = full_spool(tmp_path, "first\n" + "x" * 3 * ENDING_BYTES + "\nlast\n", 1000)
    shown = shape(spool, WHOLE, 1_000_000)
    assert shown.text == "first\n" + "x" * 994 + "\nlast"
    assert shown.truncated


async def test_a_result_holds_all_of_an_output_that_its_spool_did_not_store(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings="[policy.limits]\nspool_command_bytes = 1000\n") as rig:
        ran = await rig.run("seq 1 1000")
        assert ran["stdout"] == TEXTS["lines"].removesuffix("\n")
        assert (ran["truncated"], ran["output"]["stdout"]["spool_full"]) == (False, True)
