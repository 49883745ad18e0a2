"""Every rollout of the shared fixtures gives its reference figures, read at once or in pieces."""

import json
from typing import Any

import pytest

from shiftlog.facts.transcript import AnyFact, SessionOpened, UsageFact, decode_facts, encode_facts
from tests.ingest.readers.codex.rollouts import SHARED, figures, key_of, once, read_file, used

if not SHARED.exists():
    pytest.skip("the shared fixtures are not here", allow_module_level=True)

EXPECTED: dict[str, Any] = json.loads((SHARED / "expected.json").read_text())
FILES = [name for name in EXPECTED["files"] if name.startswith("codex/")]


@pytest.mark.parametrize("name", FILES)
def test_a_rollout_gives_its_figures(name: str) -> None:
    """Case 4: each file alone."""
    found = figures(read_file(SHARED / name))
    wanted = EXPECTED["files"][name]
    assert found == {key: wanted[key] for key in found}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("every", [1, 7])
def test_saving_and_restoring_between_lines_changes_nothing(name: str, every: int) -> None:
    """A growing file gives what the whole file gives."""
    whole, pieces = read_file(SHARED / name), read_file(SHARED / name, every=every)
    assert [key_of(fact) for fact in pieces.facts] == [key_of(fact) for fact in whole.facts]
    assert pieces.facts == whole.facts
    assert pieces.reader.counts == whole.reader.counts


@pytest.mark.parametrize("name", FILES)
def test_facts_survive_the_way_between_processes(name: str) -> None:
    """Facts are written as MessagePack and read back equal."""
    facts = read_file(SHARED / name).facts
    assert decode_facts(encode_facts(facts)) == facts


def test_the_sessions_in_one_run_count_shared_tokens_once() -> None:
    """Case 3: the set of the layout."""
    wanted = EXPECTED["sets"]["codex/sessions"]
    readings = [read_file(path) for path in sorted((SHARED / "codex" / "sessions").rglob("*.jsonl"))]
    facts: list[AnyFact] = [fact for reading in readings for fact in reading.facts if isinstance(fact, UsageFact)]
    facts.sort(key=lambda fact: isinstance(fact, UsageFact) and fact.copied)
    counted = [fact for fact in once(facts) if isinstance(fact, UsageFact)]
    opened = [fact for reading in readings for fact in reading.of(SessionOpened)]
    children = [fact for fact in opened if fact.parent is not None]
    assert used(counted) == wanted["usage"]["usage"]
    assert len(counted) == wanted["usage"]["calls"]
    assert (len(opened) - len(children), len(children)) == (wanted["sessions"], wanted["child_sessions"])
    assert sum(figures(reading)["tool_calls"] for reading in readings) == wanted["tool_calls"]
