"""A command's output: the contract's cases about results, pages, totals, masking and waiting."""

import asyncio
import hashlib
import random
import resource
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.guard.budgets.spec import Budget, read_budget
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.model.shell_errors import CursorInvalid
from shiftlog.shell.outputs.command_output import TRUNCATED_HINT, CommandOutput
from shiftlog.shell.outputs.keeper import OutputKeeper, OutputLimits

ID = "4c82-1_local#3"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(tmp_path: Path, clock: Clock) -> OutputKeeper:
    return OutputKeeper(tmp_path / "outputs", Redactor(), clock=clock)


def seq(last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(1, last + 1))


def ran(keeper: OutputKeeper, *chunks: bytes, command_id: str = ID) -> CommandOutput:
    output = keeper.begin(command_id)
    for chunk in chunks:
        output.write("stdout", chunk)
    output.finish()
    return output


def budget_of(value: dict[str, object]) -> Budget:
    budget = read_budget(value)
    assert budget is not None
    return budget


def pages(output: CommandOutput, max_chars: int) -> list[str]:
    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = output.page(cursor=cursor, max_chars=max_chars)
        texts.append(page.text)
        assert len(page.text) <= max_chars
        assert (page.next_cursor is None) == page.eof
        if page.eof:
            return texts
        cursor = page.next_cursor
        assert cursor is not None
        assert cursor.isascii()
        assert len(cursor) <= 128


def test_the_result_of_the_contracts_example(keeper: OutputKeeper) -> None:
    shown = ran(keeper, seq(10)).show(budget_of({"keep": {"mode": "tail", "n": 2}}))
    assert (shown.stdout, shown.stderr, shown.truncated) == ("... 8 lines elided ...\n9\n10", "", True)
    assert shown.budget == {
        "stdout": {"mode": "tail", "lines_total": 10, "lines_kept": 2},
        "stderr": {"mode": "tail", "lines_total": 0, "lines_kept": 0},
    }
    stdout, stderr = shown.output["stdout"], shown.output["stderr"]
    assert str(stdout.pop("cursor")).startswith("o3.0.0.")
    assert stdout == {
        "bytes": 21,
        "lines": 10,
        "final_newline": True,
        "binary": False,
        "open": False,
        "spool_full": False,
        "sha256": hashlib.sha256(seq(10)).hexdigest(),
    }
    assert stderr == {
        "bytes": 0,
        "lines": 0,
        "final_newline": False,
        "binary": False,
        "open": False,
        "spool_full": False,
        "sha256": hashlib.sha256(b"").hexdigest(),
        "cursor": None,
    }
    assert (shown.redactions, shown.hint) == (0, None)


@pytest.mark.parametrize(
    ("raw", "text", "lines", "final_newline"),
    [
        (b"\n", "", 1, True),
        (b"a\n\n", "a\n", 2, True),
        (b"10%\r50%\r100%\n", "100%", 1, True),
        (b"a\r\nb", "a\nb", 2, False),
    ],
)
def test_rows_of_the_table_that_have_no_budget(
    keeper: OutputKeeper, raw: bytes, text: str, lines: int, final_newline: bool
) -> None:
    """Case 29: the rows about the view."""
    for budget in (None, budget_of({}), budget_of({"keep": {"mode": "all"}})):
        shown = ran(keeper, raw).show(budget)
        assert (shown.stdout, shown.budget, shown.truncated, shown.hint) == (text, None, False, None)
        totals = shown.output["stdout"]
        assert (totals["lines"], totals["final_newline"], totals["cursor"]) == (lines, final_newline, None)


def test_a_cut_without_a_budget_gives_a_hint_and_a_cursor_that_reads_on(keeper: OutputKeeper) -> None:
    output = ran(keeper, seq(20_000))
    shown = output.show()
    assert (shown.truncated, shown.hint, shown.budget) == (True, TRUNCATED_HINT, None)
    totals = shown.output["stdout"]
    rest = output.page(cursor=str(totals["cursor"]), max_chars=1_000_000).text
    assert seq(20_000).decode() == shown.stdout[:15_000] + rest


