"""Two replicas over PostgreSQL and the embedded store give the same answers to the same random calls."""

import difflib
import json
import os
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.signing.keys import Keys
from tests.server.scripts import NOON, Call, Script, compared, open_side

SEED = int(os.environ.get("SCRIPT_SEED", "25"))


@pytest.mark.long
@pytest.mark.parametrize("calls", [300, pytest.param(5_000, marks=pytest.mark.soak)])
async def test_replicas_and_the_embedded_store_give_the_same_answers(
    calls: int, postgres_url: str, tmp_path: Path
) -> None:
    keys, script, now = tmp_path / "keys", Script(random.Random(SEED)), NOON
    Keys.load(keys)
    async with (
        open_side(tmp_path / "embedded", keys, None, 1) as embedded,
        open_side(tmp_path / "team", keys, postgres_url, 2) as replicas,
    ):
        for number in range(calls):
            call = script.draw()
            now += timedelta(seconds=call.after_s)
            answers = [await side.run(call, now) for side in (embedded, replicas)]
            expected, given = (shown(call, answer) for answer in answers)
            differs = "\n".join(difflib.unified_diff(expected, given, "embedded", "replicas", lineterm="", n=2))
            assert given == expected, f"call {number}: {call}\n{differs[:4000]}"
            script.learn(call, answers[0])


def shown(call: Call, answer: Any) -> list[str]:
    return json.dumps(compared(answer, call.arguments), indent=1, ensure_ascii=False, sort_keys=True).splitlines()
