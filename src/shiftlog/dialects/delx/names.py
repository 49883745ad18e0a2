"""Arguments that clients of Delx send without effect: tools and commands accept them and drop them first."""

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
