"""The whole output of a command, page by page, as long as it is kept."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.model.caller import LIBRARY
from shiftlog.web.answers import PageView

PAGE_CHARS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """Looks up outputs."""

    app: App

    async def look(self, request: Request) -> PageView:
        """Show a page of one stream of a command's output, from a cursor or a line on."""
        query = request.query_params
        arguments: dict[str, Any] = {
            "command_id": request.path_params["command_id"],
            "stream": query.get("stream", "stdout"),
            "max_chars": PAGE_CHARS,
        }
        if query.get("cursor"):
            arguments["cursor"] = query["cursor"]
        page = await self.app.shells.commands.read_output(arguments, LIBRARY)
        return PageView(data=page, template="output.html", part="_output.html")
