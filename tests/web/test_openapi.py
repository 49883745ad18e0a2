"""The description of the JSON, tried by a machine that makes up requests: no answer is a server error."""

from typing import Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi import checks

from shiftlog.web.openapi import description
from tests.web.server import PageServer
from tests.web.stories import Day

# The types of schemathesis are not complete.
schema: Any = cast(Any, schemathesis.openapi).from_dict(description())
CHECKS = [getattr(checks, name) for name in ("response_schema_conformance", "status_code_conformance")]


@pytest.fixture(scope="module")
def asking(server: PageServer, day: Day) -> Any:
    with server.client(Accept="application/json") as client:
        yield client, day


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
    derandomize=True,
)
def test_no_request_makes_the_server_fail(case: Any, asking: tuple[httpx.Client, Day]) -> None:
    client, day = asking
    # Half of the requests are about a session that is there; nobody would guess its name.
    if "session_id" in (case.path_parameters or {}) and len(str(case.path_parameters["session_id"])) % 2:
        case.path_parameters["session_id"] = day.session_id
    call: dict[str, Any] = case.as_transport_kwargs(base_url=str(client.base_url))
    given = cast(dict[str, Any], call.get("headers") or {})
    headers = {name: str(value) for name, value in given.items() if name.lower() != "authorization"}
    try:
        answer = client.request(call["method"], call["url"], params=call.get("params"), headers=headers)
    except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
        return  # nothing that a client could send
    assert answer.status_code < 500, answer.text[:500]
    received = schemathesis.Response.from_httpx(answer, verify=True)
    case.validate_response(received, checks=CHECKS)
