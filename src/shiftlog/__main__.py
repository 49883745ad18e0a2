"""`python -m shiftlog` is the `shiftlog` program."""

import sys

from shiftlog.entry import main

if __name__ == "__main__":
    sys.exit(main())
