"""The table of agents agrees with the tables that cannot import it."""

from pathlib import Path

import pytest

from shiftlog.ingest.hooks.events import EVENTS
from shiftlog.ingest.readers.formats import FORMATS, reader_for
from shiftlog.link import hook
from shiftlog.model.agents import AGENTS, BY_NAME, CLAUDE, CODEX, agent_named, find_kind
from shiftlog.model.errors import InvalidParameter


def test_every_agent_has_a_format_and_a_reader() -> None:
    assert {row.agent for row in FORMATS} == set(AGENTS)
    assert all(reader_for(kind) for kind in AGENTS)


def test_the_hook_program_takes_the_agents_that_have_hooks() -> None:
    assert {name: agent.kind for name, agent in BY_NAME.items() if agent.hooks} == hook.AGENTS
    assert {event for agent in AGENTS.values() for event in agent.hooks} == EVENTS


def test_an_agent_is_found_by_kind_or_short_name_in_any_case() -> None:
    assert find_kind("claudecode") == find_kind("CLAUDE") == CLAUDE
    assert find_kind("nobody") is None
    with pytest.raises(InvalidParameter):
        agent_named("nobody")


def test_only_the_variable_of_claude_code_names_several_homes() -> None:
    home = Path("/h")
    assert AGENTS[CLAUDE].homes({"CLAUDE_CONFIG_DIR": "/a, /b,"}, home) == [Path("/a"), Path("/b")]
    assert AGENTS[CLAUDE].homes({}, home) == [home / ".claude", home / ".config/claude"]
    assert AGENTS[CODEX].homes({"CODEX_HOME": "/a,b"}, home) == [Path("/a,b")]
