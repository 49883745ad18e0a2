"""Names that clients of Delx send along: tools and commands take them, and drop them before anything else."""

RESERVED = (
    "include_meta",
    "include_nudge",
    "nudge_mode",
    "compact_output",
    "source",
    "agent_token",
    "cli_version",
    "install_id",
)