def test_a_binary_stream_shows_a_thousand_characters(keeper: OutputKeeper) -> None:
    """Case 21."""
    raw = random.Random(1).randbytes(300)
    shown = ran(keeper, raw).show()
    totals = shown.output["stdout"]
    assert (totals["bytes"], totals["binary"]) == (300, True)
    assert len(shown.stdout) <= 1000 + len("\n... 9999 chars elided ...\n")
    assert all(character.isprintable() or character in "\n\t" for character in shown.stdout)


def test_paging_to_the_end_gives_the_output_byte_for_byte(keeper: OutputKeeper) -> None:
    """Case 31."""
    output = ran(keeper, seq(100_000))
    texts = pages(output, 30_000)
    assert "".join(texts).encode() == seq(100_000)
    assert all(text.endswith("\n") for text in texts)


def test_a_finished_output_is_searched_again(keeper: OutputKeeper) -> None:
    """Case 32."""
    ran(keeper, seq(100_000))
    page = keeper.reopen(ID).page_by(budget_of({"grep": {"pattern": "^77777$"}}))
    assert page.text == "... 77776 lines elided ...\n77777\n... 22223 lines elided ..."
    assert page.budget is not None
    assert (page.budget.lines_total, page.budget.lines_kept, page.eof) == (100_000, 1, True)


def test_the_page_of_the_contracts_example(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"step 1\nstep 2\n")
    page = output.page()
    assert page.next_cursor is not None
    assert page.next_cursor.startswith("o3.0.14.")
    assert {**page.as_dict(), "next_cursor": "…"} == {
        "text": "step 1\nstep 2\n",
        "from_line": 1,
        "lines": 2,
        "bytes_total": 14,
        "lines_total": 2,
        "next_cursor": "…",
        "eof": False,
        "budget": None,
    }


def test_a_page_from_a_line(keeper: OutputKeeper) -> None:
    output = ran(keeper, seq(200_000))
    for line in (1, 2, 9_999, 123_456, 200_000):
        page = output.page(from_line=line, max_chars=20)
        assert page.text.startswith(f"{line}\n")
        assert page.from_line == line
    behind = output.page(from_line=200_001)
    assert (behind.text, behind.eof) == ("", True)


def test_a_line_longer_than_a_page_is_cut_between_characters(keeper: OutputKeeper) -> None:
    text = "kurz\n" + "ä€😀" * 50 + "\nend"
    texts = pages(ran(keeper, text.encode()), 20)
    assert "".join(texts) == text
    assert texts[0] == "kurz\n"


def test_foreign_and_malformed_cursors_are_refused(keeper: OutputKeeper) -> None:
    output = ran(keeper, seq(1000))
    other = ran(keeper, seq(1000), command_id="4c82-2_local#3")
    cursor = output.page(max_chars=10).next_cursor
    assert cursor is not None
    changed = cursor.replace("o3.0.10", "o3.0.11")
    for bad in ("", "x", "o3.0", changed, cursor + "0", cursor + "\n", "٣", other.page(max_chars=10).next_cursor or ""):
        with pytest.raises(CursorInvalid, match=f"cursor is not valid for {ID}"):
            output.page(cursor=bad)
    with pytest.raises(CursorInvalid):
        output.page("stderr", cursor=cursor)


def test_a_token_is_masked_everywhere(keeper: OutputKeeper, tmp_path: Path) -> None:
    """Case 42."""
    output = ran(keeper, f"key {GITHUB[:9]}".encode(), f"\x1b[1m{GITHUB[9:]}\x1b[0m done\n".encode())
    shown = output.show()
    assert (shown.stdout, shown.redactions) == ("key [REDACTED:github] done", 1)
    assert output.page().text == "key [REDACTED:github] done\n"
    assert keeper.reopen(ID).show().redactions == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[REDACTED:github]" in stored
    assert GITHUB[9:].encode() not in stored


