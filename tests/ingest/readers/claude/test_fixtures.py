"""Every Claude Code file of the shared fixtures gives its reference figures, alone and as a set."""

import json
from collections import Counter
from typing import Any

import pytest

from shiftlog.facts.transcript import AnyFact, SessionOpened, ToolCall, TurnBegun, TurnEnded, decode_facts, encode_facts
from shiftlog.ingest.readers.claude.reader import ClaudeReader
from tests.ingest.readers.claude.tally import SHARED, Tally, figures, hints_of, read, read_file

if not SHARED.exists():
    pytest.skip("the shared fixtures are not here", allow_module_level=True)

EXPECTED: dict[str, Any] = json.loads((SHARED / "expected.json").read_text())
# Kinds that the present release of the client writes; the figures count them as unknown.
KNOWN_SINCE = {"atis-latch"}
FILES = [name for name in EXPECTED["files"] if name.startswith("claude/")]


@pytest.mark.parametrize("name", FILES)
def test_a_transcript_gives_its_figures(name: str) -> None:
    """Case 4: each file alone, with a clock later than every record."""
    wanted = EXPECTED["files"][name]
    found = figures(*read_file(SHARED / name), wanted["subagent"])
    unknown = {kind: count for kind, count in wanted["unknown"].items() if kind not in KNOWN_SINCE}
    assert found == {key: wanted[key] for key in found} | {"unknown": unknown}


@pytest.mark.parametrize("name", FILES)
def test_every_line_has_exactly_one_disposition(name: str) -> None:
    reader, _ = read_file(SHARED / name)
    lines = [line for line in (SHARED / name).read_bytes().splitlines() if line.strip()]
    assert reader.counts.lines == len(lines)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("every", [1, 7])
def test_going_on_in_another_process_gives_what_reading_at_once_gives(name: str, every: int) -> None:
    path = SHARED / name
    hints = hints_of(path)
    lines = path.read_bytes().splitlines(keepends=True)
    whole, pieces = ClaudeReader(hints), ClaudeReader(hints)
    at_once: list[AnyFact] = []
    in_pieces: list[AnyFact] = []
    for n, line in enumerate(lines, 1):
        at_once += whole.feed(line)
        in_pieces += pieces.feed(line)
        if n % every == 0:
            pieces = ClaudeReader(hints, pieces.save())
    at_once += [*whole.finish(), *whole.end_idle()]
    in_pieces += [*pieces.finish(), *pieces.end_idle()]
    assert in_pieces == at_once
    assert pieces.counts == whole.counts
    assert decode_facts(encode_facts(at_once)) == at_once


@pytest.mark.parametrize("name", FILES)
def test_reading_a_file_twice_brings_nothing_new(name: str) -> None:
    """Case 5, as far as keys decide it."""
    path = SHARED / name
    tally = Tally()
    seen: list[object] = []
    for _ in range(2):
        reader = ClaudeReader(hints_of(path))
        for line in path.read_bytes().splitlines(keepends=True):
            tally.add(reader.feed(line))
        tally.add(reader.finish()).add(reader.end_idle())
        seen.append((len(tally.facts), tally.usage()))
    assert seen[0] == seen[1]


def test_the_projects_in_one_run_give_the_figures_of_the_set() -> None:
    """Case 3, as far as a reader can show it."""
    wanted = EXPECTED["sets"]["claude/projects"]
    found = sorted((SHARED / "claude" / "projects").rglob("*.jsonl"))
    paths = [path for path in found if path.name != "journal.jsonl"]
    used = Tally()
    # Two of the sessions were written by hand with equal uuids, so here a key counts within its own session only.
    sessions: dict[str, Tally] = {}
    for path in paths:
        reader = ClaudeReader(hints_of(path))
        facts = [fact for line in path.read_bytes().splitlines(keepends=True) for fact in reader.feed(line)]
        for fact in (*facts, *reader.finish(), *reader.end_idle()):
            sessions.setdefault(fact.session.vendor_id, Tally()).add([fact])
            used.add([fact])
    facts = [fact for tally in sessions.values() for fact in tally.facts]
    opened = [fact.session for fact in facts if isinstance(fact, SessionOpened)]
    statuses = Counter(fact.status for fact in facts if isinstance(fact, TurnEnded))
    turns = wanted["turns"]
    assert len(paths) == wanted["files"]
    assert sum(ref.agent_id is None for ref in opened) == wanted["sessions"]
    assert sum(ref.agent_id is not None for ref in opened) == wanted["child_sessions"]
    assert sum(isinstance(fact, TurnBegun) for fact in facts) == sum(turns.values())
    assert statuses == {"completed": turns["completed"] + turns["in_children"], "failed": turns["failed"]}
    assert sum(isinstance(fact, ToolCall) and not fact.nested for fact in facts) == wanted["tool_calls"]
    assert used.usage() == (wanted["usage"]["responses"], list(wanted["usage"]["usage"].values()))


def test_a_cut_last_line_changes_nothing_before_it() -> None:
    path = SHARED / "claude/projects/-episodic/tiny-conversation.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    _, whole = read(lines[:-1], hints_of(path))
    _, cut = read([*lines[:-1], lines[-1][:40]], hints_of(path))
    assert cut.facts == whole.facts
