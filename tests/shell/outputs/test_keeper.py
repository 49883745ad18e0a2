"""Keeping outputs: limits, age, restarts, and files that nobody else can read."""

import gc
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.model.shell_errors import CommandNotFound, OutputExpired
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.outputs.keeper import OutputKeeper, OutputLimits

START = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)
BIG = b"".join(b"%d\n" % number for number in range(20_000))


class Day:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def day() -> Day:
    return Day()


def keeper_of(folder: Path, day: Day, **limits: int) -> OutputKeeper:
    return OutputKeeper(folder / "outputs", Redactor(), limits=OutputLimits(**limits), now=day)


def run(keeper: OutputKeeper, command_id: str, text: bytes) -> CommandOutput:
    output = keeper.begin(command_id)
    output.write("stdout", text)
    output.finish()
    return output


@pytest.mark.parametrize("text", [b"", b"small\n", b"no end", BIG, b"\xff\0" * 5000, "ä\n".encode() * 200_000])
def test_a_new_server_reads_what_the_old_one_spooled(tmp_path: Path, day: Day, text: bytes) -> None:
    """Case 26."""
    before = run(keeper_of(tmp_path, day), "4c82-1_local#1", text)
    after = keeper_of(tmp_path, day).reopen("4c82-1_local#1")
    assert after.show() == before.show()
    assert after.page(max_chars=1_000_000) == before.page(max_chars=1_000_000)
    assert after.page(from_line=2, max_chars=10) == before.page(from_line=2, max_chars=10)


def test_a_cursor_outlives_the_server(tmp_path: Path, day: Day) -> None:
    cursor = run(keeper_of(tmp_path, day), "4c82-1_local#1", BIG).page(max_chars=100).next_cursor
    page = keeper_of(tmp_path, day).reopen("4c82-1_local#1").page(cursor=cursor, max_chars=1_000_000)
    assert page.text.encode() == BIG[100 - (100 - BIG.rfind(b"\n", 0, 100) - 1) :]


