"""The web application of a team's server: MCP, tools, pages with their JSON twins, health and metrics, behind keys."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from shiftlog.app.app import App
from shiftlog.app.team import Team
from shiftlog.mcp.catalogue import team_registry_for, team_selection_for
from shiftlog.mcp.http import PATHS
from shiftlog.mcp.server import build_server
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import READY_S
from shiftlog.server.access import HEALTH, METRICS, READY, SIGN_IN, SIGN_OUT, AccessGate, sign_in, sign_out
from shiftlog.server.front import Front
from shiftlog.server.mcp_endpoint import McpEndpoint
from shiftlog.server.metrics import CONTENT_TYPE, Metrics
from shiftlog.server.tool_calls import ToolCalls
from shiftlog.web.live import Live
from shiftlog.web.routes import pages_to_look_at

UNAVAILABLE = 503


def team_application(app: App, team: Team, live: Live, draining: anyio.Event) -> ASGIApp:
    """Build the application; once `draining` is set it says that it is not ready, and goes on answering."""
    metrics = Metrics(team, live)
    registry = metrics.counted(team_registry_for(app))
    writing, reading = (team_selection_for(app, read_only=read_only) for read_only in (False, True))
    mcp = McpEndpoint(
        writing=build_server(registry, writing), reading=build_server(registry, reading), sessions=team.mcp_sessions
    )
    tools = ToolCalls(registry.select(writing))

    async def exposed(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mcp.run():
            yield

    routes = [
        Route("/tools/{name}", tools.call, methods=["POST"]),  # asked most often, so looked for first
        Route("/tools", tools.list),
        Route(HEALTH, _alive),
        Route(READY, partial(_ready, team, draining)),
        Route(METRICS, exposed),
        Route(SIGN_IN, partial(sign_in, team.keys), methods=["GET", "POST"]),
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        *(Route(path, endpoint=mcp) for path in PATHS),
        Mount("/", app=pages_to_look_at(app, live)),
    ]
    application = Starlette(routes=routes, lifespan=lifespan)
    return Front(AccessGate(application, team.keys), metrics, draining)


async def _alive(_: Request) -> Response:
    """Answer as long as the process does; the database may be away."""
    return JSONResponse({"alive": True})


async def _ready(team: Team, draining: anyio.Event, _: Request) -> Response:
    """Answer 200 if requests should come here: the database answers and takes writes, and the server does not stop."""
    reason = "stopping" if draining.is_set() else await _what_is_wrong(team)
    return JSONResponse({"ready": False, "reason": reason}, UNAVAILABLE) if reason else JSONResponse({"ready": True})


async def _what_is_wrong(team: Team) -> str | None:
    """Return why the database cannot be used, None if it can."""
    try:
        with anyio.fail_after(READY_S):
            is_read_only = await team.store.run(
                lambda connection: connection.execute("SHOW transaction_read_only").fetchone()
            )
    except (ShiftlogError, TimeoutError):
        return "the database does not answer"
    return "the database is read-only, as a standby is" if is_read_only == ("on",) else None
