"""Transcripts that are imported while they are written: the journal is that of one import at the end."""

from pathlib import Path

from tests.ingest.office import Codex, entries_of, open_office


async def test_a_prompt_that_comes_after_its_turn_was_read_is_its_query(tmp_path: Path) -> None:
    """3.1: queryText is the prompt, wherever an import met the end of the file; 5: again and whole adds nothing."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000001")
    made.line("turn_context", turn_id="t1", model="gpt-5.5", effort="high")
    made.event("task_started", turn_id="t1").event("user_message", message="Speed it up\nBy half")
    made.event("agent_message", message="Looking").line("turn_context", turn_id="t1", model="gpt-5.5", effort="low")
    async with open_office(tmp_path) as office:
        for count in range(1, len(made.lines) + 1):
            await office.take(office.write("rollout-a.jsonl", made.lines[:count]))
        (turn,) = await office.turns(await office.session(made.thread))
        assert (turn.query_title, turn.query_text) == ("Speed it up", "Speed it up\nBy half")
        assert entries_of(await office.take(full=True)) == 0
        assert await office.is_sound()
