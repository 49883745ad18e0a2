"""Fixtures of the suite that ask the client between two rounds of the same request (revision 2026-07-28).

The state that travels through the client is sealed by the SDK's boundary, which `server` installs.
"""

import json
from typing import Any

import mcp_types as types

from shiftlog.mcp.calls import current_call
from shiftlog.mcp.registry import Answer, Registry
from shiftlog.model.caller import Caller
from tests.conformance.fixtures import messages, prompt, says, tool


def asked() -> types.InputResponseRequestParams:
    """Return what the client brought back from the round before."""
    return types.InputResponseRequestParams.model_validate(current_call().context.params or {}, by_name=False)


def form(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    """Ask the user for one value."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def question(text: str) -> types.CreateMessageRequest:
    """Ask the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def more(state: str | None = None, /, **requests: types.InputRequest) -> types.InputRequiredResult:
    """Send the client away with questions, and with a state to bring back."""
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def value_of(key: str, field: str) -> str | None:
    """Return one value of a form that the user accepted."""
    given = (asked().input_responses or {}).get(key)
    if not isinstance(given, types.ElicitResult) or given.action != "accept":
        return None
    value = (given.content or {}).get(field)
    return value if isinstance(value, str) else None


async def one_form(arguments: dict[str, Any]) -> Answer:
    name = value_of("user_name", "name")
    return says(f"Hello, {name}!") if name else more(user_name=form("What is your name?", "name"))


async def one_sampling(arguments: dict[str, Any]) -> Answer:
    given = (asked().input_responses or {}).get("capital")
    if isinstance(given, types.CreateMessageResult) and isinstance(given.content, types.TextContent):
        return says(f"The model says: {given.content.text}")
    return more(capital=question("What is the capital of France?"))


async def one_list_of_roots(arguments: dict[str, Any]) -> Answer:
    given = (asked().input_responses or {}).get("roots")
    if isinstance(given, types.ListRootsResult):
        return says(f"{len(given.roots)} roots")
    return more(roots=types.ListRootsRequest())


async def with_state(arguments: dict[str, Any]) -> Answer:
    params = asked()
    if params.request_state == "first" and params.input_responses:
        return says("state-ok")
    return more("first", confirm=form("Please confirm", "ok", "boolean"))


async def several(arguments: dict[str, Any]) -> Answer:
    if {"name", "greeting", "roots"} <= set(asked().input_responses or {}):
        return says("All three came.")
    return more(
        "several",
        name=form("What is your name?", "name"),
        greeting=question("Say hello"),
        roots=types.ListRootsRequest(),
    )


async def three_rounds(arguments: dict[str, Any]) -> Answer:
    state: dict[str, Any] = json.loads(asked().request_state or "{}")
    name = state.get("name") or value_of("step1", "name")
    if not state or not name:
        return more(json.dumps({"round": 1}), step1=form("Step 1: What is your name?", "name"))
    color = value_of("step2", "color")
    if state["round"] == 1 or not color:
        state = {"round": 2, "name": name}
        return more(json.dumps(state), step2=form("Step 2: What is your favorite color?", "color"))
    return says(f"{name} likes {color}.")


async def what_the_client_offers(arguments: dict[str, Any]) -> Answer:
    offered = current_call().context.session.client_capabilities
    requests: dict[str, types.InputRequest] = {}
    if offered is not None and offered.sampling is not None:
        requests["sample"] = question("Say hello")
    if offered is not None and offered.elicitation is not None:
        requests["ask"] = form("What is your name?", "name")
    return more("offered", **requests)


async def asking_prompt(caller: Caller, arguments: dict[str, str]) -> Any:
    context = value_of("user_context", "context")
    if context is None:
        return more(user_context=form("Which context?", "context"))
    return messages(types.TextContent(text=f"Use this context: {context}"))


PREFIX = "test_input_required_result_"
ROUNDS = Registry(
    tools=(
        tool(PREFIX + "elicitation", "Ask the user once", one_form),
        tool(PREFIX + "sampling", "Ask the model once", one_sampling),
        tool(PREFIX + "list_roots", "Ask for the roots once", one_list_of_roots),
        tool(PREFIX + "request_state", "Bring back a state", with_state),
        tool(PREFIX + "tampered_state", "Bring back a state that must be genuine", with_state),
        tool(PREFIX + "multiple_inputs", "Ask three things at once", several),
        tool(PREFIX + "multi_round", "Ask twice", three_rounds),
        tool(PREFIX + "capabilities", "Ask only what the client offers", what_the_client_offers),
        tool("test_streaming_elicitation", "Ask the user without a request of our own", one_form),
    ),
    prompts=(prompt(PREFIX + "prompt", asking_prompt),),
)
