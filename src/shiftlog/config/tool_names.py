"""The names that choose tools: toolsets, dialects and the tools themselves, so that settings can be checked by them.

What the tools are stands with the MCP face; a test keeps the two in step.
"""

DEFAULT_TOOLSETS = ("journal", "shell", "workspace")
TOOLSETS = (*DEFAULT_TOOLSETS, "ingest")
DIALECTS = ("nexo", "mcpserver", "execkit")
# Names for several toolsets.
GROUPS = ("all", "default")
# By toolset and dialect; those that are called but not listed are named last.
TOOLS = {
    "journal": (
        "open_session",
        "resume_session",
        "close_session",
        "begin_turn",
        "update_turn",
        "finish_turn",
        "query_history",
        "get_session_summary",
    ),
    "shell": ("open_shell", "run_command", "read_output", "send_input", "list_shells", "close_shell"),
    "workspace": ("create_checkpoint", "list_checkpoints", "diff_checkpoint", "restore_checkpoint"),
    "ingest": ("import_transcripts",),
    "nexo": ("nexo_session_log_create", "nexo_session_log_close"),
    "mcpserver": (
        "sessionlog_open",
        "sessionlog_begin_turn",
        "sessionlog_dialog",
        "sessionlog_complete_turn",
        "sessionlog_fail_turn",
        "sessionlog_submit",
        "sessionlog_query",
        "sessionlog_ingest_path",
        "sessionlog_replace_turn",
        "sessionlog_replace_section",
        "sessionlog_clear_section",
        "sessionlog_delete_item",
        "sessionlog_delete_turn",
        "sessionlog_delete_session",
        "mcp_session_bootstrap",
        "mcp_session_update",
        "mcp_session_turn_begin",
        "mcp_session_turn_update",
        "mcp_session_turn_complete",
        "mcp_session_query_history",
    ),
    "execkit": (
        "session_create",
        "session_exec",
        "session_list",
        "session_destroy",
        "session_checkpoint",
        "session_checkpoints",
        "session_restore",
    ),
}
TOOL_NAMES = tuple(name for names in TOOLS.values() for name in names)
