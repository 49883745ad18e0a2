"""Everything the MCP face offers over an app, and the part of it that one client gets.

Native tools and dialects are joined here; no native tool imports a dialect.
"""

from collections.abc import Mapping
from dataclasses import replace

from shiftlog.app.app import App
from shiftlog.mcp.dialects.execkit import execkit_tools
from shiftlog.mcp.dialects.mcpserver import mcpserver_tools
from shiftlog.mcp.dialects.nexo import nexo_tools
from shiftlog.mcp.registry import LONE_DIALECTS, Registry, Selection
from shiftlog.mcp.tools.ingest import ingest_tools
from shiftlog.mcp.tools.journal import journal_tools
from shiftlog.mcp.tools.resources import prompts, resources
from shiftlog.mcp.tools.shell import shell_tools
from shiftlog.mcp.tools.workspace import workspace_tools

# Tools of the session log that read transcripts from the server's own disk.
READS_FILES = frozenset({"sessionlog_ingest_path"})


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


def team_registry_for(app: App) -> Registry:
    """Return the offer of a team's server: the journal and its dialects, nothing that needs an agent's files."""
    tools = (*journal_tools(app), *nexo_tools(app), *mcpserver_tools(app))
    return Registry(
        tools=tuple(tool for tool in tools if tool.name not in READS_FILES),
        resources=tuple(item for item in resources(app) if item.toolset == "journal"),
        prompts=prompts(app),
    )


def team_selection_for(app: App, *, read_only: bool) -> Selection:
    """Return the selection for a client of a team's server: the configured one, as far as the server offers it."""
    chosen = app.config.mcp
    offered = {tool.name for tool in team_registry_for(app).tools}
    return Selection(
        toolsets=chosen.toolsets,
        tools=tuple(name for name in chosen.tools if name in offered),
        exclude_tools=tuple(name for name in chosen.exclude_tools if name in offered),
        dialects=tuple(name for name in chosen.dialect if name not in LONE_DIALECTS),
        read_only=read_only or chosen.read_only,
    )


def selection_for(app: App, requested: Mapping[str, object]) -> Selection:
    """Return the selection for a client: its own request, else the configured choice.

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
