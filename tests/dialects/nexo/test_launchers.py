"""A launcher that itself runs in an agent's client: the row it creates is its child's, never that client's session."""

from pathlib import Path

import pytest

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Reply
from shiftlog.model.caller import Caller
from tests.dialects.nexo.ledger import CREATE, LEAST
from tests.ingest.hooks.hook_app import open_hook_app
from tests.journal.test_clients import PROCESS, by_id, by_process, started


@pytest.mark.parametrize("caller", [by_id(), by_process((9, "1"), PROCESS)], ids=["vendor_id", "process"])
async def test_a_row_that_an_agent_creates_is_no_part_of_its_own_session(caller: Caller, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        own = await started(hooked)
        (create,) = [tool for tool in registry_for(hooked.app.harness.app).tools if tool.name == CREATE]
        made = await create.run(caller, dict(LEAST))
        assert isinstance(made, Reply)
        assert isinstance(made.data, dict)
        assert made.data["ok"] is True
        sessions = await hooked.app.sessions()
        assert len(sessions) == 2
        (child,) = [session for session in sessions.values() if session.id != own.id]
        assert child.run is not None
        assert child.run.alias == made.data["session_id"]
        assert (await hooked.app.session(own.vendor_session_id or "")).title == own.title