def test_code_that_only_names_secrets_is_unchanged(keeper: OutputKeeper) -> None:
    """Case 43."""
    text = "password: string;\ntoken = get_token()\n"
    shown = ran(keeper, text.encode()).show()
    assert (shown.stdout + "\n", shown.redactions) == (text, 0)


def test_learned_values_are_masked_at_any_cut(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID, learned=["tr0ub4dor&3"])
    for character in b"it is tr0ub4dor&3, really":
        output.write("stdout", bytes([character]))
    output.write("stderr", b"no\n")
    output.mask_by(keeper.rules(["tr0ub4dor&3", "typed later"]))
    output.write("stderr", b"typed later\n")
    output.finish()
    shown = output.show()
    assert (shown.stdout, shown.stderr) == ("it is [REDACTED:learned], really", "no\n[REDACTED:learned]")
    assert shown.redactions == 2


def test_an_unfinished_line_is_shown_when_the_stream_was_quiet_for_a_second(keeper: OutputKeeper, clock: Clock) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"one\nPassword: ")
    assert output.page().text == "one\n"
    assert output.newest() == "one\n"
    clock.seconds += 0.9
    assert output.page().text == "one\n"
    clock.seconds += 0.2
    assert output.newest() == "Password: "
    assert output.newest() == ""
    assert output.page().text == "one\nPassword: "


def test_a_secret_printed_slowly_is_caught(keeper: OutputKeeper, clock: Clock) -> None:
    output = keeper.begin(ID)
    for character in GITHUB.encode():
        output.write("stdout", bytes([character]))
        clock.seconds += 0.9
        assert output.page().text == ""
        assert output.newest() == ""
    clock.seconds += 0.2
    assert output.newest() == "[REDACTED:github]"
    assert output.page().text == "[REDACTED:github]"


def test_a_look_at_an_unfinished_line_uses_up_nothing_that_was_announced(keeper: OutputKeeper, clock: Clock) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"<key>ApiToken</key>\n<string>kettle</string>")
    clock.seconds += 1.1
    for _ in range(2):
        assert "kettle" not in output.newest()
    output.write("stdout", b"\n")
    output.finish()
    assert "kettle" not in output.page().text


def test_a_slow_progress_bar_that_nobody_reads_shows_its_last_state(keeper: OutputKeeper, clock: Clock) -> None:
    output = keeper.begin(ID)
    for part in (b"10%", b"\r50%", b"\r100%", b"\n"):
        output.write("stdout", part)
        clock.seconds += 5
        assert output.newest().strip() in part.decode() + "100%"
    output.finish()
    assert output.show().stdout == "100%"


def test_a_progress_bar_that_never_rests_is_told_as_far_as_no_secret_can_go_on(
    keeper: OutputKeeper, clock: Clock
) -> None:
    output = keeper.begin(ID)
    told: list[str] = []
    for part in (b"10%", b"\r50%", b"\rtoken ghp_", b"abcdefghijklmnopqrstuvwxyz0123456789", b"\r100%", b"\n"):
        output.write("stdout", part)
        clock.seconds += 0.5
        told.append(output.newest())
    assert told == ["", "10%", "50%", "", "token [REDACTED:github]", "100%\n"]
    output.finish()
    assert (output.show().stdout, output.redactions) == ("100%", 0)


def test_the_newest_output_of_both_streams_is_given_once(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"a\n")
    output.write("stderr", b"b\n")
    assert output.newest() == "a\nb\n"
    assert output.newest() == ""
    output.write("stdout", seq(100_000))
    assert output.newest() == seq(100_000).decode()[-2000:]
    assert output.raw_bytes == 4 + len(seq(100_000))


def test_a_stream_that_a_child_holds_is_open_and_goes_on(keeper: OutputKeeper) -> None:
    """Case 33: the output of what was left behind comes to its own command."""
    output = keeper.begin(ID)
    output.write("stdout", b"abc")
    output.finish(streams_open={"stdout"})
    shown = output.show()
    totals = shown.output["stdout"]
    assert (shown.stdout, totals["open"], output.page().eof) == ("abc", True, False)
    output.write("stdout", b"later\n")
    output.close("stdout")
    again = keeper.reopen(ID)
    assert again is not output
    assert (again.page().text, again.page().eof) == ("abclater\n", True)


