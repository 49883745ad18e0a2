"""Two daemons over one PostgreSQL database: one chain for both; leases, keys and tokens hold for both."""

import shutil
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.support import end_daemon
from tests.postgres_server import PostgresServer, empty
from tests.story.agents import Agent, Refused, result_of, shiftlog

AT_ONCE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Two agents, each with a daemon of its own."""

    ours: Agent
    theirs: Agent
    homes: tuple[Path, Path]
    url: str

    def verify(self) -> str:
        return shiftlog(self.homes[1], "verify", SHIFTLOG_STORE_URL=self.url)


@pytest.fixture(scope="module")
def team(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Team]:
    empty(postgres_server.url())
    homes = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    environ = {"SHIFTLOG_STORE_URL": postgres_server.url()}
    try:
        with Agent(homes[0], **environ) as ours:
            ours.call("open_session", agent="Codex", title="The first one makes the keys")
            shutil.copytree(homes[0] / "keys", homes[1] / "keys")
            with Agent(homes[1], **environ) as theirs:
                yield Team(ours=ours, theirs=theirs, homes=homes, url=postgres_server.url())
    finally:
        for home in homes:
            end_daemon(home)


def refusal(agent: Agent, tool: str, **arguments: Any) -> str:
    with pytest.raises(Refused) as refused:
        agent.call(tool, **arguments)
    return str(refused.value.error["code"])


def test_both_write_to_one_session_at_once_and_its_chain_is_whole(team: Team) -> None:
    session = team.ours.call("open_session", agent="Codex", title="Shared")["session_id"]
    turn = team.ours.call("begin_turn", session_id=session, query_title="x", query_text="x")["request_id"]
    for n in range(AT_ONCE):
        for name, agent in (("ours", team.ours), ("theirs", team.theirs)):
            agent.send_call("update_turn", session_id=session, request_id=turn, tags=[f"{name}-{n}"])
    for agent in (team.ours, team.theirs):
        for _ in range(AT_ONCE):
            assert result_of(agent.bridge.read())["updated"]
    told = shiftlog(team.homes[0], "show", session, "--json", SHIFTLOG_STORE_URL=team.url)
    assert all(f'"{name}-{n}"' in told for name in ("ours", "theirs") for n in range(AT_ONCE))
    assert team.verify().startswith("intact")


def test_a_request_that_reaches_both_is_carried_out_once(team: Team) -> None:
    session = team.ours.call("open_session", agent="Codex", title="Keys")["session_id"]
    given = {"session_id": session, "query_title": "x", "query_text": "x", "idempotency_key": "the-same"}
    for agent in (team.ours, team.theirs):
        agent.send_call("begin_turn", **given)
    answers = [result_of(agent.bridge.read()) for agent in (team.ours, team.theirs)]
    assert answers[0]["request_id"] == answers[1]["request_id"]
    assert answers[0]["receipt"] == answers[1]["receipt"]


def test_a_lease_and_its_fence_hold_for_both(team: Team) -> None:
    opened = team.ours.call("open_session", agent="Codex", title="Leases", agent_id="worker")
    assert refusal(team.theirs, "resume_session", agent_id="worker") == "session_held"
    taken = team.theirs.call("resume_session", agent_id="worker", on_held="take_over")
    assert taken["session_id"] == opened["session_id"]
    stale = {"session_id": opened["session_id"], "query_title": "x", "query_text": "x"}
    assert refusal(team.ours, "begin_turn", **stale, fence=opened["lease"]["fence"]) == "lease_lost"


def test_a_recovery_token_of_one_is_spent_once_at_the_other(team: Team) -> None:
    session = team.ours.call("open_session", agent="Codex", title="Tokens", agent_id="closer")["session_id"]
    token = team.ours.call("close_session", session_id=session)["data"]["recovery_token"]
    resumed = team.theirs.call("resume_session", agent_id="closer", recovery_token=token)
    assert resumed["data"]["attested"]
    with pytest.raises(Refused, match="recovery_token_used"):
        team.ours.call("resume_session", agent_id="closer", recovery_token=token)
