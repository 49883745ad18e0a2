"""Tools as plain HTTP: `POST /tools/NAME` with the arguments as a JSON object, for programs that do not speak MCP.

They are the same tools with the same checks as over MCP; an error has the same body and a fitting status.
"""

import json
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.mcp.errors import defect, mask
from shiftlog.mcp.face import refuse_depth
from shiftlog.mcp.http import MAX_BODY_BYTES, http_caller
from shiftlog.mcp.registry import Registry, Reply, Tool
from shiftlog.model.errors import InvalidParameter, ShiftlogError, UnknownTool
from shiftlog.model.team import KeyScope
from shiftlog.server.access import key_of, lacks
from shiftlog.server.bodies import BodyTooLarge, read_body
from shiftlog.text.nearest import suggestion
from shiftlog.text.printable import excerpt
from shiftlog.web.answers import FORBIDDEN, encoded, status_of

TOO_LARGE = 413
# No browser shows these answers, so they need fewer headers than pages.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class ToolCalls:
    """The tools of a registry at addresses of their own."""

    def __init__(self, registry: Registry) -> None:
        self._tools = {tool.name: tool for tool in registry.tools}

    async def list(self, request: Request) -> Response:
        """Describe the tools that the key of the request may call."""
        may_write = key_of(request.scope).allows(KeyScope.WRITE)
        shown = [tool for tool in self._tools.values() if tool.listed and (may_write or tool.read_only)]
        return _answer({"tools": [_described(tool) for tool in shown]})

    async def call(self, request: Request) -> Response:
        """Call a tool."""
        name = str(request.path_params["name"])
        try:
            tool = self._find(name)
            if not tool.read_only and not key_of(request.scope).allows(KeyScope.WRITE):
                return _answer({"error": lacks(KeyScope.WRITE).as_dict()}, FORBIDDEN)
            given = _arguments(await read_body(request, MAX_BODY_BYTES))
            refuse_depth(given)
            answer = await tool.run(http_caller(request), tool.params.read(given) if tool.validates else given)
        except BodyTooLarge:
            error = InvalidParameter(f"The arguments may have at most {MAX_BODY_BYTES} bytes")
            return _answer({"error": error.as_dict()}, TOO_LARGE)
        except ShiftlogError as error:
            return _failed(error)
        except Exception as error:  # noqa: BLE001 - the edge of this face: nothing of the error may leave
            return _failed(defect(f"tool {name}", error))
        if isinstance(answer, Reply):
            return _answer(answer.data)
        return _answer(answer.model_dump(by_alias=True, mode="json", exclude_none=True))

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            shown = excerpt(name)
            near = suggestion(shown, self._tools)
            raise UnknownTool(
                f"Unknown tool: {shown}", hint=f"Did you mean {near}?" if near else "GET /tools lists them"
            )
        return tool


def _answer(data: object, status: int = 200) -> Response:
    return Response(encoded(data), status, _HEADERS, "application/json")


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "read_only": tool.read_only,
        "input_schema": tool.params.type_schema(),
    }


def _arguments(body: bytes) -> dict[str, Any]:
    try:
        given: object = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise InvalidParameter("The body is not JSON", hint="Send the arguments as a JSON object") from None
    if not isinstance(given, dict):
        raise InvalidParameter("The body is not an object", hint="Send the arguments as a JSON object")
    return cast("dict[str, Any]", given)


def _failed(error: ShiftlogError) -> Response:
    mask(error, by_rule=False)
    return _answer({"error": error.as_dict()}, status_of(error))