def test_what_a_killed_server_had_written_is_counted_again(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    output = keeper.begin("4c82-1_local#1")
    output.write("stdout", BIG)
    output.write("stderr", "käse\nunfinished".encode())
    keeper.flush()
    after = keeper_of(tmp_path, day).reopen("4c82-1_local#1")
    assert after.page(max_chars=1_000_000).text.encode() == BIG
    assert after.page("stderr").text == "käse\n"
    assert after.page(max_chars=1_000_000).eof
    assert after.page(from_line=15_001, max_chars=6).text == "15000\n"


def test_a_character_torn_by_the_end_of_a_server_is_left_out(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    keeper.begin("4c82-1_local#1").write("stdout", "käse €\n".encode() * 50_000)
    keeper.flush()
    file = tmp_path / "outputs" / "4c82-1_local" / "1.stdout"
    file.write_bytes(file.read_bytes()[:-2])
    text = keeper_of(tmp_path, day).reopen("4c82-1_local#1").page(from_line=50_000).text
    assert text == "käse "


def test_a_torn_note_is_passed_over(tmp_path: Path, day: Day) -> None:
    run(keeper_of(tmp_path, day), "4c82-1_local#1", b"one\n")
    log = tmp_path / "outputs" / "4c82-1_local" / "finished.log"
    log.write_bytes(log.read_bytes() + b'\n{"n":1,"at":1,"siz')
    keeper = keeper_of(tmp_path, day)
    run(keeper, "4c82-1_local#2", b"two\n")
    keeper = keeper_of(tmp_path, day)
    assert keeper.reopen("4c82-1_local#1").show().stdout == "one"
    assert keeper.reopen("4c82-1_local#2").show().stdout == "two"


def test_files_and_folders_are_the_owners_alone(tmp_path: Path, day: Day) -> None:
    run(keeper_of(tmp_path, day), "4c82-1_local#1", BIG)
    for path in (tmp_path / "outputs", *(tmp_path / "outputs").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_outputs_go_fourteen_days_after_the_end(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    run(keeper, "4c82-1_local#1", BIG)
    day.now += timedelta(days=1)
    run(keeper, "4c82-1_local#2", b"small\n")
    day.now += timedelta(days=13, seconds=1)
    for one in (keeper, keeper_of(tmp_path, day)):
        one.sweep()
        with pytest.raises(OutputExpired, match="output of 4c82-1_local#1 is no longer kept"):
            one.reopen("4c82-1_local#1")
        assert one.reopen("4c82-1_local#2").show().stdout == "small"
    with pytest.raises(OutputExpired) as caught:
        keeper.reopen("4c82-1_local#1")
    assert caught.value.details == {"expired_at": "2026-11-29T06:00:01.000Z"}
    day.now += timedelta(days=1)
    assert keeper.sweep() == 1
    assert list((tmp_path / "outputs").iterdir()) == []
    assert keeper.kept_bytes == 0


def test_the_oldest_finished_outputs_make_room(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day, total_bytes=3 * len(BIG))
    for number in (3, 1, 2):
        run(keeper, f"4c82-1_local#{number}", BIG)
        day.now += timedelta(minutes=1)
    keeper = keeper_of(tmp_path, day, total_bytes=3 * len(BIG))
    running = keeper.begin("4c82-2_local#1")
    running.write("stdout", BIG)
    running.write("stdout", b"more\n")
    for number in (3, 1):
        with pytest.raises(OutputExpired):
            keeper.reopen(f"4c82-1_local#{number}")
    assert keeper.reopen("4c82-1_local#2").stdout.spool.size == len(BIG)
    assert keeper.kept_bytes == 2 * len(BIG) + 5


def test_the_oldest_outputs_of_several_shells_make_room_and_empty_ones_stay(tmp_path: Path, day: Day) -> None:
    limits = {"total_bytes": 3 * len(BIG)}
    keeper = keeper_of(tmp_path, day, **limits)
    for command_id in ("4c82-1_local#1", "4c82-2_local#1", "4c82-1_local#2"):
        day.now += timedelta(minutes=1)
        run(keeper, command_id, BIG)
        run(keeper, command_id.replace("#", "#9"), b"")
    for one, gone, stays in (
        (keeper, ["4c82-1_local#1"], ["4c82-2_local#1", "4c82-1_local#2"]),
        (keeper_of(tmp_path, day, **limits), ["4c82-2_local#1"], ["4c82-1_local#2"]),
    ):
        day.now += timedelta(minutes=1)
        run(one, f"4c82-3_local#{len(stays)}", BIG)
        for command_id in gone:
            with pytest.raises(OutputExpired):
                one.reopen(command_id)
        for command_id in stays:
            assert one.reopen(command_id).stdout.spool.size == len(BIG)
        assert one.reopen("4c82-1_local#91").show().stdout == ""
        assert one.kept_bytes == 3 * len(BIG)


def test_finished_outputs_are_on_disk_and_not_in_memory(tmp_path: Path, day: Day) -> None:
    def objects_after(numbers: range) -> int:
        for number in numbers:
            run(keeper, f"4c82-1_local#{number}", b"small\n")
        gc.collect()
        return len(gc.get_objects())

    keeper = keeper_of(tmp_path, day)
    before = objects_after(range(1, 100))
    assert objects_after(range(100, 600)) - before < 50
    assert keeper.forget(f"4c82-1_local#{number}" for number in range(1, 600)) == 599
    assert (keeper.kept_bytes, list((tmp_path / "outputs").iterdir())) == (0, [])


def test_only_known_commands_are_forgotten(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    run(keeper, "4c82-1_local#1", b"small\n")
    assert keeper.forget(["none", "4c82-1_local#2", "4c82-9_local#1"]) == 0
    assert keeper.reopen("4c82-1_local#1").show().stdout == "small"


def test_running_commands_never_make_room(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day, total_bytes=len(BIG) + 10)
    first, second = keeper.begin("4c82-1_local#1"), keeper.begin("4c82-2_local#1")
    first.write("stdout", BIG)
    second.write("stdout", b"1234567\n1234567\n")
    assert not first.stdout.spool.full
    assert second.stdout.spool.full
    assert second.page().text == "1234567\n"
    assert keeper.kept_bytes == len(BIG) + 8


def test_both_streams_share_a_commands_limit(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day, command_bytes=10)
    output = keeper.begin("4c82-1_local#1")
    output.write("stdout", b"123456\n")
    output.write("stderr", b"12\n12\n")
    assert (output.page("stdout").text, output.page("stderr").text) == ("123456\n", "12\n")
    assert (output.stdout.spool.full, output.stderr.spool.full) == (False, True)
    assert output.show().output["stderr"]["lines"] == 2


def test_reading_an_output_that_was_removed_meanwhile_says_so(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    output = run(keeper, "4c82-1_local#1", BIG)
    output.page()
    day.now += timedelta(days=15)
    assert keeper.sweep() == 1
    with pytest.raises(OutputExpired):
        output.page(max_chars=1_000_000)
    with pytest.raises(OutputExpired):
        output.show()


def test_a_running_command_is_the_same_object(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    output = keeper.begin("4c82-1_local#1")
    assert keeper.reopen("4c82-1_local#1") is output


@pytest.mark.parametrize("command_id", ["", "x", "../etc#1", "a/b#1", "a#0", "a#x", "..#1", "a#1/../../x", "a#1\n"])
def test_ids_that_are_none_never_become_paths(tmp_path: Path, day: Day, command_id: str) -> None:
    with pytest.raises(CommandNotFound):
        keeper_of(tmp_path, day).reopen(command_id)


def test_outputs_leave_no_descriptor_open(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for number in range(1, 30):
        run(keeper, f"4c82-1_local#{number}", BIG).show()
        keeper.reopen(f"4c82-1_local#{number}").page(from_line=19_000)
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_full_disk_makes_the_spool_full_and_loses_no_count(tmp_path: Path, day: Day) -> None:
    keeper = keeper_of(tmp_path, day)
    output = keeper.begin("4c82-1_local#1")
    (tmp_path / "outputs" / "4c82-1_local").write_bytes(b"")  # the folder cannot be made
    output.write("stdout", BIG)
    output.write("stdout", BIG)
    output.finish()
    shown = output.show()
    assert shown.output["stdout"]["spool_full"] is True
    assert shown.output["stdout"]["lines"] == 40_000
    assert shown.output["stdout"]["bytes"] == 2 * len(BIG)