def test_a_running_commands_cursor_is_where_reading_goes_on(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"so far\n")
    totals = output.show().output["stdout"]
    output.write("stdout", b"more\n")
    assert output.page(cursor=str(totals["cursor"])).text == "more\n"


def test_past_its_limit_an_output_is_counted_and_its_ending_kept(tmp_path: Path) -> None:
    keeper = OutputKeeper(tmp_path, Redactor(), limits=OutputLimits(command_bytes=10_000))
    output = ran(keeper, seq(500_000), f"{GITHUB}\n".encode())
    for seen in (output, keeper.reopen(ID)):
        shown = seen.show(budget_of({"keep": {"mode": "head_tail", "head": 1, "tail": 2}}))
        assert shown.stdout == "1\n... 499998 lines elided ...\n500000\n[REDACTED:github]"
        assert shown.budget is not None
        assert shown.budget["stdout"] == {"mode": "head_tail", "lines_total": 500_001, "lines_kept": 3}
        totals = shown.output["stdout"]
        assert (totals["spool_full"], totals["lines"]) == (True, 500_001)
        text = "".join(pages(seen, 1000))
        assert len(text) <= 10_000
        assert seq(500_000).startswith(text.encode())
        assert totals["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert seen.show(budget_of({"grep": {"pattern": "^(1|499999)$"}})).stdout == (
            "1\n... 499997 lines elided ...\n499999\n... 2 lines elided ..."
        )
        whole = seen.show(budget_of({"max_chars": 40})).stdout
        assert whole.startswith("1\n2\n3\n")
        assert whole.endswith("[REDACTED:github]")
        beyond = seen.page(from_line=499_999)
        assert (beyond.text, beyond.eof, beyond.next_cursor) == ("", True, None)


