"""The spool is drained once: torn lines, crashes between files and store, poisoned items, and nothing left behind."""

import fcntl
import json
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import apsw
import pytest

from shiftlog.ingest.hooks.events import fact_of, read_spooled
from shiftlog.ingest.hooks.spool import HookSpool
from shiftlog.journal.hooked.stops import Stop
from shiftlog.model.errors import StorageError
from shiftlog.model.limits import HOOK_EVENT_ATTEMPTS
from tests.ingest.hooks.hook_app import SESSION, open_hook_app
from tests.journal.harness import files_holding

FILE = "hooks-20261101.jsonl"
LATE = "5e551000-0000-4000-8000-00000000000f"


async def test_a_torn_last_line_waits_for_its_end(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        text = json.dumps(hooked.line("UserPromptSubmit", prompt="Go")) + "\n"
        hooked.append(FILE, text[:40])
        assert await hooked.drain() == 1
        assert hooked.files() == [FILE]
        hooked.append(FILE, text[40:])
        assert await hooked.drain() == 1
        assert (await hooked.app.session(SESSION)).turns_total == 1
        assert hooked.files() == []


async def test_a_line_that_is_no_event_is_set_aside_and_the_rest_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "ghp_" + "a1B2" * 9
    deep = json.dumps({"v": 1, "event": "deep"}).replace('"deep"', "[" * 900 + f'"{secret}"' + "]" * 900)
    async with open_hook_app(tmp_path) as hooked:
        hooked.append(FILE, '{"v":1,"id":"ab\n\n[]\n{"id":1}\n')
        hooked.append(FILE, deep + "\n")
        hooked.append(FILE, "x" * (2 << 20) + "\n")
        hooked.spool("SessionStart", source="startup")
        await hooked.drain()
        assert caplog.text.count("is torn") == 6
        assert await hooked.app.session(SESSION)
        assert hooked.files() == []
        aside = hooked.hooks.spool.aside()
        assert {item["reason"] for item in aside} == {"it is no event that can be read"}
        assert sorted(item["bytes"] for item in aside) == [3, 9, 16, len(deep) + 1, (2 << 20) + 1]
    assert files_holding(hooked.home, secret) == []


async def test_a_folder_that_is_longer_than_any_can_be_is_left_out_of_its_event(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Go", cwd="/" + "a/" * 8_000)
        assert await hooked.drain() == 1
        session = await hooked.app.session(SESSION)
        assert (session.workspace, session.turns_total) == (None, 1)


async def test_files_of_other_kinds_and_names_keep_no_event_waiting(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        folder = hooked.home / "spool"
        os.mkfifo(folder / "hooks-20200101.jsonl")
        (folder / "hooks-20200102.jsonl").mkdir()
        (folder / "hooks-20200103.jsonl").symlink_to("/dev/zero")
        (folder / os.fsdecode(b"hooks-\xff.jsonl")).write_text("{}\n")
        assert await hooked.drain() == 1
        assert await hooked.app.session(SESSION)


async def test_a_line_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        first = hooked.spool("UserPromptSubmit", prompt="Go")
        await hooked.drain()
        heads = await hooked.app.heads()
        hooked.append(FILE, json.dumps(first) + "\n")
        await hooked.drain()
        assert await hooked.app.heads() == heads
        assert hooked.files() == []


async def test_a_file_whose_removal_was_cut_off_is_not_taken_again(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        hooked.spool("UserPromptSubmit", prompt="Go")
        before = (hooked.home / "spool" / FILE).read_bytes()
        source = hooked.hooks.spool.at(FILE, None)
        assert source is not None
        spooled = read_spooled(next(hooked.hooks.spool.lines(source)).data)
        assert spooled is not None
        # One event is taken with its cursor, and there the process is killed.
        cursor = next(hooked.hooks.spool.lines(source)).after
        await hooked.hooks.intake.take(fact_of(spooled, hooked.hooks.composer), cursor)
    async with open_hook_app(tmp_path) as hooked:
        assert (hooked.home / "spool" / FILE).read_bytes() == before
        assert await hooked.drain() == 1
        session = await hooked.app.session(SESSION)
        assert session.turns_total == 1
        kinds = await hooked.app.harness.kinds(session.id)
        assert kinds.count("session.opened") == 1
        assert hooked.files() == []


async def test_what_is_added_while_a_file_is_drained_is_not_lost(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        spool = HookSpool(folder=hooked.home / "spool")
        source = spool.at(FILE, None)
        assert source is not None
        (line,) = list(spool.lines(source))
        hooked.spool("UserPromptSubmit", prompt="Go")
        assert not spool.remove(line.after)
        assert await hooked.drain() == 2


async def test_another_file_under_the_same_name_is_read_from_its_start(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        path = hooked.append(FILE, "{")
        await hooked.drain()
        path.write_text("")
        hooked.spool("UserPromptSubmit", prompt="A longer text than the line before, so that the cursor would fit")
        await hooked.drain()
        assert (await hooked.app.session(SESSION)).turns_total == 1


async def test_only_one_process_drains(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        with (hooked.home / "spool" / "drain.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert await hooked.drain() == 0
        assert await hooked.drain() == 1


@pytest.mark.parametrize("event", [{"hook_event_name": ["x"]}, {"unreadable": True, "bytes": 9}, {"session_id": 5}, {}])
async def test_an_event_of_any_shape_is_taken(event: dict[str, object], tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        line = hooked.line("SessionStart")
        hooked.append(FILE, json.dumps({**line, "event": event}) + "\n")
        assert await hooked.drain() == 1
        assert hooked.files() == []
        assert hooked.hooks.spool.aside() == []


async def test_a_poisoned_event_is_set_aside_with_the_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with open_hook_app(tmp_path) as hooked:
        line = hooked.line("SessionStart", source="startup", note=secret)
        hooked.append(FILE, json.dumps({**line, "at": "9999-12-31T23:59:59.999Z"}) + "\n")
        hooked.spool("SessionStart", source="startup", session_id=SESSION[:-1] + "b")
        await hooked.drain()
        (item,) = hooked.hooks.spool.aside()
        assert item["reason"] == "its time lies in the future: 9999-12-31T23:59:59.999Z"
        assert (item["event"], item["id"]) == ("SessionStart", line["id"])
        assert await hooked.app.session(SESSION[:-1] + "b")
        assert hooked.files() == []
    assert files_holding(hooked.home, secret) == []


async def test_an_event_that_breaks_the_store_each_time_is_set_aside_after_a_few_tries(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        hooked.spool("SessionStart", source="startup", session_id=SESSION[:-1] + "b")
        with closing(apsw.Connection(str(hooked.home / "shiftlog.db"))) as db:
            db.execute(
                f"CREATE TRIGGER poison BEFORE INSERT ON sessions WHEN NEW.vendor_id = '{SESSION}' "
                "BEGIN SELECT RAISE(ABORT, 'poison'); END"
            )
        for _ in range(HOOK_EVENT_ATTEMPTS - 1):
            with pytest.raises(StorageError):
                await hooked.drain()
        await hooked.drain()
        (item,) = hooked.hooks.spool.aside()
        assert "poison" in item["reason"]
        assert await hooked.app.session(SESSION[:-1] + "b")


async def test_events_wait_as_long_as_the_store_takes_no_write(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        database = hooked.home / "shiftlog.db"
        away = database.rename(hooked.home / "away.db")
        for _ in range(HOOK_EVENT_ATTEMPTS + 2):
            with pytest.raises(StorageError):
                await hooked.drain()
        assert hooked.hooks.spool.aside() == []
        away.rename(database)
        await hooked.drain()
        assert await hooked.app.session(SESSION)
        assert hooked.files() == []


def test_the_spool_keeps_what_is_set_aside_to_its_owner(tmp_path: Path) -> None:
    spool = HookSpool(folder=tmp_path)
    spool.set_aside("../x", {"kind": "hook"}, "because", datetime.now(UTC))
    spool.set_aside("../x", {"kind": "hook"}, "because again", datetime.now(UTC))
    (item,) = spool.aside()
    assert item["reason"] == "because again"
    (file,) = (tmp_path / "aside").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "aside"]


async def test_an_event_that_comes_as_a_round_ends_is_taken_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_hook_app(tmp_path) as hooked, anyio.create_task_group() as running:
        read_stops = hooked.hooks.intake.stops

        async def stops() -> dict[str, Stop]:
            """Read what a round reads last, and let the next event come then."""
            found = await read_stops()
            if not late:
                late.append(hooked.spool("UserPromptSubmit", prompt="Second", session_id=LATE))
            return found

        late: list[object] = []
        monkeypatch.setattr(hooked.hooks.intake, "stops", stops)
        hooked.spool("UserPromptSubmit", prompt="First")
        hooked.later(seconds=5)
        running.start_soon(hooked.hooks.run, anyio.Event())
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            await hooked.hooks.caught_up(10)
        assert late
        assert await hooked.hooks.turns.turn_of("ClaudeCode", LATE) is not None
        running.cancel_scope.cancel()
