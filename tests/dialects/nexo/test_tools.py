"""What the dialect's tools say of themselves, and who gets to see them."""

import json
from typing import Any

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Selection
from tests.dialects.nexo.ledger import CLOSE, CREATE, Ledger
from tests.journal.harness import Harness


async def listed(ledger: Ledger) -> dict[str, dict[str, Any]]:
    tools = (await ledger.peer.ask("tools/list"))["result"]["tools"]
    return {tool["name"]: tool for tool in tools}


async def test_the_tools_are_listed_beside_the_native_ones_and_only_with_the_dialect(harness: Harness) -> None:
    whole = registry_for(harness.app)
    plain = {tool.name for tool in whole.select(Selection()).tools}
    with_dialect = {tool.name for tool in whole.select(Selection(dialects=("nexo",))).tools}
    assert with_dialect - plain == {CREATE, CLOSE}
    assert "open_session" in plain


async def test_annotations_tell_the_truth(ledger: Ledger) -> None:
    tools = await listed(ledger)
    for name, idempotent in ((CREATE, False), (CLOSE, True)):
        annotations = tools[name]["annotations"]
        assert (annotations["readOnlyHint"], annotations["destructiveHint"]) == (False, False)
        assert (annotations["openWorldHint"], annotations["idempotentHint"]) == (False, idempotent)


async def test_descriptions_say_when_to_call_what_comes_back_and_which_errors(ledger: Ledger) -> None:
    tools = await listed(ledger)
    create, close = tools[CREATE]["description"], tools[CLOSE]["description"]
    for words in ("spawn", "BEFORE", "keep session_id", CLOSE, "idempotency_key", "open_session", "invalid_parameter"):
        assert words in create
    for words in (CREATE, "close_session", "session_already_closed", "session_not_found", "storage_error"):
        assert words in close


async def test_every_parameter_is_described_and_those_that_come_as_text_or_number_say_so(ledger: Ledger) -> None:
    tools = await listed(ledger)
    for name in (CREATE, CLOSE):
        properties = tools[name]["inputSchema"]["properties"]
        assert all(field["description"] for field in properties.values())
    create, close = (tools[name]["inputSchema"]["properties"] for name in (CREATE, CLOSE))
    assert create["pid"]["type"] == ["string", "integer"]
    assert close["session_id"]["type"] == ["string", "integer"]
    assert close["total_cost_usd"]["type"] == ["string", "number"]
    assert create["resonance_tier"]["enum"] == ["", "maximo", "alto", "medio", "bajo", "muy_bajo"]
    assert "codex" in create["backend"]["enum"]
    assert tools[CREATE]["inputSchema"]["required"] == ["caller", "backend"]
    assert tools[CLOSE]["inputSchema"]["required"] == ["session_id"]


async def test_answers_have_exactly_the_keys_that_the_output_schema_declares(ledger: Ledger) -> None:
    tools = await listed(ledger)
    made = await ledger.create()
    closed = await ledger.close(made["session_id"])
    for name, said in ((CREATE, made), (CLOSE, closed)):
        assert list(said) == list(tools[name]["outputSchema"]["properties"])


async def test_the_two_tools_stay_small(ledger: Ledger) -> None:
    tools = await listed(ledger)
    assert len(json.dumps([tools[CREATE], tools[CLOSE]], separators=(",", ":"))) < 10_000
