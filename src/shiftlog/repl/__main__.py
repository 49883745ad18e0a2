"""The `mcpserver-repl` program: the session log's REPL under the name that its clients know."""

import sys

from shiftlog.repl.options import main as repl


def main() -> int:
    """Run the REPL and return its exit status."""
    return repl(sys.argv[1:], "mcpserver-repl")
