"""The `mcpserver-repl` program, which existing clients of the session log start."""

import sys

from shiftlog.repl.options import main as repl


def main() -> int:
    """Run the REPL and return its exit status."""
    return repl(sys.argv[1:], "mcpserver-repl")


if __name__ == "__main__":
    sys.exit(main())
