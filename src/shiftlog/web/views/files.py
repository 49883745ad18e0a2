"""The page of a file: every piece of work that changed it, with what it changed."""

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.control.files import file_history
from shiftlog.model.errors import InvalidParameter
from shiftlog.store.protocol import Filter
from shiftlog.web.answers import PageView


async def file_page(app: App, request: Request) -> PageView:
    """Show the work that changed a file, newest first, with its differences; `line` asks who wrote a text."""
    path, project = request.query_params.get("path", "").strip(), request.query_params.get("project", "").strip()
    if not path:
        raise InvalidParameter.missing("path")
    line = request.query_params.get("line", "")
    return PageView(data=await file_history(app, Filter(project=project or None), path, line), template="file.html")