async def test_waiting_ends_when_output_comes(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    waiting = asyncio.create_task(output.wait(timeout_s=30))
    await asyncio.sleep(0)
    output.write("stderr", b"not this stream\n")
    await asyncio.sleep(0)
    assert not waiting.done()
    output.write("stdout", b"here\n")
    assert await waiting
    cursor = output.page().next_cursor
    waiting = asyncio.create_task(output.wait(cursor=cursor, timeout_s=30))
    await asyncio.sleep(0)
    assert not waiting.done()
    output.finish()
    assert await waiting


async def test_waiting_for_the_end_lets_output_pass(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    waiting = asyncio.create_task(output.wait(until="end", timeout_s=30))
    for _ in range(3):
        output.write("stdout", b"line\n")
        await asyncio.sleep(0)
    assert not waiting.done()
    output.finish()
    assert await waiting
    assert output.page().eof


async def test_waiting_shows_a_prompt_after_a_second(tmp_path: Path) -> None:
    output = OutputKeeper(tmp_path, Redactor()).begin(ID)
    output.write("stdout", b"Continue? ")
    assert not await output.wait(timeout_s=0)
    assert await output.wait(timeout_s=30)
    assert output.page().text == "Continue? "


async def test_waiting_is_bounded_and_a_waiter_can_be_cancelled(tmp_path: Path) -> None:
    output = OutputKeeper(tmp_path, Redactor()).begin(ID)
    assert not await output.wait(timeout_s=0.01)
    waiting = asyncio.create_task(output.wait(timeout_s=30))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    output.write("stdout", b"x\n")
    assert output.page().text == "x\n"


PIECES = [
    b"plain\n",
    b"\n",
    b"no end",
    "ä€😀\n".encode(),
    b"\x1b[31mred\x1b[0m",
    b"x" * 300,
    b"10%\r",
    b"\xff",
    b"\r\n",
]
SECRETS = [f"password: hunter2hunter2 {GITHUB}\n".encode(), b"A=1\nB=2\nC=3\nTOKEN=xY3xY3xY3\n", b"\xe2\x82"]


def cut(raw: bytes, places: Iterable[int]) -> list[bytes]:
    ends = [0, *sorted(min(place, len(raw)) for place in places), len(raw)]
    return [raw[start:end] for start, end in pairwise(ends)]


@settings(max_examples=150)
@given(
    raw=st.lists(st.sampled_from([*PIECES, *SECRETS]), max_size=12).map(b"".join),
    places=st.lists(st.integers(0, 2000), max_size=8),
    size=st.integers(1, 80),
)
def test_chunks_never_change_the_output_and_pages_join_to_it(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, places: list[int], size: int
) -> None:
    keeper = OutputKeeper(tmp_path_factory.mktemp("outputs"), Redactor())
    whole = ran(keeper, raw)
    pieces = ran(keeper, *cut(raw, places), command_id="4c82-1_local#4")
    text = whole.page(max_chars=1_000_000).text
    assert "".join(pages(pieces, size)) == text
    assert "".join(pages(keeper.reopen(ID), size)) == text
    assert pieces.redactions == whole.redactions
    assert (pieces.stdout.spool.sha256, pieces.stdout.binary) == (whole.stdout.spool.sha256, whole.stdout.binary)


def spool_yes(keeper: OutputKeeper, size: int) -> None:
    """Case 22: the text, the count of all lines, and memory that does not follow the output's size."""
    chunk = b"y\n" * 32_768
    output = keeper.begin(ID)
    output.write("stdout", chunk)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(size // len(chunk) - 1):
        output.write("stdout", chunk)
    output.finish()
    shown = output.show(budget_of({"keep": {"mode": "tail", "n": 2}}))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert shown.stdout == f"... {size // 2 - 2} lines elided ...\ny\ny"
    assert shown.output["stdout"]["lines"] == size // 2
    assert grown_kib * 1024 <= 16 * 1024 * 1024


def test_a_large_output_leaves_memory_as_it_was(keeper: OutputKeeper) -> None:
    spool_yes(keeper, 128 << 20)


@pytest.mark.soak
def test_a_gigabyte_leaves_memory_as_it_was(keeper: OutputKeeper) -> None:
    spool_yes(keeper, 1 << 30)


def test_a_calls_budget_replaces_the_shells_default(keeper: OutputKeeper) -> None:
    """Case 30: replaced whole, so the default's tail has no effect."""
    shown = ran(keeper, seq(3)).show(budget_of({"max_chars": 5}))
    assert (shown.stdout, shown.truncated) == ("1\n2\n3", False)
    assert shown.budget is not None
    assert shown.budget["stdout"] == {"mode": "all", "lines_total": 3, "lines_kept": 3}


# Much to mask


async def test_output_with_a_secret_in_every_line_is_masked_in_short_turns(keeper: OutputKeeper) -> None:
    lines = [f"password: {random.randbytes(8).hex()}" for _ in range(2_000)]
    output = keeper.begin(ID)
    output.write("stdout", "\n".join(lines).encode() + b"\nlast line\n")
    assert output.is_behind
    assert output.stdout.spool.lines_total < 100
    output.write("stdout", b"even later\n")
    output.close("stdout")
    turns = 0
    while output.is_behind:
        before = output.stdout.spool.lines_total
        await asyncio.sleep(0)
        turns += 1
        assert output.stdout.spool.lines_total - before < 100
    assert turns > 20
    assert not output.stdout.open
    output.finish()
    text = output.page(max_chars=1_000_000).text
    assert text == "password: [REDACTED:assignment]\n" * 2_000 + "last line\neven later\n"


async def test_a_command_ends_with_all_of_its_output_masked(keeper: OutputKeeper) -> None:
    output = keeper.begin(ID)
    output.write("stdout", b"password: hunter2hunter2\n" * 500)
    output.finish()
    await asyncio.sleep(0)
    assert output.page(max_chars=1_000_000).text == "password: [REDACTED:assignment]\n" * 500
