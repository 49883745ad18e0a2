"""Printing on the terminal or into a pipe: lines, tables, colours, the pager."""

# Set in the context of a command that must not use a pager.
NO_PAGER = "shiftlog.no_pager"
