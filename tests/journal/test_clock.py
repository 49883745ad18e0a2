"""The test clock: only where it is asked for twice, in UTC, and steady while its file is being written."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shiftlog.journal.clock import Clock
from tests.journal.harness import Harness

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def clock(setting: str, **environ: str) -> Clock:
    return Clock.from_environ({"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": setting, **environ})


@pytest.mark.parametrize("text", ["2026-07-01T12:00:00Z", "2026-07-01T14:00:00+02:00", "2026-07-01T12:00:00"])
def test_the_time_is_utc_unless_it_names_another_zone(text: str) -> None:
    assert clock(text).now() == NOON
    assert clock(text).now().tzinfo is UTC


def test_without_the_word_that_this_is_a_test_the_time_is_real() -> None:
    real = clock("2026-07-01T12:00:00Z", SHIFTLOG_TEST="0")
    assert (real.is_test, real.now() == NOON) == (False, False)


def test_the_time_stands_still_while_its_file_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "now"
    test = clock(f"@{file}")
    with pytest.raises(OSError, match="now"):
        test.now()
    file.write_text("2026-07-01T12:00:00Z\n", encoding="utf-8")
    assert test.now() == NOON
    for text in ("", "2026-07-", "soon"):
        file.write_text(text, encoding="utf-8")
        assert test.now() == NOON
    file.unlink()
    assert test.now() == NOON
    file.write_text("2026-07-01T13:00:00Z", encoding="utf-8")
    assert test.now() == NOON.replace(hour=13)


async def test_times_do_not_stay_ahead_after_the_clock_jumped_and_was_set_back(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    harness.set_time(NOON + timedelta(days=400))
    await harness.update(session, tags=["ahead"])
    back = NOON + timedelta(minutes=5)
    harness.set_time(back)
    await harness.update(session, tags=["back"])
    assert (await harness.session(session)).last_activity == back
    assert (await harness.turn(session)).last_updated == back
    assert not any(rebuilt.changed for rebuilt in await harness.rebuild())
    harness.set_time(back - timedelta(seconds=2))
    await harness.update(session, tags=["a small step"])
    assert (await harness.session(session)).last_activity == back
