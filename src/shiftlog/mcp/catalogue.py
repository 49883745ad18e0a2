"""Everything the MCP face offers over an app, and the part of it that one client gets.

Native tools and dialects are joined here; no native tool imports a dialect.
"""

from collections.abc import Mapping
from dataclasses import replace

from shiftlog.app.app import App
from shiftlog.mcp.dialects.execkit import execkit_tools
from shiftlog.mcp.dialects.mcpserver import mcpserver_tools
from shiftlog.mcp.dialects.nexo import nexo_tools
from shiftlog.mcp.registry import Registry, Selection
from shiftlog.mcp.tools.ingest import ingest_tools
from shiftlog.mcp.tools.journal import journal_tools
from shiftlog.mcp.tools.resources import prompts, resources
from shiftlog.mcp.tools.shell import shell_tools
from shiftlog.mcp.tools.workspace import workspace_tools


def registry_for(app: App) -> Registry:
    """Return everything that the MCP face offers over an app."""
    tools = (
        *journal_tools(app),
        *shell_tools(app),
        *workspace_tools(app),
        *ingest_tools(app),
        *nexo_tools(app),
        *mcpserver_tools(app),
        *execkit_tools(app),
    )
    return Registry(tools=tools, resources=resources(app), prompts=prompts(app))


def selection_for(app: App, requested: Mapping[str, object]) -> Selection:
    """Return what a client gets: its own request, else the configured choice.

    No request can override the operator's exclusions or read-only setting.
    """
    chosen = app.config.mcp
    configured: dict[str, object] = {
        "toolsets": list(chosen.toolsets),
        "tools": list(chosen.tools),
        "dialects": list(chosen.dialect),
    }
    selection = Selection.read(configured | dict(requested))
    return replace(
        selection,
        exclude_tools=(*chosen.exclude_tools, *selection.exclude_tools),
        read_only=chosen.read_only or selection.read_only,
    )
